"""Facts of effects as rows, and rows as facts: each row is declared once, and both directions follow it.

``FORMS`` declares the rows that stand once and are referred to by number: constants, sources and values.
Each refers only to rows above itself. ``METHODS``, ``CONDITIONS`` and ``STATE`` declare those that use them.
:mod:`archive.formats.effects.record` has the specification.

For Python 1, 1.0 and True are equal, and a nan is not equal to itself; rows are equal if their texts are.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import field, fields
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, LimitError, shown
from archive.base.facts import dataclass
from archive.formats.effects.containers import CONTAINER_KINDS
from archive.formats.effects.hooks import HOOK_KINDS
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    Each,
    Effect,
    EffectTable,
    GlobalName,
    Guard,
    Item,
    Length,
    Local,
    Look,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Stored,
    Temporary,
    TorchName,
)
from archive.formats.effects.words import COMPUTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.base.limits import Allowance
    from archive.formats.effects.model import Literal, Source, Value

    Used = tuple[str, int]  # a table of FORMS or "strings", and the number of a row there

NO_REFERENCE = -1
"""In place of the number of a row, where there is none."""
ROW_SIZE = 8
"""Size of a row besides its strings, in characters."""
TEXT_BYTES = 4
"""Bytes of memory that a character of the text costs."""

# --- declarations

STRING, CONSTANT, SOURCE, VALUE = "strings", "constants", "sources", "values"
"""Numbers of rows of these tables."""
NUMBER, MAYBE, HANDLE = "number", "values or nothing", "handle"
"""A number from 0, that of a value or ``NO_REFERENCE``, and a debug handle or -1."""


class RowForm(NamedTuple):
    """A kind of rows: what makes their facts of what the two fields behind the kind refer to.

    A field that a kind does not have is None here, and ``NO_REFERENCE`` or () in the row.
    """

    make: Callable[..., Any]
    first: str | None = None
    second: str | None = None


ITEM_FIELDS = {CONSTANT: ("string", "items"), SOURCE: ("base", "name"), VALUE: ("number", "items")}
"""The fields behind the kind; ``items`` is a tuple of numbers, any other field one number."""
FORMS: dict[str, dict[str, RowForm]] = {
    CONSTANT: {
        "none": RowForm(lambda: None),
        "true": RowForm(lambda: True),
        "false": RowForm(lambda: False),
        **{
            kind: RowForm(lambda text: text, STRING)
            for kind in ("int", "float", "str", "bytes", "dtype", "device")
        },
        "tuple": RowForm(lambda items: items, None, CONSTANT),
    },
    SOURCE: {
        "local": RowForm(Local, None, STRING),
        "attribute": RowForm(Attribute, SOURCE, STRING),
        "item": RowForm(Item, SOURCE, CONSTANT),
        "global": RowForm(GlobalName, STRING, STRING),
        "cell": RowForm(ClosureCell, STRING, STRING),
        "temporary": RowForm(Temporary, NUMBER),
        "length": RowForm(Length, SOURCE),
        "each": RowForm(Each, SOURCE),
    },
    VALUE: {
        "output": RowForm(Output, NUMBER),
        "new": RowForm(New, NUMBER),
        "stored": RowForm(Stored, NUMBER),
        "constant": RowForm(Constant, CONSTANT),
        "source": RowForm(At, SOURCE),
        **{kind: RowForm(partial(Made, kind), None, VALUE) for kind in (*CONTAINER_KINDS, *HOOK_KINDS)},
        **{op: RowForm(partial(Computed, op), None, VALUE) for op in COMPUTED},
    },
}
KINDS = {
    table: {form.make: kind for kind, form in FORMS[table].items() if isinstance(form.make, type)}
    for table in (SOURCE, VALUE)
}
"""The kind of each class of facts that has one."""


class Declared(NamedTuple):
    """Rows that use others.

    Attributes:
        name: of the rows in errors.
        fields: by name: one of the words above, a class of words, or a list of one of these or of rows.
        take: a fact -> the fields' values.
        make: the fields' values -> a fact.
    """

    name: str
    fields: dict[str, Any]
    take: Callable[[Any], tuple[Any, ...]]
    make: Callable[..., Any]


def _pairs(name: str) -> Declared:
    return Declared(name, {"source": SOURCE, "value": VALUE}, tuple, lambda *pair: pair)


EFFECTS = {"op": Op, "source": SOURCE, "key": MAYBE, "value": MAYBE, "handle": HANDLE}
GUARDS = {"look": Look, "subject": VALUE, "value": VALUE, "key": MAYBE, "handle": HANDLE}
WORDS: dict[type, tuple[str, ...]] = {Op: tuple(map(str, Op)), Look: tuple(map(str, Look))}
METHODS = Declared(
    "methods",
    {
        "name": STRING,
        "inputs": [SOURCE],
        "result": VALUE,
        "effects": [Declared("effects", EFFECTS, attrgetter(*EFFECTS), Effect)],
    },
    attrgetter("method", "inputs", "result", "effects"),
    lambda *values: values,
)
CONDITIONS = Declared(
    "conditions",
    {
        "guards": [Declared("guards", GUARDS, attrgetter(*GUARDS), Guard)],
        "defaults": [_pairs("defaults")],
    },
    attrgetter("guards", "defaults"),
    lambda *values: values,
)
STATE = _pairs("state")
USING = (METHODS, CONDITIONS, STATE)
"""In the order in which their rows number what they use."""

# --- facts -> rows


class FactRow(NamedTuple):
    """A constant, source or value: its kind, and the two fields that ``ITEM_FIELDS`` names."""

    kind: str
    first: int = NO_REFERENCE
    second: int | tuple[int, ...] = ()


class FactNumbers:
    """Numbers of strings, constants, sources and values, from 0 in the order of first use.

    Attributes:
        tables: the numbers by text or row, of each table.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[Any, int]] = {STRING: {}, CONSTANT: {}, SOURCE: {}, VALUE: {}}
        self._known: dict[int, tuple[object, int]] = {}  # by id; holding the object keeps the id its own

    def source(self, source: Source) -> int:
        """The number of a source."""
        return self.number(SOURCE, source)

    def value(self, value: Value) -> int:
        """The number of a value."""
        return self.number(VALUE, value)

    def number(self, table: str, fact: Any) -> int:  # noqa: ANN401
        """The number of a text, literal, source or value.

        Raises:
            ArchiveError: it is none, or a constant that the record cannot hold.
        """
        rows = self.tables[table]
        if table == STRING:
            return rows.setdefault(fact, len(rows))
        if table == CONSTANT and type(fact) is not tuple:
            kind, text = build_literal(fact)
            row = FactRow(kind) if text is None else FactRow(kind, self.number(STRING, text))
            return rows.setdefault(row, len(rows))
        if id(fact) not in self._known:
            row = self._row(table, fact)
            self._known[id(fact)] = fact, rows.setdefault(row, len(rows))
        return self._known[id(fact)][1]

    def _row(self, table: str, fact: Any) -> FactRow:  # noqa: ANN401
        if table == CONSTANT:
            return FactRow("tuple", second=tuple([self.number(CONSTANT, item) for item in fact]))
        if isinstance(fact, Made | Computed):
            kind = fact.kind if isinstance(fact, Made) else fact.op
            return FactRow(kind, second=tuple([self.number(VALUE, item) for item in fact.items]))
        if type(fact) not in KINDS[table]:
            raise ArchiveError(expected=f"a {table.removesuffix('s')}", found=shown(fact))
        kind = KINDS[table][type(fact)]
        values = [getattr(fact, one.name) for one in fields(fact)]
        numbers = []
        for refers in FORMS[table][kind][1:]:
            if refers is None:
                numbers.append(NO_REFERENCE)
            else:
                value = values.pop(0)
                numbers.append(value if refers == NUMBER else self.number(refers, value))
        return FactRow(kind, numbers[0], numbers[1] if table == SOURCE else ())

    def using(self, declared: Declared, facts: Iterable[object]) -> list[tuple[Any, ...]]:
        """The rows of facts that use others."""
        return [
            tuple(
                [
                    self._field(*pair)
                    for pair in zip(declared.fields.values(), declared.take(fact), strict=True)
                ]
            )
            for fact in facts
        ]

    def _field(self, kind: Any, value: Any) -> Any:  # noqa: ANN401
        if isinstance(kind, list):
            (item,) = kind
            return (
                self.using(item, value)
                if isinstance(item, Declared)
                else [self._field(item, one) for one in value]
            )
        if kind == MAYBE:
            return NO_REFERENCE if value is None else self.number(VALUE, value)
        if kind == HANDLE:
            return value
        return self.number(kind, value) if isinstance(kind, str) else str(value)


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
        """The only rows of a table.

        Raises:
            ArchiveError: a constant is of a type that the record cannot hold.
        """
        numbers = FactNumbers()
        facts = {"methods": table.methods, "conditions": table.methods, "state": table.state}
        using = {one.name: numbers.using(one, facts[one.name]) for one in USING}
        strings, *others = (list(rows) for rows in numbers.tables.values())
        return cls(strings, dict(zip(FORMS, others, strict=True)), using)

    # --- rows -> facts

    def facts(self, allowance: Allowance) -> EffectTable:
        """The table of these rows; a row that several others share becomes one object.

        Args:
            allowance: the memory that texts may cost.

        Raises:
            ArchiveError: naming the row and field that breaks a rule of the specification.
            LimitError: rows are too deep, or too large spelled out.
        """
        for table, rows in self.tables.items():
            for number in range(len(rows)):
                self._check_row(table, number)
        self.check_weights(allowance)
        made: dict[str, list[Any]] = {STRING: self.strings}
        for table, rows in self.tables.items():
            made[table] = []
            for number, row in enumerate(rows):
                form = FORMS[table][row.kind]
                pairs = zip(form[1:], row[1:], strict=True)
                parts = [_facts(made, refers, value) for refers, value in pairs if refers is not None]
                fact = form.make(*parts)
                if table == CONSTANT and form.first is not None:
                    fact = _literal(row.kind, fact, place_of(table, number), allowance)
                made[table].append(fact)
        methods, conditions, state = (_made(made, one, self.using[one.name]) for one in USING)
        arguments = [argument for _, defaults in conditions for argument, _ in defaults]
        for place, argument in enumerate(arguments):
            if not isinstance(argument, Local):
                raise ArchiveError("the default of what is no argument", place=place_of("defaults", place))
        both = zip(methods, conditions, strict=True)
        return EffectTable(tuple(MethodEffects(*one, *other) for one, other in both), tuple(state))

    def _check_row(self, table: str, number: int) -> None:
        """Refuse a row of no kind, or whose fields are not those of its kind."""
        row, place = self.tables[table][number], place_of(table, number)
        check_word(row.kind, FORMS[table], f"{place}, field kind")
        form = FORMS[table][row.kind]
        for name, refers, value in zip(ITEM_FIELDS[table], form[1:], row[1:], strict=True):
            where = f"{place}, field {name}"
            if refers is None:
                if value not in (NO_REFERENCE, ()):
                    raise ArchiveError("more than a row of this kind has", place=where)
            elif refers == NUMBER:
                if isinstance(value, int) and value < 0:
                    raise ArchiveError(place=where, expected="a number from 0", found=str(value))
            else:
                rows = number if refers == table else self._count(refers)
                for one in value if isinstance(value, tuple) else (value,):
                    check_reference(one, rows, where)

    def _count(self, table: str) -> int:
        return len(self.strings if table == STRING else self.tables[table])

    def check_weights(self, allowance: Allowance) -> None:
        """Refuse rows that are too deep, or too large spelled out, and uses of rows that are not there.

        Rows that share one another describe a text that is exponentially larger than the record, so depth
        and size of each row are bounded before anything is spelled out.
        """
        weights = {STRING: [(0, len(text)) for text in self.strings]}
        most = allowance.limits.effect_depth
        for table, rows in self.tables.items():
            known = weights[table] = []
            for number, row in enumerate(rows):
                pairs = zip(FORMS[table][row.kind][1:], row[1:], strict=True)
                parts = [weights[name][one] for refers, value in pairs for name, one in _used(refers, value)]
                depth = 1 + max((depth for depth, _ in parts), default=0)
                size = ROW_SIZE + sum(size for _, size in parts)
                if depth > most:
                    raise LimitError("effect_depth", most, depth, place=place_of(table, number))
                with allowance.lent(TEXT_BYTES * size, "effects as text", place=place_of(table, number)):
                    known.append((depth, size))
        total = 0
        for declared in USING:
            for used in self._uses(declared, self.using[declared.name], Counter()):
                total += ROW_SIZE + sum(weights[table][number][1] for table, number in used)
                with allowance.lent(TEXT_BYTES * total, "effects as text"):
                    pass

    def _uses(
        self, declared: Declared, rows: Iterable[tuple[Any, ...]], counts: Counter[str]
    ) -> Iterator[list[Used]]:
        """What each row refers to, and each row in it, after a check that this is there."""
        for row in rows:
            place = place_of(declared.name, counts[declared.name])
            counts[declared.name] += 1
            used: list[Used] = []
            for (name, kind), value in zip(declared.fields.items(), row, strict=True):
                where = f"{place}, field {name}"
                inner = kind[0] if isinstance(kind, list) else kind
                if isinstance(inner, Declared):
                    yield from self._uses(inner, value, counts)
                elif isinstance(inner, type):
                    check_word(value, WORDS[inner], where)
                else:
                    for table, number in _used(inner, value):
                        check_reference(number, self._count(table), where)
                        used.append((table, number))
            yield used


