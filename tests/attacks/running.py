"""Runs commands under limits, and measures each: a process imports them once, and forks for each command.

    python -m tests.attacks.running

The process reads a line of JSON for each command, and answers with a line.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import shlex
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self

from tests.attacks.attack import MARKER, Attack
from tests.attacks.zips import LITE, archive_of
from tests.support.cost import loop_time

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = 3 << 30
"""Bytes of address space that a command may have; far above its budget, to protect the machine."""
OUTPUT = 1 << 29
"""Bytes of each file that a command may write."""
ROOT = Path(__file__).resolve().parents[2]
NEED_OTHERS = ("archive.backend", "archive.effects", "archive.cli.demo", "archive.app.model_explorer.main")
"""Rooms that are not imported."""
LOG, OUT, ERRORS = "log", "out", "errors"
"""Files of standard input, output and errors, in a folder of their own."""


class Outcome(NamedTuple):
    """What came of a command.

    Attributes:
        status: exit status; a negative one is the signal that ended it.
        memory: bytes of memory at most, above those of the same process reading a small archive.
        loops: CPU time, in loops of :mod:`tests.support.cost` on the same machine.
        output: bytes written to standard output and errors.
        errors: the text on standard error, cut.
        executed: whether the marker of a payload is there.
    """

    status: int
    memory: int
    loops: float
    output: int
    errors: str
    executed: bool


class Runner:
    """A process that runs commands. Use it as a context."""

    def __enter__(self) -> Self:
        """Start the process, and measure what a small archive takes."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.running"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._start_up, self._loop = 0, loop_time()
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.communicate()

    def run(self, command: str, folder: Path, loops: int, log: bytes = b"") -> Outcome:
        """Run a command in a folder, ended after twice as many loops of CPU."""
        streams = folder.with_name(f"{folder.name}.streams")
        streams.mkdir(exist_ok=True)
        (streams / LOG).write_bytes(log)
        status, memory, used = self._ask(command, folder, streams, 2 * loops)
        written = [(streams / name).stat().st_size for name in (OUT, ERRORS)]
        with (streams / ERRORS).open(encoding="utf-8", errors="replace") as file:
            errors = file.read(100_000)
        executed = (folder / MARKER).exists()
        memory = max(memory - self._start_up, 0)
        loop = self._loop
        if used > loops * loop:  # has the machine become slower?
            loop = max(loop, loop_time())
        return Outcome(status, memory, used / loop, sum(written), errors, executed)

    def calibrate(self, folder: Path) -> None:
        """Measure a small archive as the start-up that is subtracted from now on."""
        (folder / "small.pt").write_bytes(archive_of(LITE))
        self._start_up = 0
        self._start_up = self.run("inspect small.pt", folder, 1_000).memory

    def _ask(self, command: str, folder: Path, streams: Path, loops: int) -> tuple[int, int, float]:
        assert self._process.stdin
        assert self._process.stdout
        request = {
            "words": shlex.split(command),
            "folder": str(folder),
            "streams": str(streams),
            "seconds": math.ceil(loops * self._loop),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status, memory, used = json.loads(self._process.stdout.readline())
        return status, memory, used


def run_attack(
    runner: Runner, attack: Attack, files: dict[str, bytes], folder: Path
) -> Iterator[tuple[str, Outcome]]:
    """Each command of an attack with its outcome, as it comes."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    for command in attack.commands:
        yield command, runner.run(command, folder, attack.loops, attack.log)


# --- in the process that forks


def serve() -> None:
    """Answer requests until standard input ends."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for name in modules():
        importlib.import_module(name)
    for line in requests:
        child = os.fork()
        if not child:
            run_child(**json.loads(line))
        _, status, used = os.wait4(child, 0)
        numbers = [os.waitstatus_to_exitcode(status), used.ru_maxrss << 10, used.ru_utime + used.ru_stime]
        answers.write(json.dumps(numbers) + "\n")
        answers.flush()


def modules() -> list[str]:
    """All modules that commands may import without PyTorch."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in sorted((ROOT / "archive").rglob("*.py")))
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    return [name for name in names if not name.startswith(NEED_OTHERS) and not name.endswith("__main__")]


def run_child(words: list[str], folder: str, streams: str, seconds: int) -> NoReturn:
    """Run one command under limits, and end the process."""
    status = 70
    try:
        os.chdir(folder)
        for number, name in enumerate((LOG, OUT, ERRORS)):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY
            os.dup2(os.open(Path(streams, name), flags, 0o600), number)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        status = _exit_status(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _exit_status(words: list[str]) -> int:
    """The status that the program would end with, its traceback printed if it has one."""
    from archive.cli.main import main  # noqa: PLC0415 (in this process alone)

    sys.argv = ["debug-archive", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 (as the interpreter prints it)
        traceback.print_exc()
    return 1


if __name__ == "__main__":
    serve()
