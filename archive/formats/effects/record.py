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

Rows are numbered from 0; where a row refers to a string, constant, source or value, its number stands.
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

Method: a row of ``methods``, and the row of the same number in ``conditions``. Rows of one name
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

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, shown
from archive.base.limits import DEFAULT_LIMITS, Allowance, unbounded
from archive.formats.effects import EFFECTS
from archive.formats.effects.column_builder import ColumnBuilder
from archive.formats.effects.row_parser import RowParser
from archive.formats.effects.rows import NO_REFERENCE, Numbering
from archive.formats.effects.rules import check_table
from archive.formats.effects.table_parser import TableParser
from archive.formats.effects.weights import check_weights
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

ROW, ROW_OR_NONE = Int(low=0), Int(low=NO_REFERENCE)
PAIRS = Sequence(Tuple(source=ROW, value=ROW))
GUARD = Tuple(look=String(), subject=ROW, value=ROW, key=ROW_OR_NONE, handle=ROW_OR_NONE)
FIELDS: dict[str, Schema] = {
    "version": Int(),
    "strings": Sequence(String()),
    "constants": Sequence(Tuple(kind=String(), string=ROW_OR_NONE, items=Sequence(ROW))),
    "sources": Sequence(Tuple(kind=String(), base=ROW_OR_NONE, name=ROW_OR_NONE)),
    "values": Sequence(Tuple(kind=String(), number=ROW_OR_NONE, items=Sequence(ROW))),
    "methods": Sequence(
        Tuple(
            name=ROW,
            inputs=Sequence(ROW),
            result=ROW,
            effects=Sequence(
                Tuple(op=String(), source=ROW, key=ROW_OR_NONE, value=ROW_OR_NONE, handle=ROW_OR_NONE)
            ),
        )
    ),
    "state": PAIRS,
    "conditions": Sequence(Tuple(guards=Sequence(GUARD), defaults=PAIRS)),
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
    _check_version(tree, int(tree.roots[pickle]))
    columns = parse(EFFECTS_SCHEMA, tree, np.array([pickle]), allowance)
    try:
        allowance.take(ROW_BYTES * _row_count(columns), "rows of effects")
        rows = RowParser(tree.strings, columns, allowance)
        check_weights(rows, allowance)
        table = TableParser(rows, columns).table()
        check_table(table)
        _check_order(Numbering.of(table), rows)
    except ArchiveError as error:
        raise error.within(record=tree.tokens.pickles[pickle].name) from None
    return table


def _row_count(columns: object) -> int:
    """Rows of all tables, and of the sequences in them."""
    if isinstance(columns, dict):
        return sum(map(_row_count, columns.values()))
    return int(columns.first[-1]) + _row_count(columns.items) if isinstance(columns, Ragged) else 0


def _check_version(tree: Tree, root: int) -> None:
    """Refuse another version first: its fields may not parse."""
    first = first_item(tree, root)
    if first is not None and tree.kind(first) == ValueKind.INT and tree.value[first] != VERSION:
        raise ArchiveError(
            record=tree.tokens.place(root)[0],
            place="field version",
            expected=str(VERSION),
            found=shown(int(tree.value[first])),
        )


def _check_order(expected: Numbering, found: RowParser) -> None:
    """Refuse rows that stand twice, that nothing uses, or that are not in the order of first use."""
    for name, wanted, rows in (
        ("strings", list(expected.strings), found.strings),
        ("constants", list(expected.constants), found.constants),
        ("sources", list(expected.sources), found.sources),
        ("values", list(expected.values), found.values),
    ):
        if wanted != rows:
            pairs = enumerate(zip(wanted, rows, strict=False))
            first = next((row for row, (a, b) in pairs if a != b), len(wanted))
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
        builder = ColumnBuilder(table)
        check_weights(builder, DEFAULT_LIMITS.allowance(0))
    except ArchiveError as error:
        raise error.within(record=EFFECTS) from None
    except RecursionError:
        raise ArchiveError("values too deep inside one another", record=EFFECTS) from None
    columns = builder.columns() | {"version": np.array([VERSION])}
    return build(EFFECTS_SCHEMA, columns, builder.texts(), unbounded())
