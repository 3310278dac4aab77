"""Mapped companions, built and read: arrays of the least width, 64-byte aligned, read in place.

The section STRINGS has all strings concatenated, and ``string.end`` where each one ends; there are no
templates. The last section, PAGES, has the crc32 of every 4,096 bytes between the directory and itself; a
page is checked when something on it is first read.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from archive.base import memory
from archive.base.columns import STEP, table_over
from archive.base.errors import ArchiveError
from archive.companion.codecs import built_objects, parsed_objects
from archive.companion.contents import Contents
from archive.companion.layout import (
    ALIGNMENT,
    HEADER,
    MAPPED_LINE,
    CompanionLayout,
    check_crc,
    written,
)
from archive.companion.lookup import inside
from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import Int32ul, Struct
from archive.normalform.check import CHECKED_BYTES, check
from archive.normalform.columns import BY_NAME, BY_NUMBER, COLUMNS, PAGES, RAW, STRINGS, VALUE_WIDTH
from archive.normalform.form import NormalForm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.base.columns import Ints
    from archive.companion.layout import Directory, SectionLine
    from archive.normalform.columns import Columns

COPIES = 5
"""Copies of its contents while one is built: its sections, a draft of it, and itself twice."""
OBJECT_LEVEL = 9
"""The zstd level for the bytes after the segments of shared objects, which are compressed here, too."""
PAGE_BITS = 12
PAGE = 1 << PAGE_BITS
SIGNED = 16
PAGE_SUM = Layout("page checksum" / Struct("crc32" / Int32ul * "of the page's bytes"))


def build_mapped(contents: Contents) -> bytes:
    """A mapped companion."""
    strings = contents.strings
    columns: Columns = {**contents.columns, "string.end": np.cumsum(strings.length)}
    kinds = {name: _least(values) for name, values in columns.items()}
    size = sum(kind.itemsize * len(columns[name]) for name, kind in kinds.items())
    size += int(strings.length.sum()) + len(contents.raw) + len(contents.object_tails)
    with memory.lent(COPIES * size, "columns that are encoded"):
        return _built(contents, columns, kinds)


def _built(contents: Contents, columns: Columns, kinds: Mapping[str, np.dtype]) -> bytes:
    strings, parts = contents.strings, []
    ends = [*range(0, len(strings), STEP), len(strings)]
    texts = [b"".join(strings.copies(np.arange(low, high))) for low, high in pairwise(ends)]
    text = b"".join(texts)
    for column in COLUMNS:
        if column.name in columns:
            values, kind = columns[column.name], kinds[column.name]
            coding = kind.itemsize + SIGNED * (kind.kind == "i")
            parts.append((column.number, coding, len(values), values.astype(kind).tobytes()))
    parts += [(STRINGS, 1, len(text), text), (RAW, 1, len(contents.raw), bytes(contents.raw))]
    lines = [
        (MAPPED_LINE.row(number, coding, 0, count, 0, len(data), len(data), zlib.crc32(data)), data)
        for number, coding, count, data in parts
    ]
    lines += built_objects(contents.object_tails, OBJECT_LEVEL)
    draft = written(CompanionLayout.MAPPED, contents.archive_id, [*lines, _pages(b"")])
    begin = HEADER.size + MAPPED_LINE.size * (len(lines) + 1)
    aligned = begin + -begin % ALIGNMENT[CompanionLayout.MAPPED]
    return written(CompanionLayout.MAPPED, contents.archive_id, [*lines, _pages(draft[aligned:])])


def _pages(data: bytes) -> tuple[SectionLine, bytes]:
    sums = [zlib.crc32(data[at : at + PAGE]) for at in range(0, len(data), PAGE)]
    stored = np.array(sums, PAGE_SUM.dtype).tobytes()
    size = len(stored)
    return MAPPED_LINE.row(PAGES, 4, 0, len(sums), 0, size, size, zlib.crc32(stored)), stored


def _least(values: Ints) -> np.dtype[np.signedinteger] | np.dtype[np.unsignedinteger]:
    """The narrowest type that holds all values."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    kinds = ("<i1", "<i2", "<i4") if low < 0 else ("<u1", "<u2", "<u4")
    for kind in kinds:
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return np.dtype(kind)
    return np.dtype("<i8")


def check_sections(directory: Directory) -> None:
    """Refuse a mapped companion without strings, or without the section for raw records."""
    for number in (STRINGS, RAW, BY_NAME["string.end"].number):
        if number not in directory.sections:
            raise ArchiveError(place="directory", expected=f"section {number}", found="none")


def parse_mapped(data: memoryview, directory: Directory) -> Contents:
    """Everything that a mapped companion holds, checked; strings stay in place."""
    check_sections(directory)
    columns: Columns = {}
    for number, section in directory.sections.items():
        start, end = directory.places[number]
        check_crc(zlib.crc32(data[start:end]), section.checksum, f"section {number}, byte {start}")
        if number in BY_NUMBER:
            memory.take(VALUE_WIDTH * section.rows, "values", place=BY_NUMBER[number].name)
            columns[BY_NUMBER[number].name] = values(data[start:end], section).astype(np.int64)
    ends = columns.pop("string.end")
    start, end = directory.places[STRINGS]
    if (np.diff(ends, prepend=0) < 0).any() or ends[-1] != end - start:
        raise ArchiveError(place="string.end", expected=f"ends up to {end - start}", found="others")
    strings = table_over(data[start:end], np.diff(ends, prepend=0), borrowed=True)
    longest = max(map(len, columns.values()), default=0)
    with memory.lent(CHECKED_BYTES * longest, "values"):
        check(columns, len(strings))
    start, end = directory.places[RAW]
    form = NormalForm(columns, strings)
    return Contents(directory.archive_id, form, data[start:end], parsed_objects(data, directory))


