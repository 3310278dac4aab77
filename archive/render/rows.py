"""Facts about files → rows: what ``--format csv`` and ``html`` print, a line for each label, record or text.

A command declares its columns and what makes rows of its facts, once; :mod:`archive.render.as_csv` and
:mod:`archive.render.as_html` write them.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from archive.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.privacy.leaks import Leaks
    from archive.render.inspect import Contents


class FactsTable:
    """The rows of a command.

    Args:
        columns: their headings, without that of the file.
        rows: facts about a file → the rows of it, without the file's name.
    """

    def __init__(self, columns: Sequence[str], rows: Callable[[Any], Iterator[Sequence[object]]]) -> None:
        self.columns, self._rows = ("file", *columns), rows

    def rows(self, file: str, facts: object) -> Iterator[list[str | int | float]]:
        """The rows of a file: texts on one line, and numbers."""
        for row in self._rows(facts):
            yield [_cell(cell) for cell in (file, *row)]


def _cell(cell: object) -> str | int | float:
    if cell is None or isinstance(cell, bool):
        return "" if cell is None else str(cell).lower()
    if isinstance(cell, bytes):
        from archive.base.strings import decoded  # noqa: PLC0415 (numpy, which most commands do without)

        cell = decoded(cell)
    if isinstance(cell, list | tuple):
        cell = " ".join(map(str, cell))
    if isinstance(cell, float) and not isfinite(cell):
        return "" if isnan(cell) else str(cell)
    return cell if isinstance(cell, int | float) else one_line(str(cell))


def sizes_rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """The labels of a file with the sizes of each, or with those of an old and a new file."""
    from dataclasses import fields  # noqa: PLC0415 (which most commands do without)

    for label, size in facts["labels"].items():
        yield label, *(getattr(size, field.name) for field in fields(size))


def inspect_rows(facts: Contents) -> Iterator[Sequence[object]]:
    """The records of a file; an ETDump has none."""
    for name, record in getattr(facts, "records", {}).items():
        holds = getattr(record, "holds", "")
        yield name, record.kind, record.size, record.stored_size, record.compression, holds


def leaks_rows(leaks: Leaks) -> Iterator[Sequence[object]]:
    """The texts that a file gives away, each with its first place."""
    for one in leaks.findings:
        place = one.places[0]
        first = place.record, place.byte, place.within
        yield one.kind, one.data, one.count, *first, one.counted, one.allowed


def verify_rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """What is wrong in a file; a file that is well has one row without a problem."""
    for one in facts["diagnostics"]:
        yield one.severity, one.record, one.place, one.message
    if not facts["diagnostics"]:
        yield "well", "", "", ""


def diff_rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """The differences of two files, with what they say together; a file that only one folder has is one.

    Of files that do not differ one row says so.
    """
    if "status" in facts:
        yield "file", "", "", facts["status"], *[""] * (len(DIFF_KEYS) - 2)
        return
    said = facts["old"]["file"], facts["identical"], facts["same_model"]
    for one in facts["changes"]:
        lines = "\n".join(getattr(one, "lines", ()))
        yield (
            *(getattr(one, key) for key in ("level", "what", "name", "status", "old", "new")),
            *(getattr(one, key, None) for key in NUMBERS_OF_DIFFERENCES),
            *(lines, *said),
        )
    if not facts["changes"]:
        yield *[""] * (len(DIFF_KEYS) - len(said)), *said


def causes_rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """The causes of a log's failures; the first column is the log."""
    for cause in facts["causes"]:
        yield [_joined(cause["file" if key == "source" else key]) for key in CAUSE_KEYS]


def run_rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """The tensors that the operations of a run returned, each in a row."""
    for one in facts["operations"]:
        place = [one[key] for key in ("module", "file", "line", "source", "handle", "node")]
        for at, result in enumerate(one["results"]):
            shape = "x".join(map(str, result["shape"]))
            numbers = [result[key] for key in TENSOR_KEYS]
            yield one["number"], one["visit"], one["operator"], *place, at, shape, *numbers


def gap_rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """The operations of a run beside those of its base."""
    for one in facts["pairs"]:
        yield [one["file" if key == "source" else key] for key in GAP_KEYS]


def profile_changes(view: str) -> FactsTable:
    """A row for each module, line or operator of two profiles, with the numbers of both."""

    def rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
        for one in facts["changes"]:
            sides = [[side and getattr(side, key) for side in (one.before, one.after)] for key in SAVED_KEYS]
            yield one.name, one.text, *chain.from_iterable(sides)

    pairs = ((f"before_{key}", f"after_{key}") for key in SAVED_KEYS)
    return FactsTable((view, "text", *chain.from_iterable(pairs)), rows)


def by_view(view: str, keys: Sequence[str]) -> FactsTable:
    """A row for each module, line or operator, which the facts have by the name of this view."""

    def rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
        for row in facts[view]:
            value = row.get if isinstance(row, dict) else partial(getattr, row)
            yield [value(key) for key in ("name", "text", *keys)]

    return FactsTable((view, "text", *keys), rows)


def with_keys(*keys: str) -> FactsTable:
    """A row for each file, of some keys of its facts."""
    return FactsTable(keys, lambda facts: iter([[_joined(facts.get(key)) for key in keys]]))


def _joined(value: object) -> object:
    """Several names, which may have blanks, as one cell."""
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else value


CAUSE_KEYS = (
    *("count", "proven", "first_line", "last_line", "first_time", "last_time"),
    *("models", "source", "line", "where", "message"),
)
SAVED_KEYS = ("self_ns", "calls", "allocated")
PROFILE_KEYS = ("self_ns", "total_ns", "calls", "share", "allocated", "at_peak")
RUN_KEYS = ("runs", "low", "high", "nan", "inf", "zeros", "elements")
TENSOR_KEYS = ("dtype", "min", "max", "mean", "std", "zeros", "nan", "inf", "digest")
PLACE_KEYS = ("module", "source", "line", "text", "handle", "node")
GAP_KEYS = (
    *("module", "source", "line", "operator", "base_operator", "paired_by", "is_weak"),
    *("max_abs", "max_rel", "snr_db", "cosine", "odd", "mse", "mae"),
)
NUMBERS_OF_DIFFERENCES = ("count", "changed", "bits", "max_abs", "max_rel", "unordered", "added", "gone")
"""Of tensors, and of the lines of texts."""
DIFF_KEYS = (
    *("level", "what", "name", "status", "old", "new", *NUMBERS_OF_DIFFERENCES, "lines"),
    *("old_file", "identical", "same_model"),
)
VERIFY = FactsTable(("severity", "record", "place", "message"), verify_rows)
DIFF = FactsTable(DIFF_KEYS, diff_rows)
DIGEST = with_keys("of", "digest", "left_out", "expected", "same")
CAUSES = FactsTable(CAUSE_KEYS, causes_rows)
SIZES = FactsTable(("label", "stored", "inflated"), sizes_rows)
WEIGHTS = FactsTable(("label", "stored", "inflated", "elements", "dtypes"), sizes_rows)
CHANGES = FactsTable(("label", "old", "new"), sizes_rows)
INSPECT = FactsTable(("record", "kind", "size", "stored_size", "compression", "holds"), inspect_rows)
LEAKS = FactsTable(("kind", "text", "count", "record", "byte", "within", "counted", "allowed"), leaks_rows)
RUN = FactsTable(("number", "visit", "operator", *PLACE_KEYS, "result", "shape", *TENSOR_KEYS), run_rows)
GAPS = FactsTable(GAP_KEYS, gap_rows)
