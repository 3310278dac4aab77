"""The archive before it was split, from what is left and its companion: the same to the byte if possible."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.companion.members import FILE_DIGEST, ORIGIN_BY_NAME, MemberKind, Origin, digest_value
from archive.companion.parse import parse_companion
from archive.container.deflate import deflated_as_by_pytorch
from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.container.write import (
    alignment_of,
    member_from,
    new_member,
    write_archive,
)
from archive.formats.archive_id import check_same_id, counted_names
from archive.formats.record_kinds import records_of_program
from archive.io.mapped import same_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from archive.companion.contents import Contents
    from archive.container.record import Record
    from archive.container.streams import Streams
    from archive.container.write import Member
    from archive.formats.elf.model import SectionTable
    from archive.reader.archive import Archive


LONG = 1 << 16
"""Bytes from which on it is worth asking where they lie."""


class _Comparison:
    """A target for writes that compares the bytes with those that are expected.

    Attributes:
        left: what is still expected.
        same: whether all bytes so far are as expected.
    """

    def __init__(self, expected: memoryview) -> None:
        self.left, self.same = expected, True

    def write(self, data: bytes | memoryview, /) -> int:
        """Compare some bytes."""
        expected, self.left = self.left[: len(data)], self.left[len(data) :]
        self.same = self.same and (_are_one(expected, data) or same_bytes(expected, data))
        return len(data)


def _are_one(left: bytes | memoryview, right: bytes | memoryview) -> bool:
    """Whether long bytes are the same place in memory, which need not be read to be compared."""
    if not len(left) == len(right) >= LONG:
        return False
    first, second = (np.frombuffer(data, np.uint8).__array_interface__["data"] for data in (left, right))
    return bool(first == second)


def with_digest(contents: Contents, archive: Archive, others: Mapping[str, Record] | None = None) -> Contents:
    """Add the digest of the file to a companion's contents, if a join restores the file to the byte.

    Args:
        contents: of the archive's companion.
        archive: before it is split.
        others: the records of what is left of it; those of the archive do unless they were changed.
    """
    container = archive.container
    records = container.records
    of_model = set(counted_names(records)) - contents.records.raw.keys()
    known = {name: record.view() for name, record in records.items() if name not in of_model}
    streams = container.streams if others is None else None
    others = records if others is None else others
    members = joined_members(others, contents, known, archive.programs.left, streams)
    joined = _Comparison(container.data)
    as_long_as_same = takewhile(lambda _: joined.same, members)
    write_archive(joined, container.root, as_long_as_same, alignment=alignment_of(records))
    if not joined.same or joined.left:
        return contents
    digest = digest_value(archive.digests.file)
    return contents.with_columns({**contents.columns, "file.digest": np.array([digest])})


class _Digest:
    """A target for writes that passes the bytes on to a file, and digests them."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self._hash = hashlib.blake2b(digest_size=FILE_DIGEST.size)

    def write(self, data: bytes | memoryview, /) -> int:
        """Pass some bytes on."""
        written = self.file.write(data)
        self._hash.update(data[:written])
        return written

    @property
    def number(self) -> int:
        """The digest as the column ``file.digest`` has it."""
        return digest_value(self._hash.digest())


def joined_to(
    file: BinaryIO, root: str, records: Mapping[str, Record], contents: Contents
) -> tuple[int, bool | None]:
    """Write an archive with its debug information.

    Args:
        file: where to write.
        root: the folder that all records are in, unless the contents name another.
        records: the archive without debug information.
        contents: of its companion.

    Returns:
        The length in bytes, and whether the file is the same to the byte as before the split; None if the
        companion has no digest of that.
    """
    digested = _Digest(file)
    members = joined_members(records, contents, contents.records)
    root = root if contents.root is None else contents.root
    size = write_archive(digested, root, members, alignment=alignment_of(records))
    digest = contents.columns.get("file.digest")
    return size, None if digest is None else int(digest[0]) == digested.number


