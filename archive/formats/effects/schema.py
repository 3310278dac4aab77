"""``extra/effects.pkl``: the side effects of a model's methods. This text is the specification.

This library writes the record, and PyTorch carries it along: ``torch.jit.load(_extra_files=…)`` returns it as
``effects.pkl``. It is a pickle of tuples, integers and strings: ``EFFECTS_SCHEMA``, with a table in each
field.

Rows are numbered from 0; a reference to a string, constant, source or value is the number of its row.
``NO_REFERENCE``, -1, means none.

Constants, sources and values have a kind and two fields; ``ROW_KINDS`` says what these refer to. A field that
a kind does not have is ``NO_REFERENCE``, or ().

- Constant: a value that Python can write down, see ``model.Literal``. The text of a str is the str itself, of
  a float Python's ``repr`` (``0.1``, ``-inf``), of an int (``-0x1f``) and of bytes (``00ff``) hexadecimal,
  and of a dtype (``torch.int8``) and a device (``cpu``) PyTorch's own.
- Source: the place of a value, see ``model.Source``.
- Value: see ``model.Value``. A dict's items are keys and values alternately; ``containers`` and ``hooks``
  specify the items of containers and hooks. A computed number has its operation as kind, and its operands.

Method: a row of ``methods``, and the row of the same number in ``conditions``. Consecutive rows may have the
same name: they are entries of that method, each with a graph and guards of its own. The graph of entry number
``n``, from 1, is the method ``<name>__entry_<n>``; that of the first has the method's own name.

Rules:

- A row refers only to rows above itself. So nothing contains itself, and one pass parses everything.
- Each string and row occurs once, in the order of first use: by the methods in their order (name, inputs,
  result, then source, key and value of each effect), by the conditions (subject, value and key of each guard,
  then the defaults), then by the state; parts come before what contains them.
- Strings are UTF-8; lone surrogates are encoded like other characters (Python's ``surrogatepass``).
- All nans are the same: their bits are not kept.
- Facts obey ``rules``.

So a table has exactly one record, and a record exactly one table, whatever memo entries its pickle uses.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.quick_dataclass import dataclass
from archive.formats.effects.containers import CONTAINER_KINDS
from archive.formats.effects.hooks import HOOK_KINDS
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    Each,
    GlobalName,
    Item,
    Length,
    Local,
    Look,
    Made,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.words import COMPUTED
from archive.formats.schema.pickled import Int, Sequence, String, Tuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import StrEnum

VERSION = 4
"""The one version of the record; no release wrote earlier ones."""
NO_REFERENCE = -1
"""Written in place of a row's number where there is none."""


@dataclass(frozen=True, slots=True)
class RowNumber(Int):
    """The number of a row of another table; with ``low`` -1, it may also be ``NO_REFERENCE``."""

    low: int = 0
    table: str = ""

    def __str__(self) -> str:
        return f"row of {self.table}{' or -1' if self.low < 0 else ''}"


@dataclass(frozen=True, slots=True)
class Word(String):
    """One of the words of an enumeration, as a string in the pickle itself.

    Attributes:
        make: a word -> the member of the enumeration.
    """

    words: tuple[str, ...] = ()
    make: Callable[[str], StrEnum] = Op

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


STRING, CONSTANT, SOURCE, VALUE = (
    RowNumber(table=table) for table in ("strings", "constants", "sources", "values")
)
MAYBE = RowNumber(low=NO_REFERENCE, table=VALUE.table)
HANDLE = Int(low=NO_REFERENCE) * "the debug handle of the model's statement; -1 if it has none"
NUMBER = Int(low=0)
"""A number from 0 that isn't a row's."""
MANY = 8
"""Most kinds that a doc names; if there are more, it says "all others"."""

LITERALS = ("int", "float", "str", "bytes", "dtype", "device")
"""Kinds of constants that have a text."""

# --- constants, sources and values: what the two fields after the kind refer to

Refers = RowNumber | Int | None
"""What a field, or each of its items, refers to: rows of a table, or none. None: a kind has no such field."""


class Kind(NamedTuple):
    """A kind of rows.

    Attributes:
        make: makes a fact from what its row's fields refer to.
        refers: what the two fields refer to.
    """

    make: Callable[..., Any]
    refers: tuple[Refers, Refers] = (None, None)


def _same(part: object) -> object:
    return part


