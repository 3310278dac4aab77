"""Each room of ``archive/`` broken in ten ways: does a test fail each time?

    python -m tools.breaks pickles failures       # or --count 25, --seed 2, --further tests/cli

A room is a folder of ``archive/`` at any depth, or a file of it without its ending; its tests are those of
the folder of the same name in ``tests/``, or of the nearest one above. A *fault* is a small change to the
source, as ``tools/break_faults.py`` makes them. Faults are drawn from as many of the room's files as there
are; one seed gives the same ones as long as the sources stay. Each is made in a copy of the tree, never in
the checkout.

All tests run once before the first fault, and must pass. This shows which tests call which functions; of a
fault in a function, the files that call it are run, then, if they pass, the further tests of ``FURTHER``.

``tools/equivalent_faults.tsv`` lists the faults that change nothing that could be observed, one a line: file,
function, change, reason, with tabs between, sorted. Survivors are printed in these columns. A line that
isn't a possible fault is an error.

The last line counts: ``60 drawn, 55 caught, 5 survive``. Exit status: 1 if a fault survives, 130 if Ctrl-C
ended the run; what is known until then is printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tools.break_faults import drawn, faults, sources
from tools.break_runs import Outcome, Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.break_faults import Fault, Key

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("archive", "docs", "fixtures", "tests", "tools", "pyproject.toml", "README.md")
EQUIVALENT = "tools/equivalent_faults.tsv"
FURTHER = {
    "base": (
        "tests/container",
        "tests/companion/test_hostile.py",
        "tests/cli/test_faults.py",
        "tests/cli/test_cli.py",
    ),
    "batches": ("tests/cli/test_batches.py", "tests/cli/test_reading_many.py", "tests/cli/test_elsewhere.py"),
    "cli": ("tests/render",),
    "debuginfo": ("tests/formats", "tests/reader", "tests/rewrite/split/test_splitting.py"),
    "formats": (
        "tests/effects/test_record.py",
        "tests/effects/test_record_hostile.py",
        "tests/effects/test_table.py",
        "tests/effects/test_text.py",
    ),
    "normalform": (
        "tests/companion",
        "tests/rewrite/split/test_splitting.py",
        "tests/rewrite/migrate/test_ranges.py",
    ),
    "report": (
        "tests/cli/test_cli.py",
        "tests/cli/test_inspect_effects.py",
        "tests/cli/test_migrate.py",
        "tests/cli/test_recognition.py",
        "tests/cli/test_size_commands.py",
        "tests/cli/test_sizes.py",
        "tests/cli/test_terminal.py",
        "tests/debuginfo/test_mending.py",
        "tests/rewrite/test_packages.py",
        "tests/rewrite/test_tag_first.py",
    ),
    "rewrite/migrate": (
        "tests/cli/test_migrate.py",
        "tests/debuginfo/test_mending.py",
        "tests/rewrite/test_packages.py",
    ),
    "describe/sizes": ("tests/cli/test_sizes.py",),
    "rewrite/split": ("tests/cli/test_size_commands.py",),
    "check": (
        "tests/compiled/test_verify.py",
        "tests/exported/test_verify.py",
        "tests/rewrite/test_well.py",
        "tests/rewrite/split/test_traced.py",
    ),
}
"""Tests of other rooms, run where a room's own pass: a lower room is tested by what is made of it."""
INTERRUPTED = 130
FAULTY = 1
"""The time, in seconds since 1970, of a broken file: no compiled file stands for it."""


def folder_of_tests(tree: Path, room: str) -> str:
    """The folder of a room's tests: its own, or the nearest one above."""
    folders = [Path("tests", room), *Path("tests", room).parents]
    nearest = next(folder for folder in folders if (tree / folder).is_dir())
    if nearest == Path("tests"):
        sys.exit(f"{room}: no folder of tests/ belongs to it")
    return nearest.as_posix()


def further_of(tree: Path, room: str, asked: list[str]) -> list[str]:
    """The tests of other rooms that a room, or one above it, is tested by."""
    above = [Path(room), *Path(room).parents]
    named = [*asked, *(test for one in above for test in FURTHER.get(one.as_posix(), ()))]
    own = folder_of_tests(tree, room)
    missing = [name for name in named if not (tree / name).exists()]
    if missing:
        sys.exit(f"{room}: no such tests: {', '.join(missing)}")
    return [name for name in named if name != own and not name.startswith(f"{own}/")]


