"""Profiles that were saved as JSON: read, and compared, without PyTorch.

A saved profile is what ``debug-archive profile --json`` prints; its only file is::

    {"file": "model.ptl", "backend": "lite interpreter", "runs": 1, "operations": 11, "total_ns": 148180,
     "peak_bytes": 6144,
     "module": [{"name": "down.0", "text": "Block", "self_ns": 12, "total_ns": 30, "calls": 2, "share": 0.1,
                 "allocated": 4096, "at_peak": 0}, …],
     "line": […], "operator": […]}

For an ETDump with its ETRecord there are also ``instruction`` and ``delegate``.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, one_line
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.profiles.timeline import RUNTIME_VIEWS, VIEWS
from archive.io.mapped import Mapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.io.mapped import Source

MOST_BYTES = 64 << 20
"""Size of the largest file that is read: a profile of some 300,000 rows."""


@dataclass(frozen=True, slots=True)
class SavedRow:
    """The sums of one module, line or operator, per run.

    Attributes:
        name: path of the module, ``file:line``, or operator.
        text: the module's class, or the line's text.
        self_ns: time of its own operations, in ns.
        calls: how many operations of its own ran.
        allocated: bytes that its own operations allocated.
    """

    name: str
    text: str
    self_ns: float
    calls: float
    allocated: float


@dataclass(frozen=True, slots=True)
class SavedProfile:
    """A saved profile; times, calls and bytes are per run.

    Attributes:
        backend: what ran the model.
        total_ns: all self times together, in ns.
        peak_bytes: the most memory at a time; None if none was recorded.
        rows: the rows of each view that it has.
    """

    backend: str
    total_ns: float
    peak_bytes: int | None
    rows: Mapping[str, Sequence[SavedRow]]

    @property
    def first_view(self) -> str:
        """What a row stands for by default: the first view that has rows."""
        return next((view for view, rows in self.rows.items() if rows), VIEWS[0])

    def rows_by(self, view: str) -> Sequence[SavedRow]:
        """The rows of a view."""
        if view not in self.rows:
            what = f"no rows by {view} are saved"
            raise ArchiveError(f"{what}, as there are for an ETDump with its ETRecord")
        return self.rows[view]


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """A module, line or operator in two profiles.

    Attributes:
        name: path of the module, ``file:line``, or operator.
        text: the module's class, or the line's text.
        before: its sums in the first one; None if it is not there.
        after: its sums in the second one; None if it is not there.
    """

    name: str
    text: str
    before: SavedRow | None
    after: SavedRow | None

    @property
    def difference(self) -> float:
        """How much longer the second one takes, in ns."""
        return (self.after.self_ns if self.after else 0) - (self.before.self_ns if self.before else 0)


def is_saved_profile(source: Source) -> bool:
    """Whether a file is JSON by its first byte, as no archive is."""
    with closing(Mapped(source)) as mapped:
        return bytes(mapped.data[:64]).lstrip()[:1] == b"{"


def read_profile(source: Source, name: str) -> SavedProfile:
    """Read a saved profile.

    Args:
        source: the file.
        name: what errors call it.
    """
    with closing(Mapped(source)) as mapped:
        if len(mapped.data) > MOST_BYTES:
            raise ArchiveError(f"a profile of more than {MOST_BYTES >> 20} MiB", file=name)
        try:
            facts = json.loads(bytes(mapped.data))
            return saved_profile(facts["files"][0] if "files" in facts else facts)  # without: of 0.1.0
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise ArchiveError("no profile as `debug-archive profile --json` prints", file=name) from error


def saved_profile(facts: Mapping[str, Any]) -> SavedProfile:
    """The saved profile from its JSON object.

    Raises:
        ValueError: a number is invalid; other errors come from missing or other values.
    """
    runs, peak = _number(facts["runs"]), facts["peak_bytes"]
    if runs < 1:
        raise ValueError("runs")
    rows: dict[str, list[SavedRow]] = {
        view: [
            SavedRow(
                one_line(str(row["name"])),
                one_line(str(row["text"])),
                *(_number(row[key]) / runs for key in ("self_ns", "calls", "allocated")),
            )
            for row in facts[view]
        ]
        for view in (*VIEWS, *RUNTIME_VIEWS)
        if view in VIEWS or view in facts
    }
    total = _number(facts["total_ns"]) / runs
    return SavedProfile(
        one_line(str(facts["backend"])), total, None if peak is None else int(_number(peak)), rows
    )


def _number(value: object) -> float:
    """A number that is finite and not negative.

    Raises:
        ValueError: it isn't.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        raise ValueError(str(value))
    return value


def compared(before: SavedProfile, after: SavedProfile, view: str) -> list[ProfileChange]:
    """The rows of two profiles, those whose time differs most first.

    Args:
        before: the first one.
        after: the second one.
        view: what a row stands for.
    """
    old = {row.name: row for row in before.rows_by(view)}
    new = {row.name: row for row in after.rows_by(view)}
    changes = [
        ProfileChange(name, (new.get(name) or old[name]).text, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
    ]
    return sorted(changes, key=lambda change: -abs(change.difference))
