"""Columns of the record -> rows, each checked against the tables of its specification in ``record``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from archive.base.errors import ArchiveError, shown
from archive.formats.effects.computed import COMPUTED
from archive.formats.effects.hooks import HOOK_KINDS
from archive.formats.effects.model import New, Output, Stored
from archive.formats.effects.references import CONTAINER_KINDS
from archive.formats.effects.rows import (
    NO_REFERENCE,
    ConstantRow,
    SourceRow,
    ValueRow,
    parse_literal,
)
from archive.formats.effects.weights import TEXT_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.base.strings import StringTable
    from archive.formats.effects.model import Literal
    from archive.formats.schema import Ragged

RowT = TypeVar("RowT")

LITERAL_WORDS: dict[str, bool | None] = {"none": None, "true": True, "false": False}
"""Kinds of constants that say everything."""
LITERAL_TEXTS = ("int", "float", "str", "bytes")
"""Kinds of constants that have a text."""
NUMBERED_KINDS: dict[str, type[Output | New | Stored]] = {"output": Output, "new": New, "stored": Stored}
"""Kinds of values that are a number."""
SOURCE_KINDS = ("local", "attribute", "item", "global", "cell", "temporary", "length", "each")
MADE_KINDS = (*CONTAINER_KINDS, *HOOK_KINDS)


class RowParser:
    """Parses strings, constants, sources and values; each row refers only to rows above itself.

    Args:
        texts: the strings of the pickle.
        columns: the record's columns, as ``record.EFFECTS_SCHEMAS`` parses them.
        allowance: the memory that texts may cost.

    Attributes:
        strings: the record's strings.
        constants: rows of constants.
        literals: the constants themselves, in the same order.
        sources: rows of sources.
        values: rows of values.

    Raises:
        ArchiveError: naming the row and field that breaks a rule of the specification.
        LimitError: the texts of all rows are too long together.
    """

    def __init__(self, texts: StringTable, columns: dict[str, Any], allowance: Allowance) -> None:
        self._texts = texts
        self._allowance = allowance
        self._columns = columns
        self._words: dict[int, str] = {}
        self.strings = [
            self._text(text, f"field strings, row {row}")
            for row, text in enumerate(columns["strings"].items.tolist())
        ]
        self.constants: list[ConstantRow] = []
        self.literals: list[Literal] = []
        self.sources: list[SourceRow] = []
        self.values: list[ValueRow] = []
        self._parse_constants()
        self._parse_sources()
        self._parse_values()

    def _parse_constants(self) -> None:
        for row in map(ConstantRow, *self._rows_with_items("constants", "string")):
            self.literals.append(self._literal(row, place_of("constants", len(self.constants))))
            self.constants.append(row)

    def _parse_sources(self) -> None:
        fields = self._columns["sources"].items
        kinds = self.words("sources", "kind", fields["kind"].tolist())
        for row in map(SourceRow, kinds, fields["base"].tolist(), fields["name"].tolist()):
            self._check_source(row, place_of("sources", len(self.sources)))
            self.sources.append(row)

    def _parse_values(self) -> None:
        for row in map(ValueRow, *self._rows_with_items("values", "number")):
            self._check_value(row, place_of("values", len(self.values)))
            self.values.append(row)

    def _rows_with_items(self, table: str, number: str) -> tuple[list[str], list[int], list[tuple[int, ...]]]:
        """Kind, number and items of each row."""
        fields = self._columns[table].items
        kinds = self.words(table, "kind", fields["kind"].tolist())
        return kinds, fields[number].tolist(), [tuple(items) for items in sequences(fields["items"])]

    def _text(self, text: int, place: str) -> str:
        self._allowance.take(TEXT_BYTES * int(self._texts.length[text]), "texts of effects", place=place)
        data = bytes(self._texts.data(text))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ArchiveError(place=place, expected="UTF-8", found=shown(data)) from None

    def words(self, table: str, field: str, texts: list[int]) -> list[str]:
        """Kinds, ops or looks: texts that repeat, each decoded once.

        Raises:
            ArchiveError: a text is not UTF-8.
        """
        for row, text in enumerate(texts):
            if text not in self._words:
                self._words[text] = self._text(text, f"{place_of(table, row)}, field {field}")
        return [self._words[text] for text in texts]

    def _literal(self, row: ConstantRow, place: str) -> Literal:
        """The constant of a row."""
        kind, string, items = row
        check_word(kind, (*LITERAL_WORDS, *LITERAL_TEXTS, "tuple"), place)
        if kind != "tuple":
            _check_no_items(items, place)
        if kind not in LITERAL_TEXTS:
            _check_no_reference(string, f"{place}, field string")
            if kind in LITERAL_WORDS:
                return LITERAL_WORDS[kind]
            return referred(self.literals, items, f"{place}, field items")
        text = self.strings[check_reference(string, self.strings, f"{place}, field string")]
        self._allowance.take(TEXT_BYTES * len(text), "constants of effects", place=place)
        literal = parse_literal(kind, text)
        if literal is None:
            raise ArchiveError(place=place, expected=f"the text of a constant {kind}", found=shown(text))
        return literal

    def _check_source(self, row: SourceRow, place: str) -> None:
        kind, base, name = row
        check_word(kind, SOURCE_KINDS, place)
        if kind in ("attribute", "item", "length", "each"):
            check_reference(base, self.sources, f"{place}, field base")
        elif kind in ("global", "cell"):
            check_reference(base, self.strings, f"{place}, field base")
        elif kind == "local":
            _check_no_reference(base, f"{place}, field base")
        else:
            _check_number(base, f"{place}, field base")
        if kind in ("temporary", "length", "each"):
            _check_no_reference(name, f"{place}, field name")
        else:
            rows = self.literals if kind == "item" else self.strings
            check_reference(name, rows, f"{place}, field name")

    def _check_value(self, row: ValueRow, place: str) -> None:
        kind, number, items = row
        check_word(kind, (*NUMBERED_KINDS, "constant", "source", *MADE_KINDS, *COMPUTED), place)
        for item in items:
            check_reference(item, self.values, f"{place}, field items")
        if kind in MADE_KINDS or kind in COMPUTED:
            _check_no_reference(number, f"{place}, field number")
            return
        _check_no_items(items, place)
        if kind in NUMBERED_KINDS:
            _check_number(number, f"{place}, field number")
        else:
            rows = self.literals if kind == "constant" else self.sources
            check_reference(number, rows, f"{place}, field number")

    def uses(self) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Sources and values that methods and state use, a pair for each use; -1 is none.

        Raises:
            ArchiveError: a row is not there.
        """
        yield from self._uses_of_methods()
        effects = self._columns["methods"].items["effects"].items
        yield from self._uses_of_changes("effects", effects, ("key", "value"))
        yield from self._uses_of_changes("state", self._columns["state"].items, ("value",))
        if "conditions" in self._columns:
            yield from self._uses_of_conditions(self._columns["conditions"].items)

    def _uses_of_methods(self) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        methods = self._columns["methods"].items
        parts = zip(sequences(methods["inputs"]), methods["result"].tolist(), strict=True)
        for row, (inputs, result) in enumerate(parts):
            place = place_of("methods", row)
            referred(self.sources, inputs, f"{place}, field inputs")
            yield inputs, [check_reference(result, self.values, f"{place}, field result")]

    def _uses_of_changes(
        self, table: str, columns: dict[str, Ints], fields: tuple[str, ...]
    ) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Uses by rows of a source and some values."""
        sources, *values = (columns[field].tolist() for field in ("source", *fields))
        for row, (source, *some) in enumerate(zip(sources, *values, strict=True)):
            place = place_of(table, row)
            check_reference(source, self.sources, f"{place}, field source")
            for field, value in zip(fields, some, strict=True):
                if value >= 0:
                    check_reference(value, self.values, f"{place}, field {field}")
            yield [source], some

    def _uses_of_conditions(
        self, conditions: dict[str, Ragged]
    ) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        if len(conditions["guards"].first) != len(self._columns["methods"].items["name"]) + 1:
            raise ArchiveError("not one for each method", place="field conditions")
        guards = conditions["guards"].items
        columns = [guards[field].tolist() for field in ("subject", "value", "key")]
        for row, (subject, value, key) in enumerate(zip(*columns, strict=True)):
            values = [subject, value, key] if key >= 0 else [subject, value]
            referred(self.values, values, place_of("guards", row))
            yield [], values
        yield from self._uses_of_changes("defaults", conditions["defaults"].items, ("value",))


def place_of(table: str, row: int) -> str:
    """The place of a row in an error."""
    return f"field {table}, row {row}"


def sequences(rows: Ragged) -> Iterator[list[int]]:
    """The items of each sequence."""
    items, first = rows.items.tolist(), rows.first.tolist()
    return (items[begin:end] for begin, end in pairwise(first))


def check_word(word: str, words: Collection[str], place: str, field: str = "kind") -> None:
    """Refuse a kind, op or look that the format does not have.

    Raises:
        ArchiveError: naming those that it has.
    """
    if word not in words:
        raise ArchiveError(
            place=f"{place}, field {field}", expected=f"one of {', '.join(words)}", found=shown(word)
        )


def check_reference(row: int, rows: Sequence[object], place: str) -> int:
    """The number of a row, if there is such a row.

    Raises:
        ArchiveError: there is none, or none yet.
    """
    if not 0 <= row < len(rows):
        raise ArchiveError(place=place, expected=f"a row below {len(rows)}", found=str(row))
    return row


def referred(rows: Sequence[RowT], numbers: Sequence[int], place: str) -> tuple[RowT, ...]:
    """The rows of some numbers.

    Raises:
        ArchiveError: one of them is not there.
    """
    return tuple(rows[check_reference(number, rows, place)] for number in numbers)


def _check_number(number: int, place: str) -> None:
    if number < 0:
        raise ArchiveError(place=place, expected="a number from 0", found=str(number))


def _check_no_reference(number: int, place: str) -> None:
    """Refuse a number where rows of this kind have none."""
    if number != NO_REFERENCE:
        raise ArchiveError("more than a row of this kind has", place=place)


def _check_no_items(items: Collection[int], place: str) -> None:
    """Refuse items where rows of this kind have none."""
    if items:
        raise ArchiveError("more than a row of this kind has", place=f"{place}, field items")
