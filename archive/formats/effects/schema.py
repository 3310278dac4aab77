"""``extra/effects.pkl``: the side effects of a model's methods. This text is the specification.

This library writes the record, and PyTorch carries it along: ``torch.jit.load(_extra_files=…)`` gives it out
as ``effects.pkl``. It is a pickle of tuples, integers and strings: ``EFFECTS_SCHEMA``, which has a table in
each field.

Rows are numbered from 0; where a row refers to a string, constant, source or value, its number stands.
``NO_REFERENCE``, -1, stands where there is none.

Constants, sources and values have a kind and two fields; ``KINDS`` says what these refer to. A field that a
kind does not have is ``NO_REFERENCE``, or ().

- Constant: a value that Python can write down, see ``model.Literal``. Its text is the value itself of a str,
  Python's ``repr`` of a float (``0.1``, ``-inf``), hexadecimal of an int (``-0x1f``) and of bytes (``00ff``),
  and PyTorch's own of a dtype (``torch.int8``) and a device (``cpu``).
- Source: the place of a value, see ``model.Source``.
- Value: see ``model.Value``. A dict's items are keys and values in turn; those of containers and of hooks
  are as ``containers`` and ``hooks`` say. A computed number has the operation as its kind, and its operands.

Method: a row of ``methods``, and the row of the same number in ``conditions``. Rows of one name may follow
one another: entries of this method, each with a graph and guards of its own. The graph of entry number ``n``,
from 1, is the method ``<name>__entry_<n>``; that of the first has the method's own name.

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

from archive.base.facts import dataclass
from archive.formats.effects.containers import CONTAINER_KINDS
from archive.formats.effects.hooks import HOOK_KINDS
from archive.formats.effects.model import Look, Op
from archive.formats.effects.words import COMPUTED
from archive.formats.schema.pickled import Int, Sequence, String, Tuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import StrEnum

VERSION = 4
"""The one version of the record; no release wrote those before it."""
NO_REFERENCE = -1
"""In place of the number of a row, where there is none."""


@dataclass(frozen=True, slots=True)
class RowNumber(Int):
    """The number of a row of another table; from -1 on, ``NO_REFERENCE`` may stand there.

    Attributes:
        table: its name.
    """

    low: int = 0
    table: str = ""

    def __str__(self) -> str:
        return f"row of {self.table}{' or -1' if self.low < 0 else ''}"


@dataclass(frozen=True, slots=True)
class Word(String):
    """One of the words of an enumeration, as a string of the pickle itself.

    Attributes:
        words: all of them.
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
"""A number from 0, of no row."""
MANY = 8
"""Kinds that a doc names; of more it says that they are the others."""

LITERALS = ("int", "float", "str", "bytes", "dtype", "device")
"""Kinds of constants that have a text."""

# --- constants, sources and values: what the two fields after the kind refer to

Refers = RowNumber | Int | None
"""What a field, or each of its items, refers to: rows of a table, or none; None where a kind has none."""
KINDS: Mapping[str, Mapping[str, tuple[Refers, Refers]]] = {
    CONSTANT.table: {
        **dict.fromkeys(("none", "true", "false"), (None, None)),
        **dict.fromkeys(LITERALS, (STRING, None)),
        "tuple": (None, CONSTANT),
    },
    SOURCE.table: {
        "local": (None, STRING),  # its name
        "attribute": (SOURCE, STRING),
        "item": (SOURCE, CONSTANT),  # its key
        "global": (STRING, STRING),  # a module of Python, and the name there
        "cell": (STRING, STRING),  # a function, and the name there
        "temporary": (NUMBER, None),
        "length": (SOURCE, None),
        "each": (SOURCE, None),
    },
    VALUE.table: {
        **dict.fromkeys(("output", "new", "stored"), (NUMBER, None)),
        "constant": (CONSTANT, None),
        "source": (SOURCE, None),
        **dict.fromkeys((*CONTAINER_KINDS, *HOOK_KINDS, *COMPUTED), (None, VALUE)),
    },
}


def _of_kinds(table: str, **fields: Int | Sequence) -> Tuple:
    """The rows of a table that have a kind, and two fields whose docs say what they are of which kind."""
    documented = {}
    for which, (name, field) in enumerate(fields.items()):
        kinds: dict[str, list[str]] = {}
        for kind, refers in KINDS[table].items():
            if refers[which] is not None:
                kinds.setdefault(str(refers[which]), []).append(kind)
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
    guards=Sequence(GUARD) * "what has to be so for the graph to be used",
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
"""Those whose rows use the others, in the order in which they number what they use."""


def row_of(table: str) -> Tuple:
    """The declaration of a table's rows, except of strings."""
    row = TABLES[table].item
    assert isinstance(row, Tuple)  # noqa: S101 (as declared above)
    return row
