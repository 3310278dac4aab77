"""An archive and its companion become one file again, the same to the byte where that is possible."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.companion.members import DIGEST_BYTES, ORIGIN_BY_NAME, MemberKind, Origin, digest_value
from archive.companion.parse import parse_companion
from archive.container.container import member_from, new_member, write_archive
from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.container.write import deflated_as_by_pytorch
from archive.formats.archive_id import counted_names
from archive.formats.record_kinds import records_of_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from archive.base.limits import Allowance
    from archive.base.strings import StringTable
    from archive.companion.contents import Contents
    from archive.container.container import Container, Member
    from archive.container.record import Record
    from archive.formats.elf.model import SectionTable


class _Digest:
    """A target for writes that digests the bytes, and passes them on to a file if it has one."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.file = file
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def write(self, data: bytes | memoryview, /) -> int:
        """Digest some bytes, and pass them on."""
        written = len(data) if self.file is None else self.file.write(data)
        self._hash.update(data[:written])
        return written

    @property
    def number(self) -> int:
        """The digest as the column ``file.digest`` has it."""
        return digest_value(self._hash.digest())


def with_digest(
    contents: Contents,
    container: Container,
    left: Mapping[str, bytes] | None = None,
    others: Mapping[str, Record] | None = None,
) -> Contents:
    """Add the digest of the file to a companion's contents, if a join gives the file again to the byte.

    Args:
        contents: of the archive's companion.
        container: the archive before it is split.
        left: the records of exported programs without metadata, by name, as far as they are known: those of
            the archive do as well, and take longer.
        others: the records of what is left of it; those of the archive do unless they were changed.
    """
    original, joined = _Digest(), _Digest()
    original.write(container.data)
    raw = contents.records.raw
    records = container.records
    kept = set(counted_names(records)) - raw.keys()
    known = {name: record.view() for name, record in records.items() if name not in kept}
    members = joined_members(records if others is None else others, contents, known, left)
    write_archive(joined, container.root, members)
    if joined.number != original.number:
        return contents
    return contents.with_columns({**contents.columns, "file.digest": np.array([original.number])})


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
    size = write_archive(digested, root if contents.root is None else contents.root, members)
    digest = contents.columns.get("file.digest")
    return size, None if digest is None else int(digest[0]) == digested.number


def joined_members(
    records: Mapping[str, Record],
    contents: Contents,
    made: Mapping[str, bytes | memoryview],
    left: Mapping[str, bytes] | None = None,
) -> list[Member]:
    """The records of the archive before it was split, in their order, stored as they were.

    Args:
        records: those of the archive without debug information; debug records among them are ignored.
        contents: of the archive's companion.
        made: the debug records, by name.
        left: what is read in place of some of the records: exported programs without metadata.

    Raises:
        ArchiveError: there are more or fewer records than there were.
    """
    if "member.kind" not in contents.columns:
        raise ArchiveError(
            "no join gives an archive by this companion, which has no list of the archive's records; "
            "`redact` writes such ones to be given away",
            place="member.kind",
        )
    values = contents.columns["member.kind"].tolist()
    modified = contents.columns.get("member.modified", np.zeros(len(values), np.int64)).tolist()
    raw = contents.records.raw
    gone = raw.keys() | contents.replaced.keys()
    kept = iter([records[name] for name in counted_names(records) if name not in gone])
    names = _names(contents)
    programs, objects = _program_metadata(contents), iter(contents.objects)
    try:
        kinds = [MemberKind.of(value) for value in values]
        members = [
            replace(
                _program(
                    next(kept), left or {}, next(programs), contents.form.allowance, deflated=kind.deflated
                )
                if kind.origin is Origin.PROGRAM
                else _object(next(kept), *next(objects), contents.form.allowance, deflated=kind.deflated)
                if kind.origin is Origin.OBJECT
                else _joined_member(kind, kept, names, made),
                modified=time,
            )
            for kind, time in zip(kinds, modified, strict=True)
        ]
    except (StopIteration, KeyError, ValueError):
        raise ArchiveError(expected=f"{len(values)} records together", found="fewer") from None
    if next(kept, None) is not None:
        raise ArchiveError(expected=f"{len(values)} records together", found="more")
    return [
        _computed(member, members, deflated=kind.deflated) if kind.origin is Origin.COMPUTED else member
        for member, kind in zip(members, kinds, strict=True)
    ]


