"""Columns of the effects' record -> rows -> facts; see ``record`` for what they mean."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from archive.base.errors import ArchiveError, shown
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    Effect,
    EffectTable,
    GlobalName,
    Guard,
    Item,
    Local,
    Look,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.rows import NOTHING, ConstantRow, SourceRow, ValueRow, read_back
from archive.formats.effects.rules import CONTAINERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from archive.base.strings import StringTable
    from archive.formats.effects.model import Literal, Source, Value
    from archive.formats.schema import Ragged

    Columns = dict[str, Any]
    Conditions = tuple[tuple[Guard, ...], tuple[tuple[Local, Value], ...]]

T = TypeVar("T")

SINGLE: dict[str, bool | None] = {"none": None, "true": True, "false": False}
PLAIN = ("int", "float", "str", "bytes")
NUMBERED: dict[str, type[Output | New | Stored]] = {"output": Output, "new": New, "stored": Stored}
SOURCE_KINDS = ("local", "attribute", "item", "global", "cell", "temporary")


class Reading:
    """The rows of a record, each checked to refer to rows that there are, above itself.

    Args:
        texts: the strings of the pickle.
        columns: as ``record.RECORD`` takes them.

    Raises:
        ArchiveError: naming the row and field that is not as declared.
    """

    def __init__(self, texts: StringTable, columns: Columns) -> None:
        self._texts = texts
        self._columns = columns
        self._words: dict[int, str] = {}
        self.strings = [
            self._text(text, f"field strings, row {row}")
            for row, text in enumerate(columns["strings"].items.tolist())
        ]
        self.constants: list[ConstantRow] = []
        self._literals: list[Literal] = []
        for constant in map(ConstantRow, *self._rows("constants", "string")):
            self._literals.append(self._literal(constant, _at("constants", len(self.constants))))
            self.constants.append(constant)
        self.sources: list[SourceRow] = []
        fields = self._columns["sources"].items
        kinds = self._kinds("sources", "kind", fields["kind"].tolist())
        for source in map(SourceRow, kinds, fields["base"].tolist(), fields["name"].tolist()):
            self._check_source(source, _at("sources", len(self.sources)))
            self.sources.append(source)
        self.values: list[ValueRow] = []
        for value in map(ValueRow, *self._rows("values", "number")):
            self._check_value(value, _at("values", len(self.values)))
            self.values.append(value)

    def _rows(self, table: str, number: str) -> tuple[list[str], list[int], list[tuple[int, ...]]]:
        """Kind, number and items of each row."""
        fields = self._columns[table].items
        kinds = self._kinds(table, "kind", fields["kind"].tolist())
        return kinds, fields[number].tolist(), [tuple(items) for items in _parts(fields["items"])]

    def _text(self, text: int, place: str) -> str:
        data = bytes(self._texts.data(text))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ArchiveError(place=place, expected="UTF-8", found=shown(data)) from None

    def _kinds(self, table: str, field: str, texts: list[int]) -> list[str]:
        """Words, each text decoded once."""
        for row, text in enumerate(texts):
            if text not in self._words:
                self._words[text] = self._text(text, f"{_at(table, row)}, field {field}")
        return [self._words[text] for text in texts]

    def _literal(self, row: ConstantRow, place: str) -> Literal:
        kind, string, items = row
        _check_kind(kind, (*SINGLE, *PLAIN, "tuple"), place)
        if kind != "tuple":
            _check_none(len(items), f"{place}, field items")
        if kind not in PLAIN:
            _check_none(string - NOTHING, f"{place}, field string")
            return SINGLE[kind] if kind in SINGLE else _picked(self._literals, items, f"{place}, field items")
        text = self.strings[_reference(string, self.strings, f"{place}, field string")]
        literal = read_back(kind, text)
        if literal is None:
            raise ArchiveError(place=place, expected=f"the text of a constant {kind}", found=shown(text))
        return literal

    def _check_source(self, row: SourceRow, place: str) -> None:
        kind, base, name = row
        _check_kind(kind, SOURCE_KINDS, place)
        if kind in ("attribute", "item"):
            _reference(base, self.sources, f"{place}, field base")
        elif kind in ("global", "cell"):
            _reference(base, self.strings, f"{place}, field base")
        elif kind == "local":
            _check_none(base - NOTHING, f"{place}, field base")
        elif base < 0:
            raise ArchiveError(place=f"{place}, field base", expected="a number from 0", found=str(base))
        if kind == "temporary":
            _check_none(name - NOTHING, f"{place}, field name")
        else:
            _reference(name, self._literals if kind == "item" else self.strings, f"{place}, field name")

    def _check_value(self, row: ValueRow, place: str) -> None:
        kind, number, items = row
        _check_kind(kind, (*NUMBERED, "constant", "source", *CONTAINERS), place)
        for item in items:
            _reference(item, self.values, f"{place}, field items")
        if kind in CONTAINERS:
            _check_none(number - NOTHING, f"{place}, field number")
            return
        _check_none(len(items), f"{place}, field items")
        if kind in NUMBERED:
            if number < 0:
                raise ArchiveError(
                    place=f"{place}, field number", expected="a number from 0", found=str(number)
                )
        else:
            rows = self._literals if kind == "constant" else self.sources
            _reference(number, rows, f"{place}, field number")

    def uses(self) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Sources and values that are used together; -1 is none.

        Raises:
            ArchiveError: one of them is not there.
        """
        methods = self._columns["methods"].items
        parts = zip(_parts(methods["inputs"]), methods["result"].tolist(), strict=True)
        for row, (inputs, result) in enumerate(parts):
            place = _at("methods", row)
            _picked(self.sources, inputs, f"{place}, field inputs")
            yield inputs, [_reference(result, self.values, f"{place}, field result")]
        for name, columns, fields in (
            ("effects", methods["effects"].items, ("key", "value")),
            ("state", self._columns["state"].items, ("value",)),
        ):
            sources, *values = (columns[field].tolist() for field in ("source", *fields))
            for row, (source, *some) in enumerate(zip(sources, *values, strict=True)):
                _reference(source, self.sources, f"{_at(name, row)}, field source")
                for field, value in zip(fields, some, strict=True):
                    if value >= 0:
                        _reference(value, self.values, f"{_at(name, row)}, field {field}")
                yield [source], some
        yield from self._uses_of_conditions()

    def _uses_of_conditions(self) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        conditions = self._columns.get("conditions")
        if conditions is None:
            return
        if len(conditions.items["guards"].first) != len(self._columns["methods"].items["name"]) + 1:
            raise ArchiveError("not one for each method", place="field conditions")
        guards = conditions.items["guards"].items
        columns = [guards[field].tolist() for field in ("subject", "value", "key")]
        for row, (*always, key) in enumerate(zip(*columns, strict=True)):
            place = _at("guards", row)
            values = [*always, key] if key >= 0 else always
            _picked(self.values, values, place)
            yield [], values
        defaults = conditions.items["defaults"].items
        pairs = zip(defaults["source"].tolist(), defaults["value"].tolist(), strict=True)
        for row, (source, value) in enumerate(pairs):
            place = _at("defaults", row)
            yield (
                [_reference(source, self.sources, f"{place}, field source")],
                [_reference(value, self.values, f"{place}, field value")],
            )

    def table(self) -> EffectTable:
        """The facts that the rows state; what is shared is one object.

        Raises:
            ArchiveError: an op that there is not, or a method without name.
        """
        sources: list[Source] = []
        for source in self.sources:
            sources.append(self._source(source, sources))
        values: list[Value] = []
        for value in self.values:
            values.append(self._value(value, values, sources))
        methods = self._columns["methods"].items
        effects = self._effects(methods["effects"], sources, values)
        conditions = self._conditions(sources, values) or [((), ())] * len(effects)
        table = tuple(
            MethodEffects(
                self.strings[_reference(name, self.strings, f"{_at('methods', row)}, field name")],
                tuple(sources[source] for source in inputs),
                values[result],
                some,
                *conditions[row],
            )
            for row, (name, inputs, result, some) in enumerate(
                zip(
                    methods["name"].tolist(),
                    _parts(methods["inputs"]),
                    methods["result"].tolist(),
                    effects,
                    strict=True,
                )
            )
        )
        state = self._columns["state"].items
        pairs = zip(state["source"].tolist(), state["value"].tolist(), strict=True)
        return EffectTable(table, tuple((sources[source], values[value]) for source, value in pairs))

    def _source(self, row: SourceRow, sources: Sequence[Source]) -> Source:
        kind, base, name = row
        if kind == "temporary":
            return Temporary(base)
        if kind == "item":
            return Item(sources[base], self._literals[name])
        text = self.strings[name]
        if kind == "attribute":
            return Attribute(sources[base], text)
        if kind == "global":
            return GlobalName(self.strings[base], text)
        if kind == "cell":
            return ClosureCell(self.strings[base], text)
        return Local(text)

    def _value(self, row: ValueRow, values: Sequence[Value], sources: Sequence[Source]) -> Value:
        kind, number, items = row
        if kind in NUMBERED:
            return NUMBERED[kind](number)
        if kind == "constant":
            return Constant(self._literals[number])
        if kind == "source":
            return At(sources[number])
        return Made(kind, tuple(values[item] for item in items))

    def _effects(
        self, rows: Ragged, sources: Sequence[Source], values: Sequence[Value]
    ) -> list[tuple[Effect, ...]]:
        """The effects of each method."""
        fields = rows.items
        ops = self._kinds("effects", "op", fields["op"].tolist())
        effects = []
        numbers = (fields[name].tolist() for name in ("source", "key", "value", "handle"))
        for row, (op, source, key, value, handle) in enumerate(zip(ops, *numbers, strict=True)):
            if op not in _OPS:
                _check_kind(op, tuple(_OPS), _at("effects", row), "op")
            effects.append(
                Effect(
                    _OPS[op],
                    sources[source],
                    values[key] if key >= 0 else None,
                    values[value] if value >= 0 else None,
                    handle,
                )
            )
        first = rows.first.tolist()
        return [tuple(effects[begin:end]) for begin, end in pairwise(first)]

    def _conditions(self, sources: Sequence[Source], values: Sequence[Value]) -> list[Conditions]:
        """Guards and defaults of each method; nothing where the record has no field for them."""
        if "conditions" not in self._columns:
            return []
        rows = self._columns["conditions"].items
        fields = rows["guards"].items
        looks = self._kinds("guards", "look", fields["look"].tolist())
        guards = []
        numbers = (fields[name].tolist() for name in ("subject", "value", "key", "handle"))
        for row, (look, subject, value, key, handle) in enumerate(zip(looks, *numbers, strict=True)):
            if look not in _LOOKS:
                _check_kind(look, tuple(_LOOKS), _at("guards", row), "look")
            at = None if key < 0 else values[key]
            guards.append(Guard(_LOOKS[look], values[subject], values[value], at, handle))
        defaults = []
        pairs = rows["defaults"].items
        for row, (source, value) in enumerate(
            zip(pairs["source"].tolist(), pairs["value"].tolist(), strict=True)
        ):
            argument = sources[source]
            if not isinstance(argument, Local):
                raise ArchiveError("the default of what is no argument", place=_at("defaults", row))
            defaults.append((argument, values[value]))
        ends = (pairwise(rows[name].first.tolist()) for name in ("guards", "defaults"))
        return [
            (tuple(guards[one:other]), tuple(defaults[first:last]))
            for (one, other), (first, last) in zip(*ends, strict=True)
        ]


_OPS = {str(op): op for op in Op}
_LOOKS = {str(look): look for look in Look}


def _at(table: str, row: int) -> str:
    return f"field {table}, row {row}"


def _parts(rows: Ragged) -> Iterator[list[int]]:
    """The items of each sequence."""
    items, first = rows.items.tolist(), rows.first.tolist()
    return (items[begin:end] for begin, end in pairwise(first))


def _check_kind(kind: str, kinds: Collection[str], place: str, field: str = "kind") -> None:
    if kind not in kinds:
        raise ArchiveError(
            place=f"{place}, field {field}", expected=f"one of {', '.join(kinds)}", found=shown(kind)
        )


def _check_none(surplus: int, place: str) -> None:
    """Refuse what a kind has no place for."""
    if surplus:
        raise ArchiveError("more than a row of this kind has", place=place)


def _reference(row: int, rows: Sequence[object], place: str) -> int:
    """A reference to one of some rows."""
    if not 0 <= row < len(rows):
        raise ArchiveError(place=place, expected=f"a row below {len(rows)}", found=str(row))
    return row


def _picked(rows: Sequence[T], which: Sequence[int], place: str) -> tuple[T, ...]:
    return tuple(rows[_reference(row, rows, place)] for row in which)
