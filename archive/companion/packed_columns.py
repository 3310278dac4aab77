"""Parses packed companions: each column is decoded when it is asked for; all together are restored."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.companion.blocks import BlockColumn
from archive.companion.codecs import inflated
from archive.companion.contents import Contents
from archive.companion.encodings import Encoded, Transform, decoded
from archive.companion.layout import check_crc
from archive.companion.lines import parse_lines
from archive.companion.lookup import CompanionLookup, WholeColumn, inside
from archive.companion.modelling import MODELLED, restored
from archive.companion.objects import parsed_objects
from archive.companion.packed import LEFT_OUT
from archive.companion.templates import POINTER, SEPARATOR, Templates, cut
from archive.normalform.check import CHECKED_BYTES, check
from archive.normalform.columns import ALWAYS, BY_NAME, BY_NUMBER, SOLID, STRINGS, VALUE_BYTES
from archive.normalform.form import NormalForm
from archive.normalform.pool import table_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.base.strings import StringTable
    from archive.companion.layout import Directory
    from archive.companion.lookup import ColumnReader
    from archive.normalform.column_names import ColumnName
    from archive.normalform.columns import Columns

STRING_COLUMNS: tuple[ColumnName, ...] = ("string.template", "template.length", "number.value")
"""The columns that strings are made of."""


class _Line(NamedTuple):
    """A line of the solid section.

    Attributes:
        rows: number of values.
        begin: where the column's bytes begin in the section.
        encoded: how the column is encoded, without its bytes.
    """

    rows: int
    begin: int
    encoded: Encoded

    @property
    def end(self) -> int:
        """The position behind the column's bytes."""
        return self.begin + self.rows * self.encoded.width


class PackedColumns(Mapping["ColumnName", "ColumnReader"]):
    """The columns of a packed companion as they are kept, each decoded when it is asked for.

    Raises:
        ArchiveError: the solid section was changed, or its lines contradict one another.
        LimitError: it asks for more than allowed.
    """

    def __init__(self, data: memoryview, directory: Directory, allowance: Allowance) -> None:
        self._data = data
        self._directory = directory
        self.allowance = allowance
        self._body = self._inflated(SOLID)
        self._lines, self.end = _lines(self._body, directory)
        self._made: dict[ColumnName, ColumnReader] = {}

    def _inflated(self, number: int) -> memoryview:
        """A section that is compressed whole, inflated and checked."""
        if number not in self._directory.sections:
            raise ArchiveError(place="directory", expected=f"section {number}", found="others")
        section, stored = self._directory.sections[number], self._stored(number)
        place = f"section {number}"
        self.allowance.take(section.inflated, "bytes", place=place)
        check_crc(zlib.crc32(stored), section.checksum, place)
        try:
            return memoryview(inflated(section.codec, stored, section.inflated))
        except ArchiveError as problem:
            raise problem.within(place=place) from problem.__cause__

    def _stored(self, number: int) -> memoryview:
        start, end = self._directory.places[number]
        return self._data[start:end]

    def __iter__(self) -> Iterator[ColumnName]:
        yield from self._lines
        yield from (BY_NUMBER[number].name for number in self._directory.sections if number in BY_NUMBER)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        apart = isinstance(name, str) and name in BY_NAME and BY_NAME[name].number in self._directory.sections
        return name in self._lines or apart

    def __getitem__(self, name: ColumnName) -> ColumnReader:
        if name not in self._made:
            if name not in self:
                raise ArchiveError(place=name, expected="a column", found="none")
            try:
                self._made[name] = self._column(name)
            except ArchiveError as problem:
                raise problem.within(place=name) from problem.__cause__
        return self._made[name]

    def rows(self, name: ColumnName) -> int:
        """How many rows a column has; it is not decoded."""
        return self._lines[name].rows if name in self._lines else len(self[name])

    def whole(self, name: ColumnName) -> Ints:
        """All values of a column; those of blocks are not kept."""
        if name in self._lines:
            return self[name].all()
        size = len(self[name]) * VALUE_BYTES
        self.allowance.take(size, "values", place=name)
        with self.allowance.lent(size, "values", place=name):  # the blocks, before they are one column
            return self[name].all()

    def _column(self, name: ColumnName) -> ColumnReader:
        if name not in self._lines:
            number = BY_NAME[name].number
            return BlockColumn(self._directory.sections[number], self._stored(number))
        line = self._lines[name]
        size = line.rows * VALUE_BYTES
        self.allowance.take(size, "values")
        with self.allowance.lent(3 * size, "values"):  # its bytes, and the steps of the transform
            data = bytes(self._body[line.begin : line.end])
            return WholeColumn(decoded(line.encoded._replace(data=data), line.rows))

    def parts(self) -> dict[str, bytes]:
        """The solid section, cut into its lines, columns and raw records."""
        columns: dict[str, bytes] = {
            name: bytes(self._body[line.begin : line.end]) for name, line in self._lines.items() if line.rows
        }
        begin = min((line.begin for line in self._lines.values()), default=self.end)
        return {
            "column lines": bytes(self._body[:begin]),
            **columns,
            "raw.bytes": bytes(self.raw),
        }

    @cached_property
    def templates(self) -> Templates:
        """The strings as templates."""
        which, numbers = (self[name].all() for name in ("string.template", "number.value"))
        texts = self._cut()
        if which.min(initial=0) < 0 or which.max(initial=-1) >= len(texts):
            place = "string.template"
            raise ArchiveError(place=place, expected=f"templates of {len(texts)}", found="others")
        return Templates(texts, which, numbers)

    def _cut(self) -> list[bytes]:
        """The templates, one by one."""
        if "template.length" in self:
            return cut(self.texts, self["template.length"].all())
        texts = bytes(self.texts)
        self.allowance.take(POINTER * (texts.count(SEPARATOR) + 1), "strings", place=f"section {STRINGS}")
        return texts.split(SEPARATOR)

    @cached_property
    def strings(self) -> StringTable:
        """The strings."""
        self.allowance.take(self.templates.size, "strings", place="string.template")
        return table_of(self.templates.filled())

    @cached_property
    def texts(self) -> memoryview:
        """The templates of strings, in one piece."""
        return self._inflated(STRINGS)

    @property
    def raw(self) -> memoryview:
        """The bytes of the raw records."""
        return self._body[self.end :]


