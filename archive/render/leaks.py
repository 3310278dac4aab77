"""What files give away → a table for a terminal, a line a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from archive.base.errors import counted, one_line
from archive.privacy.leaks.findings import by_kind
from archive.render.fitted_table import ELLIPSIS, FittedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from archive.privacy.leaks import Finding, Leaks, Place
    from archive.privacy.review.listing import ReviewRow

FoundT = TypeVar("FoundT", bound="Finding | ReviewRow")
STEPS = 3
"""Steps of a path in JSON that a table shows."""
RECORD = 60
"""Characters of a record's name that a table shows."""
SHORTENED = 120
"""Characters of a text that a table shows; JSON has all."""


def leaks_table(findings: Sequence[Finding], examples: int) -> FittedTable:
    """The findings of each kind."""
    groups = by_kind(findings).items()
    return examples_table("kind", groups, examples, lambda one: (one.text, _short(one.places[0])))


def examples_table(
    of: str,
    groups: Iterable[tuple[str, Sequence[FoundT]]],
    examples: int,
    cells: Callable[[FoundT], tuple[str, str]],
) -> FittedTable:
    """For each group how many texts, how often they were found, and the first ones.

    Args:
        of: what a group is.
        examples: the number of texts shown for each; 0 shows all.
        cells: gives a text and its first place.
    """
    table = FittedTable([(of, "text"), ("found", "number"), ("text", "text"), ("first at", "place")])
    for group, some in groups:
        shown = some if len(some) <= examples + 1 else some[: examples or None]
        for number, one in enumerate(shown):
            text, place = cells(one)
            line = one_line(text)
            if len(line) > SHORTENED:
                line = line[: SHORTENED - 1] + ELLIPSIS
            table.add("" if number else group, one.count, line, place)
        if rest := some[len(shown) :]:
            table.add("", sum(one.count for one in rest), f"[{len(rest):,} other texts]", "")
    return table


def _short(place: Place) -> str:
    """A place for a table: a path in JSON stands for the byte, by its last steps."""
    steps = place.within.split(".")
    within = place.within if len(steps) <= STEPS else "…" + ".".join(steps[-STEPS:])
    record = place.record
    if len(record) > RECORD:
        record = f"{record[: RECORD // 2]}…{record[-RECORD // 2 :]}"
    return f"{record}, {within}" if within else str(replace(place, record=record))


def remedies(findings: Sequence[Finding]) -> list[str]:
    """A line for each way to take findings out, with the kinds that go that way."""
    ways: dict[str, list[str]] = {}
    for finding in findings:
        kinds = ways.setdefault(finding.remedy, [])
        if finding.kind not in kinds:
            kinds.append(finding.kind)
    return [f"{', '.join(kinds)}: {way}" for way, kinds in ways.items()]


def listed_only(leaks: Leaks, shown: Sequence[Finding]) -> str:
    """One line about findings that do not count, and what is allowed; "" where there are none."""
    listed = set(map(id, shown))
    left = [finding for finding in leaks.findings if id(finding) not in listed and not finding.allowed]
    allowed = sum(finding.allowed for finding in leaks.findings)
    parts = [f"not counted: {leaks_line(left)}"] if left else []
    parts += [f"allowed: {counted(allowed, 'text')}"] if allowed else []
    return "; ".join(parts)


def leaks_line(findings: Sequence[Finding]) -> str:
    """How many texts of each kind were found, on one line."""
    kinds = [f"{kind} {len(some):,}" for kind, some in by_kind(findings).items()]
    return ", ".join(kinds) or "nothing found"