def _used(refers: str | None, value: Any) -> list[Used]:  # noqa: ANN401
    """The rows that a field refers to."""
    if refers in (None, NUMBER, HANDLE) or (refers == MAYBE and value < 0):
        return []
    table = VALUE if refers == MAYBE else str(refers)
    return [(table, one) for one in value] if isinstance(value, tuple | list) else [(table, value)]


def _facts(made: dict[str, list[Any]], refers: str, value: Any) -> Any:  # noqa: ANN401
    """What a field of a row refers to."""
    if refers in (NUMBER, HANDLE):
        return value
    if isinstance(value, tuple | list):
        return tuple([made[refers][one] for one in value])
    if refers == MAYBE:
        return None if value < 0 else made[VALUE][value]
    return made[refers][value]


def _made(made: dict[str, list[Any]], declared: Declared, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The facts of rows that use others."""
    facts = []
    for row in rows:
        values: list[Any] = []
        for kind, value in zip(declared.fields.values(), row, strict=True):
            inner = kind[0] if isinstance(kind, list) else kind
            if isinstance(inner, Declared):
                values.append(tuple(_made(made, inner, value)))
            else:
                values.append(inner(value) if isinstance(inner, type) else _facts(made, inner, value))
        facts.append(declared.make(*values))
    return facts


def place_of(table: str, row: int) -> str:
    """The place of a row in an error."""
    return f"field {table}, row {row}"


def check_word(word: str, words: Iterable[str], place: str) -> None:
    """Refuse a kind, op or look that the format does not have.

    Raises:
        ArchiveError: naming those that it has.
    """
    if word not in words:
        raise ArchiveError(place=place, expected=f"one of {', '.join(words)}", found=shown(word))


def check_reference(number: int, rows: int, place: str) -> None:
    """Refuse the number of a row that is not there, or not yet.

    Raises:
        ArchiveError: it is none of so many rows.
    """
    if not 0 <= number < rows:
        raise ArchiveError(place=place, expected=f"a row below {rows}", found=str(number))


# --- literals


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
    if type(literal) is TorchName:
        return literal.kind, literal.text
    raise ArchiveError(
        expected="a constant: None, bool, int, float, str, bytes, a dtype, a device or a tuple of them",
        found=shown(literal),
    )


def _literal(kind: str, text: str, place: str, allowance: Allowance) -> Literal:
    """The constant of a kind and a text.

    Raises:
        ArchiveError: ``build_literal`` would not write it so.
    """
    allowance.take(TEXT_BYTES * len(text), "constants of effects", place=place)
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
