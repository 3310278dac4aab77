"""Writes a zip as PyTorch does, record after record, in one pass.

:mod:`archive.container.headers` specifies the layout. Stored bytes go from the member straight to the file;
only the central headers are kept until the end, some 100 bytes a record.

A *slim* archive is the smallest that PyTorch's reader, and any other, accepts: crc and sizes are in the local
headers instead of descriptors, only aligned members are padded, and zip64 end records are written only if a
number needs them.
"""

from __future__ import annotations

import zlib
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from archive.base.errors import ArchiveError, one_line
from archive.base.quick_dataclass import dataclass
from archive.container.deflate import deflated_as_by_pytorch
from archive.container.headers import (
    CENTRAL,
    DEFLATED,
    END,
    FLAG_DESCRIPTOR,
    FLAG_UTF8,
    LOCAL,
    RECORD_ALIGNMENT,
    STORED,
    U16_MAX,
    U32_MAX,
    ZIP64_END,
    ZIP64_LOCATOR,
    descriptor,
    padding_field,
    zip64_field,
)
from archive.container.names import (
    CALLSTACK_MAP,
    CODE_FOLDERS,
    DELEGATED,
    STORAGE_ALIGNMENT,
    as_bytes,
    inside,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.container.record import Record

_DEFLATED_ABOVE = 200
_STORED_UP_TO = 3
_MOST_ALIGNED = U16_MAX + 1
"""The record with the alignment of its file; the most that a padding field's two-byte length allows."""


class Writable(Protocol):
    """Anything that takes bytes as a binary file does."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Take some bytes, and return how many of them were taken."""


@dataclass(frozen=True, slots=True)
class Member:
    """A record to write.

    Attributes:
        name: without the root folder.
        data: the bytes to store: a raw deflate stream if ``deflated``.
        size: inflated size in bytes.
        crc32: of the inflated bytes.
        modified: MS-DOS time and date; 0 in all archives of PyTorch 1.4 and later that were seen.
        aligned: in a slim archive, whether its bytes are aligned; in others, all are.
    """

    name: str
    data: memoryview
    size: int
    crc32: int
    deflated: bool
    modified: int = 0
    aligned: bool = True

    def __post_init__(self) -> None:
        if not self.deflated and self.size != len(self.data):
            raise ValueError(f"{self.name}: {len(self.data)} stored bytes cannot have size {self.size}")
        if self.deflated and not self.size:
            raise ValueError(f"{self.name}: an empty record is stored")


def new_member(name: str, data: bytes | bytearray | memoryview, *, compress: bool | None = None) -> Member:
    """A member from the bytes of a record.

    Args:
        name: without the root folder.
        data: the record; not copied unless deflated.
        compress: whether to deflate it. By default as PyTorch does (``kMinToCompress`` in
            ``export_module.cpp``): code, source ranges and call stacks above 200 bytes. Up to 3 bytes are
            always stored, by miniz.
    """
    view = memoryview(data).cast("B")
    if compress is None:
        compress = len(view) > _DEFLATED_ABOVE and deflated_by_pytorch(name)
    compress = compress and len(view) > _STORED_UP_TO
    stored = memoryview(deflated_as_by_pytorch(view)) if compress else view
    return Member(name, stored, len(view), zlib.crc32(view), deflated=compress)


def member_from(record: Record) -> Member:
    """A record to be written again unchanged: its stored bytes, crc and sizes.

    Ordinary zip tools deflate even empty files. PyTorch does not, so an empty record becomes a stored one.
    """
    entry = record.entry
    return Member(
        name=entry.name,
        data=record.raw() if entry.size else memoryview(b""),
        size=entry.size,
        crc32=entry.crc32,
        deflated=entry.deflated and entry.size > 0,
        modified=entry.modified,
    )


def alignment_of(records: Mapping[str, Record]) -> int:
    """The alignment of records: 64 unless set in ``torch.save``.

    It is also 64 if the records are not aligned as ``.storage_alignment`` says.
    """
    record = records.get(STORAGE_ALIGNMENT)
    text = bytes(record.view()) if record is not None and record.size <= len(str(_MOST_ALIGNED)) else b""
    alignment = int(text) if text.isdigit() else 0
    is_kept = 0 < alignment <= _MOST_ALIGNED and not any(
        each.place.data % alignment for each in records.values()
    )
    return alignment if is_kept else RECORD_ALIGNMENT


def deflated_by_pytorch(name: str) -> bool:
    """Whether PyTorch deflates a record of this name if it has more than 200 bytes."""
    return name.startswith(CODE_FOLDERS) or name in (CALLSTACK_MAP, DELEGATED)


def write_archive(
    out: Writable,
    root: str,
    members: Iterable[Member],
    *,
    slim: bool = False,
    alignment: int = RECORD_ALIGNMENT,
) -> int:
    """Write an archive to a binary file, from its current position on, and return its length in bytes.

    Members are asked for one at a time, and none is kept. All records of an archive unchanged
    (:func:`member_from`) with its alignment (:func:`alignment_of`) rebuild the file to the byte.

    Args:
        root: the folder that all records are in; if "", the zip is written like Python's ``zipfile`` does.
        slim: leave out everything that PyTorch writes but doesn't need.
        alignment: the alignment of aligned members.
    """
    writer = _ZipWriter(out, root, slim or not root, alignment)
    for member in members:
        writer.add(member)
    writer.finish()
    return writer.position


BY_PYTHON, OWNERS = 3 << 8 | 20, 0o600 << 16
"""Python's values for system and permissions: Unix, and that only the owner may read and write."""


@dataclass(slots=True)
class _ZipWriter:
    out: Writable
    root: str
    slim: bool
    alignment: int
    position: int = 0
    directory: list[bytes] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    @property
    def is_plain(self) -> bool:
        """Whether it is written as Python's ``zipfile`` does."""
        return not self.root

    def write(self, data: bytes | memoryview) -> None:
        self.position += len(data)
        while len(data):  # an unbuffered file takes at most 2 GiB at once
            data = memoryview(data)[self.out.write(data) :]

    def add(self, member: Member) -> None:
        path = self.path(member.name)
        start = self.position
        large, far = member.size >= U32_MAX, start >= U32_MAX
        described = bool(member.size) and not self.slim
        utf8 = 0 if self.is_plain and path.isascii() else FLAG_UTF8
        flags = utf8 | FLAG_DESCRIPTOR if described else utf8
        needed, method = (20, DEFLATED) if member.deflated else (20 if self.is_plain else 0, STORED)
        sizes = (member.size, len(member.data))
        where = (start,) if far else ()

        if self.slim:
            zip64 = zip64_field(*(sizes if large else ()))
            crc32, size, stored = (member.crc32, *((U32_MAX, U32_MAX) if large else sizes))
        else:
            zip64 = zip64_field(*((member.size, 0) if large else ()), *where)
            crc32 = size = stored = 0
        padding = self.padding(start + LOCAL.size + len(path) + len(zip64), member)
        local = LOCAL.build(
            version_needed=needed,
            flags=flags,
            method=method,
            modified=member.modified,
            crc32=crc32,
            compressed_size=stored,
            uncompressed_size=size,
            name_length=len(path),
            extra_length=len(zip64) + len(padding),
        )
        self.write(local + path + zip64 + padding)
        self.write(member.data)
        if described:
            self.write(descriptor(member.crc32, len(member.data), member.size, wide=large or far))

        zip64 = zip64_field(*(sizes if large else ()), *where)
        central = CENTRAL.build(
            version_made_by=BY_PYTHON if self.is_plain else 0,
            version_needed=needed,
            flags=flags,
            method=method,
            modified=member.modified,
            crc32=member.crc32,
            compressed_size=min(len(member.data), U32_MAX),
            uncompressed_size=min(member.size, U32_MAX),
            name_length=len(path),
            extra_length=len(zip64),
            comment_length=0,
            disk_start=0,
            internal_attributes=0,
            external_attributes=OWNERS if self.is_plain else 0,
            header_offset=min(start, U32_MAX),
        )
        self.directory.append(central + path + zip64)

    def padding(self, at: int, member: Member) -> bytes:
        """The extra field at byte ``at`` that makes a member's bytes start where they must."""
        if self.is_plain or (self.slim and not (member.aligned and at % self.alignment)):
            return b""
        return padding_field(at, self.alignment)

    def path(self, name: str) -> bytes:
        """The encoded path of a new name."""
        path = f"{self.root}/{name}" if self.root else name
        inside(self.root, path, rooted=bool(self.root))
        data = as_bytes(path)
        if name in self.names or len(data) > U16_MAX:
            raise ArchiveError(
                record=one_line(name),
                expected=f"a new name of up to {U16_MAX} bytes",
                found=f"{len(data)} bytes",
            )
        self.names.add(name)
        return data

    def finish(self) -> None:
        """Write the directory and the end records."""
        count, position = len(self.directory), self.position
        self.write(b"".join(self.directory))
        size, end = self.position - position, self.position
        entries = min(count, U16_MAX)
        narrow = END.row(0, 0, entries, entries, min(size, U32_MAX), min(position, U32_MAX), 0)
        if not self.slim or entries == U16_MAX or U32_MAX in narrow:
            wide = ZIP64_END.build(
                record_size=ZIP64_END.size - ZIP64_END.offset("version_made_by"),
                version_made_by=798,
                version_needed=45,
                disk=0,
                directory_disk=0,
                disk_entries=count,
                entries=count,
                directory_size=size,
                directory_offset=position,
            )
            self.write(wide + ZIP64_LOCATOR.build(disk=0, end_offset=end, disks=1))
        self.write(END.pack(narrow))