def _program_metadata(contents: Contents) -> Iterator[list[dict[str, str]]]:
    """The metadata of each program's nodes, in the archive's order; raw ones have theirs."""
    if "program.name" in contents.columns:
        metadata = contents.form.metadata
        for name, rows in metadata.programs.items():
            if contents.records.raw.keys().isdisjoint(records_of_program(name)):
                yield [metadata.of(row) for row in rows]


def _program(
    record: Record,
    left: Mapping[str, bytes],
    metadata: list[dict[str, str]],
    allowance: Allowance,
    *,
    deflated: bool,
) -> Member:
    """An exported program with its metadata, as a member."""
    from archive.formats.exported.program import filled  # noqa: PLC0415 (few archives have programs)

    data = memoryview(left[record.name]) if record.name in left else record.view()
    return _member(record.name, filled(data, metadata, allowance), deflated=deflated)


def _object(
    record: Record, table: SectionTable, behind: memoryview, allowance: Allowance, *, deflated: bool
) -> Member:
    """A shared object with what stood behind its segments, as a member; it may have stayed there."""
    from archive.formats.elf.cutting import cut, uncut  # noqa: PLC0415 (few archives have compiled models)

    view = record.view()
    allowance.take(len(view) + len(behind), "bytes of a shared object", record=record.name)
    whole = cut(view)
    data = uncut(view if whole is None else view[: whole.size], table, behind)
    return _member(record.name, data, deflated=deflated)


def _names(contents: Contents) -> dict[Origin, Iterator[str]]:
    """The names of the records from each origin, in the archive's order; kept records have theirs."""
    raw = contents.records.raw
    return {
        Origin.RANGES: iter([name for name in contents.records.range_names if name not in raw]),
        Origin.RAW: iter(raw),
        **{origin: iter([name]) for name, origin in ORIGIN_BY_NAME.items()},
    }


def _joined_member(
    kind: MemberKind,
    kept: Iterator[Record],
    names: Mapping[Origin, Iterator[str]],
    made: Mapping[str, bytes | memoryview],
) -> Member:
    """The next member, by its kind. The computed serialization id is empty until all others are known.

    Raises:
        StopIteration: there is no record left to make it of.
    """
    if kind.origin is Origin.KEPT:
        return _stored_as(next(kept), deflated=kind.deflated)
    name = next(names[kind.origin])
    data = b"" if kind.origin is Origin.COMPUTED else made[name]
    member = _member(name, data, deflated=kind.deflated)
    return replace(member, crc32=0) if kind.no_crc else member


def _computed(member: Member, members: list[Member], *, deflated: bool) -> Member:
    """The serialization id that PyTorch on Linux computes from an archive's members, as a member."""
    data = serialization_id(members).encode()
    return replace(_member(RECORD_NAME, data, deflated=deflated), modified=member.modified)


def _stored_as(record: Record, *, deflated: bool) -> Member:
    """A record as a member, deflated anew as PyTorch does it, or stored."""
    member = member_from(record)
    if member.deflated == deflated and not deflated:
        return member
    return replace(_member(record.name, record.view(), deflated=deflated), crc32=record.crc32)


def _member(name: str, data: bytes | memoryview, *, deflated: bool) -> Member:
    """A member, deflated as PyTorch does it or stored. Unlike PyTorch, even short records are deflated."""
    member = new_member(name, data, compress=False)
    if not deflated or not member.size:
        return member
    return replace(member, data=memoryview(deflated_as_by_pytorch(data)), deflated=True)


def check_gives(contents: Contents, companion: memoryview, left: bytes, allowance: Allowance) -> None:
    """Refuse a split that lost something.

    Args:
        contents: what the companion was made of.
        companion: the companion file, which must hold the same.
        left: the archive id of what is left, which must be that of the contents.
        allowance: the memory that reading the companion may cost.

    Raises:
        ArchiveError: the companion or what is left is wrong.
    """
    read = parse_companion(companion, allowance)
    same = read.columns.keys() == contents.columns.keys()
    same = same and (read.raw, read.behind) == (contents.raw, contents.behind)
    same = same and all(
        np.array_equal(values, contents.columns[name]) for name, values in read.columns.items()
    )
    if not same or not _same_strings(read.strings, contents.strings):
        raise ArchiveError("a companion would not read as it was written; nothing is written")
    if left != contents.archive_id:
        raise ArchiveError("what is left would not be the same model; nothing is written")


def _same_strings(one: StringTable, other: StringTable) -> bool:
    """Whether two tables, each over one buffer without gaps, hold the same strings."""
    return np.array_equal(one.length, other.length) and one.buffers[0] == other.buffers[0]
