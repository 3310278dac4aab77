"""The one environment of all tests and of the processes that they start, whoever runs them.

Variables change what programs print: how wide, in which colours, language and time zone, buffered or not,
with annotations or not. So only those stay without which nothing runs; a test that is about another sets it.
"""

from __future__ import annotations

import os
import signal
import threading
import time

NEEDED = {"HOME", "LD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TMPDIR"}
"""Where programs, their libraries and the files of nobody lie."""
OF_THE_RUN = ("COVERAGE_", "HYPOTHESIS_", "PYTEST_")
"""Beginnings of variables by which the processes of a run know of one another."""
SET = {"OMP_NUM_THREADS": "1"}
"""Models here are small, and workers share the cores: more threads would wait for one another."""


def pin() -> None:
    """Leave only what is needed, for this process and those that it starts; let Ctrl-C interrupt them."""
    for name in set(os.environ) - NEEDED:
        if not name.startswith(OF_THE_RUN):
            del os.environ[name]
    os.environ.update(SET)
    if hasattr(time, "tzset"):
        time.tzset()
    # Shells let what they start in the background ignore Ctrl-C, and so would all that it starts.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