def _lines(body: memoryview, directory: Directory) -> tuple[dict[ColumnName, _Line], int]:
    """The lines of the solid section by column, and where the columns end."""
    parsed, at = parse_lines(body)
    lines: dict[ColumnName, _Line] = {}
    for name, rows, encoded in parsed:
        if BY_NAME[name].number in directory.sections:
            found = f"number {BY_NAME[name].number}, again"
            raise ArchiveError(place=f"section {SOLID}", expected="known columns, each once", found=found)
        lines[name] = _Line(rows, at, encoded)
        at = lines[name].end
    if at > len(body):
        raise ArchiveError(place=f"section {SOLID}", expected=f"{at} bytes", found=str(len(body)))
    empty = _Line(0, at, Encoded(Transform.SAME, zigzag=False, width=0, start=0, data=b""))
    needed = [name for name in LEFT_OUT if "program.name" in lines or BY_NAME[name].table in ALWAYS]
    return {name: empty for name in needed if BY_NAME[name].number not in directory.sections} | lines, at


def parse_packed(data: memoryview, directory: Directory, allowance: Allowance) -> Contents:
    """All that a packed companion holds, checked.

    Raises:
        ArchiveError: its bytes were changed, or contradict one another.
        LimitError: it asks for more than allowed.
    """
    kept = PackedColumns(data, directory, allowance)
    rows = {name: kept.rows(name) for name in kept}
    again = VALUE_BYTES * sum(count for name, count in rows.items() if name in MODELLED)
    longest = max(rows, key=rows.__getitem__, default=None)
    most = 0 if longest is None else rows[longest]
    with allowance.lent(again + CHECKED_BYTES * most, "values", place=longest):
        columns: Columns = {name: kept.whole(name) for name in kept if name not in STRING_COLUMNS}
        strings = kept.strings
        check(columns, len(strings), allowance, unread=MODELLED)
        behind = parsed_objects(data, directory, allowance)
        columns = restored(columns, kept.templates, strings.length)
        check(columns, len(strings), allowance)
        return Contents(directory.archive_id, NormalForm(columns, strings, allowance), kept.raw, behind)


class PackedLookup(CompanionLookup):
    """Looks up handles and tags in columns that are still modelled."""

    def __init__(self, columns: PackedColumns, allowance: Allowance) -> None:
        super().__init__(columns, columns.strings, allowance)
        self._packed = columns

    @cached_property
    def _frames(self) -> tuple[Ints, Ints]:
        return self._packed.templates.frames()

    def _end(self, row: int, source: int) -> int:
        end = self.at("range.end", row)
        if end == -1 << 63:  # the longest length + 1 has come round
            return (1 << 63) - 1
        if end:
            return self.at("range.start", row) + end - (end > 0)
        return sum(len(self.strings.data(piece)) for piece in self._pieces(self.at("source.text", source)))

    def _file_and_line(self, source: int) -> tuple[int, int]:
        file, line = self.at("source.filename", source), self.at("source.line", source)
        text = self.at("source.text", source)
        if text < 0:
            return file - 2, line
        string = inside(self.at("node.line", self.at("text.node", text)), len(self.strings))
        files, lines = self._frames
        return int(files[string]) if file == 0 else file - 2, line + int(lines[string])
