"""Facts about files → rows of CSV: what ``--format csv`` prints, a line for each label, record or text.

Each command's first line names its columns. Texts are on one line: what would end it is escaped. No foreign
text becomes a formula of a spreadsheet: one that begins like a formula, or with an apostrophe, gets an
apostrophe before it.
"""

from __future__ import annotations

import io
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from archive.base.errors import one_line
from archive.base.strings import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.privacy.leaks import Leaks
    from archive.render.inspect import Contents

LIKE_A_FORMULA = ("=", "+", "-", "@", "'")
"""What a text begins with that spreadsheets compute (and what marks those that they are not to)."""


class CsvTable:
    """The rows of a command.

    Args:
        rows: facts about a file → the rows of it, without the file's name.
    """

    tail = ""

    def __init__(self, columns: Sequence[str], rows: Callable[[Any], Iterator[Sequence[object]]]) -> None:
        self.columns, self._rows = ("file", *columns), rows

    @property
    def head(self) -> str:
        """The first line."""
        return _line(self.columns)

    def lines(self, file: str, facts: object) -> Iterator[str]:
        """The lines of a file."""
        for row in self._rows(facts):
            yield _line((file, *row))


def _line(cells: Sequence[object]) -> str:
    import csv  # noqa: PLC0415 (the columns are declared for every command, and few print them)

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(cell: object) -> object:
    if cell is None or isinstance(cell, bool):
        return "" if cell is None else str(cell).lower()
    if isinstance(cell, bytes):
        cell = decoded(cell)
    if isinstance(cell, list | tuple):
        cell = " ".join(map(str, cell))
    if not isinstance(cell, str):
        return cell
    text = one_line(cell)
    return f"'{text}" if text.startswith(LIKE_A_FORMULA) else text


def sizes_rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """The labels of a file with the sizes of each, or with those of an old and a new file."""
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
    """The differences of a file; one that only one folder has is one."""
    if "status" in facts:
        yield "file", "", "", facts["status"], "", ""
    for one in facts.get("changes", ()):
        yield one.level, one.what, one.name, one.status, one.old, one.new


def causes_rows(facts: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """The causes of a log's failures; the first column is the log."""
    for cause in facts["causes"]:
        yield [_joined(cause["file" if key == "source" else key]) for key in CAUSE_KEYS]


def with_keys(*keys: str) -> CsvTable:
    """A row for each file, of some keys of its facts."""
    return CsvTable(keys, lambda facts: iter([[_joined(facts.get(key)) for key in keys]]))


def _joined(value: object) -> object:
    """Several names, which may have blanks, as one cell."""
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else value


CAUSE_KEYS = (
    *("count", "first_line", "last_line", "first_time", "last_time"),
    *("models", "source", "line", "where", "message"),
)
VERIFY = CsvTable(("severity", "record", "place", "message"), verify_rows)
DIFF = CsvTable(("level", "what", "name", "status", "old", "new"), diff_rows)
DIGEST = with_keys("of", "digest", "left_out", "expected", "same")
CAUSES = CsvTable(CAUSE_KEYS, causes_rows)
SIZES = CsvTable(("label", "stored", "inflated"), sizes_rows)
WEIGHTS = CsvTable(("label", "stored", "inflated", "elements", "dtypes"), sizes_rows)
CHANGES = CsvTable(("label", "old", "new"), sizes_rows)
INSPECT = CsvTable(("record", "kind", "size", "stored_size", "compression", "holds"), inspect_rows)
LEAKS = CsvTable(("kind", "text", "count", "record", "byte", "within", "counted", "allowed"), leaks_rows)