def values(data: memoryview, section: SectionLine) -> np.ndarray:
    """A column in place, as an array of its own width."""
    width = section.coding % SIGNED
    if width not in (1, 2, 4, 8) or width * section.rows != len(data) or section.coding > 2 * SIGNED:
        raise ArchiveError(
            place=f"section {section.number}", expected=f"{section.rows} values", found="others"
        )
    kind = "i" if section.coding & SIGNED or width == VALUE_WIDTH else "u"
    return np.frombuffer(data, f"<{kind}{width}")


# --- columns and strings in place


class _Pages:
    """The pages of a file, each checked when something on it is first read."""

    def __init__(self, data: memoryview, directory: Directory) -> None:
        self.data = data
        self.begin = min(start for start, _ in directory.places.values())
        self._directory = directory
        self.seen = bytearray(-(-(len(data) - self.begin) >> PAGE_BITS) + 1)

    @cached_property
    def _sums(self) -> np.ndarray:
        section = self._directory.sections.get(PAGES)
        start, end = self._directory.places.get(PAGES, (0, 0))
        count = -(-(start - self.begin) // PAGE)
        stored = self.data[start:end]
        if (
            section is None
            or end != len(self.data)
            or len(stored) != PAGE_SUM.size * count
            or zlib.crc32(stored) != section.checksum
        ):
            raise ArchiveError(
                place=f"section {PAGES}", expected=f"checksums of {count} pages", found="others"
            )
        return PAGE_SUM.columns(stored)["crc32"]

    def check(self, start: int, end: int) -> None:
        """Refuse bytes ``start`` to ``end`` of the file if a page of them was changed."""
        first, last = start - self.begin >> PAGE_BITS, end - 1 - self.begin >> PAGE_BITS
        for page in range(first, last + 1):
            if not self.seen[page]:
                self._check(page)

    def _check(self, page: int) -> None:
        checksum = int(self._sums[page])  # PAGES is the last section, so that every page before has one
        at = self.begin + page * PAGE
        stop = min(at + PAGE, self._directory.places[PAGES][0])
        check_crc(zlib.crc32(self.data[at:stop]), checksum, f"page at byte {at}")
        self.seen[page] = 1


class MappedColumn:
    """A column in place."""

    __slots__ = ("_offset", "_pages", "_quick", "_rows", "_seen", "_shift", "_start", "_values")

    def __init__(self, pages: _Pages, directory: Directory, number: int) -> None:
        self._start, end = directory.places[number]
        self._pages = pages
        self._values = values(pages.data[self._start : end], directory.sections[number])
        self._rows = len(self._values)
        self._quick = cast(
            "Sequence[int]", self._values.data if self._values.dtype.isnative else self._values
        )
        self._shift = self._values.itemsize.bit_length() - 1
        self._offset = self._start - pages.begin
        self._seen = pages.seen

    def __len__(self) -> int:
        return len(self._values)

    def at(self, row: int) -> int:
        """The value of a row; its page is checked."""
        if not (0 <= row < self._rows and self._seen[self._offset + (row << self._shift) >> PAGE_BITS]):
            at = self._start + (inside(row, self._rows) << self._shift)
            self._pages.check(at, at + 1)
        return int(self._quick[row])

    def find(self, value: int) -> int:
        """The first row that has a value, in a sorted column; -1 if none has.

        The search reads pages unchecked: on changed ones it may miss a value, but the value it finds is
        checked. So all pages are checked before a value counts as missing.
        """
        row = self._search(value)
        if row < 0 or self.at(row) != value:
            self.all()
            row = self._search(value)
        return row

    def _search(self, value: int) -> int:
        row = bisect_left(self._quick, value)
        return row if row < self._rows and self._quick[row] == value else -1

    def all(self) -> np.ndarray:
        """All values, checked."""
        if len(self._values):
            self._pages.check(self._start, self._start + self._values.nbytes)
        return self._values


class MappedColumns(dict[str, MappedColumn]):
    """The columns of a mapped companion, each made when it is asked for."""

    def __init__(self, data: memoryview, directory: Directory) -> None:
        super().__init__()
        check_sections(directory)
        self.pages = _Pages(data, directory)
        self._directory = directory

    def __contains__(self, name: object) -> bool:
        return self._directory.has(name)

    def __missing__(self, name: str) -> MappedColumn:
        if name not in self:
            raise ArchiveError(place=name, expected="a section", found="none")
        self[name] = MappedColumn(self.pages, self._directory, BY_NAME[name].number)
        return self[name]


class MappedStrings:
    """The strings of a mapped companion."""

    def __init__(self, columns: MappedColumns, data: memoryview, directory: Directory) -> None:
        self._ends = columns["string.end"]
        self._start, end = directory.places[STRINGS]
        self._size = end - self._start
        self._data = data
        self._pages = columns.pages

    def __len__(self) -> int:
        return len(self._ends)

    def data(self, index: int) -> memoryview:
        """The bytes of a string, in place; their pages are checked."""
        start, end = self._ends.at(index - 1) if index else 0, self._ends.at(index)
        if not start <= end <= self._size:
            raise ArchiveError(
                place=f"string.end, row {index}", expected=f"up to {self._size}", found=str(end)
            )
        start, end = self._start + start, self._start + end
        if end > start:
            self._pages.check(start, end)
        return self._data[start:end]

    def is_borrowed(self, index: int) -> bool:  # noqa: ARG002 (none is a copy)
        """All are part of the mapped file."""
        return True
