"""Packed companions, built and parsed: columns are modelled, encoded, and compressed together.

The section SOLID holds all columns. Inflated it is::

    lines     how each column is encoded: see :mod:`archive.companion.encodings`
    bytes     of each column, in the same order
    bytes     of the raw records

The section STRINGS has the templates of strings, separated by NUL; ``template.length`` only exists if a
template contains a NUL itself, and then nothing separates them. Both sections are compressed with the
dictionaries that all companions share (:mod:`archive.companion.codecs`) if that makes them smaller. Required
columns without rows are left out.

If all columns together take more than 4 MiB, those with more than 65,536 rows are sections of their own, in
blocks: see :mod:`archive.companion.blocks`. Columns with one value (SAME) stay in SOLID, and so do
``row.range`` and ``string.template`` if they are encoded by BACK.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.columns import table_of
from archive.base.errors import ArchiveError
from archive.companion.blocks import BLOCK_ROWS, BlockColumn, build_blocks
from archive.companion.choosing import chosen, shortest
from archive.companion.codecs import (
    STRONGEST,
    Codec,
    built_objects,
    compressed,
    encoder_bytes,
    inflated_section,
    parsed_objects,
    quotes_sources,
)
from archive.companion.contents import Contents
from archive.companion.encodings import (
    EMPTY,
    ColumnLine,
    EncodedColumn,
    Transform,
    build_lines,
    decoded,
    parse_lines,
)
from archive.companion.hash_order import ORDERED_BYTES, is_rule
from archive.companion.layout import OLDEST, ORDERED, PACKED_LINE, VERSION, CompanionLayout, written
from archive.companion.lookup import CompanionLookup, WholeColumn, inside
from archive.companion.modelling import MODELLED, end_of, file_of, modelled, restored
from archive.companion.templates import NO_FILE, POINTER, SEPARATOR, Templates, cut, templated
from archive.normalform.check import CHECKED_BYTES, check_restored, check_stored
from archive.normalform.columns import (
    ALWAYS,
    BY_NAME,
    COLUMNS,
    SOLID,
    STRINGS,
    TOGETHER,
    VALUE_WIDTH,
)
from archive.normalform.form import NormalForm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.columns import Ints
    from archive.base.strings import StringTable
    from archive.companion.layout import Directory, SectionLine
    from archive.companion.lookup import ColumnReader
    from archive.normalform.columns import Columns

MUCH = 1 << 22
"""Bytes of all encoded columns from which on long columns get their own sections."""

LEFT_OUT = [
    column.name
    for column in COLUMNS
    if column.table in {*ALWAYS, *TOGETHER["program"]} and column.table != "file" and not column.optional
]
"""Columns that are left out if they have no rows."""

WHOLE = {Transform.BACK}
"""Transforms whose values can only be read from the first row on, so not in blocks."""
NEVER_ALONE = {"row.range", "string.template"}
"""Columns whose single rows nobody asks for: they may be encoded by BACK."""

TINY = 1 << 10
"""Bytes of a section up to which only the dictionary's codec is tried: no other won for any fixture."""
STRING_COLUMNS: tuple[str, ...] = ("string.template", "template.length", "number.value")
"""The columns that strings are made from."""


# --- build


def build_packed(contents: Contents, level: int) -> bytes:
    """A packed companion; from level 19 on, LZMA is tried whatever the size."""
    columns, texts = stored(contents)
    what = "columns that are encoded"
    encoded = chosen(columns)
    apart = _apart(columns, encoded)
    encoded |= {
        name: shortest(columns[name], whole=False) for name in apart if encoded[name].transform in WHOLE
    }
    body = solid_body(columns, {name: encoding for name, encoding in encoded.items() if name not in apart})
    raw, blocks = bytes(contents.raw), {name: encoded[name] for name in apart}
    longest = max((len(column.data) for column in blocks.values()), default=0)
    if level < STRONGEST:  # at the strongest levels, whole columns are tried first
        longest = min(longest, BLOCK_ROWS * VALUE_WIDTH)
    sizes = [len(body) + len(raw), len(texts), longest]
    with memory.lent(max(encoder_bytes(size, level) for size in sizes), what):
        sections = [_least_section(SOLID, body + raw, Codec.COLUMNS, level)]
        if quotes_sources(texts):
            sections.append(_section(STRINGS, texts, *compressed(texts, level, Codec.SOURCES)))
        else:
            sections.append(_least_section(STRINGS, texts, Codec.TEXTS, level))
        sections += [
            build_blocks(BY_NAME[name].number, columns[name], encoding, level)
            for name, encoding in blocks.items()
        ]
    sections += built_objects(contents.object_tails, level)
    version = ORDERED if "handle.place" in columns and is_rule(columns["handle.place"]) else OLDEST
    if any(section.codec == Codec.SOURCES for section, _ in sections):
        version = VERSION
    return written(CompanionLayout.PACKED, contents.archive_id, sections, version)


