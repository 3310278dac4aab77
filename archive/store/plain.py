"""A companion's plain form: the same companion without compression.

Companions that resemble each other do so in their plain form; compressed they differ in every byte. The plain
form is a companion, too, and is read as it is. The *recipe* has the codec and level by which each section is
compressed again, so that the companion comes back to the byte.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.companion.codecs import SMALL, STRONGEST, Codec, compressed, inflated
from archive.companion.layout import CompanionLayout, SectionLine, check_crc, read_directory, written
from archive.normalform.columns import SOLID, STRINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.companion.layout import Directory

LEVELS = (9, STRONGEST, 22)
"""Levels of compression that companions are written with: by default, and by `--max`."""
AS_STORED = 0
"""The level of a section that is compressed in no way, or in one that no level gives again."""

Step = tuple[int, int]
"""Codec and level of a section."""


class PlainForm(NamedTuple):
    """A companion's plain form, and how the companion comes back from it: codec and level of each section."""

    data: bytes
    recipe: list[Step]

    @classmethod
    def of(cls, companion: memoryview) -> PlainForm:
        """The plain form of a companion.

        Its recipe is tried: each section is compressed again, and the companion written of what that gives.
        """
        directory = read_directory(companion)
        recipe, again, plain = [], [], []
        for section, data, stored in _inflated(companion, directory):
            level = _level(section.codec, data, stored)
            recipe.append((section.codec, level))
            again.append(_with_data(section, Codec(section.codec), stored) if level else (section, stored))
            plain.append(_with_data(section, Codec.NONE, data) if level else (section, stored))
        facts = directory.layout, directory.archive_id
        if written(*facts, again, directory.version) != companion:
            raise ArchiveError("would not come back to the byte")
        return cls(written(*facts, plain, directory.version), recipe)


def plain_of(companion: memoryview, recipe: Sequence[Step]) -> bytes:
    """The plain form of a companion: all sections whose level is known are inflated."""
    directory = read_directory(companion)
    _check(recipe, directory)
    sections = [
        _with_data(section, Codec.NONE, data) if level else (section, stored)
        for (section, data, stored), (_, level) in zip(_inflated(companion, directory), recipe, strict=True)
    ]
    return written(directory.layout, directory.archive_id, sections, directory.version)


def companion_of(plain: memoryview, recipe: Sequence[Step]) -> bytes:
    """The companion whose plain form this is."""
    directory = read_directory(plain)
    _check(recipe, directory)
    sections = []
    for (number, section), (codec, level) in zip(directory.sections.items(), recipe, strict=True):
        begin, end = directory.places[number]
        data = bytes(plain[begin:end])
        if level:
            sections.append(_with_data(section, Codec(codec), compressed(data, level, Codec(codec))[1]))
        else:
            sections.append((section, data))
    return written(directory.layout, directory.archive_id, sections, directory.version)


def _check(recipe: Sequence[Step], directory: Directory) -> None:
    """Refuse a recipe that is not of this number of sections."""
    known = all(codec in {*Codec} and level in {AS_STORED, *LEVELS} for codec, level in recipe)
    if len(recipe) != len(directory.sections) or not known:
        raise ArchiveError(place="recipe", expected="codec and level of each section", found="others")


def _inflated(companion: memoryview, directory: Directory) -> Iterator[tuple[SectionLine, bytes, bytes]]:
    """Each section's line and bytes, inflated and as they are stored. Columns in blocks are not inflated."""
    for number, section in directory.sections.items():
        begin, end = directory.places[number]
        stored = companion[begin:end]
        data: bytes | memoryview = stored
        if directory.layout is CompanionLayout.PACKED and number in {SOLID, STRINGS}:
            check_crc(zlib.crc32(stored), section.checksum, f"section {number}")
            data = inflated(section.codec, stored, section.inflated)
        yield section, bytes(data), bytes(stored)


def _with_data(section: SectionLine, codec: Codec, data: bytes) -> tuple[SectionLine, bytes]:
    """A section with other bytes, and these."""
    return section._replace(codec=codec, stored=len(data), checksum=zlib.crc32(data)), data


def _level(codec: int, data: bytes, stored: bytes) -> int:
    """The level by which a codec gives the stored bytes again; ``AS_STORED`` where none does."""
    if data == stored:
        return AS_STORED
    return (_level_of_little if len(data) <= SMALL else _level_tried)(codec, data, stored)


def _level_tried(codec: int, data: bytes, stored: bytes) -> int:
    return next((level for level in LEVELS if compressed(data, level, Codec(codec))[1] == stored), AS_STORED)


_level_of_little = lru_cache(maxsize=64)(_level_tried)
"""The same, of the last ones: models that were trained anew have the same texts."""
