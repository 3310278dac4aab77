"""The records of an archive as members of a slim one, each in the fewest bytes that PyTorch reads.

Tensors stay as they are, aligned to 64 bytes, because PyTorch maps them. Other records are deflated if that
makes them shorter, and a record's own deflate stream is kept if no shorter one is found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from archive.base.limits import DEFAULT_LIMITS
from archive.container.deflate import STRONGEST, deflate
from archive.container.serialization_id import RECORD_NAME, renewed_id
from archive.container.write import member_from, new_member
from archive.formats.archive_id import counted_names
from archive.formats.record_kinds import RecordKind, divided_programs
from archive.reader.recognition import kind_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from archive.container.container import Container
    from archive.container.record import Record
    from archive.container.write import Member
    from archive.reader.recognition import FileKind


LONG_JSON, SHORTEST, QUICK = 1 << 16, 12, 9
"""Bytes of JSON above which it is deflated at level QUICK, not SHORTEST: 40 times as fast, 3 to 9 % more."""
ROOM = 4
"""How many times a record is held, at worst, while it is joined: its values, its bytes, its texts."""


def slim_members(
    file: FileKind,
    container: Container,
    debug: Collection[str],
    left: Mapping[str, bytes],
) -> Iterator[Member]:
    """All records without debug information and serialization id, as members of a slim archive.

    Args:
        file: the kind of the archive.
        container: the archive.
        debug: names of debug records that stay.
        left: exported programs and shared objects as they are to be; others stay as they are.
    """
    records = container.records
    counted = set(counted_names(records))
    programs = set(divided_programs(records))
    changed = programs | left.keys()
    others = sum(record.stored_size for name, record in records.items() if name not in changed)
    for name, record in records.items():
        if name in programs:
            from archive.base.json_text import json_cost  # noqa: PLC0415 (few archives have programs)

            data = left[name] if name in left else record.view()
            yield _joined_member(name, data, json_cost(data), _level(len(data)), others)
        elif name in left:
            yield _joined_member(name, left[name], len(left[name]), STRONGEST, others)
        elif kind_in(file, name) is RecordKind.TENSOR:
            yield member_from(record)
        elif name in counted or name in debug:
            data = record.view()
            stream = deflate(data, _level(len(data))) if programs else container.streams.shortest(name, data)
            yield _slim_member(record, stream)


def with_new_id(members: Iterable[Member], records: Mapping[str, Record]) -> list[Member]:
    """Add the serialization id of the members, by the rules of the archive's writer, if it had one.

    Args:
        members: of the archive to be written.
        records: of the original archive.
    """
    written = list(members)
    if RECORD_NAME in records:
        former_id = records[RECORD_NAME].view()
        member = new_member(RECORD_NAME, renewed_id(written, records.values(), former_id), compress=False)
        written.append(replace(member, aligned=False))
    return written


def _joined_member(name: str, data: bytes | memoryview, cost: int, level: int, others: int) -> Member:
    """An exported program or a shared object as a member.

    One that a join could not afford to hold several times stays stored: its own size then pays for it.

    Args:
        name: of its record.
        data: the record.
        cost: bytes of memory that its values take.
        level: at which it is deflated.
        others: bytes of the other records.
    """
    if ROOM * cost > DEFAULT_LIMITS.allowance(others).memory:
        return replace(new_member(name, data, compress=False), aligned=False)
    return smallest_member(name, data, level)


def _level(size: int) -> int:
    """The level at which the JSON of an exported program is deflated."""
    return SHORTEST if size <= LONG_JSON else QUICK


def _slim_member(record: Record, stream: bytes) -> Member:
    """A record other than a tensor as a member, in the fewest bytes: stored, deflated, or as it is."""
    return min(
        replace(member_from(record), aligned=False),
        replace(_smaller(record.name, record.view(), stream), crc32=record.crc32),
        key=lambda member: len(member.data),
    )


def smallest_member(name: str, data: bytes | memoryview, level: int = STRONGEST) -> Member:
    """A member from a record's bytes: deflated if that makes it shorter."""
    return _smaller(name, data, deflate(data, level))


def _smaller(name: str, data: bytes | memoryview, stream: bytes) -> Member:
    stored = replace(new_member(name, data, compress=False), aligned=False)
    if len(stream) >= len(data):
        return stored
    return replace(stored, data=memoryview(stream), deflated=True)
