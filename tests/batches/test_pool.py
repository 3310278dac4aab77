"""The pool of processes: a signal never cuts a result, and never leaves a process that waits for ever."""

import os
import signal
import subprocess
import sys
from threading import Timer

import pytest

from archive.batches.pool import results

SIZE = 64 << 20
"""Bytes of a result: sending it takes much longer than the time after which its worker gets a signal."""
ENOUGH = 60
"""Seconds; the pool that waits for ever is told after them."""


def answer(seconds: float) -> bytes:
    """Work whose worker gets a signal soon after, while the result is on its way."""
    result = bytes(SIZE)
    Timer(seconds, os.kill, [os.getpid(), signal.SIGTERM]).start()
    return result


def _sizes_of_all_results() -> None:
    sizes = sorted(len(result) for _, result in results(answer, [0.02, 0.04], 2))
    sys.stdout.write(f"{sizes}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process at once, whatever it does")
def test_a_signal_between_the_work_and_its_result_cuts_nothing() -> None:
    done = subprocess.run([sys.executable, "-m", __name__], capture_output=True, timeout=ENOUGH, check=True)
    assert done.stdout.decode() == f"[{SIZE}, {SIZE}]\n"


if __name__ == "__main__":
    _sizes_of_all_results()
