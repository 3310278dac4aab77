"""The end of a zip: the records from which a reader finds the directory.

The end record stands last, before a comment; zip64 puts a wider one, and its locator, before it. They say how
many entries the directory has and where it stands. Each claim is checked against the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from archive.base.errors import ArchiveError
from archive.container.headers import END, U16_MAX, U32_MAX, ZIP64_END, ZIP64_LOCATOR, EndRecord

if TYPE_CHECKING:
    from archive.base.ranged import Bytes


def has_end(data: Bytes) -> bool:
    """Whether the file ends with an end record, as every whole zip does."""
    try:
        _find_end(data)
    except ArchiveError:
        return False
    return True


def bytes_behind(data: Bytes) -> int:
    """How many other bytes follow a whole zip; 0 if there is no zip, or nothing follows."""
    tail = bytes(data[-END.size - U16_MAX :])
    at = tail.rfind(END.magic)
    if at < 0 or at + END.size > len(tail):
        return 0
    behind = len(tail) - at - END.size - END.read(memoryview(tail), at).comment_length
    if behind <= 0:
        return 0
    try:
        read_end(data, len(data) - behind)
    except ArchiveError:
        return 0
    return behind


def read_end(data: Bytes, size: int | None = None) -> EndRecord:
    """The end record, with the zip64 end record's values if there is one.

    Args:
        data: the file.
        size: bytes of the zip, where others follow it.

    Raises:
        ArchiveError: there is no end record, or it contradicts itself.
    """
    at = _find_end(data, size)
    end = END.read(data, at)
    located = at - ZIP64_LOCATOR.size
    if located >= 0 and data[located : located + 4] == ZIP64_LOCATOR.magic:
        at, end = _read_zip64_end(data, located, end)
    if end.disk or end.directory_disk or end.entries_here != end.entries:
        refuse(at, "an archive in one part", "one of several")
    expect("the directory to end at byte", at, end.directory_position + end.directory_size, at)
    return end


def _find_end(data: Bytes, size: int | None = None) -> int:
    """Position of the last end record whose comment fills the rest of the file, or of so many bytes."""
    size = len(data) if size is None else size
    tail = bytes(data[max(size - END.size - U16_MAX, 0) : size])
    at = tail.rfind(END.magic)
    while at >= 0:
        rest = len(tail) - at - END.size
        if rest >= 0 and END.read(memoryview(tail), at).comment_length == rest:
            return size - len(tail) + at
        at = tail.rfind(END.magic, 0, at)
    raise ArchiveError(
        "no zip archive, or one cut short",
        place=f"byte {size}",
        expected="an end record before the end of the file",
        found="none",
    )


def _read_zip64_end(data: Bytes, located: int, end: EndRecord) -> tuple[int, EndRecord]:
    """Position and values of the zip64 end record, whose locator stands at byte ``located``."""
    locator = ZIP64_LOCATOR.read(data, located)
    wide = ZIP64_END.read(data, locator.position, located)
    behind = locator.position + ZIP64_END.offset("made_by") + wide.length
    expect("the zip64 end record to end at byte", located, behind, locator.position)
    if locator.disk or locator.disks > 1:
        refuse(located, "an archive in one part", "one of several")
    for what, narrow, true, most in (
        ("number of entries", end.entries, wide.entries, U16_MAX),
        ("directory size", end.directory_size, wide.directory_size, U32_MAX),
        ("directory position", end.directory_position, wide.directory_position, U32_MAX),
    ):
        if narrow != most:
            expect(what, true, narrow, located + ZIP64_LOCATOR.size)
    return locator.position, EndRecord(*wide[3:], end.comment_length)


def expect(what: str, expected: int, found: int, at: int) -> None:
    """Refuse a number that is not the expected one; ``at``: the byte of the place, for the message."""
    if found != expected:
        refuse(at, f"{what} {expected}", str(found))


def refuse(at: int, expected: str, found: str) -> NoReturn:
    """Raise an error at a byte of the file."""
    raise ArchiveError(place=f"byte {at}", expected=expected, found=found)
