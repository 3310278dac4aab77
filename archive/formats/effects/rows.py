"""Facts of effects as rows, and rows as facts: both directions follow the declarations in ``schema``.

Constants, sources and values are stored once and referred to by number, each only from later rows. Methods,
conditions and state use them.

To Python, 1, 1.0 and True are equal, and a nan is not equal to itself; rows are equal if their texts are.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, shown
from archive.base.quick_dataclass import dataclass
from archive.formats.effects.model import (
    Computed,
    Effect,
    EffectTable,
    Guard,
    Local,
    Made,
    MethodEffects,
    TorchName,
)
from archive.formats.effects.schema import (
    CONDITION,
    CONSTANT,
    EFFECT,
    GUARD,
    KIND_OF,
    METHOD,
    NO_REFERENCE,
    PAIR,
    ROW_KINDS,
    SOURCE,
    STRING,
    USING,
    VALUE,
    RowNumber,
    Word,
    row_of,
)
from archive.formats.schema.pickled import Sequence, Tuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.formats.effects.model import Literal, Source, Value
    from archive.formats.schema.pickled import Declaration

    Used = tuple[str, int]  # a table and the number of a row there

ROW_SIZE = 8
"""Size of a row without its strings, in characters."""
TEXT_BYTES = 4
"""Bytes of memory that a character of the text takes."""


class Conversion(NamedTuple):
    """Both directions between the facts and the rows of a declaration.

    Attributes:
        take: a fact -> the fields' values.
        make: the fields' values -> a fact.
    """

    take: Callable[[Any], tuple[Any, ...]]
    make: Callable[..., Any]


def _as_tuple(*values: object) -> tuple[object, ...]:
    return values


CONVERSIONS = {
    METHOD: Conversion(attrgetter("method", "inputs", "result", "effects"), _as_tuple),
    CONDITION: Conversion(attrgetter("guards", "defaults"), _as_tuple),
    EFFECT: Conversion(attrgetter(*EFFECT.fields), Effect),
    GUARD: Conversion(attrgetter(*GUARD.fields), Guard),
    PAIR: Conversion(tuple, _as_tuple),
}

# --- facts -> rows


class FactRow(NamedTuple):
    """A constant, source or value: its kind, and two fields."""

    kind: str
    first: int = NO_REFERENCE
    second: int | tuple[int, ...] = ()


class FactNumbers:
    """Numbers of strings, constants, sources and values, from 0 in the order of first use.

    Attributes:
        tables: the numbers by text or row, of each table.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[Any, int]] = {STRING.table: {}, **{table: {} for table in ROW_KINDS}}
        self._known: dict[int, tuple[object, int]] = {}  # by id; holding the object keeps its id

    def source(self, source: Source) -> int:
        """The number of a source."""
        return self.number(SOURCE.table, source)

    def value(self, value: Value) -> int:
        """The number of a value."""
        return self.number(VALUE.table, value)

    def number(self, table: str, fact: Any) -> int:  # noqa: ANN401
        """The number of a text, literal, source or value."""
        rows = self.tables[table]
        if table == STRING.table:
            return rows.setdefault(fact, len(rows))
        if table == CONSTANT.table and type(fact) is not tuple:
            kind, text = build_literal(fact)
            row = FactRow(kind) if text is None else FactRow(kind, self.number(STRING.table, text))
            return rows.setdefault(row, len(rows))
        if id(fact) not in self._known:
            row = self._row(table, fact)
            self._known[id(fact)] = fact, rows.setdefault(row, len(rows))
        return self._known[id(fact)][1]

    def _row(self, table: str, fact: Any) -> FactRow:  # noqa: ANN401
        if table == CONSTANT.table:
            return FactRow("tuple", second=tuple([self.number(table, item) for item in fact]))
        if isinstance(fact, Made | Computed):
            kind = fact.kind if isinstance(fact, Made) else fact.op
            return FactRow(kind, second=tuple([self.number(VALUE.table, item) for item in fact.items]))
        if type(fact) not in KIND_OF[table]:
            raise ArchiveError(expected=f"a {table.removesuffix('s')}", found=shown(fact))
        kind = KIND_OF[table][type(fact)]
        values = [getattr(fact, one.name) for one in fields(fact)]
        refers = ROW_KINDS[table][kind].refers
        numbers = [NO_REFERENCE if one is None else self.row(one, values.pop(0)) for one in refers]
        return FactRow(kind, numbers[0], numbers[1] if table == SOURCE.table else ())

    def row(self, declared: Declaration, fact: Any) -> Any:  # noqa: ANN401
        """The row, or the field of a row, for something that uses other rows."""
        if isinstance(declared, Tuple):
            values = CONVERSIONS[declared].take(fact)
            return tuple([self.row(*pair) for pair in zip(declared.fields.values(), values, strict=True)])
        if isinstance(declared, Sequence):
            return [self.row(declared.item, one) for one in fact]
        if isinstance(declared, RowNumber):
            is_nothing = fact is None and declared.low < 0
            return NO_REFERENCE if is_nothing else self.number(declared.table, fact)
        return str(fact) if isinstance(declared, Word) else fact


