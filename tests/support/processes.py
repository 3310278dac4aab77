"""Processes of tests: the environment of all, waiting for one, and programs that find PyTorch imported."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# --- One environment for all tests and for the processes that they start, whoever runs them
#
# Variables change what programs print: how wide, in which colours, language and time zone, buffered or not,
# with annotations or not. So only those stay without which nothing runs; a test of another one sets it.


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


# --- Waiting for what another process does: until it has, on a machine of any speed


PATIENCE = 120.0
"""Seconds after which something hangs; nothing that a test expects takes that long."""


def becomes(holds: Callable[[], bool]) -> bool:
    """Whether something holds at last."""
    until = time.monotonic() + PATIENCE
    while not (is_so := holds()) and time.monotonic() < until:
        time.sleep(0.01)
    return is_so


# --- Processes that have imported PyTorch and nothing else, say: one imports it, and forks for each program
#
# A process that imports PyTorch takes more than a second, a fork of it hundredths. Nothing of one program is
# left to the next: each has a process of its own.


FORKING = """
import json, os, sys, traceback


def run(program, arguments, folder, paths, out, errors):
    for number, file in ((1, out), (2, errors)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.chdir(folder)
    sys.argv, sys.path[:0] = ["-c", *arguments], paths
    try:
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


for line in sys.stdin:
    child = os.fork()
    if not child:
        status = 1
        try:
            status = run(**json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
TORCH = """
import sys
import torch, torch.jit.mobile
assert not {"archive", "tests", "pytest"} & sys.modules.keys()
"""


class Forks:
    """A process that imports something, and forks for each program until this one ends.

    Args:
        imports: the source of what it does first.
        folder: a folder that modules are imported from, besides those that are installed, and where it runs.
    """

    def __init__(self, imports: str, folder: Path | None = None) -> None:
        searched = f"import sys; sys.path.insert(0, {str(folder)!r})\n" if folder else ""
        self._server = subprocess.Popen(
            [sys.executable, "-I", "-W", "ignore", "-c", searched + imports + FORKING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        atexit.register(self._server.communicate)

    def run(
        self, program: str, arguments: Iterable[object], folder: Path, paths: Sequence[Path] = ()
    ) -> CompletedProcess[str]:
        """What comes of a program: see :func:`run_fresh`, but for how it may end."""
        assert self._server.stdin
        assert self._server.stdout
        with tempfile.TemporaryDirectory() as streams:
            out, errors = Path(streams, "out"), Path(streams, "errors")
            words = [*map(str, arguments)]
            asked = {
                "program": program,
                "arguments": words,
                "folder": str(folder),
                "paths": [*map(str, paths)],
            }
            self._server.stdin.write(json.dumps(asked | {"out": str(out), "errors": str(errors)}) + "\n")
            self._server.stdin.flush()
            status = int(self._server.stdout.readline())
            return CompletedProcess(words, status, out.read_text("utf-8"), errors.read_text("utf-8"))


def run_fresh(
    program: str, *arguments: object, folder: Path, paths: Sequence[Path] = ()
) -> CompletedProcess[str]:
    """Run a program; it ends well, and prints what is returned.

    Args:
        program: its source.
        arguments: what it finds in ``sys.argv``.
        folder: the folder in which it runs.
        paths: folders of modules that it may import, besides those that are installed.
    """
    done = _with_torch().run(program, arguments, folder, paths)
    assert done.returncode == 0, done.stderr
    return done


@cache
def _with_torch() -> Forks:
    return Forks(TORCH)
