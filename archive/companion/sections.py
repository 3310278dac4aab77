"""The parts of each section of a companion, and about how many bytes each takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.companion.codecs import STRONGEST, zstd
from archive.companion.layout import CompanionProfile
from archive.companion.packed_columns import PackedColumns
from archive.normalform.columns import BY_NUMBER, OBJECTS, PAGES, RAW, SOLID, STRINGS

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.companion.layout import Directory

SECTION_NAMES = {STRINGS: "string.text", RAW: "raw.bytes", PAGES: "page checksums", OBJECTS: "object.bytes"}


def section_parts(
    data: memoryview, directory: Directory, number: int, allowance: Allowance
) -> list[tuple[str, int, int]]:
    """Name, bytes and inflated bytes of each part of a section.

    The parts of the solid section are compressed together; for each the bytes are told that it takes alone.

    Raises:
        ArchiveError: the section was changed.
    """
    section = directory.sections[number]
    if directory.profile is CompanionProfile.MAPPED or number not in {SOLID, STRINGS}:
        known = BY_NUMBER[number].name if number in BY_NUMBER else f"section {number}"
        return [(SECTION_NAMES.get(number, known), section.stored, section.inflated)]
    packed = PackedColumns(data, directory, allowance)
    if number == STRINGS:
        return [(SECTION_NAMES[STRINGS], section.stored, len(packed.texts))]
    parts = packed.parts().items()
    return [(name, len(zstd(part, STRONGEST)) if part else 0, len(part)) for name, part in parts]
