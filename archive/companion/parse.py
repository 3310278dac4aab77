"""The bytes of a companion to its contents.

Looks up the source of single places in generated code, without making the records of source ranges.

Rows of a record are in the order of their places, so bisection finds the last one that does not begin behind
a place; see :meth:`~archive.debuginfo.tables.RangeTable.locate`.

Columns and strings of a mapped companion, read where they lie; each page is checked on its first use.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from archive.base.columns import firsts
from archive.base.errors import ArchiveError
from archive.companion.layout import CompanionProfile, check_crc, read_directory
from archive.companion.lookup import CompanionLookup, WholeColumn, inside
from archive.companion.mapped import PAGE, PAGE_BITS, check_sections, parse_mapped, values
from archive.companion.packed_columns import PackedColumns, PackedLookup, parse_packed
from archive.normalform.columns import BY_NAME, BY_NUMBER, PAGES, STRINGS
from archive.normalform.names import record_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.base.limits import Allowance
    from archive.companion.contents import Contents
    from archive.companion.layout import Directory
    from archive.debuginfo.model import SourceRange
    from archive.normalform.column_names import ColumnName

# --- mapped columns


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


# --- places

K = TypeVar("K", int, tuple[int, int])


class CodePlaces:
    """The places of a companion's source ranges in generated code.

    Args:
        lookup: of the companion; its columns are not modelled.
        allowance: the memory that the file may cost.
    """

    def __init__(self, lookup: CompanionLookup, allowance: Allowance) -> None:
        self._lookup = lookup
        self._allowance = allowance

    @cached_property
    def records(self) -> Mapping[str, range]:
        """The rows of each record of source ranges, by its name.

        Raises:
            ArchiveError: the file was changed there, or contradicts itself.
            LimitError: there are too many.
        """
        numbers, rows = self._lookup.all("record.name").tolist(), self._lookup.all("record.rows")
        names = record_names(self._lookup.strings, numbers, self._allowance)
        return dict(zip(names, starmap(range, pairwise(firsts(rows).tolist())), strict=True))

    def of_byte(self, name: str, position: int) -> SourceRange | None:
        """The source of a byte of the generated code that a record is for; None where none is known."""
        return self._of(name, position, lambda row: self._lookup.at("row.offset", row))

    def of_line(self, name: str, line: int, column: int) -> SourceRange | None:
        """The source of a place in the generated code that a record is for; None where none is known.

        Args:
            name: of the record of source ranges; None is known if there is no such record.
            line: from 1.
            column: in bytes, from 0.
        """
        at = self._lookup.at
        return self._of(name, (line - 1, column), lambda row: (at("row.line", row), at("row.column", row)))

    def _of(self, name: str, place: K, place_of: Callable[[int], K]) -> SourceRange | None:
        """The source of the last row that does not begin behind a place."""
        rows = self.records.get(name, range(0))
        row = rows.start + bisect_right(rows, place, key=place_of) - 1
        unknown = row < rows.start or self._lookup.at("row.offset", row) < 0
        return None if unknown else self._lookup.range_at(self._lookup.at("row.range", row))


# --- parse


def parse_companion(data: memoryview, allowance: Allowance) -> Contents:
    """All that a companion holds, checked.

    Raises:
        ArchiveError: this is no companion, one of an unknown version, or one that was changed.
        LimitError: it asks for more than allowed.
    """
    return Opened(data, allowance).contents


class Opened:
    """A companion of which nothing but header and directory is read yet.

    Raises:
        ArchiveError: this is no companion, one of an unknown version, cut short, or changed.
        LimitError: its sections would inflate to more than allowed.
    """

    def __init__(self, data: memoryview, allowance: Allowance) -> None:
        self._data = data
        self._allowance = allowance
        self.directory = read_directory(data, allowance)

    @cached_property
    def contents(self) -> Contents:
        """All that it holds, checked."""
        parse = parse_packed if self.directory.profile is CompanionProfile.PACKED else parse_mapped
        contents = parse(self._data, self.directory, self._allowance)
        _ = contents.records, contents.objects  # refuses what cannot be told apart
        return contents

    @cached_property
    def columns(self) -> frozenset[ColumnName]:
        """The names of its columns."""
        if self.directory.profile is CompanionProfile.PACKED:
            return frozenset(self._packed)
        return frozenset(BY_NUMBER[number].name for number in self.directory.sections if number in BY_NUMBER)

    @cached_property
    def _packed(self) -> PackedColumns:
        return PackedColumns(self._data, self.directory, self._allowance)

    @cached_property
    def places(self) -> CodePlaces:
        """Looks up single places in generated code; of a mapped file, no more is read than that takes."""
        if self.directory.profile is CompanionProfile.MAPPED:
            return CodePlaces(self.lookup, self._allowance)
        columns = {name: WholeColumn(values) for name, values in self.contents.columns.items()}
        return CodePlaces(CompanionLookup(columns, self.contents.strings, self._allowance), self._allowance)

    @cached_property
    def lookup(self) -> CompanionLookup:
        """Looks up single handles and tags; no more is read than that takes."""
        if self.directory.profile is CompanionProfile.PACKED:
            return PackedLookup(self._packed, self._allowance)
        mapped = MappedColumns(self._data, self.directory)
        strings = MappedStrings(mapped, self._data, self.directory)
        return CompanionLookup(mapped, strings, self._allowance)
