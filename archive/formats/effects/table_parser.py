"""Rows of the record -> facts; a row that several others share becomes one object."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from archive.base.errors import ArchiveError
from archive.formats.effects.computed import COMPUTED
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
    Op,
    Temporary,
)
from archive.formats.effects.row_parser import (
    NUMBERED_KINDS,
    check_reference,
    check_word,
    place_of,
    sequences,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.effects.model import Source, Value
    from archive.formats.effects.row_parser import RowParser
    from archive.formats.effects.rows import SourceRow, ValueRow
    from archive.formats.schema import Ragged

    Defaults = tuple[tuple[Local, Value], ...]

WordT = TypeVar("WordT", Op, Look)

OP_BY_WORD = {str(op): op for op in Op}
LOOK_BY_WORD = {str(look): look for look in Look}


class TableParser:
    """Parses methods and state.

    Args:
        rows: parsed rows, all uses of which have been checked.
        columns: the record's columns, as ``record.EFFECTS_SCHEMAS`` parses them.
    """

    def __init__(self, rows: RowParser, columns: dict[str, Any]) -> None:
        self._rows = rows
        self._columns = columns
        self._sources: list[Source] = []
        for source in rows.sources:
            self._sources.append(self._source(source))
        self._values: list[Value] = []
        for value in rows.values:
            self._values.append(self._value(value))

    def table(self) -> EffectTable:
        """The record's table.

        Raises:
            ArchiveError: an op or look that the format does not have, a method without name, or a default of
                something that is no argument.
        """
        state = self._columns["state"].items
        pairs = zip(state["source"].tolist(), state["value"].tolist(), strict=True)
        return EffectTable(
            self._methods(), tuple((self._sources[source], self._values[value]) for source, value in pairs)
        )

    def _methods(self) -> tuple[MethodEffects, ...]:
        fields, strings = self._columns["methods"].items, self._rows.strings
        names = fields["name"].tolist()
        effects = self._effects(fields["effects"])
        conditions = self._conditions() or [((), ())] * len(names)
        inputs = sequences(fields["inputs"])
        results = fields["result"].tolist()
        return tuple(
            MethodEffects(
                strings[check_reference(name, strings, f"{place_of('methods', row)}, field name")],
                tuple(self._sources[source] for source in some),
                self._values[result],
                effects[row],
                *conditions[row],
            )
            for row, (name, some, result) in enumerate(zip(names, inputs, results, strict=True))
        )

    def _source(self, row: SourceRow) -> Source:
        """The source of a row; those that it refers to are above it."""
        kind, base, name = row
        if kind == "temporary":
            return Temporary(base)
        if kind == "length":
            return Length(self._sources[base])
        if kind == "each":
            return Each(self._sources[base])
        if kind == "item":
            return Item(self._sources[base], self._rows.literals[name])
        text = self._rows.strings[name]
        if kind == "attribute":
            return Attribute(self._sources[base], text)
        if kind == "global":
            return GlobalName(self._rows.strings[base], text)
        if kind == "cell":
            return ClosureCell(self._rows.strings[base], text)
        return Local(text)

    def _value(self, row: ValueRow) -> Value:
        """The value of a row; those that it refers to are above it."""
        kind, number, items = row
        if kind in NUMBERED_KINDS:
            return NUMBERED_KINDS[kind](number)
        if kind == "constant":
            return Constant(self._rows.literals[number])
        if kind == "source":
            return At(self._sources[number])
        parts = tuple(self._values[item] for item in items)
        return Computed(kind, parts) if kind in COMPUTED else Made(kind, parts)

    def _value_or_none(self, number: int) -> Value | None:
        return self._values[number] if number >= 0 else None

    def _worded(
        self, table: str, field: str, words: Mapping[str, WordT], rows: Ragged, *numbers: str
    ) -> Iterator[tuple[WordT, int, int, int, int]]:
        """The word of each row, and its four numbers."""
        texts = self._rows.words(table, field, rows.items[field].tolist())
        columns = (rows.items[name].tolist() for name in numbers)
        for row, (text, *some) in enumerate(zip(texts, *columns, strict=True)):
            check_word(text, words, place_of(table, row), field)
            yield words[text], *some

    def _effects(self, rows: Ragged) -> list[tuple[Effect, ...]]:
        """The effects of each method."""
        worded = self._worded("effects", "op", OP_BY_WORD, rows, "source", "key", "value", "handle")
        effects = [
            Effect(op, self._sources[source], self._value_or_none(key), self._value_or_none(value), handle)
            for op, source, key, value, handle in worded
        ]
        return [tuple(effects[begin:end]) for begin, end in pairwise(rows.first.tolist())]

    def _conditions(self) -> list[tuple[tuple[Guard, ...], Defaults]]:
        """Guards and defaults of each method; nothing if the record has no such field."""
        if "conditions" not in self._columns:
            return []
        rows = self._columns["conditions"].items
        guards, defaults = self._guards(rows["guards"]), self._defaults(rows["defaults"])
        ends = (pairwise(rows[name].first.tolist()) for name in ("guards", "defaults"))
        return [
            (tuple(guards[one:other]), tuple(defaults[first:last]))
            for (one, other), (first, last) in zip(*ends, strict=True)
        ]

    def _guards(self, rows: Ragged) -> list[Guard]:
        worded = self._worded("guards", "look", LOOK_BY_WORD, rows, "subject", "value", "key", "handle")
        return [
            Guard(look, self._values[subject], self._values[value], self._value_or_none(key), handle)
            for look, subject, value, key, handle in worded
        ]

    def _defaults(self, rows: Ragged) -> list[tuple[Local, Value]]:
        fields = rows.items
        pairs = zip(fields["source"].tolist(), fields["value"].tolist(), strict=True)
        defaults = []
        for row, (source, value) in enumerate(pairs):
            argument = self._sources[source]
            if not isinstance(argument, Local):
                raise ArchiveError("the default of what is no argument", place=place_of("defaults", row))
            defaults.append((argument, self._values[value]))
        return defaults