def stored(contents: Contents) -> tuple[Columns, bytes]:
    """The columns that a packed companion has, before encoding; and the templates of its strings."""
    templates = templated(contents.strings.copies())
    handles = len(contents.columns.get("handle.handle", ()))
    with memory.lent(ORDERED_BYTES * handles, "values", place="handle.place"):
        columns = modelled(contents.columns, templates, contents.strings.length)
    columns["string.template"] = templates.which
    columns["template.length"] = np.array([len(text) for text in templates.texts], np.int64)
    columns["number.value"] = templates.numbers
    columns = {name: values for name, values in columns.items() if len(values) or name not in LEFT_OUT}
    divided = SEPARATOR.join(templates.texts)
    if divided.split(SEPARATOR) != templates.texts:
        return columns, b"".join(templates.texts)
    del columns["template.length"]
    return columns, divided


def _least_section(number: int, body: bytes, words: Codec, level: int) -> tuple[SectionLine, bytes]:
    """The smallest section of a body, with or without a dictionary."""
    without = Codec.NONE if len(body) <= TINY and level < STRONGEST else None
    tried = [compressed(body, level, codec) for codec in (without, words)]
    return _section(number, body, *min(tried, key=lambda section: len(section[1])))


def _section(number: int, body: bytes, codec: Codec, data: bytes) -> tuple[SectionLine, bytes]:
    """A section of a body that is compressed as a whole, in the words of a codec."""
    return PACKED_LINE.row(number, 1, codec, len(body), 0, len(body), len(data), zlib.crc32(data)), data


def _apart(columns: Columns, encoded: dict[str, EncodedColumn]) -> list[str]:
    """The columns that get their own sections: none, if all together are quickly inflated."""
    if sum(len(column.data) for column in encoded.values()) <= MUCH:
        return []
    names = [column.name for column in COLUMNS if column.name in columns]
    long = [name for name in names if len(columns[name]) > BLOCK_ROWS and encoded[name].width]
    return [name for name in long if encoded[name].transform not in WHOLE or name not in NEVER_ALONE]


def solid_body(columns: Columns, encoded: dict[str, EncodedColumn]) -> bytes:
    """The lines and bytes of columns, as SOLID has them."""
    lines = [ColumnLine(name, len(columns[name]), column) for name, column in encoded.items()]
    lines.sort(key=lambda line: BY_NAME[line.name].number)
    return build_lines(lines) + b"".join(line.encoded.data for line in lines)


# --- parse


class _PlacedLine(NamedTuple):
    """A line of the solid section, and where its column's bytes begin there."""

    rows: int
    begin: int
    encoded: EncodedColumn

    @property
    def end(self) -> int:
        """The position after the column's bytes."""
        return self.begin + self.rows * self.encoded.width


