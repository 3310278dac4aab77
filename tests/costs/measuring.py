"""Runs each command in a process of its own, forked from one that has imported everything, and measures it.

A fork takes some milliseconds; a fresh interpreter would take 300. The process that forks is itself apart
from pytest, for it has neither threads nor files of the tests.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.support.cost import loop_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from typing import Self

    Call = Callable[["Task", str], int]

MEMORY, MEMORY_PER_BYTE = 64 << 20, 256
"""Bytes of memory that a file may cost above what the program takes at its start, and for each byte of it."""
LOOPS_PER_BYTE = 1 / (60 << 10)
"""CPU for each byte of that budget, in loops of :mod:`tests.support.cost`. Where a loop takes 6 ms, an
instruction of a pickle takes some 50 bytes and 1 to 2 µs, a line of text some 100 bytes and 2 µs; 0.1 µs a
byte is four times that, and 6.7 s for a small file."""
SLACK = 24 << 20
"""Bytes for what no file asks for: modules, buffers, the allocator's rests."""
ROOM = 512 << 20
"""Address space beyond the budget, so that what exceeds it is seen to do so before it ends."""


class Cost(NamedTuple):
    """The cost of a command.

    Attributes:
        memory: most bytes above what the process had at its start.
        loops: of CPU.
        printed: bytes on standard output.
        status: exit status, or the negative number of the signal that ended it.
        said: the end of what it printed as its errors.
    """

    memory: int
    loops: float
    printed: int
    status: int
    said: str


class Budget(NamedTuple):
    """The cost that a command may have."""

    memory: int
    loops: float

    @classmethod
    def of(cls, size: int) -> Budget:
        """The budget of files of so many bytes."""
        memory = MEMORY + MEMORY_PER_BYTE * size
        return cls(memory, LOOPS_PER_BYTE * memory)

    def exceeded(self, cost: Cost) -> str:
        """The resources of which more was taken, "" for none."""
        found = []
        if cost.memory > self.memory + SLACK:
            found.append(f"memory: {cost.memory >> 20} MiB instead of {self.memory >> 20}")
        if cost.loops > self.loops or cost.status == -signal.SIGXCPU:
            found.append(f"time: {cost.loops:,.0f} loops instead of {self.loops:,.0f}")
        if cost.printed > self.memory:
            found.append(f"output: {cost.printed >> 20} MiB instead of {self.memory >> 20}")
        if cost.status not in (0, 1, 2, -signal.SIGXCPU):
            found.append(f"status {cost.status}: {cost.said}")
        if "needs more memory than there is" in cost.said:
            found.append("more memory asked for than there was")
        return "; ".join(found)


class Task(NamedTuple):
    """A command and the files that it finds in its folder."""

    words: Sequence[str]
    files: dict[str, bytes]
    log: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of all files, and of the log."""
        return sum(map(len, self.files.values())) + len(self.log)


class Measurer:
    """Measures commands, one after the other. Use it in a ``with`` statement.

    Args:
        warm: commands that are run first, so that what they import is there already.
        call: runs a task in its folder, and returns its exit status; by default a command.
    """

    def __init__(self, warm: Sequence[Task], call: Call | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, warm, call or run_command), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join()

    def cost(self, task: Task) -> Cost:
        """The cost of a command."""
        self._pipe.send(task)
        cost = self._pipe.recv()
        assert isinstance(cost, Cost)
        return cost


def _serve(pipe: Connection, warm: Sequence[Task], call: Call) -> None:
    """Run what is asked for until nobody asks any more."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for task in warm:
        _import_for(task)
    loop = loop_time()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(_measured(task, call, loop))


def _import_for(task: Task) -> None:
    """Run a command in this very process."""
    with tempfile.TemporaryDirectory() as folder:
        _place(task, folder)
        before = [os.dup(descriptor) for descriptor in range(3)]
        home = Path.cwd()
        _redirect(folder)
        try:
            run_command(task, folder)
        finally:
            os.chdir(home)
            for descriptor, kept in enumerate(before):
                os.dup2(kept, descriptor)
                os.close(kept)


def _place(task: Task, folder: str) -> None:
    for name, data in {**task.files, "stdin": task.log, "stdout": b"", "stderr": b""}.items():
        (Path(folder) / name).write_bytes(data)


def _redirect(folder: str) -> None:
    """Let the standard streams be files in a folder."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        opened = os.open(Path(folder) / name, os.O_RDWR)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (multiprocessing has closed it)


def run_command(task: Task, folder: str) -> int:
    """Run a command in a folder; its exit status."""
    from archive.cli import main  # noqa: PLC0415 (only the process that forks)

    os.chdir(folder)
    sys.argv = ["debug-archive", *task.words]
    try:
        main()
    except SystemExit as ended:
        sys.stdout.flush()
        sys.stderr.flush()
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def _measured(task: Task, call: Call, loop: float) -> Cost:
    """The cost of a command, run in a fork of this process, which takes so many seconds for a loop."""
    with tempfile.TemporaryDirectory() as folder:
        _place(task, folder)
        child = os.fork()
        if not child:
            _run_bounded(task, folder, call, loop)
        _, state, used = os.wait4(child, 0)
        seconds = used.ru_utime + used.ru_stime
        if seconds > Budget.of(task.size).loops * loop:  # has the machine become slower?
            loop = max(loop, loop_time())
        peak = Path(folder) / "peak"
        memory = int(peak.read_bytes()) if peak.exists() else used.ru_maxrss * 1024
        return Cost(
            memory,
            seconds / loop,
            (Path(folder) / "stdout").stat().st_size,
            os.waitstatus_to_exitcode(state),
            (Path(folder) / "stderr").read_text(encoding="utf-8", errors="replace")[-300:],
        )


def _run_bounded(task: Task, folder: str, call: Call, loop: float) -> None:
    """Run a command in this process, which may take more than its budget, and end with it."""
    status = 70
    try:
        _redirect(folder)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
        start, size = _memory("VmRSS"), _memory("VmSize")
        budget = Budget.of(task.size)
        resource.setrlimit(resource.RLIMIT_AS, (size + budget.memory + ROOM,) * 2)
        most = int(2 * budget.loops * loop) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * budget.memory,) * 2)
        status = call(task, folder)
        peak = _memory("VmHWM") - start
        (Path(folder) / "peak").write_bytes(b"%d" % peak)
    except BaseException:  # noqa: BLE001 (a fork ends here in any case)
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _memory(field: str) -> int:
    """A size of this process, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


# --- a command that takes too much


def take(task: Task, folder: str) -> int:
    """Take memory, time or output, or end in another way, to show that measuring notices; the exit status."""
    what, amount = task.words[0], int(task.words[1])
    if what == "memory":
        assert len(bytearray(amount)) == amount
    elif what == "time":
        end = time.process_time() + amount
        while time.process_time() < end:
            pass
    elif what == "output":
        os.truncate(Path(folder) / "stdout", amount)
    elif what == "status":
        return amount
    elif what == "signal":
        os.kill(os.getpid(), amount)
    return 0