ROW_KINDS: Mapping[str, Mapping[str, Kind]] = {
    CONSTANT.table: {
        "none": Kind(lambda: None),
        "true": Kind(lambda: True),
        "false": Kind(lambda: False),
        **dict.fromkeys(LITERALS, Kind(_same, (STRING, None))),  # ``rows`` reads the text
        "tuple": Kind(_same, (None, CONSTANT)),
    },
    SOURCE.table: {
        "local": Kind(Local, (None, STRING)),  # its name
        "attribute": Kind(Attribute, (SOURCE, STRING)),
        "item": Kind(Item, (SOURCE, CONSTANT)),  # its key
        "global": Kind(GlobalName, (STRING, STRING)),  # a module of Python, and the name there
        "cell": Kind(ClosureCell, (STRING, STRING)),  # a function, and the name there
        "temporary": Kind(Temporary, (NUMBER, None)),
        "length": Kind(Length, (SOURCE, None)),
        "each": Kind(Each, (SOURCE, None)),
    },
    VALUE.table: {
        "output": Kind(Output, (NUMBER, None)),
        "new": Kind(New, (NUMBER, None)),
        "stored": Kind(Stored, (NUMBER, None)),
        "constant": Kind(Constant, (CONSTANT, None)),
        "source": Kind(At, (SOURCE, None)),
        **{kind: Kind(partial(Made, kind), (None, VALUE)) for kind in (*CONTAINER_KINDS, *HOOK_KINDS)},
        **{op: Kind(partial(Computed, op), (None, VALUE)) for op in COMPUTED},
    },
}
KIND_OF = {
    table: {row.make: kind for kind, row in ROW_KINDS[table].items() if isinstance(row.make, type)}
    for table in (SOURCE.table, VALUE.table)
}
"""The kind of each class of facts that has one."""


def _of_kinds(table: str, **fields: Int | Sequence) -> Tuple:
    """Rows of a table that have a kind and two fields, whose docs say what they are for each kind."""
    documented = {}
    for which, (name, field) in enumerate(fields.items()):
        kinds: dict[str, list[str]] = {}
        for kind, row in ROW_KINDS[table].items():
            if row.refers[which] is not None:
                kinds.setdefault(str(row.refers[which]), []).append(kind)
        named = {what: ", ".join(own) if len(own) <= MANY else "all others" for what, own in kinds.items()}
        documented[name] = field * "; ".join(f"{own}: {what}" for what, own in named.items())
    return Tuple(kind=String(), **documented)


# --- the record

REFERENCE, ITEMS = Int(low=NO_REFERENCE), Sequence(Int(low=0))
OP, LOOK = (Word(words=tuple(map(str, words)), make=words) for words in (Op, Look))
EFFECT = Tuple(op=OP, source=SOURCE, key=MAYBE, value=MAYBE, handle=HANDLE)
GUARD = Tuple(look=LOOK, subject=VALUE, value=VALUE, key=MAYBE, handle=HANDLE)
PAIR = Tuple(source=SOURCE, value=VALUE)
METHOD = Tuple(
    name=STRING,
    inputs=Sequence(SOURCE) * "of the graph",
    result=VALUE * "that the method returns",
    effects=Sequence(EFFECT) * "in their order",
)
CONDITION = Tuple(
    guards=Sequence(GUARD) * "conditions under which the graph may be used",
    defaults=Sequence(PAIR) * "of arguments",
)
EFFECTS_SCHEMA = Tuple(
    version=Int() * f"{VERSION}",
    strings=Sequence(String()),
    constants=Sequence(_of_kinds(CONSTANT.table, string=REFERENCE, items=ITEMS)),
    sources=Sequence(_of_kinds(SOURCE.table, base=REFERENCE, name=REFERENCE)),
    values=Sequence(_of_kinds(VALUE.table, number=REFERENCE, items=ITEMS)),
    methods=Sequence(METHOD),
    state=Sequence(PAIR) * "what the methods read or change, at capture",
    conditions=Sequence(CONDITION) * "a row for each of methods",
)
TABLES: Mapping[str, Sequence] = {
    name: table for name, table in EFFECTS_SCHEMA.fields.items() if isinstance(table, Sequence)
}
"""The tables by name."""
USING = ("methods", "conditions", "state")
"""The tables whose rows use the others, in the order in which they number what they use."""


def row_of(table: str) -> Tuple:
    """The declaration of a table's rows, except of strings."""
    row = TABLES[table].item
    assert isinstance(row, Tuple)  # noqa: S101 (as declared above)
    return row