class PackedColumns(Mapping[str, "ColumnReader"]):
    """The columns of a packed companion as stored, each decoded when it is asked for."""

    def __init__(self, data: memoryview, directory: Directory) -> None:
        self.data = data
        self.directory = directory
        self.allowance = memory.current()
        self._body = self._inflated(SOLID)
        self._lines, self.end = _lines(self._body, directory)
        self._made: dict[str, ColumnReader] = {}

    def _inflated(self, number: int) -> memoryview:
        """A section that is compressed as a whole, inflated and checked."""
        if number not in self.directory.sections:
            raise ArchiveError(place="directory", expected=f"section {number}", found="others")
        with memory.charged(self.allowance):
            return memoryview(inflated_section(self.data, self.directory, number))

    def __iter__(self) -> Iterator[str]:
        yield from self._lines
        yield from self.directory.columns()

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._lines or self.directory.has(name)

    def __getitem__(self, name: str) -> ColumnReader:
        if name not in self._made:
            if name not in self:
                raise ArchiveError(place=name, expected="a column", found="none")
            try:
                self._made[name] = self._column(name)
            except ArchiveError as problem:
                raise problem.within(place=name) from problem.__cause__
        return self._made[name]

    def rows(self, name: str) -> int:
        """How many rows a column has; it is not decoded."""
        return self._lines[name].rows if name in self._lines else len(self[name])

    def whole(self, name: str) -> Ints:
        """All values of a column; those of blocks are not kept."""
        if name in self._lines:
            return self[name].all()
        size = len(self[name]) * VALUE_WIDTH
        memory.take(size, "values", place=name)
        with memory.lent(size, "values", place=name):  # the blocks, before they are one column
            return self[name].all()

    def _column(self, name: str) -> ColumnReader:
        if name not in self._lines:
            number = BY_NAME[name].number
            start, end = self.directory.places[number]
            return BlockColumn(self.directory.sections[number], self.data[start:end])
        line = self._lines[name]
        size = line.rows * VALUE_WIDTH
        self.allowance.take(size, "values")
        with (
            memory.charged(self.allowance),
            memory.lent(3 * size, "values"),
        ):  # its bytes, and the steps of the transform
            data = bytes(self._body[line.begin : line.end])
            return WholeColumn(decoded(EncodedColumn(*line.encoded[:-1], data), line.rows))

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
        if "template.length" in self:
            texts = cut(self.texts, self["template.length"].all())
        else:
            joined = bytes(self.texts)
            cost = POINTER * (joined.count(SEPARATOR) + 1)
            self.allowance.take(cost, "strings", place=f"section {STRINGS}")
            texts = joined.split(SEPARATOR)
        if which.min(initial=0) < 0 or which.max(initial=-1) >= len(texts):
            place = "string.template"
            raise ArchiveError(place=place, expected=f"templates of {len(texts)}", found="others")
        return Templates(texts, which, numbers)

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


def _lines(body: memoryview, directory: Directory) -> tuple[dict[str, _PlacedLine], int]:
    """The lines of the solid section by column, and where the columns end."""
    parsed, at = parse_lines(body)
    lines: dict[str, _PlacedLine] = {}
    for name, rows, encoded in parsed:
        if directory.has(name):
            again = f"number {BY_NAME[name].number}, again"
            raise ArchiveError(place=f"section {SOLID}", expected="known columns, each once", found=again)
        lines[name] = _PlacedLine(rows, at, encoded)
        at = lines[name].end
    if at > len(body):
        raise ArchiveError(place=f"section {SOLID}", expected=f"{at} bytes", found=str(len(body)))
    empty = _PlacedLine(0, at, EMPTY)
    needed = [name for name in LEFT_OUT if "program.name" in lines or BY_NAME[name].table in ALWAYS]
    return {name: empty for name in needed if not directory.has(name)} | lines, at


def parse_packed(packed: PackedColumns) -> Contents:
    """Everything that a packed companion holds, checked."""
    rows = {name: packed.rows(name) for name in packed}
    again = VALUE_WIDTH * sum(count for name, count in rows.items() if name in MODELLED)
    longest = max(rows, key=rows.__getitem__, default=None)
    most = 0 if longest is None else rows[longest]
    again += ORDERED_BYTES * rows.get("handle.handle", 0)
    with memory.lent(again + CHECKED_BYTES * most, "values", place=longest):
        columns: Columns = {name: packed.whole(name) for name in packed if name not in STRING_COLUMNS}
        strings = packed.strings
        check_stored(columns, len(strings), MODELLED)
        tails = parsed_objects(packed.data, packed.directory)
        columns = restored(columns, packed.templates, strings.length)
        check_restored(columns, len(strings), MODELLED)
        return Contents(packed.directory.archive_id, NormalForm(columns, strings), packed.raw, tails)


class PackedLookup(CompanionLookup):
    """Looks up handles and tags in columns that are still modelled."""

    def __init__(self, columns: PackedColumns) -> None:
        super().__init__(columns, columns.strings)
        self._packed = columns

    @cached_property
    def _frames(self) -> tuple[Ints, Ints]:
        return self._packed.templates.frames()

    def _end(self, row: int, source: int) -> int:
        return end_of(self.at("range.end", row), self.at("range.start", row), lambda: len(self._text(source)))

    def _file_and_line(self, source: int) -> tuple[int, int]:
        file, line = self.at("source.filename", source), self.at("source.line", source)
        text = self.at("source.text", source)
        if text < 0:
            return file_of(file, NO_FILE), line
        string = inside(self.at("node.line", self.at("text.node", text)), len(self.strings))
        files, lines = self._frames
        return file_of(file, int(files[string])), line + int(lines[string])