def equivalents(tree: Path) -> set[Key]:
    """The table of equivalent faults, after a check of each line."""
    if not (tree / EQUIVALENT).exists():
        return set()
    lines = (tree / EQUIVALENT).read_text("utf-8").splitlines()
    rows = [tuple(line.split("\t")) for line in lines]
    problems = [f"line {at} has not four columns" for at, row in enumerate(rows, 1) if len(row) != 4]  # noqa: PLR2004
    problems += [
        f"line {at} is not sorted in" for at in range(2, len(rows) + 1) if rows[at - 2] >= rows[at - 1]
    ]
    files = sorted({row[0] for row in rows})
    possible = {one.key for file in files if (tree / file).exists() for one in faults(tree, Path(file))}
    problems += [f"no such fault: {' '.join(row[:3])}" for row in rows if row[:3] not in possible]
    if problems:
        sys.exit("\n".join(f"{EQUIVALENT}: {problem}" for problem in problems))
    return {(row[0], row[1], row[2]) for row in rows}


def copied(root: Path, tree: Path) -> None:
    """Copy what tests need."""
    for part in PARTS:
        if (root / part).is_dir():
            shutil.copytree(root / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / part).exists():
            shutil.copy2(root / part, tree / part)


class Room:
    """A room in a copy of the tree, whose tests pass.

    Attributes:
        drawn: the faults to be made.
        survivors: those made that no test saw.
        made: the number of those made.
    """

    def __init__(self, tree: Path, room: str, further: list[str]) -> None:
        self.tree, self.name = tree, room
        self.own, self.further = [folder_of_tests(tree, room)], further_of(tree, room, further)
        self.runs = Runs(tree)
        self.drawn: list[Fault] = []
        self.survivors: list[Fault] = []
        self.made = 0

    def listen(self) -> None:
        """Run all tests, which must pass."""
        print(f"{self.name}: {' '.join([*self.own, *self.further])} unbroken …", file=sys.stderr)
        well, failure = self.runs.listen([*self.own, *self.further])
        if not well:
            sys.exit(f"{self.name}: tests fail before anything is broken: {failure}")

    def make(self) -> Iterator[tuple[Fault, Outcome]]:
        """Make each fault, one at a time, and run the tests."""
        for fault in self.drawn:
            path = self.tree / fault.path
            source, before = path.read_bytes(), path.stat()
            path.write_bytes(fault.made_in(source))
            os.utime(path, (FAULTY, FAULTY))
            try:
                outcome = self.tested(f"{fault.path}:{fault.function}")
            finally:
                path.write_bytes(source)
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.made += 1
            self.survivors += [fault] * outcome.well
            yield fault, outcome

    def tested(self, place: str) -> Outcome:
        """Run the room's own tests that call a place, or all if none does; if they pass, the further ones."""
        own = self.runs.files(place, self.own)
        calling = {one.file for one in self.runs.called if place in one.places}
        outcome = self.runs.run([file for file in own if file in calling] or own, place)
        further = self.runs.files(place, self.further)
        return self.runs.run(further, place) if outcome.well and further else outcome


def broken(root: Path, name: str, asked: argparse.Namespace) -> Iterator[Room]:
    """Break a room; it is given before the first fault, and after each."""
    with TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        copied(root, tree)
        room = Room(tree, name, asked.further)
        room.drawn = drawn(tree, name, asked.count, asked.seed, equivalents(tree))
        yield room
        room.listen()
        for fault, outcome in room.make():
            verdict, why = ("SURVIVED", "") if outcome.well else ("caught", outcome.failure)
            print(f"{verdict}\t{fault}\t{why}")
            sys.stdout.flush()
            print(f"{name}: {room.made} of {len(room.drawn)}, {len(room.survivors)} survive", file=sys.stderr)
            yield room


def main() -> int:
    """Break rooms."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="+")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--further", nargs="*", default=[], help="tests to run where the room's own pass")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    asked = parser.parse_args()
    if missing := [room for room in asked.rooms if not (asked.root / sources(asked.root, room)[0]).exists()]:
        parser.error(f"no such room: {', '.join(missing)}")
    rooms: dict[str, Room] = {}
    interrupted = False
    try:
        for name in asked.rooms:
            rooms.update((name, room) for room in broken(asked.root, name, asked))
    except KeyboardInterrupt:
        interrupted = True
    survive = summed_up(list(rooms.values()))
    return INTERRUPTED if interrupted else int(survive)


def summed_up(rooms: list[Room]) -> bool:
    """Print the survivors and the counts; whether there are survivors."""
    survivors = [fault for room in rooms for fault in room.survivors]
    for fault in survivors:
        print("\t".join(fault.key))
    made = sum(room.made for room in rooms)
    print(f"{made} drawn, {made - len(survivors)} caught, {len(survivors)} survive")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
