"""The zip's own bytes: headers, padding, descriptors, directory, and gaps between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.container.directory import central_headers
from archive.container.end import read_end
from archive.container.headers import CENTRAL, LOCAL, widened
from archive.describe.sizes.account import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.ranged import Bytes
    from archive.container.container import Container
    from archive.container.headers import CentralHeader
    from archive.container.record import Record

PADDING_FIELD = b"FB"


def structure(container: Container) -> Iterator[tuple[str | None, Part, int]]:
    """All bytes but the stored bytes of records: of each piece the record, the part, and the size in bytes.

    End records, entries of folders and gaps belong to no record: theirs is None.
    """
    data = container.by_place
    end = read_end(data)
    records = iter(container.records.values())
    used = 0
    for _, header, path, extra in central_headers(data, end, container.allowance):
        if path.endswith(b"/"):
            name, parts = None, {Part.HEADER: _local_length(data, header, extra)}
        else:
            record = next(records)
            name, parts = record.name, _around(data, record)
            used += record.stored_size
        parts[Part.DIRECTORY] = CENTRAL.size + len(path) + len(extra) + header.comment_length
        yield from ((name, part, size) for part, size in parts.items() if size)
        used += sum(parts.values())
    ends = len(data) - end.comment_length - end.directory_position - end.directory_size
    yield None, Part.DIRECTORY, ends
    if gaps := len(data) - ends - used:
        yield None, Part.GAP, gaps


def _around(data: Bytes, record: Record) -> dict[Part, int]:
    """The sizes of the parts around a record's stored bytes."""
    start, place = record.entry.start, record.place
    local = LOCAL.read(data, start)
    padding = _padding(data[place.data - local.extra_length : place.data])
    return {
        Part.HEADER: place.data - start - padding,
        Part.PADDING: padding,
        Part.DESCRIPTOR: place.end - place.data - record.stored_size,
    }


def _local_length(data: Bytes, header: CentralHeader, extra: memoryview) -> int:
    *_, start = widened((header.size, header.stored_size, header.position), extra)
    local = LOCAL.read(data, start)
    return LOCAL.size + local.name_length + local.extra_length


def _padding(extra: memoryview) -> int:
    """The size of the padding field among extra fields, 0 where there is none."""
    at = 0
    while at + 4 <= len(extra):
        length = 4 + int.from_bytes(extra[at + 2 : at + 4], "little")
        if extra[at : at + 2] == PADDING_FIELD:
            return min(length, len(extra) - at)
        at += length
    return 0
