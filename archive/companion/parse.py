"""The bytes of a companion to its contents."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from archive.companion.layout import CompanionProfile, read_directory
from archive.companion.lookup import CompanionLookup, WholeColumn
from archive.companion.mapped import parse_mapped
from archive.companion.mapped_columns import MappedColumns, MappedStrings
from archive.companion.packed_columns import PackedColumns, PackedLookup, parse_packed
from archive.companion.places import CodePlaces
from archive.normalform.columns import BY_NUMBER

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.companion.contents import Contents
    from archive.normalform.column_names import ColumnName


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
