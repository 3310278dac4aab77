"""Profiles as tables that fit a terminal: a run, the rows of a saved one, and what changed between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

from archive.base.errors import counted, one_line
from archive.debuginfo.profiles.profile import HEADINGS, table_facts
from archive.render.fitted_table import FittedTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.debuginfo.profiles.saved import ProfileChange, SavedProfile, SavedRow
    from archive.debuginfo.profiles.timeline import ProfileRow, Timeline, View
    from archive.describe.runtime.profile import RuntimeProfile
    from archive.render.fitted_table import Printed

GAP = 2
"""Between columns: with six numbers, more would leave too little of names in 80 columns."""
NEW, GONE, SAME = "new", "gone", "same"


def run_text(timeline: Timeline, view: View, most: int) -> Printed:
    """The rows of one view, longest self time first, and one that sums up the others."""
    facts = table_facts(timeline, view, most)
    table = _Rows(view, *facts.numbers)
    for numbers, name, text in facts.rows:
        table.row(name, text, *numbers)
    return [facts.head, "", table.fitted]


def rows_text(profile: SavedProfile, view: str, most: int) -> Printed:
    """The rows of one view, longest self time first; times are per run.

    Args:
        most: rows to show; 0 for all.
    """
    rows = profile.rows_by(view)
    whole = profile.total_ns or 1
    table = _Rows(view, "self", "share", "calls", "allocated")
    for row in rows[:most] if most else rows:
        numbers = (
            micros(row.self_ns),
            f"{row.self_ns / whole:.1%}",
            f"{row.calls:,.6g}",
            f"{row.allocated:,.0f}",
        )
        table.row(row.name, row.text, *numbers)
    return [f"{profile.backend}: {micros(profile.total_ns)} a run", "", table.fitted]


def comparison_text(
    before: SavedProfile, after: SavedProfile, changes: Sequence[ProfileChange], view: str, most: int
) -> Printed:
    """The changes of one view, those of most time first; times are per run.

    Args:
        most: rows to show; 0 for all.
    """
    head = f"{before.backend} {micros(before.total_ns)} -> {after.backend} {micros(after.total_ns)}"
    head += f" a run ({_share(before.total_ns, after.total_ns)})"
    if before.peak_bytes is not None and after.peak_bytes is not None:
        head += f", memory {before.peak_bytes:,} B -> {after.peak_bytes:,} B"
    table = _Rows(view, "before", "after", "change", "%")
    shown = changes[:most] if most else changes
    for change in shown:
        table.row(change.name, change.text, *_numbers(change))
    if len(changes) > len(shown):
        rest = sum(change.difference for change in changes[len(shown) :])
        table.row(f"[{len(changes) - len(shown):,} others]", "", "", "", _signed(rest), "")
    return [head, "", table.fitted]


class _Rows:
    """A table of rows, each with its name, its numbers, and its text.

    The class of a module stands with its name, so that six numbers fit beside it.
    """

    def __init__(self, view: str, *numbers: str) -> None:
        name, text = HEADINGS[view]
        self._is_one = view == "module"
        self.fitted = FittedTable.of(name, *numbers)
        self.fitted.gap = GAP
        if text and not self._is_one:
            self.fitted.columns = [*self.fitted.columns, (text, "code")]

    def row(self, name: str, text: str, *numbers: str) -> None:
        """Add a row."""
        if self._is_one and text:
            name = f"{name} ({text})"
        has_text = len(self.fitted.columns) > 1 + len(numbers)
        self.fitted.add(name, *numbers, *([text] if has_text else []))


def runtime_notes(profile: RuntimeProfile) -> Iterator[str]:
    """What the times of ExecuTorch's runs are of, and what they lack, each in a line."""
    ran = counted(profile.runs.total(), "run")
    if methods := [one_line(method) for method in profile.runs if method]:
        many = ", ".join(f"{profile.runs[method]:,} of {one_line(method)}" for method in profile.runs)
        ran += f" of {methods[0]}" if len(methods) == 1 else f" ({many})"
    tick = f"if a tick of the device's clock is {profile.tick_ns:g} ns"
    if profile.whole_ns is None:
        yield f"{ran}, some of which did not end; times are right {tick}"
    else:
        share = profile.total_ns / (profile.whole_ns or 1)
        took = f"{ran} took {micros(profile.whole_ns)} {tick}"
        yield f"{took}: {share:.0%} in operators, the rest in the runtime and its notes"
    if profile.inferred:
        notes = counted(profile.inferred, "note")
        yield f"inferred: {notes} of XNNPACK, each at the node of its kind and order in the program"
    if profile.left_out:
        what = counted(profile.left_out, "note")
        yield f"{what} of backends left out: not within the times of their calls"


def _numbers(change: ProfileChange) -> list[str]:
    before, after = (row.self_ns if row else None for row in (change.before, change.after))
    times = ["" if time is None else micros(time) for time in (before, after)]
    share = NEW if before is None else GONE if after is None else _share(before, after)
    return [*times, _signed(change.difference), share]


def _share(before: float, after: float) -> str:
    """The change in percent of what was before."""
    return SAME if before == after else f"{after / before - 1:+.0%}" if before else NEW


def micros(nanoseconds: float) -> str:
    """A time in µs."""
    return f"{nanoseconds / 1000:,.1f} µs"


def _signed(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:+,.1f} µs"


# --- JSON


class ProfileFacts(TypedDict):
    """A run of a model; times are in ns, of all runs.

    Attributes:
        file: the archive.
        backend: what ran the model.
        operations: how many ran.
        total_ns: all self times together.
        peak_bytes: the most memory at a time; null if none was recorded.
        of_allocator: whether it is that of PyTorch's allocator.
        runs: how often the model ran.
        module: the rows by module.
        line: by line.
        operator: by operator.
        instruction: by instruction of ExecuTorch; of ETDumps with their ETRecord.
        delegate: by backend that ExecuTorch calls; of ETDumps.
        methods: how often each ran; of ETDumps with their ETRecord.
        whole_ns: of runs as ExecuTorch's runtime has them; null where one did not end; of ETDumps.
        left_out: what backends noted outside of the times of their calls; of ETDumps.
        inferred: notes of XNNPACK that are at the program's node of their kind and order; of ETDumps.
    """

    file: str
    backend: str
    operations: int
    total_ns: int
    peak_bytes: int | None
    of_allocator: bool
    runs: int
    module: Sequence[ProfileRow]
    line: Sequence[ProfileRow]
    operator: Sequence[ProfileRow]
    instruction: NotRequired[Sequence[ProfileRow]]
    delegate: NotRequired[Sequence[ProfileRow]]
    methods: NotRequired[Mapping[str, int]]
    whole_ns: NotRequired[int | None]
    left_out: NotRequired[int]
    inferred: NotRequired[int]


class SavedProfileFacts(TypedDict):
    """A saved profile by one view; times are in ns, per run."""

    file: str
    total_ns: float
    module: NotRequired[Sequence[SavedRow]]
    line: NotRequired[Sequence[SavedRow]]
    operator: NotRequired[Sequence[SavedRow]]
    instruction: NotRequired[Sequence[SavedRow]]
    delegate: NotRequired[Sequence[SavedRow]]


class ProfileComparison(TypedDict):
    """What changed since a saved profile; times are in ns, per run."""

    file: str
    before_ns: float
    after_ns: float
    changes: Sequence[ProfileChange]
