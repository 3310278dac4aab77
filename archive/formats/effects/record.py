"""``extra/effects.pkl``: the side effects of a model's methods.

This library writes the record, and PyTorch carries it along: ``torch.jit.load(_extra_files=…)`` gives it out
as ``effects.pkl``. It is a pickle of tuples, integers and strings, a tuple of these tables:

==============  ===============================================================
table           one row
==============  ===============================================================
``version``     (one integer instead of rows: ``VERSION``)
``strings``     the text
``constants``   ``(kind, string, (constant, ...))``
``sources``     ``(kind, base, name)``
``values``      ``(kind, number, (value, ...))``
``methods``     ``(name, (source, ...), value, (effect, ...))``
``state``       ``(source, value)``
``conditions``  ``((guard, ...), ((source, value), ...))``
==============  ===============================================================

EffectRows are numbered from 0; where a row refers to a string, constant, source or value, its number stands.
``NO_REFERENCE``, -1, stands where there is none.

Constant: a value that Python can write down, see ``model.Literal``.

=====================  ====================================  ==================
kind                   string                                items
=====================  ====================================  ==================
none, true, false      ``NO_REFERENCE``                      ()
int                    hexadecimal: ``-0x1f``                ()
float                  ``repr`` of Python: ``0.1``, ``-inf`` ()
str                    the text itself                       ()
bytes                  hexadecimal: ``00ff``                 ()
dtype, device          the text of PyTorch: ``torch.int8``  ()
tuple                  ``NO_REFERENCE``                      constants
=====================  ====================================  ==================

Source: the place of a value, see ``model.Source``.

=====================  ====================================  ==================
kind                   base                                  name
=====================  ====================================  ==================
local                  ``NO_REFERENCE``                      string: name
attribute              source                                string: name
item                   source                                constant: key
global                 string: Python module                 string: name
cell                   string: function                      string: name
temporary              its number, no row                    ``NO_REFERENCE``
length                 source                                ``NO_REFERENCE``
each                   source                                ``NO_REFERENCE``
=====================  ====================================  ==================

Value: see ``model.Value``.

=====================  ====================================  ==================
kind                   number                                items
=====================  ====================================  ==================
output, new, stored    its number, no row                    ()
constant               constant                              ()
source                 source                                ()
list, tuple, size      ``NO_REFERENCE``                      values
dict                   ``NO_REFERENCE``                      keys and values in turn
dtype, device          ``NO_REFERENCE``                      a constant: the text
format                 ``NO_REFERENCE``                      a template and its values
inference              ``NO_REFERENCE``                      an output
kind of a hook         ``NO_REFERENCE``                      see ``hooks``
set, frozenset, deque, ``NO_REFERENCE``                      see ``containers``
OrderedDict,
defaultdict,
namedtuple, subclass,
view
op of a computed       ``NO_REFERENCE``                      its operands
number
=====================  ====================================  ==================

Method: a row of ``methods``, and the row of the same number in ``conditions``. EffectRows of one name
may follow one another: entries of this method, each with a graph and guards of its own. The graph of
entry number ``n``, from 1, is the method ``<name>__entry_<n>``; that of the first has the method's own name.

=====================  ===========================================================
field                  meaning
=====================  ===========================================================
name                   string
inputs                 sources: the inputs of the graph
result                 value that the method returns
effects                in their order: ``(op, source, key, value, handle)``
guards                 ``(look, subject, value, key, handle)``
defaults               ``(source of an argument, value)``
=====================  ===========================================================

``op`` and ``look`` are words of ``model.Op`` and ``model.Look``, strings of the pickle itself like the kinds.
``subject``, ``key`` and ``value`` are values; ``key``, and ``value`` of an effect, may be ``NO_REFERENCE``.
``handle`` is the debug handle of the model's statement; -1 if it has none.

Rules:

- A row refers only to rows above itself. So nothing contains itself, and one pass parses everything.
- Each string and row is there once, in the order of first use: by the methods in their order (name, inputs,
  result, then source, key and value of each effect), by the conditions (subject, value and key of each guard,
  then the defaults), then by the state; parts before what they are in.
- Strings are UTF-8; lone surrogates are encoded like other characters (Python's ``surrogatepass``).
- All nans are one: their bits are not kept.
- Facts obey ``rules``.

So a table has exactly one record, and a record exactly one table, whatever memo entries its pickle makes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base.errors import ArchiveError, shown
from archive.base.limits import DEFAULT_LIMITS, Allowance, unbounded
from archive.base.strings import StringTable
from archive.formats.effects import EFFECTS
from archive.formats.effects.rows import (
    FORMS,
    HANDLE,
    ITEM_FIELDS,
    MAYBE,
    NO_REFERENCE,
    TEXT_BYTES,
    USING,
    Declared,
    EffectRows,
    FactRow,
    place_of,
)
from archive.formats.effects.rules import check_table
from archive.formats.schema import Int, Ragged, Sequence, String, Tuple, build, first_item, parse
from archive.pickles.ops import ValueKind

if TYPE_CHECKING:
    from archive.formats.effects.model import EffectTable
    from archive.formats.schema import Schema
    from archive.pickles.tree import Tree

VERSION = 4
"""The one version of the record; no release wrote those before it."""
ROW_BYTES = 300
"""Bytes of memory that a row costs as Python objects: the row itself, its fact, and the two to compare."""


def _schema(kind: Any) -> Schema:  # noqa: ANN401
    """The schema of a field that ``rows`` declares."""
    if isinstance(kind, list):
        return Sequence(_schema(kind[0]))
    if isinstance(kind, Declared):
        return Tuple(**{name: _schema(field) for name, field in kind.fields.items()})
    if isinstance(kind, type):
        return String()
    return Int(low=NO_REFERENCE if kind in (MAYBE, HANDLE) else 0)


def _row_schema(table: str) -> Schema:
    """The schema of a table whose rows others refer to: the kind, and two fields."""
    fields: dict[str, Schema] = {
        name: Sequence(Int(low=0)) if name == "items" else Int(low=NO_REFERENCE)
        for name in ITEM_FIELDS[table]
    }
    return Sequence(Tuple(kind=String(), **fields))


USING_SCHEMAS = {one.name: Sequence(_schema(one)) for one in USING}
FIELDS: dict[str, Schema] = {
    "version": Int(),
    "strings": Sequence(String()),
    **{table: _row_schema(table) for table in FORMS},
    **{name: USING_SCHEMAS[name] for name in ("methods", "state", "conditions")},
}
EFFECTS_SCHEMA = Tuple(**FIELDS)


def parse_effects(tree: Tree, pickle: int, allowance: Allowance) -> EffectTable:
    """The effects of one record.

    Args:
        tree: parsed pickles.
        pickle: number of the record's pickle among them.
        allowance: the memory and sizes that the file may ask for.

    Raises:
        ArchiveError: naming the row and field that breaks the specification.
        LimitError: rows that share one another so often, or so deeply, that no model needs it.
    """
    root = int(tree.roots[pickle])
    first = first_item(tree, root)
    # Another version first: its fields may not parse.
    if first is not None and tree.kind(first) == ValueKind.INT and tree.value[first] != VERSION:
        raise ArchiveError(
            record=tree.tokens.place(root)[0],
            place="field version",
            expected=str(VERSION),
            found=shown(int(tree.value[first])),
        )
    columns = parse(EFFECTS_SCHEMA, tree, np.array([pickle]), allowance)
    try:
        allowance.take(ROW_BYTES * _row_count(columns), "rows of effects")
        rows = _RowReader(tree, columns, allowance).rows()
        table = rows.facts(allowance)
        check_table(table)
        _check_order(EffectRows.of(table), rows)
    except ArchiveError as error:
        raise error.within(record=tree.tokens.pickles[pickle].name) from None
    return table


def _row_count(columns: object) -> int:
    """Rows of all tables, and of the sequences in them."""
    if isinstance(columns, dict):
        return sum(map(_row_count, columns.values()))
    return int(columns.first[-1]) + _row_count(columns.items) if isinstance(columns, Ragged) else 0


class _RowReader:
    """Columns -> rows."""

    def __init__(self, tree: Tree, columns: dict[str, Any], allowance: Allowance) -> None:
        self._texts = tree.strings
        self._columns = columns
        self._allowance = allowance
        self._words: dict[int, str] = {}

    def rows(self) -> EffectRows:
        """All rows; what they refer to is not checked.

        Raises:
            ArchiveError: a text is not UTF-8, or the methods have not a row of conditions each.
            LimitError: the texts are too long together.
        """
        numbers = self._columns["strings"].items.tolist()
        strings = [self._text(text, place_of("strings", row)) for row, text in enumerate(numbers)]
        read = {
            name: self._read(schema.item, self._columns[name].items, name, "")
            for name, schema in FIELDS.items()
            if isinstance(schema, Sequence) and name != "strings"
        }
        if len(read["conditions"]) != len(read["methods"]):
            raise ArchiveError("not one for each method", place="field conditions")
        tables = {
            # Numbers of items are a list: a row is known by its value.
            table: [
                FactRow(kind, one, tuple(other) if isinstance(other, list) else other)
                for kind, one, other in read[table]
            ]
            for table in FORMS
        }
        return EffectRows(strings, tables, {one.name: read[one.name] for one in USING})

    def _read(self, schema: Schema, columns: Any, table: str, field: str) -> list[Any]:  # noqa: ANN401
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
            if text not in self._words:  # words repeat: each is decoded once
                self._words[text] = self._text(text, f"{place_of(table, row)}, field {field}")
        return [self._words[text] for text in numbers]

    def _text(self, text: int, place: str) -> str:
        self._allowance.take(TEXT_BYTES * int(self._texts.length[text]), "texts of effects", place=place)
        data = bytes(self._texts.data(text))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ArchiveError(place=place, expected="UTF-8", found=shown(data)) from None


def _check_order(expected: EffectRows, found: EffectRows) -> None:
    """Refuse rows that stand twice, that nothing uses, or that are not in the order of first use."""
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
    """The record of a table.

    Raises:
        ArchiveError: the table breaks a rule, or has a constant that the record cannot hold.
        LimitError: the table is larger, or deeper, than ``parse_effects`` accepts by default.
    """
    try:
        check_table(table)
        rows = EffectRows.of(table)
        rows.check_weights(DEFAULT_LIMITS.allowance(0))
        columns, texts = _columns(rows)
    except ArchiveError as error:
        raise error.within(record=EFFECTS) from None
    except RecursionError:
        raise ArchiveError("values too deep inside one another", record=EFFECTS) from None
    return build(EFFECTS_SCHEMA, columns, texts, unbounded())


def _columns(rows: EffectRows) -> tuple[dict[str, Any], StringTable]:
    """The columns of a record, and the texts that they refer to: the strings, then kinds, ops and looks.

    Raises:
        ArchiveError: a number has more than 64 bits.
    """
    numbers: dict[str, int] = {}

    def column(schema: Schema, values: list[Any]) -> Any:  # noqa: ANN401
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
        columns |= {name: column(schema, [given[name]]) for name, schema in FIELDS.items() if name in given}
    except OverflowError as error:
        raise ArchiveError(f"a number of more than 64 bits: {error}") from error
    texts = [text.encode("utf-8", "surrogatepass") for text in (*rows.strings, *numbers)]
    length = np.fromiter(map(len, texts), np.int64)
    start = np.cumsum(length) - length
    return columns, StringTable([memoryview(b"".join(texts))], [False], np.zeros_like(length), start, length)
