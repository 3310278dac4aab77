"""A companion's plain form: the same companion without compression.

Companions that resemble each other do so in their plain form; compressed they differ in every byte. The plain
form is a companion, too, and is read as it is. The *recipe* has the codec and level by which each section is
compressed again, so that the companion comes back to the byte.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.companion.codecs import STRONGEST, Codec, compressed, inflated
from archive.companion.layout import CompanionProfile, Section, check_crc, read_directory, written
from archive.normalform.columns import SOLID, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.limits import Allowance

LEVELS = (9, STRONGEST, 22, *range(1, 9), *range(10, STRONGEST), 20, 21)
"""Levels of compression, the likeliest first."""
AS_STORED = 0
"""The level of a section that stays as it is: no level compresses it to the same bytes."""

Recipe = list[tuple[int, int]]
"""Codec and level of each section."""


class Plain(NamedTuple):
    """A companion in its plain form.

    Attributes:
        data: the plain form, a companion.
        recipe: how the companion comes back; empty where it is its own plain form.
    """

    data: bytes
    recipe: Recipe


def plain_of(companion: memoryview, allowance: Allowance) -> Plain:
    """The plain form of a companion.

    Raises:
        ArchiveError: this is no companion, or one that was changed.
        LimitError: it would inflate to more than allowed.
    """
    directory = read_directory(companion, allowance)
    sections, recipe = [], []
    for number, section in directory.sections.items():
        begin, end = directory.places[number]
        stored = companion[begin:end]
        if directory.profile is CompanionProfile.PACKED and number in {SOLID, STRINGS}:
            check_crc(zlib.crc32(stored), section.checksum, f"section {number}")
            data = inflated(section.codec, stored, section.inflated)
            level = _level(section.codec, data, stored)
        else:
            data, level = stored, AS_STORED
        recipe.append((section.codec, level))
        sections.append(_with_data(section, Codec.NONE, bytes(data)) if level else (section, bytes(data)))
    if all(level == AS_STORED for _, level in recipe):
        return Plain(bytes(companion), [])
    return Plain(written(directory.profile, directory.archive_id, sections), recipe)


def companion_of(plain: memoryview, recipe: Sequence[tuple[int, int]], allowance: Allowance) -> bytes:
    """The companion whose plain form this is.

    Raises:
        ArchiveError: the plain form and the recipe are not of one companion.
        LimitError: it asks for more than allowed.
    """
    directory = read_directory(plain, allowance)
    if not recipe:
        return bytes(plain)
    if len(recipe) != len(directory.sections) or not all(map(_is_known, recipe)):
        raise ArchiveError(place="recipe", expected="codec and level of each section", found="others")
    sections = []
    for (number, section), (codec, level) in zip(directory.sections.items(), recipe, strict=True):
        begin, end = directory.places[number]
        data = bytes(plain[begin:end])
        if level:
            sections.append(_with_data(section, Codec(codec), compressed(data, level, Codec(codec))[1]))
        else:
            sections.append((section, data))
    return written(directory.profile, directory.archive_id, sections)


def _is_known(step: tuple[int, int]) -> bool:
    codec, level = step
    return codec in {*Codec} and (level == AS_STORED or level in LEVELS)


def _with_data(section: Section, codec: Codec, data: bytes) -> tuple[Section, bytes]:
    """A section with other bytes, and these."""
    return section._replace(codec=codec, stored=len(data), checksum=zlib.crc32(data)), data


def _level(codec: int, data: bytes | memoryview, stored: memoryview) -> int:
    """The level by which a codec gives the stored bytes again; ``AS_STORED`` where none does."""
    if codec == Codec.NONE:
        return AS_STORED
    plain = bytes(data)
    return next((one for one in LEVELS if compressed(plain, one, Codec(codec))[1] == stored), AS_STORED)
