"""``extra/effects.pkl``: what a model's methods change besides giving results.

A pickle of tuples, integers and texts; ``n`` is the number of a row, from 0::

    (version,
     (text, ...),                                     strings
     ((kind, n, (n, ...)), ...),                      constants
     ((kind, n, n), ...),                             sources
     ((kind, n, (n, ...)), ...),                      values
     ((name, (source, ...), value, (effect, ...)), ...),  methods: name, inputs, result, effects
     ((source, value), ...),                          state
     (((guard, ...), ((source, value), ...)), ...))   conditions, one a method: guards, defaults

An effect is ``(op, source, key value, value, debug handle)``; ops are those of ``model.Op``, without a key
or value -1 stands there, and where there is no handle -1. A guard is ``(look, subject value, value, key
value, debug handle)`` alike; looks are those of ``model.Look``. A table without conditions is version 1,
which has no field for them.

=========  ========================  =====================  ==================
constants  kind                      string                 items
=========  ========================  =====================  ==================
           none, true, false         -1                     ()
           int                       hexadecimal: -0x1f     ()
           float                     as Python: 0.1, -inf   ()
           str                       the text               ()
           bytes                     hexadecimal: 00ff      ()
           tuple                     -1                     constants
=========  ========================  =====================  ==================

=========  ========================  =====================  ==================
sources    kind                      first                  second
=========  ========================  =====================  ==================
           local                     -1                     string: name
           attribute                 source                 string: name
           item                      source                 constant: key
           global                    string: module         string: name
           cell                      string: function       string: name
           temporary                 its number             -1
=========  ========================  =====================  ==================

=========  ========================  =====================  ==================
values     kind                      number                 items
=========  ========================  =====================  ==================
           output, new, stored       its number             ()
           constant                  constant               ()
           source                    source                 ()
           list, tuple, dict, size   -1                     values
=========  ========================  =====================  ==================

Rules:

- A row refers to rows above itself alone. So nothing holds itself, and one pass reads everything.
- Each string and row is there once, in the order of first use: by the methods in their order (name, inputs,
  result, then of each effect source, key, value), by the conditions (of each guard subject, value, key, then
  the defaults), then by the state; parts before what they are in.
- Texts are UTF-8; what Python calls lone surrogates is encoded like other characters.
- A nan is a nan; its bits are not kept.
- Effects make sense: see ``rules``.

So a table has one record, and a record, but for memo entries, one table. PyTorch hands the record out as the
extra file ``effects.pkl``, and leaves it alone otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, shown
from archive.base.limits import DEFAULT_LIMITS
from archive.formats.effects import NAME
from archive.formats.effects.laying import Laying
from archive.formats.effects.reading import Reading
from archive.formats.effects.rows import NOTHING, Numbering
from archive.formats.effects.rules import check_table
from archive.formats.effects.weighing import check_weights
from archive.formats.schema import Int, Sequence, String, Tuple, build, parse
from archive.pickles.ops import ValueKind

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.formats.effects.model import EffectTable
    from archive.formats.schema import Schema
    from archive.pickles.tree import Tree

VERSIONS = (1, 2)  # 1: the first; 2: conditions

NUMBER, REFERENCE = Int(low=0), Int(low=NOTHING)
PAIRS = Sequence(Tuple(source=NUMBER, value=NUMBER))
FIELDS: dict[str, Schema] = {
    "version": Int(),
    "strings": Sequence(String()),
    "constants": Sequence(Tuple(kind=String(), string=REFERENCE, items=Sequence(NUMBER))),
    "sources": Sequence(Tuple(kind=String(), base=REFERENCE, name=REFERENCE)),
    "values": Sequence(Tuple(kind=String(), number=REFERENCE, items=Sequence(NUMBER))),
    "methods": Sequence(
        Tuple(
            name=NUMBER,
            inputs=Sequence(NUMBER),
            result=NUMBER,
            effects=Sequence(
                Tuple(op=String(), source=NUMBER, key=REFERENCE, value=REFERENCE, handle=REFERENCE)
            ),
        )
    ),
    "state": PAIRS,
}
GUARD = Tuple(look=String(), subject=NUMBER, value=NUMBER, key=REFERENCE, handle=REFERENCE)
CONDITIONS = Sequence(Tuple(guards=Sequence(GUARD), defaults=PAIRS))
RECORDS = {1: Tuple(**FIELDS), 2: Tuple(**FIELDS, conditions=CONDITIONS)}


def parse_effects(tree: Tree, pickle: int, limits: Limits) -> EffectTable:
    """The effects of one record of a tree.

    Raises:
        ArchiveError: naming the row and field that is not as above.
        LimitError: rows that are shared so often, or so deep in one another, that no model needs it.
    """
    version = _version(tree, int(tree.roots[pickle]))
    columns = parse(RECORDS[version], tree, np.array([pickle]), limits)
    try:
        reading = Reading(tree.strings, columns)
        check_weights(reading, limits)
        table = reading.table()
        check_table(table)
        _check_conditions(table, version)
        _check_order(Numbering.of(table), reading)
    except ArchiveError as error:
        raise error.within(record=tree.tokens.pickles[pickle].name) from None
    return table


def _version(tree: Tree, root: int) -> int:
    """The version of a record; of another one just that is said."""
    items = tree.items(root) if tree.kind(root) == ValueKind.TUPLE else []
    version = int(tree.value[items[0]]) if items and tree.kind(items[0]) == ValueKind.INT else VERSIONS[0]
    if version not in VERSIONS:
        raise ArchiveError(
            record=tree.tokens.place(root)[0],
            place="field version",
            expected=" or ".join(map(str, VERSIONS)),
            found=shown(version),
        )
    return version


def _check_conditions(table: EffectTable, version: int) -> None:
    if version != _version_of(table):
        raise ArchiveError("a table without conditions", place="field conditions")


def _version_of(table: EffectTable) -> int:
    return 2 if any(method.guards or method.defaults for method in table.methods) else 1


def _check_order(expected: Numbering, found: Reading) -> None:
    """Refuse rows that are there twice, that nothing uses, or that stand elsewhere."""
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
        ArchiveError: a constant of a type that is not kept, or effects that make no sense.
        LimitError: more, or deeper, than is read by default.
    """
    try:
        check_table(table)
        laying = Laying(table)
        check_weights(laying, DEFAULT_LIMITS)
    except ArchiveError as error:
        raise error.within(record=NAME) from None
    except RecursionError:
        raise ArchiveError("values too deep inside one another", record=NAME) from None
    version = _version_of(table)
    columns = laying.columns() | {"version": np.array([version])}
    return build(RECORDS[version], columns, 0, laying.writer())
