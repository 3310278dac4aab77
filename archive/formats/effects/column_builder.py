"""Facts of effects -> rows -> columns of the record; ``record`` has the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base.errors import ArchiveError
from archive.base.strings import StringTable
from archive.formats.effects.rows import NO_REFERENCE, Numbering
from archive.formats.schema import Ragged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.base.columns import Ints
    from archive.formats.effects.model import EffectTable, Source, Value
    from archive.formats.effects.rows import ConstantRow, SourceRow, ValueRow


class ColumnBuilder:
    """Builds the columns of a table's record.

    Args:
        table: effects, checked.

    Attributes:
        strings: the record's strings.
        constants: rows of constants.
        sources: rows of sources.
        values: rows of values.

    Raises:
        ArchiveError: a constant is of a type that the record cannot hold.
    """

    def __init__(self, table: EffectTable) -> None:
        self._table = table
        self._numbers = Numbering.of(table)
        self._words: dict[str, int] = {}
        self.strings: Sequence[str] = list(self._numbers.strings)
        self.constants: Sequence[ConstantRow] = list(self._numbers.constants)
        self.sources: Sequence[SourceRow] = list(self._numbers.sources)
        self.values: Sequence[ValueRow] = list(self._numbers.values)

    def uses(self) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Sources and values that methods and state use, a pair for each use; -1 is none."""
        numbers = self._numbers
        for method in self._table.methods:
            yield [numbers.source(source) for source in method.inputs], [numbers.value(method.result)]
            for effect in method.effects:
                yield [numbers.source(effect.source)], [self._number(effect.key), self._number(effect.value)]
            for guard in method.guards:
                yield [], [self._number(one) for one in (guard.subject, guard.value, guard.key)]
            for argument, default in method.defaults:
                yield [numbers.source(argument)], [numbers.value(default)]
        for source, value in self._table.state:
            yield [numbers.source(source)], [numbers.value(value)]

    def _number(self, value: Value | None) -> int:
        return NO_REFERENCE if value is None else self._numbers.value(value)

    def columns(self) -> dict[str, Any]:
        """The columns of all fields but the version.

        Raises:
            ArchiveError: a number has more than 64 bits.
        """
        try:
            return {
                "strings": _many([range(len(self.strings))]),
                "constants": self._with_items(self.constants, "string"),
                "sources": _rows(
                    {
                        "kind": self._kinds(self.sources),
                        "base": _column(row.base for row in self.sources),
                        "name": _column(row.name for row in self.sources),
                    }
                ),
                "values": self._with_items(self.values, "number"),
                "methods": _rows(self._methods()),
                "state": _rows(self._pairs([self._table.state])),
                "conditions": _rows(self._conditions()),
            }
        except OverflowError as error:
            raise ArchiveError(f"a number of more than 64 bits: {error}") from error

    def texts(self) -> StringTable:
        """The texts; to be called after ``columns``, which finds the words."""
        texts = [text.encode("utf-8", "surrogatepass") for text in (*self.strings, *self._words)]
        length = _column(len(text) for text in texts)
        start = np.cumsum(length) - length
        return StringTable([memoryview(b"".join(texts))], [False], np.zeros_like(length), start, length)

    def _word(self, word: str) -> int:
        """The text of a kind, op or look; words follow the strings."""
        return len(self.strings) + self._words.setdefault(word, len(self._words))

    def _kinds(self, rows: Sequence[ConstantRow | SourceRow | ValueRow]) -> Ints:
        return _column(self._word(row.kind) for row in rows)

    def _with_items(self, rows: Sequence[ConstantRow] | Sequence[ValueRow], number: str) -> Ragged:
        numbers = _column(row[1] for row in rows)
        return _rows({"kind": self._kinds(rows), number: numbers, "items": _many([row[2] for row in rows])})

    def _methods(self) -> dict[str, Any]:
        numbers, methods = self._numbers, self._table.methods
        effects = [effect for method in methods for effect in method.effects]
        fields = {
            "op": _column(self._word(str(effect.op)) for effect in effects),
            "source": _column(numbers.source(effect.source) for effect in effects),
            "key": _column(self._number(effect.key) for effect in effects),
            "value": _column(self._number(effect.value) for effect in effects),
            "handle": _column(effect.handle for effect in effects),
        }
        return {
            "name": _column(numbers.string(method.method) for method in methods),
            "inputs": _many([[numbers.source(source) for source in method.inputs] for method in methods]),
            "result": _column(numbers.value(method.result) for method in methods),
            "effects": Ragged(_first([len(method.effects) for method in methods]), fields),
        }

    def _conditions(self) -> dict[str, Any]:
        methods = self._table.methods
        guards = [guard for method in methods for guard in method.guards]
        fields = {
            "look": _column(self._word(str(guard.look)) for guard in guards),
            "subject": _column(self._numbers.value(guard.subject) for guard in guards),
            "value": _column(self._numbers.value(guard.value) for guard in guards),
            "key": _column(self._number(guard.key) for guard in guards),
            "handle": _column(guard.handle for guard in guards),
        }
        defaults = [method.defaults for method in methods]
        return {
            "guards": Ragged(_first([len(method.guards) for method in methods]), fields),
            "defaults": Ragged(_first([len(some) for some in defaults]), self._pairs(defaults)),
        }

    def _pairs(self, rows: Sequence[Sequence[tuple[Source, Value]]]) -> dict[str, Any]:
        pairs = [pair for some in rows for pair in some]
        return {
            "source": _column(self._numbers.source(source) for source, _ in pairs),
            "value": _column(self._numbers.value(value) for _, value in pairs),
        }


def _column(numbers: Iterable[int]) -> Ints:
    return np.fromiter(numbers, np.int64)


def _first(counts: Sequence[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _many(sequences: Sequence[Sequence[int]]) -> Ragged:
    """Sequences of numbers, one after the other."""
    numbers = _column(number for sequence in sequences for number in sequence)
    return Ragged(_first([len(sequence) for sequence in sequences]), numbers)


def _rows(columns: dict[str, Any]) -> Ragged:
    """One sequence of rows; the first column has one item a row."""
    counted = next(iter(columns.values()))
    return Ragged(_first([len(counted.first) - 1 if isinstance(counted, Ragged) else len(counted)]), columns)
