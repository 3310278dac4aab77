"""Lines and branches that the tests reach, room by room, against the floors below.

    python -m tools.coverage_rooms [coverage.json]

Reads what ``coverage json`` wrote; prints a table, and what no test reaches in rooms below their floor.
The exit status is 1 if there is such a room.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CORE = (
    *("base", "companion", "container", "debuginfo", "formats", "normalform", "pickles"),
    *("failures", "rewrite/migrate"),
)
"""Rooms in which a wrong answer would be silent: every branch is reached."""
JOBS = ("check", "compare", "describe", "failures", "privacy", "rewrite")
"""Rooms whose folders count as rooms of their own."""
CORE_GOAL, GOAL = 100.0, 95.0
BELOW: dict[str, float] = {
    "companion": 99.0,
    "effects": 94.0,
    "formats": 99.3,
    "normalform": 99.6,
    "failures": 97.5,
}
"""Rooms that have not reached their goal yet, with the floor that holds until then."""


@dataclass
class Room:
    """Counts of one room.

    Attributes:
        lines: statements that are reached, and all.
        branches: branches that are reached, and all.
        missing: places that are not reached, by file: ``7-9``, lines; ``4->6``, a branch between
            lines that are.
    """

    lines: list[int] = field(default_factory=lambda: [0, 0])
    branches: list[int] = field(default_factory=lambda: [0, 0])
    missing: dict[str, list[str]] = field(default_factory=dict)

    def add(self, path: str, file: dict[str, Any]) -> None:
        """Count a file in, as ``coverage json`` describes it."""
        summary = file["summary"]
        for counts, reached, every in (
            (self.lines, "covered_lines", "num_statements"),
            (self.branches, "covered_branches", "num_branches"),
        ):
            counts[0] += summary[reached]
            counts[1] += summary[every]
        lines = file["missing_lines"]
        branches = [
            f"{start}->{'exit' if end < 0 else end}"
            for start, end in file["missing_branches"]
            if not {start, end} & set(lines)
        ]
        if lines or branches:
            self.missing[path] = stretches(lines) + branches

    @property
    def not_reached(self) -> int:
        """The number of lines and branches."""
        return self.lines[1] + self.branches[1] - self.lines[0] - self.branches[0]

    @property
    def percent(self) -> float:
        """Lines and branches together."""
        reached, every = self.lines[0] + self.branches[0], self.lines[1] + self.branches[1]
        return percent([reached, every])


def stretches(lines: list[int]) -> list[str]:
    """Ascending line numbers, those that follow one another as one: ``3``, ``7-9``."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in runs]


def percent(counts: list[int]) -> float:
    """The reached part of all; 100 of nothing."""
    return 100 * counts[0] / counts[1] if counts[1] else 100.0


def room_of(path: str) -> str:
    """``pickles`` of ``archive/pickles/read/scan.py``; the rooms of jobs are divided: ``rewrite/migrate``."""
    parts = Path(path).with_suffix("").parts[1:-1]
    return "/".join(parts[: 2 if parts[:1] and parts[0] in JOBS else 1]) or "archive"


def goal_of(room: str) -> float:
    """The percentage that a room is to have."""
    return CORE_GOAL if room in CORE else GOAL


def floor_of(room: str) -> float:
    """The percentage below which a room must not fall."""
    return BELOW.get(room, goal_of(room))


def rooms_of(report: dict[str, Any]) -> dict[str, Room]:
    """All rooms, by name."""
    rooms: defaultdict[str, Room] = defaultdict(Room)
    for path, file in report["files"].items():
        rooms[room_of(path)].add(path, file)
    return dict(sorted(rooms.items()))


def table(rooms: dict[str, Room]) -> str:
    """One line a room; ``!`` marks one below its floor."""
    lines = [f"{'room':<16}{'lines %':>9}{'branches %':>12}{'floor':>7}{'missing':>9}"]
    for name, room in rooms.items():
        mark = " !" if room.percent < floor_of(name) else ""
        lines.append(
            f"{name:<16}{percent(room.lines):>9.1f}{percent(room.branches):>12.1f}{floor_of(name):>7.4g}"
            f"{room.not_reached:>9}{mark}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "build/coverage.json")
    rooms = rooms_of(json.loads(path.read_text(encoding="utf-8")))
    print(table(rooms))
    below = [room for name, room in rooms.items() if room.percent < floor_of(name)]
    for room in below:
        for file, places in room.missing.items():
            print(f"{file}: {', '.join(places)}")
    for name in BELOW:
        if name in rooms and rooms[name].percent >= goal_of(name):
            print(f"{name} has reached its goal: take it out of BELOW")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
