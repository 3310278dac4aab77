"""What a run computed, by line of the model's source, for the report page: ``run --json`` → a section.

The document is read as a stranger's: numbers are checked, names are texts. A row is a line, in the order of
the run. Of one run it has the largest absolute value, of two the largest relative difference.
"""

from __future__ import annotations

import json
from contextlib import closing
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError
from archive.io.mapped import Mapped
from archive.page.units import count_of, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.io.mapped import Source
    from archive.page.shown import Shown

MOST_BYTES = 64 << 20
"""Size of the largest document that is read: a run of some 100,000 operations."""
STRANGE = " (none of its lines is in this file: is it another model's?)"
MOST_LINES = 2000
"""Lines that the page shows, of those that ran."""


class _Row(NamedTuple):
    """A line, with the operation that has the largest number there."""

    file: str
    line: int
    module: str
    operator: str
    value: float
    odd: int
    is_beyond: bool


class SavedValues(NamedTuple):
    """The values of a run by line.

    Attributes:
        title: what ran, and beside which base.
        heading: what the number of a line is.
        rows: in the order of the run.
        is_diff: whether they are differences from a base.
    """

    title: str
    heading: str
    rows: Sequence[_Row]
    is_diff: bool


def read_values(source: Source) -> SavedValues:
    """Read what ``run --json`` has printed."""
    with closing(Mapped(source)) as mapped:
        name = mapped.name
        if len(mapped.data) > MOST_BYTES:
            raise ArchiveError(f"values of more than {MOST_BYTES >> 20} MiB", file=name)
        try:
            (facts,) = json.loads(bytes(mapped.data))["files"]
            return _difference(facts) if "pairs" in facts else _run(facts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ArchiveError("no values as `debug-archive run --json` prints", file=name) from error


def values_facts(saved: SavedValues, sources: Mapping[str, Any] | None, shown: Shown) -> dict[str, Any]:
    """The section: a row for each line, with its link to the source that the page shows."""
    rows = saved.rows[:MOST_LINES]
    find = _Lines(sources or {"files": []})
    names = [plain(shown.file(row.file)) for row in rows]
    links = [find.link(name, row.line) for name, row in zip(names, rows, strict=True)]
    # A page without texts has no line to compare with.
    is_strange = bool(find.known) and any(row.line for row in rows) and not any(links)
    return {
        "title": plain(saved.title + (STRANGE if is_strange else "")),
        "heading": saved.heading,
        "file": names,
        "line": [row.line or None for row in rows],
        "module": [plain(row.module) for row in rows],
        "operator": [plain(row.operator) for row in rows],
        "value": [row.value for row in rows],
        "note": [_note(row, is_diff=saved.is_diff) for row in rows],
        "links": links,
    }


def _note(row: _Row, *, is_diff: bool) -> str:
    """What is wrong at a line, in words; "" for nothing."""
    if row.odd:
        return f"{row.odd:,} {'finite in only one' if is_diff else 'NaN or infinite'}"
    return "beyond the tolerance" if row.is_beyond else ""


class _Lines:
    """Where lines begin in the texts of a page.

    Args:
        sources: the section of sources.
    """

    def __init__(self, sources: Mapping[str, Any]) -> None:
        self._files = sources["files"]
        self._numbers: dict[str, int] = {}
        for number, file in enumerate(self._files):
            self._numbers[file["name"]] = -1 if file["name"] in self._numbers else number  # two of one name
        self._starts: dict[int, dict[int, int]] = {}

    @property
    def known(self) -> Sequence[Mapping[str, Any]]:
        """The files that the page shows."""
        return self._files  # type: ignore[no-any-return]

    def link(self, name: str, line: int) -> list[int] | None:
        """The number of a file and where a line begins there; None where the page doesn't show it."""
        number = self._numbers.get(name, -1)
        if number < 0:
            return None
        if number not in self._starts:
            self._starts[number] = _starts(self._files[number])
        at = self._starts[number].get(line)
        return None if at is None else [number, at]


def _starts(file: Mapping[str, Any]) -> dict[int, int]:
    """Where each line of a file's text begins, by its number."""
    numbered = dict(file["lines"])
    starts, at, line = dict[int, int](), 0, 1
    for text in file["text"].removesuffix("\n").split("\n"):
        line = numbered.get(at, line)
        starts.setdefault(line, at)
        at, line = at + count_of(text) + 1, line + 1
    return starts


def _run(facts: Mapping[str, Any]) -> SavedValues:
    rows = [
        _row(
            each,
            _largest(each["results"]),
            sum(_count(one["nan"]) + _count(one["inf"]) for one in each["results"]),
            is_beyond=False,
        )
        for each in facts["operations"]
    ]
    return SavedValues(f"Values of {facts['file']}", "largest value", _by_line(rows), is_diff=False)


def _largest(results: Sequence[Mapping[str, Any]]) -> float:
    """The largest absolute value of some tensors; 0 if they have no finite element."""
    return max((abs(_number(one[end])) for one in results for end in ("min", "max")), default=0.0)


def _difference(facts: Mapping[str, Any]) -> SavedValues:
    tolerance = _number(facts["tolerance"])
    rows = [
        _row(each, value, _count(each["odd"]), is_beyond=value > tolerance)
        for each in facts["pairs"]
        for value in [_number(each["max_rel"])]
    ]
    title = f"Differences of {facts['file']} from {facts['base']}"
    return SavedValues(title, "largest difference, relative", _by_line(rows), is_diff=True)


def _row(each: Mapping[str, Any], value: float, odd: int, *, is_beyond: bool) -> _Row:
    file, line = each["file"], each["line"]
    names = str(file or ""), _count(line or 0), str(each["module"]), str(each["operator"])
    return _Row(*names, value, odd, is_beyond)


def _by_line(rows: Sequence[_Row]) -> list[_Row]:
    """The operation of each line with the largest number, and what is wrong at any of its operations."""
    lines: dict[tuple[str, int], _Row] = {}
    for row in rows:
        key = row.file, row.line
        before = lines.get(key, row._replace(odd=0))
        largest = row if row.value > before.value else before
        is_beyond = row.is_beyond or before.is_beyond
        lines[key] = largest._replace(odd=before.odd + row.odd, is_beyond=is_beyond)
    return [*lines.values()]


def _number(value: object) -> float:
    """A number that is finite; 0 for null, which stands for none.

    Raises:
        ValueError: it isn't one.
    """
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(str(value))
    return float(value)


def _count(value: object) -> int:
    """A whole number that is not negative.

    Raises:
        ValueError: it isn't one.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(str(value))
    return value
