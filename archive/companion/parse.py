"""The bytes of a companion to its contents, as a whole or in parts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from archive.base import memory
from archive.companion.codecs import STRONGEST, zstd
from archive.companion.layout import CompanionLayout, read_directory
from archive.companion.lookup import CodePlaces, CompanionLookup, WholeColumn
from archive.companion.mapped import MappedColumns, MappedStrings, parse_mapped
from archive.companion.packed import PackedColumns, PackedLookup, parse_packed
from archive.normalform.columns import BY_NUMBER, OBJECTS, PAGES, RAW, SOLID, STRINGS

if TYPE_CHECKING:
    from archive.companion.contents import Contents
    from archive.companion.layout import Directory

SECTION_NAMES = {STRINGS: "string.text", RAW: "raw.bytes", PAGES: "page checksums", OBJECTS: "object.bytes"}


def parse_companion(data: memoryview) -> Contents:
    """Everything that a companion holds, checked."""
    return OpenedCompanion(data).contents


@memory.kept
class OpenedCompanion:
    """A companion of which only header and directory are read yet."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.allowance = memory.current()
        self.directory = read_directory(data)

    @cached_property
    def contents(self) -> Contents:
        """Everything that it holds, checked."""
        if self.directory.layout is CompanionLayout.PACKED:
            contents = parse_packed(self._packed)
        else:
            contents = parse_mapped(self._data, self.directory)
        _ = contents.records, contents.objects  # refuses what is ambiguous
        return contents

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of its columns."""
        if self.directory.layout is CompanionLayout.PACKED:
            return frozenset(self._packed)
        return frozenset(self.directory.columns())

    @cached_property
    def _packed(self) -> PackedColumns:
        return PackedColumns(self._data, self.directory)

    @cached_property
    def places(self) -> CodePlaces:
        """Looks up single places in generated code; of a mapped file, only what that takes is read."""
        if self.directory.layout is CompanionLayout.MAPPED:
            return CodePlaces(self.lookup)
        columns = {name: WholeColumn(values) for name, values in self.contents.columns.items()}
        return CodePlaces(CompanionLookup(columns, self.contents.strings))

    @cached_property
    def lookup(self) -> CompanionLookup:
        """Looks up single handles and tags; only what that takes is read."""
        if self.directory.layout is CompanionLayout.PACKED:
            return PackedLookup(self._packed)
        mapped = MappedColumns(self._data, self.directory)
        strings = MappedStrings(mapped, self._data, self.directory)
        return CompanionLookup(mapped, strings)


def section_parts(data: memoryview, directory: Directory, number: int) -> list[tuple[str, int, int]]:
    """Name, bytes and inflated bytes of each part of a section.

    The parts of the solid section are compressed together; here each counts as if compressed separately.
    """
    section = directory.sections[number]
    if directory.layout is CompanionLayout.MAPPED or number not in {SOLID, STRINGS}:
        known = BY_NUMBER[number].name if number in BY_NUMBER else f"section {number}"
        return [(SECTION_NAMES.get(number, known), section.stored, section.inflated)]
    packed = PackedColumns(data, directory)
    if number == STRINGS:
        return [(SECTION_NAMES[STRINGS], section.stored, len(packed.texts))]
    parts = packed.parts().items()
    return [(name, len(zstd(part, STRONGEST)) if part else 0, len(part)) for name, part in parts]