@dataclass(slots=True)
class EffectRows:
    """The rows of a table of effects.

    Attributes:
        strings: the record's strings.
        tables: constants, sources and values, by table.
        using: methods, conditions and state: tuples of numbers, words, and lists of them, by name.
    """

    strings: list[str]
    tables: dict[str, list[FactRow]]
    using: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: EffectTable) -> EffectRows:
        """The rows of a table; there is only one way to write it."""
        numbers = FactNumbers()
        facts = {"methods": table.methods, "conditions": table.methods, "state": table.state}
        using = {name: [numbers.row(row_of(name), fact) for fact in facts[name]] for name in USING}
        strings, *others = (list(rows) for rows in numbers.tables.values())
        return cls(strings, dict(zip(ROW_KINDS, others, strict=True)), using)

    # --- rows -> facts

    def facts(self) -> EffectTable:
        """The table of these rows; a row that several others share becomes one object."""
        for table, rows in self.tables.items():
            for number in range(len(rows)):
                self._check_row(table, number)
        self.check_weights()
        made: dict[str, list[Any]] = {STRING.table: self.strings}
        for table, rows in self.tables.items():
            made[table] = []
            for number, row in enumerate(rows):
                pairs = zip(ROW_KINDS[table][row.kind].refers, row[1:], strict=True)
                parts = [_fact(made, refers, value) for refers, value in pairs if refers is not None]
                fact = ROW_KINDS[table][row.kind].make(*parts)
                if table == CONSTANT.table and row.first != NO_REFERENCE:
                    fact = _literal(row.kind, fact, place_of(table, number))
                made[table].append(fact)
        methods, conditions, state = (
            [_fact(made, row_of(name), row) for row in self.using[name]] for name in USING
        )
        arguments = [argument for _, defaults in conditions for argument, _ in defaults]
        for place, argument in enumerate(arguments):
            if not isinstance(argument, Local):
                raise ArchiveError("the default of what isn't an argument", place=place_of("defaults", place))
        both = zip(methods, conditions, strict=True)
        return EffectTable(tuple(MethodEffects(*one, *other) for one, other in both), tuple(state))

    def _check_row(self, table: str, number: int) -> None:
        """Refuse a row of unknown kind, or whose fields are not those of its kind."""
        row, place = self.tables[table][number], place_of(table, number)
        check_word(row.kind, ROW_KINDS[table], f"{place}, field kind")
        _, *names = row_of(table).fields
        for name, refers, value in zip(names, ROW_KINDS[table][row.kind].refers, row[1:], strict=True):
            where = f"{place}, field {name}"
            if refers is None:
                if value not in (NO_REFERENCE, ()):
                    raise ArchiveError("more than a row of this kind has", place=where)
            elif not isinstance(refers, RowNumber):
                if isinstance(value, int) and value < refers.low:
                    raise ArchiveError(place=where, expected=f"a number from {refers.low}", found=str(value))
            else:
                rows = number if refers.table == table else self._count(refers.table)
                for one in value if isinstance(value, tuple) else (value,):
                    check_reference(one, rows, where)

    def _count(self, table: str) -> int:
        return len(self.strings if table == STRING.table else self.tables[table])

    def check_weights(self) -> None:
        """Refuse rows that are too deep or too large when spelled out, and references to missing rows.

        Rows that share one another can describe a text exponentially larger than the record, so depth and
        size of each row are bounded before anything is spelled out.
        """
        weights = {STRING.table: [(0, len(text)) for text in self.strings]}
        most = memory.limits().effect_depth
        for table, rows in self.tables.items():
            known = weights[table] = []
            for number, row in enumerate(rows):
                pairs = zip(ROW_KINDS[table][row.kind].refers, row[1:], strict=True)
                parts = [weights[name][one] for refers, value in pairs for name, one in _used(refers, value)]
                depth = 1 + max((depth for depth, _ in parts), default=0)
                size = ROW_SIZE + sum(size for _, size in parts)
                if depth > most:
                    raise LimitError("effect_depth", most, depth, place=place_of(table, number))
                with memory.lent(TEXT_BYTES * size, "effects as text", place=place_of(table, number)):
                    known.append((depth, size))
        total = 0
        for name in USING:
            for used in self._uses(name, row_of(name), self.using[name], Counter()):
                total += ROW_SIZE + sum(weights[table][number][1] for table, number in used)
                with memory.lent(TEXT_BYTES * total, "effects as text"):
                    pass

    def _uses(
        self, name: str, declared: Tuple, rows: Iterable[tuple[Any, ...]], counts: Counter[str]
    ) -> Iterator[list[Used]]:
        """What each row, and each row in it, refers to, after a check that it exists."""
        for row in rows:
            place = place_of(name, counts[name])
            counts[name] += 1
            used: list[Used] = []
            for (own, kind), value in zip(declared.fields.items(), row, strict=True):
                where = f"{place}, field {own}"
                inner = kind.item if isinstance(kind, Sequence) else kind
                if isinstance(inner, Tuple):
                    yield from self._uses(own, inner, value, counts)
                elif isinstance(inner, Word):
                    check_word(value, inner.words, where)
                else:
                    for table, number in _used(inner, value):
                        check_reference(number, self._count(table), where)
                        used.append((table, number))
            yield used


