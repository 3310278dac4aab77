"""Columns and strings of a mapped companion, read where they lie; each page is checked on its first use."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from archive.base.errors import ArchiveError
from archive.companion.layout import check_crc
from archive.companion.lookup import inside
from archive.companion.mapped import PAGE, PAGE_BITS, check_sections, values
from archive.normalform.columns import BY_NAME, PAGES, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.companion.layout import Directory
    from archive.normalform.column_names import ColumnName


class _Pages:
    """The pages of a file, each checked when something on it is read for the first time."""

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
            or len(stored) != 4 * count
            or zlib.crc32(stored) != section.checksum
        ):
            raise ArchiveError(
                place=f"section {PAGES}", expected=f"checksums of {count} pages", found="others"
            )
        return np.frombuffer(stored, "<u4")

    def check(self, start: int, end: int) -> None:
        """Refuse bytes ``start`` to ``end`` of the file if a page of them was changed."""
        first, last = start - self.begin >> PAGE_BITS, end - 1 - self.begin >> PAGE_BITS
        for page in range(first, last + 1):
            if not self.seen[page]:
                self._check(page)

    def _check(self, page: int) -> None:
        checksum = int(self._sums[page])  # PAGES is the last section, so that each page before has one
        at = self.begin + page * PAGE
        stop = min(at + PAGE, self._directory.places[PAGES][0])
        check_crc(zlib.crc32(self.data[at:stop]), checksum, f"page at byte {at}")
        self.seen[page] = 1


class MappedColumn:
    """A column where it lies."""

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
        """The first row that has a value, of a column in order; -1 where none has.

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


class MappedColumns(dict["ColumnName", MappedColumn]):
    """The columns of a mapped companion, each made when it is asked for."""

    def __init__(self, data: memoryview, directory: Directory) -> None:
        super().__init__()
        check_sections(directory)
        self.pages = _Pages(data, directory)
        self._directory = directory

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in BY_NAME and BY_NAME[name].number in self._directory.sections

    def __missing__(self, name: ColumnName) -> MappedColumn:
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
        """The bytes of a string, where they lie; their pages are checked."""
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
