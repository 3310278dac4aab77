"""An inventory as text: a line for each file, and tables of sums; as rows; as JSON in a manifest."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypedDict

from archive.base.errors import counted, one_line
from archive.describe.inventory import InventoryRow
from archive.describe.totals import MOST_GROUPS, SUMS, largest, numbers, remarks, same_words
from archive.formats.release_label import LABEL_TEXT
from archive.reader.recognition import FileKind
from archive.render.as_json import as_json
from archive.render.fitted_table import TOTAL, FittedTable
from archive.render.rows import FactsTable
from archive.render.texts import first_of, share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.describe.totals import Sums, Totals
    from archive.render.fitted_table import Printed


class UnreadRow(TypedDict):
    """The row of a file that could not be read.

    Attributes:
        file: its name.
        kind: by its first bytes.
        size: bytes of the file; None where nothing is there.
        error: why it could not be read.
        unread: the same, without its name.
    """

    file: str
    kind: FileKind
    size: int | None
    error: str
    unread: Sequence[str]


COLUMNS = tuple(column.name for column in fields(InventoryRow) if column.name != "file")


# --- text


def row_text(row: InventoryRow) -> str:
    """What is known of a file, on one line, without its name."""
    parts = [str(row.kind), f"{row.size:,} bytes"]
    if row.elements is not None:
        parts.append(counted(row.elements, "element"))
    if row.debug_bytes is not None:
        parts.append(f"{row.debug_bytes:,} of debug info{_share(row)}")
    if row.handles:
        parts.append(counted(row.handles, "handle"))
    parts += [f"{row.release} ({row.release_by})"] if row.release else []
    parts += [f"labelled {row.label}"] if row.label else []
    parts += [f"{name} {version}" for name, version in row.versions.items()]
    if row.leaks is not None:
        parts.append(f"leaks: {_counts(row.leaks)}")
    if row.findings is not None:
        parts.append(f"verify: {_counts(row.findings)}")
    if row.imports:
        parts.append(f"imports {first_of([one_line(name) for name in row.imports], 'names')}")
    if row.same_as:
        parts.append(same_words(row, row.same_as))
    return ", ".join([*parts, *(f"not read: {why}" for why in row.unread)])


def _share(row: InventoryRow) -> str:
    return f" ({row.debug_share:.1%})" if row.debug_share else ""


def _counts(counts: Mapping[str, int]) -> str:
    return " and ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def totals_text(totals: Totals) -> Printed:
    """The sums by kind and by release, and how many files are there twice."""
    kinds = _table("kind", totals.by_kind, totals.all)
    releases = _table("written by", totals.by_release, totals.all)
    return ["", kinds, "", releases, "", *remarks(totals)]


def _table(of: str, sums: Mapping[str, Sums], total: Sums) -> FittedTable:
    table = FittedTable([(of, "text"), *((column.title, "number") for column in SUMS), ("%", "number")])
    for name, some in [*largest(sums, MOST_GROUPS), (TOTAL, total)]:
        debug = "" if some.debug_bytes is None else share(some.debug_bytes, some.size or 0)
        table.add(name, *numbers(some), debug)
    return table


# --- rows


def _rows(row: InventoryRow) -> Iterator[Sequence[object]]:
    yield [_cell(getattr(row, name)) for name in COLUMNS]


def _cell(value: object) -> object:
    """Several values as one cell: names with their numbers or versions, or sentences."""
    if isinstance(value, dict):
        return "; ".join(f"{name} {some}" for name, some in value.items()) or "none"
    return "; ".join(value) if isinstance(value, list | tuple) else value


INVENTORY = FactsTable(COLUMNS, _rows)


# --- a manifest


def dumped(row: InventoryRow) -> Mapping[str, Any] | None:
    """A row for a manifest; None of one to be read again, of which not all was read or is in one file."""
    if row.problems or row.files > 1 or row.kind is FileKind.SHARDED:
        return None
    facts: dict[str, Any] = json.loads(as_json(row))
    del facts["file"]
    return facts


def loaded(facts: Mapping[str, Any]) -> InventoryRow:
    """A row of a manifest, without the file's name.

    Raises:
        TypeError: it has other facts than rows have now.
        ValueError: the kind of files is unknown, or the label isn't one.
    """
    if (label := facts.get("label")) and not LABEL_TEXT.fullmatch(label):
        raise ValueError(label)
    return InventoryRow("", **{**facts, "kind": FileKind(facts["kind"])})