def _used(refers: Declaration | None, value: Any) -> list[Used]:  # noqa: ANN401
    """The rows that a field refers to."""
    if not isinstance(refers, RowNumber):
        return []
    if isinstance(value, tuple | list):
        return [(refers.table, one) for one in value]
    return [] if value < 0 and refers.low < 0 else [(refers.table, value)]


def _fact(made: dict[str, list[Any]], declared: Declaration, value: Any) -> Any:  # noqa: ANN401
    """What a row, or a field of one, stands for."""
    if isinstance(declared, Tuple):
        pairs = zip(declared.fields.values(), value, strict=True)
        return CONVERSIONS[declared].make(*[_fact(made, *pair) for pair in pairs])
    if isinstance(declared, Sequence):
        return tuple([_fact(made, declared.item, one) for one in value])
    if isinstance(declared, RowNumber):
        if isinstance(value, tuple):
            return tuple([made[declared.table][one] for one in value])
        return None if value < 0 and declared.low < 0 else made[declared.table][value]
    return declared.make(value) if isinstance(declared, Word) else value


def place_of(table: str, row: int) -> str:
    """The place of a row in an error."""
    return f"field {table}, row {row}"


def check_word(word: str, words: Iterable[str], place: str) -> None:
    """Refuse a kind, op or look that the format does not have."""
    if word not in words:
        raise ArchiveError(place=place, expected=f"one of {', '.join(words)}", found=shown(word))


def check_reference(number: int, rows: int, place: str) -> None:
    """Refuse the number of a row that does not exist, or not yet."""
    if not 0 <= number < rows:
        raise ArchiveError(place=place, expected=f"a row below {rows}", found=str(number))


# --- literals


def build_literal(literal: Literal) -> tuple[str, str | None]:
    """Kind and text of a constant other than a tuple; None, True and False have no text."""
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
    if type(literal) is TorchName:
        return literal.kind, literal.text
    raise ArchiveError(
        expected="a constant: None, bool, int, float, str, bytes, a dtype, a device or a tuple of them",
        found=shown(literal),
    )


def _literal(kind: str, text: str, place: str) -> Literal:
    """The constant of a kind and a text."""
    memory.take(TEXT_BYTES * len(text), "constants of effects", place=place)
    literal: Literal
    try:
        if kind == "int":
            literal = int(text, 16)
        elif kind == "float":
            literal = math.nan if text == "nan" else float(text)
        elif kind == "bytes":
            literal = bytes.fromhex(text)
        elif kind in ("dtype", "device"):
            literal = TorchName(kind, text)
        else:
            literal = text
        if build_literal(literal) == (kind, text):
            return literal
    except ValueError:
        pass
    raise ArchiveError(place=place, expected=f"the text of a constant {kind}", found=shown(text))