def joined_members(
    records: Mapping[str, Record],
    contents: Contents,
    made: Mapping[str, bytes | memoryview],
    left: Mapping[str, bytes] | None = None,
    streams: Streams | None = None,
) -> list[Member]:
    """The records of the archive before it was split, in their order, stored as they were.

    Args:
        records: those of the archive without debug information; its debug records are ignored.
        contents: of the archive's companion.
        made: the debug records, by name.
        left: read in place of some records: exported programs without metadata.
        streams: of the archive that was split, if ``records`` and ``made`` are its own.
    """
    if "member.kind" not in contents.columns:
        raise ArchiveError(
            "no join gives an archive by this companion, which has no list of the archive's records; "
            "`redact` writes such ones to be given away",
            place="member.kind",
        )
    values = contents.columns["member.kind"].tolist()
    modified = contents.columns.get("member.modified", np.zeros(len(values), np.int64)).tolist()
    raw, left = contents.records.raw, left or {}
    rows_by_program = _program_rows(contents, records)
    gone = raw.keys() | contents.replaced.keys() | rows_by_program.keys()
    kept = iter([records[name] for name in counted_names(records) if name not in gone])
    # Kept records have their names; the others are named in the archive's order.
    names: dict[Origin, Iterator[str]] = {
        Origin.RANGES: iter([name for name in contents.records.range_names if name not in raw]),
        Origin.RAW: iter(raw),
        **{origin: iter([name]) for name, origin in ORIGIN_BY_NAME.items()},
    }
    programs, objects = iter(rows_by_program.items()), iter(contents.objects)
    members: list[Member] = []
    try:
        kinds = [MemberKind.of(value) for value in values]
        for kind, time in zip(kinds, modified, strict=True):
            if kind.origin is Origin.PROGRAM:
                from archive.formats.exported.program import filled  # noqa: PLC0415 (few archives have programs)

                name, rows = next(programs)
                metadata = [contents.form.metadata.of(row) for row in rows]
                stripped = memoryview(left[name]) if name in left else records[name].view()
                member = _member(name, filled(stripped, metadata), deflated=kind.deflated)
            elif kind.origin is Origin.OBJECT:
                record, (table, tail) = next(kept), next(objects)
                member = _object(record, table, tail, deflated=kind.deflated)
            elif kind.origin is Origin.KEPT:
                member = _stored_as(next(kept), deflated=kind.deflated, streams=streams)
            else:  # the computed serialization id is empty until all others are known
                name = next(names[kind.origin])
                data = b"" if kind.origin is Origin.COMPUTED else made[name]
                member = _member(name, data, deflated=kind.deflated, streams=streams)
                member = replace(member, crc32=0) if kind.no_crc else member
            members.append(replace(member, modified=time))
    except (StopIteration, KeyError, ValueError):
        raise ArchiveError(expected=f"{len(values)} records together", found="fewer") from None
    if next(kept, None) is not None:
        raise ArchiveError(expected=f"{len(values)} records together", found="more")
    complete = list(members)
    for at, kind in enumerate(kinds):
        if kind.origin is Origin.COMPUTED:
            data = serialization_id(members).encode()
            member = _member(RECORD_NAME, data, deflated=kind.deflated)
            complete[at] = replace(member, modified=members[at].modified)
    return complete


def _program_rows(contents: Contents, records: Mapping[str, Record]) -> dict[str, range]:
    """The rows of each program's metadata by its record, in the archive's order; without raw records.

    A program is found by its name, because whoever rewrites the zip may reorder its records.
    """
    if "program.name" not in contents.columns:
        return {}
    raw, rows_by_program = contents.records.raw.keys(), {}
    for name, rows in contents.form.metadata.programs.items():
        possible = records_of_program(name)
        if raw.isdisjoint(possible):
            rows_by_program[max(possible & records.keys(), key=len, default=name)] = rows
    return rows_by_program


def _object(record: Record, table: SectionTable, tail: memoryview, *, deflated: bool) -> Member:
    """A shared object with the bytes after its segments, as a member; they may never have been cut off."""
    from archive.formats.elf.cutting import cut, uncut  # noqa: PLC0415 (few archives have compiled models)

    view = record.view()
    memory.take(len(view) + len(tail), "bytes of a shared object", record=record.name)
    whole = cut(view)
    data = uncut(view if whole is None else view[: whole.size], table, tail)
    return _member(record.name, data, deflated=deflated)


def _stored_as(record: Record, *, deflated: bool, streams: Streams | None) -> Member:
    """A record as a member, deflated again as PyTorch does it, or stored."""
    member = member_from(record)
    if not (member.deflated or deflated):
        return member
    member = _member(record.name, record.view(), deflated=deflated, streams=streams)
    return replace(member, crc32=record.crc32)


def _member(name: str, data: bytes | memoryview, *, deflated: bool, streams: Streams | None = None) -> Member:
    """A member, deflated as PyTorch does it or stored. Unlike PyTorch, even short records are deflated."""
    member = new_member(name, data, compress=False)
    if not deflated or not member.size:
        return member
    stream = deflated_as_by_pytorch(data) if streams is None else streams.by_pytorch(name, data)
    return replace(member, data=memoryview(stream), deflated=True)


def check_gives(contents: Contents, companion: memoryview, left: bytes) -> None:
    """Refuse a split that lost something.

    Args:
        contents: what the companion was made of.
        companion: the companion file, which must hold the same.
        left: the archive id of what is left, which must be that of the contents.
    """
    read = parse_companion(companion)
    same = read.columns.keys() == contents.columns.keys()
    same = same and (read.raw, read.object_tails) == (contents.raw, contents.object_tails)
    same = same and all(
        np.array_equal(values, contents.columns[name]) for name, values in read.columns.items()
    )
    # The strings of each lie in one buffer without gaps.
    same = same and np.array_equal(read.strings.length, contents.strings.length)
    if not same or read.strings.buffers[0] != contents.strings.buffers[0]:
        raise ArchiveError("a companion would not read as it was written; nothing is written")
    check_same_id(contents.archive_id, left)
