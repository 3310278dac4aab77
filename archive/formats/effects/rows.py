"""Facts of effects as rows: each fact once, after the rows that it refers to.

For Python 1, 1.0 and True are equal, and a nan is not equal to itself; rows are equal if their texts are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from archive.base.errors import ArchiveError, shown
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
    Made,
    New,
    Output,
    Stored,
    Temporary,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Self

    from archive.formats.effects.model import EffectTable, Literal, MethodEffects, Source, Value

HashableT = TypeVar("HashableT", bound="Hashable")

NO_REFERENCE = -1
"""In place of the number of a row, where there is none."""


class ConstantRow(NamedTuple):
    """Kind of a constant, the string that is its text, and the constants in a tuple."""

    kind: str
    string: int
    items: tuple[int, ...] = ()


class SourceRow(NamedTuple):
    """Kind of a source, and two numbers; ``record`` has a table of their meanings."""

    kind: str
    base: int
    name: int


class ValueRow(NamedTuple):
    """Kind of a value, a number whose meaning depends on it, and the values in a container."""

    kind: str
    number: int
    items: tuple[int, ...] = ()


class Numbering:
    """Numbers of strings, constants, sources and values, from 0 in the order of first use."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.constants: dict[ConstantRow, int] = {}
        self.sources: dict[SourceRow, int] = {}
        self.values: dict[ValueRow, int] = {}
        self._known: dict[int, tuple[object, int]] = {}  # by id; holding the object keeps the id its own

    @classmethod
    def of(cls, table: EffectTable) -> Self:
        """The numbering of everything in a table.

        Raises:
            ArchiveError: a constant is of a type that the record cannot hold.
        """
        numbering = cls()
        for method in table.methods:
            numbering.string(method.method)
            for source in method.inputs:
                numbering.source(source)
            numbering.value(method.result)
            for effect in method.effects:
                numbering.source(effect.source)
                for value in (effect.key, effect.value):
                    if value is not None:
                        numbering.value(value)
        for method in table.methods:
            numbering._conditions(method)
        for source, value in table.state:
            numbering.source(source)
            numbering.value(value)
        return numbering

    def _conditions(self, method: MethodEffects) -> None:
        for guard in method.guards:
            for value in (guard.subject, guard.value, guard.key):
                if value is not None:
                    self.value(value)
        for argument, default in method.defaults:
            self.source(argument)
            self.value(default)

    def string(self, text: str) -> int:
        """The number of a text."""
        return _number(self.strings, text)

    def constant(self, literal: Literal) -> int:
        """The number of a constant.

        Raises:
            ArchiveError: it is of a type that the record cannot hold.
        """
        if type(literal) is tuple:
            return self._once(literal, lambda: _number(self.constants, self._tuple(literal)))
        kind, text = build_literal(literal)
        return _number(self.constants, ConstantRow(kind, NO_REFERENCE if text is None else self.string(text)))

    def _tuple(self, literals: tuple[Literal, ...]) -> ConstantRow:
        return ConstantRow("tuple", NO_REFERENCE, tuple(self.constant(item) for item in literals))

    def source(self, source: Source) -> int:
        """The number of a source."""
        return self._once(source, lambda: _number(self.sources, self._source(source)))

    def value(self, value: Value) -> int:
        """The number of a value."""
        return self._once(value, lambda: _number(self.values, self._value(value)))

    def _once(self, fact: object, number: Callable[[], int]) -> int:
        if id(fact) not in self._known:
            self._known[id(fact)] = fact, number()
        return self._known[id(fact)][1]

    def _source(self, source: Source) -> SourceRow:
        match source:
            case Local(name):
                return SourceRow("local", NO_REFERENCE, self.string(name))
            case Attribute(base, name):
                return SourceRow("attribute", self.source(base), self.string(name))
            case Item(base, key):
                return SourceRow("item", self.source(base), self.constant(key))
            case GlobalName(module, name):
                return SourceRow("global", self.string(module), self.string(name))
            case ClosureCell(function, name):
                return SourceRow("cell", self.string(function), self.string(name))
            case Temporary(number):
                return SourceRow("temporary", number, NO_REFERENCE)
            case Length(base):
                return SourceRow("length", self.source(base), NO_REFERENCE)
            case Each(base):
                return SourceRow("each", self.source(base), NO_REFERENCE)
        raise ArchiveError(expected="a source", found=shown(source))

    def _value(self, value: Value) -> ValueRow:
        match value:
            case Output(index):
                return ValueRow("output", index)
            case Constant(literal):
                return ValueRow("constant", self.constant(literal))
            case At(source):
                return ValueRow("source", self.source(source))
            case Made(kind, items) | Computed(kind, items):
                return ValueRow(kind, NO_REFERENCE, tuple(self.value(item) for item in items))
            case New(number):
                return ValueRow("new", number)
            case Stored(number):
                return ValueRow("stored", number)
        raise ArchiveError(expected="a value", found=shown(value))


def _number(rows: dict[HashableT, int], row: HashableT) -> int:
    return rows.setdefault(row, len(rows))


def build_literal(literal: Literal) -> tuple[str, str | None]:
    """Kind and text of a constant that is no tuple; None, True and False have no text.

    Raises:
        ArchiveError: it is of a type that the record cannot hold.
    """
    if literal is None or type(literal) is bool:
        return str(literal).lower(), None
    if type(literal) is int:
        return "int", hex(literal)
    if type(literal) is float:
        return "float", repr(literal)
    if type(literal) is str:
        return "str", literal
    if type(literal) is bytes:
        return "bytes", literal.hex()
    raise ArchiveError(
        expected="a constant: None, bool, int, float, str, bytes or a tuple of them", found=shown(literal)
    )


def parse_literal(kind: str, text: str) -> int | float | str | bytes | None:
    """The constant of a kind and a text; None if ``build_literal`` would not write it so."""
    value: int | float | str | bytes
    try:
        if kind == "int":
            value = int(text, 16)
        elif kind == "float":
            value = math.nan if text == "nan" else float(text)
        elif kind == "bytes":
            value = bytes.fromhex(text)
        else:
            value = text
    except ValueError:
        return None
    return value if build_literal(value) == (kind, text) else None
