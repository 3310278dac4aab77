"""``extra/effects.pkl``, read and written: columns ⇄ rows. Its specification is ``schema``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, shown
from archive.base.limits import DEFAULT_LIMITS
from archive.base.strings import StringTable
from archive.formats.effects import EFFECTS
from archive.formats.effects.rows import TEXT_BYTES, EffectRows, FactRow, place_of
from archive.formats.effects.rules import check_table
from archive.formats.effects.schema import EFFECTS_SCHEMA, ROW_KINDS, STRING, TABLES, USING, VERSION
from archive.formats.schema.pickled import Int, Ragged, Sequence, String, Tuple, build, first_item, parse
from archive.pickles.ops import ValueKind

if TYPE_CHECKING:
    from archive.formats.effects.model import EffectTable
    from archive.formats.schema.pickled import Declaration
    from archive.pickles.tree import Tree


def parse_effects(tree: Tree, pickle: int) -> EffectTable:
    """The effects of one record."""
    root = int(tree.roots[pickle])
    first = first_item(tree, root)
    # The version is checked first: fields of another one may not parse.
    if first is not None and tree.kind(first) == ValueKind.INT and tree.value[first] != VERSION:
        raise ArchiveError(
            record=tree.tokens.place(root)[0],
            place="field version",
            expected=str(VERSION),
            found=shown(int(tree.value[first])),
        )
    columns = parse(EFFECTS_SCHEMA, tree, np.array([pickle]))
    try:
        memory.take(memory.ROW * _row_count(columns), "rows of effects")
        rows = _RowReader(tree, columns).rows()
        table = rows.facts()
        check_table(table)
        _check_order(EffectRows.of(table), rows)
    except ArchiveError as error:
        raise error.within(record=tree.tokens.pickles[pickle].name) from None
    return table


def _row_count(columns: object) -> int:
    """Number of rows of all tables, and of the sequences in them."""
    if isinstance(columns, dict):
        return sum(map(_row_count, columns.values()))
    return int(columns.first[-1]) + _row_count(columns.items) if isinstance(columns, Ragged) else 0


class _RowReader:
    """Columns -> rows."""

    def __init__(self, tree: Tree, columns: dict[str, Any]) -> None:
        self._texts = tree.strings
        self._columns = columns
        self._words: dict[int, str] = {}

    def rows(self) -> EffectRows:
        """All rows; references are not checked."""
        numbers = self._columns["strings"].items.tolist()
        strings = [self._text(text, place_of("strings", row)) for row, text in enumerate(numbers)]
        read = {
            name: self._read(schema.item, self._columns[name].items, name, "")
            for name, schema in TABLES.items()
            if name != STRING.table
        }
        if len(read["conditions"]) != len(read["methods"]):
            raise ArchiveError("not one for each method", place="field conditions")
        tables = {
            # Numbers of items are a list: a row is known by its value.
            table: [
                FactRow(kind, one, tuple(other) if isinstance(other, list) else other)
                for kind, one, other in read[table]
            ]
            for table in ROW_KINDS
        }
        return EffectRows(strings, tables, {name: read[name] for name in USING})

    def _read(self, schema: Declaration, columns: Any, table: str, field: str) -> list[Any]:  # noqa: ANN401
        """The values of a column: numbers, words, lists of them, or tuples."""
        if isinstance(schema, Tuple):
            values = [self._read(one, columns[name], table, name) for name, one in schema.fields.items()]
            return list(zip(*values, strict=True))
        if isinstance(schema, Sequence):
            items = self._read(schema.item, columns.items, field, "")
            return [items[begin:end] for begin, end in pairwise(columns.first.tolist())]
        numbers: list[int] = columns.tolist()
        if isinstance(schema, Int):
            return numbers
        for row, text in enumerate(numbers):
            if text not in self._words:  # words repeat: each is decoded only once
                self._words[text] = self._text(text, f"{place_of(table, row)}, field {field}")
        return [self._words[text] for text in numbers]

    def _text(self, text: int, place: str) -> str:
        memory.take(TEXT_BYTES * int(self._texts.length[text]), "texts of effects", place=place)
        data = bytes(self._texts.data(text))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ArchiveError(place=place, expected="UTF-8", found=shown(data)) from None


def _check_order(expected: EffectRows, found: EffectRows) -> None:
    """Refuse duplicate rows, unused rows, and rows that are not in the order of first use."""
    wanted: dict[str, list[Any]] = {"strings": expected.strings, **expected.tables}
    given: dict[str, list[Any]] = {"strings": found.strings, **found.tables}
    for name, rows in given.items():
        if wanted[name] != rows:
            pairs = enumerate(zip(wanted[name], rows, strict=False))
            first = next((row for row, (a, b) in pairs if a != b), len(wanted[name]))
            raise ArchiveError(
                "not in the order of first use, not used, or there twice", place=f"field {name}, row {first}"
            )


def build_effects(table: EffectTable) -> bytes:
    """The record of a table."""
    try:
        check_table(table)
        rows = EffectRows.of(table)
        with memory.charged(DEFAULT_LIMITS.allowance(0)):
            rows.check_weights()
        columns, texts = _columns(rows)
    except ArchiveError as error:
        raise error.within(record=EFFECTS) from None
    except RecursionError:
        raise ArchiveError("values too deep inside one another", record=EFFECTS) from None
    return build(EFFECTS_SCHEMA, columns, texts)


def _columns(rows: EffectRows) -> tuple[dict[str, Any], StringTable]:
    """The columns of a record, and the texts that they refer to: the strings, then kinds, ops and looks."""
    numbers: dict[str, int] = {}

    def column(schema: Declaration, values: list[Any]) -> Any:  # noqa: ANN401
        if isinstance(schema, Tuple):
            named = enumerate(schema.fields.items())
            return {name: column(one, [value[place] for value in values]) for place, (name, one) in named}
        if isinstance(schema, Sequence):
            first = np.cumsum([0, *map(len, values)], dtype=np.int64)
            return Ragged(first, column(schema.item, [item for value in values for item in value]))
        if isinstance(schema, String):
            values = [len(rows.strings) + numbers.setdefault(word, len(numbers)) for word in values]
        return np.fromiter(values, np.int64)

    given = {"version": VERSION, **rows.tables, **rows.using}
    columns = {"strings": Ragged(np.array([0, len(rows.strings)]), np.arange(len(rows.strings)))}
    try:
        fields = EFFECTS_SCHEMA.fields.items()
        columns |= {name: column(schema, [given[name]]) for name, schema in fields if name in given}
    except OverflowError as error:
        raise ArchiveError(f"a number of more than 64 bits: {error}") from error
    texts = [text.encode("utf-8", "surrogatepass") for text in (*rows.strings, *numbers)]
    length = np.fromiter(map(len, texts), np.int64)
    start = np.cumsum(length) - length
    return columns, StringTable([memoryview(b"".join(texts))], [False], np.zeros_like(length), start, length)
