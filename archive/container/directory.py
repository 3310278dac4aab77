"""The directory of a zip, read with every claim checked against the file.

Its entries are safe to slice: their bytes lie in the file, before the directory and apart from one another;
their names are unique, lie in the one root folder, and are the same in both headers. Whether the bytes
inflate to what is declared is checked when a record is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError, one_line, shown
from archive.container.end import expect, read_end, refuse
from archive.container.headers import (
    CENTRAL,
    DEFLATED,
    FLAG_DESCRIPTOR,
    FLAGS_ENCRYPTED,
    LOCAL,
    STORED,
    CentralHeader,
    EndRecord,
    LocalHeader,
    possible_descriptors,
    widened,
)
from archive.container.names import OutsideError, decoded, inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Allowance


ENTRY_BYTES = 1_000
"""Bytes of memory that an entry costs, with its record and a name of ordinary length."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the archive.

    Attributes:
        name: without the root folder; bytes that are not UTF-8 are surrogate escapes.
        start: byte of the archive where its local header stands.
        data: byte where its stored bytes begin.
        end: byte behind its stored bytes and descriptor.
        size: inflated size in bytes, as declared.
        stored_size: size in the archive in bytes.
        crc32: of the inflated bytes; 0 also means that it was not computed.
        deflated: whether the stored bytes are a deflate stream.
        modified: MS-DOS time (low 16 bits) and date (high 16 bits).
    """

    name: str
    start: int
    data: int
    end: int
    size: int
    stored_size: int
    crc32: int
    deflated: bool
    modified: int

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, as ordinary zip tools write them."""
        return not self.name or self.name.endswith("/")


