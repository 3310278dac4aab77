"""Faults of writes, for long: every call fails or kills, kills at random moments, two writers, no space.

    python -m tools.faults [KILLS]

Each command that writes runs in a process of its own, on a folder of its inputs, and whatever happens to it:
each file has its old or its new content, and nothing else is left once another process has looked at the
folder. A line is printed for each kind of fault: runs, how many ended well, failed and were killed, and how
many drafts were found and removed. The first folder that is not as it should be ends the program.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.io.drafts import DRAFT_NAME, clear_dead
from tests.support.corpus import RELEASES
from tests.support.faults import PLACEHOLDER, SYSTEMS, VERBS, at_call, contents, failing, fill, system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODEL = RELEASES / "torch-2.13.0" / "nested.ptl"
WAYS = [(verb, force) for verb in VERBS for force in (False, True) if force or "in place" not in verb]
KILLS = 1000
ROUNDS = 100
"""Pairs of writers."""
WELL, FAILED, NO_FAULT = 0, 3, 4
"""Exit statuses of a process that is tested; the last if it made fewer calls than the one to be struck."""


class Folder:
    """A folder with the inputs of all verbs, and other files in the place of one verb's targets if asked.

    Args:
        path: an empty folder.
        verb: the verb that runs in it.
        force: whether its targets exist and are replaced.
    """

    def __init__(self, path: Path, verb: str, *, force: bool) -> None:
        self.path, self.verb, self.force = path, verb, force
        fill(path, MODEL)
        if force:
            for name in VERBS[verb].targets:
                if not (path / name).exists():
                    (path / name).write_bytes(b"what stood here before")
        self._kept = {file: file.read_bytes() for file in path.iterdir()}
        self.before = contents(path)
        self.run()
        self.ended = contents(path)
        self.refill()

    def run(self) -> int:
        """Run the verb; the status of a process that ends well."""
        VERBS[self.verb].run(self.path, self.force)
        return WELL

    def refill(self) -> None:
        """Make the folder as it was."""
        for path in self.path.iterdir():
            path.unlink()
        for path, data in self._kept.items():
            path.write_bytes(data)

    def check(self, *, empty: bool = False) -> int:
        """The number of drafts that the next process removes; all else is whole.

        Args:
            empty: whether a new target may be empty: where there are no links, its name is taken first.

        Raises:
            SystemExit: it is not.
        """
        left = contents(self.path)
        drafts = sum(DRAFT_NAME.fullmatch(name) is not None for name in left)
        clear_dead.__wrapped__(self.path)
        for name, digest in contents(self.path).items():
            if empty and name not in self.before and not (self.path / name).stat().st_size:
                continue
            if digest not in (self.before.get(name), self.ended.get(name)):
                sys.exit(f"{self.verb}: {self.path / name} is neither old nor new")
        if not self.before.keys() <= left.keys():
            sys.exit(f"{self.verb}: lost {sorted(self.before.keys() - left.keys())}")
        return drafts


def started(work: Callable[[], int]) -> int:
    """The number of a process that does some work; its status is the result, or that of a failure."""
    child = os.fork()
    if child:
        return child
    status = FAILED
    try:
        status = work()
    except (OSError, ArchiveError):
        pass
    finally:
        os._exit(status)


def ended(child: int) -> str:
    """How a process ended."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGKILL:
        return "killed"
    return {WELL: "well", FAILED: "failed", NO_FAULT: "no fault"}[status]


def every_call(folder: Folder, kind: str, *, deadly: bool) -> Iterator[tuple[str, int]]:
    """How the verb ends, and the drafts it leaves, for each call that fails or kills it."""
    number, end = 0, ""

    def work() -> int:
        strike = at_call(number, lambda: os.kill(os.getpid(), signal.SIGKILL)) if deadly else failing(number)
        with system(kind), strike as calls:
            folder.run()
        return WELL if len(calls) > number else NO_FAULT

    while end != "no fault":
        folder.refill()
        end = ended(started(work))
        drafts = folder.check(empty=kind == PLACEHOLDER)
        if end != "no fault":
            yield end, drafts
        number += 1


def random_kills(folder: Folder, kills: int) -> Iterator[tuple[str, int]]:
    """How the verb ends, and the drafts it leaves, when it is killed at random moments of its usual time."""
    began = time.monotonic()
    ended(started(folder.run))
    usual = time.monotonic() - began
    for _ in range(kills):
        folder.refill()
        child = started(folder.run)
        time.sleep(random.random() * usual * 1.1)  # noqa: S311 (no secret)
        os.kill(child, signal.SIGKILL)
        yield ended(child), folder.check()


def no_space(folder: Folder) -> Iterator[tuple[str, int]]:
    """How the verb ends when files may have a few sizes only, up to that of the largest input."""
    largest = max(path.stat().st_size for path in folder.path.iterdir())
    for size in range(0, largest, max(largest // 20, 1)):

        def work(size: int = size) -> int:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            return folder.run()

        folder.refill()
        yield ended(started(work)), folder.check()


def two_writers(folder: Folder) -> Iterator[tuple[str, int]]:
    """How each of two processes ends that do the same at once; without ``force``, only one may end well."""
    for _ in range(ROUNDS):
        folder.refill()
        children = [started(folder.run) for _ in range(2)]
        ends = [ended(child) for child in children]
        if sorted(ends) != (["well", "well"] if folder.force else ["failed", "well"]):
            sys.exit(f"{folder.verb}: two writers ended {ends}")
        for end in ends:
            yield end, 0
        if folder.check():
            sys.exit(f"{folder.verb}: two writers left drafts")


def report(name: str, runs: Iterator[tuple[str, int]]) -> None:
    """Print how all runs of one kind of fault ended."""
    ends: Counter[str] = Counter()
    drafts = 0
    for end, left in runs:
        ends[end] += 1
        drafts += left
    counts = [ends.total(), ends["well"], ends["failed"], ends["killed"], drafts]
    print(name, *counts, sep="\t", flush=True)


def main() -> None:
    """Run all faults for all verbs, and print a line for each kind."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    print("fault", "runs", "well", "failed", "killed", "drafts cleared", sep="\t")
    with TemporaryDirectory() as top:
        folders = []
        for number, (verb, force) in enumerate(WAYS):
            path = Path(top, str(number))
            path.mkdir()
            folders.append(Folder(path, verb, force=force))
        each = -(-kills // len(folders))
        report("kills at random moments", (one for at in folders for one in random_kills(at, each)))
        report("no space", (one for at in folders for one in no_space(at)))
        writers = [at for at in folders if at.verb == "join"]
        report("two writers", (one for at in writers for one in two_writers(at)))
        for kind in SYSTEMS:
            for deadly in (False, True):
                name = f"every call {'kills' if deadly else 'fails'}, {kind}"
                report(name, (one for at in folders for one in every_call(at, kind, deadly=deadly)))


if __name__ == "__main__":
    main()
