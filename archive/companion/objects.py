"""The section OBJECTS: what stood behind the segments of shared objects, most of it DWARF.

It is compressed by itself, in both profiles, for a join alone needs it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.companion.codecs import MIDDLING, STRONGEST, Codec, compressed, encoder_bytes, inflated
from archive.companion.layout import Section, check_crc
from archive.normalform.columns import OBJECTS

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.companion.layout import Directory


def built_objects(
    behind: bytes | memoryview, level: int, allowance: Allowance
) -> list[tuple[Section, bytes]]:
    """The section, if there is anything in it.

    Args:
        behind: its bytes. Up to 4 MiB LZMA is by far the best for DWARF, and as fast as zstd at its best.
        level: of zstd for more: see :func:`~archive.companion.codecs.compressed`.
        allowance: the memory that it may cost.

    Raises:
        LimitError: it would take more memory than allowed.
    """
    if not behind:
        return []
    small = len(behind) <= MIDDLING
    level = STRONGEST if small else level
    with allowance.lent(encoder_bytes(len(behind), level), "bytes of shared objects"):
        codec, data = compressed(bytes(behind), level, Codec.LZMA if small else None)
    return [(Section(OBJECTS, 1, codec, 0, 0, len(behind), len(data), zlib.crc32(data)), data)]


def parsed_objects(data: memoryview, directory: Directory, allowance: Allowance) -> bytes | memoryview:
    """The bytes of the section; none where it is not there.

    Args:
        data: the companion.
        directory: of the companion.
        allowance: the memory that they may cost.

    Raises:
        ArchiveError: they were changed.
        LimitError: they take more memory than allowed.
    """
    if OBJECTS not in directory.sections:
        return b""
    section, (start, end) = directory.sections[OBJECTS], directory.places[OBJECTS]
    place = f"section {OBJECTS}"
    check_crc(zlib.crc32(data[start:end]), section.checksum, place)
    allowance.take(section.inflated, "bytes", place=place)
    try:
        return inflated(section.codec, data[start:end], section.inflated)
    except ArchiveError as problem:
        raise problem.within(place=place) from problem.__cause__