def read_directory(data: memoryview, allowance: Allowance, *, rooted: bool) -> tuple[str, list[Entry]]:
    """The root folder of a zip and its files, in the directory's order.

    Args:
        data: the zip.
        allowance: the memory and sizes that the file may ask for.
        rooted: whether all files must be in one folder, as PyTorch's are; else the root is "" if they are
            not.

    Raises:
        ArchiveError: the bytes are no such zip, or contradict themselves.
        LimitError: the zip has a longer name than allowed.
    """
    end = read_end(data)
    allowance.take(ENTRY_BYTES * min(end.entries, end.directory_size // CENTRAL.size), "entries")
    try:
        return _read_entries(data, end, allowance, rooted=True)
    except OutsideError:
        if rooted:
            raise
        return _read_entries(data, end, allowance, rooted=False)


def _read_entries(
    data: memoryview, end: EndRecord, allowance: Allowance, *, rooted: bool
) -> tuple[str, list[Entry]]:
    """The root folder and the files; "" for the root where none is asked for."""
    records = data[: end.directory_position]
    entries: dict[str, Entry] = {}
    root, used = "", 0
    for at, header, raw_path, extra in central_headers(data, end, allowance):
        path = decoded(raw_path)
        try:
            root = root or path[: max(path.find("/"), 0) if rooted else 0]
            name = inside(root, path, rooted=rooted)
            entry = _entry(records, header, raw_path, extra, name)
            if entries.setdefault(name, entry) is not entry:
                refuse(entry.start, "every name once", shown(name))
            used += entry.end - entry.start
            if used > len(records):  # at once: reading many that overlap could take very long
                refuse(entry.start, f"records of {len(records)} bytes together", str(used))
        except ArchiveError as problem:
            problem.within(record=one_line(path.removeprefix(f"{root}/")), place=f"byte {at}")
            raise
    _check_apart(list(entries.values()))
    files = [entry for entry in entries.values() if not entry.is_folder]
    if not files:
        raise ArchiveError(expected="at least one record", found="none")
    return root, files


def central_headers(
    data: memoryview, end: EndRecord, allowance: Allowance
) -> Iterator[tuple[int, CentralHeader, bytes, memoryview]]:
    """Position, header, path and extra fields of each entry of the directory."""
    at, stop = end.directory_position, end.directory_position + end.directory_size
    directory = data[:stop]
    for _ in range(end.entries):
        header = CENTRAL.read(directory, at)
        if header.name_length > allowance.limits.name_bytes:
            raise LimitError(
                "name_bytes", allowance.limits.name_bytes, header.name_length, place=f"byte {at}"
            )
        path = at + CENTRAL.size
        extra = path + header.name_length
        comment = extra + header.extra_length
        if comment + header.comment_length > stop:
            expect("the directory to end at byte", stop, comment + header.comment_length, at)
        yield at, header, bytes(data[path:extra]), data[extra:comment]
        at = comment + header.comment_length
    expect("the directory to end at byte", stop, at, at)


def _entry(records: memoryview, header: CentralHeader, path: bytes, extra: memoryview, name: str) -> Entry:
    """The entry of a central header, after a look at its local header."""
    size, stored_size, start = widened((header.size, header.stored_size, header.position), extra)
    _check_kind(header, start)
    local = LOCAL.read(records, start)
    after_name = start + LOCAL.size + local.name_length
    data = after_name + local.extra_length
    end = data + stored_size
    if end > len(records):
        expect("its bytes to end before the directory, at byte", len(records), end, start)
    if records[start + LOCAL.size : after_name] != path:
        found = one_line(decoded(bytes(records[start + LOCAL.size : after_name])))
        refuse(start, "the same name in both headers", found)
    entry = Entry(
        name=name,
        start=start,
        data=data,
        end=end + _descriptor_length(records[end:], local, header.crc32, stored_size, size),
        size=size,
        stored_size=stored_size,
        crc32=header.crc32,
        deflated=header.method == DEFLATED,
        modified=header.modified,
    )
    _check_sizes(entry)
    _check_local(entry, local, header, records[after_name:data])
    return entry


def _descriptor_length(data: memoryview, local: LocalHeader, crc32: int, stored_size: int, size: int) -> int:
    """Bytes of the descriptor behind a record; 0 if its local header announces none."""
    if not local.flags & FLAG_DESCRIPTOR:
        return 0
    for form in possible_descriptors(crc32, stored_size, size):
        if data[: len(form)] == form:
            return len(form)
    raise ArchiveError(expected="a descriptor with the directory's crc and sizes", found="other bytes")


def _check_kind(header: CentralHeader, at: int) -> None:
    """Refuse encryption, unknown methods, and archives in several parts."""
    if header.flags & FLAGS_ENCRYPTED:
        refuse(at, "no encryption", f"flags {header.flags:#06x}")
    if header.method not in (STORED, DEFLATED):
        refuse(at, "method 0 (stored) or 8 (deflated)", str(header.method))
    if header.disk:
        refuse(at, "an archive in one part", "one of several")


def _check_sizes(entry: Entry) -> None:
    """Refuse a stored record with two sizes, and a folder with bytes."""
    if not entry.deflated:
        expect("a stored size of", entry.size, entry.stored_size, entry.start)
    if entry.is_folder:
        expect("a folder's size to be", 0, entry.size, entry.start)


def _check_local(entry: Entry, local: LocalHeader, header: CentralHeader, extra: memoryview) -> None:
    """Refuse a local header that contradicts the central one; what it leaves to the descriptor may be 0."""
    expect("the method to be", header.method, local.method, entry.start)
    expect("encryption flags to be", 0, local.flags & FLAGS_ENCRYPTED, entry.start)
    if local.flags & FLAG_DESCRIPTOR and not (local.crc32 or local.size or local.stored_size):
        return
    size, stored_size = widened((local.size, local.stored_size), extra)
    unknown = 0 if local.flags & FLAG_DESCRIPTOR else None
    for what, said, true in (
        ("the crc to be", local.crc32, entry.crc32),
        ("the size to be", size, entry.size),
        ("the stored size to be", stored_size, entry.stored_size),
    ):
        if said != unknown:
            expect(what, true, said, entry.start)


def _check_apart(entries: list[Entry]) -> None:
    """Refuse records that overlap."""
    for first, second in pairwise(sorted(entries, key=attrgetter("start"))):
        if second.start < first.end:
            raise ArchiveError(
                record=one_line(second.name),
                place=f"byte {second.start}",
                expected=f"to start behind {one_line(first.name)}, at byte {first.end} or later",
                found=f"byte {second.start}",
            )
