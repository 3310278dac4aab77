"""The directory of a zip, read with every claim checked against the file.

What comes out is safe to slice: each entry's bytes lie in the file, before the directory and apart from
each other's; each name is new, lies inside of the one root folder and stands the same in both headers.
What is not checked here is what the bytes inflate to: that costs reading them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NoReturn

from archive.base.errors import ArchiveError, LimitError, printable, shown
from archive.container.headers import (
    CENTRAL,
    DEFLATED,
    END,
    FLAG_DESCRIPTOR,
    FLAGS_ENCRYPTED,
    LOCAL,
    STORED,
    U16_MAX,
    U32_MAX,
    ZIP64_END,
    ZIP64_LOCATOR,
    CentralHeader,
    EndRecord,
    LocalHeader,
    possible_descriptors,
    widened,
)
from archive.container.names import OutsideError, decoded, inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Limits


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
        """Whether this stands for a folder, as ordinary zip tools write them."""
        return not self.name or self.name.endswith("/")


def read_directory(data: memoryview, limits: Limits, *, rooted: bool = True) -> tuple[str, list[Entry]]:
    """The root folder of a zip and its files, in the directory's order.

    Args:
        data: the zip.
        limits: what hostile input may cost.
        rooted: whether all files must be in one folder, as PyTorch has it; else the root is "" where they
            are not.

    Raises:
        ArchiveError: this is no such zip, or it contradicts itself.
        LimitError: it has more or longer names than allowed.
    """
    end = read_end(data)
    if end.entries > limits.entries:
        raise LimitError("entries", limits.entries, end.entries)
    try:
        return _read_entries(data, end, limits, rooted=True)
    except OutsideError:
        if rooted:
            raise
        return _read_entries(data, end, limits, rooted=False)


def _read_entries(
    data: memoryview, end: EndRecord, limits: Limits, *, rooted: bool
) -> tuple[str, list[Entry]]:
    """The root folder and the files; "" for the root where none is asked for."""
    records = data[: end.directory_position]
    entries: dict[str, Entry] = {}
    root, used = "", 0
    for at, header, raw_path, extra in central_headers(data, end, limits):
        path = decoded(raw_path)
        try:
            root = root or path[: max(path.find("/"), 0) if rooted else 0]
            name = inside(root, path, rooted=rooted)
            entry = _entry(records, header, raw_path, extra, name)
            if entries.setdefault(name, entry) is not entry:
                _refuse(entry.start, "every name once", shown(name))
            used += entry.end - entry.start
            if used > len(records):  # at once: reading many that overlap could take very long
                _refuse(entry.start, f"records of {len(records)} bytes together", str(used))
        except ArchiveError as problem:
            problem.within(record=printable(path.removeprefix(f"{root}/")), place=f"byte {at}")
            raise
    _check_apart(list(entries.values()))
    files = [entry for entry in entries.values() if not entry.is_folder]
    if not files:
        raise ArchiveError(expected="at least one record", found="none")
    return root, files


def has_end(data: memoryview) -> bool:
    """Whether an end record stands where the file ends, as it does in each whole zip."""
    try:
        _find_end(data)
    except ArchiveError:
        return False
    return True


def bytes_behind(data: memoryview) -> int:
    """How many other bytes follow a whole zip; 0 where there is none, or where none follow."""
    tail = bytes(data[-END.size - U16_MAX :])
    at = tail.rfind(END.magic)
    if at < 0 or at + END.size > len(tail):
        return 0
    comment = int.from_bytes(tail[at + END.size - 2 : at + END.size], "little")
    behind = len(tail) - at - END.size - comment
    if behind <= 0:
        return 0
    try:
        read_end(data[:-behind])
    except ArchiveError:
        return 0
    return behind


def read_end(data: memoryview) -> EndRecord:
    """The end record, widened where a zip64 one stands before it.

    Raises:
        ArchiveError: there is none, or it contradicts itself.
    """
    at = _find_end(data)
    end = END.read(data, at)
    located = at - ZIP64_LOCATOR.size
    if located >= 0 and data[located : located + 4] == ZIP64_LOCATOR.magic:
        at, end = _read_zip64_end(data[:at], located, end)
    if end.disk or end.directory_disk or end.entries_here != end.entries:
        _refuse(at, "an archive in one part", "one of several")
    _expect("the directory to end at byte", at, end.directory_position + end.directory_size, at)
    return end


def _find_end(data: memoryview) -> int:
    """Position of the last end record whose comment fills the rest of the file."""
    tail = bytes(data[-END.size - U16_MAX :])
    at = tail.rfind(END.magic)
    while at >= 0:
        rest = len(tail) - at - END.size
        if rest >= 0 and int.from_bytes(tail[at + END.size - 2 : at + END.size], "little") == rest:
            return len(data) - len(tail) + at
        at = tail.rfind(END.magic, 0, at)
    raise ArchiveError(
        "no zip archive, or one cut short",
        place=f"byte {len(data)}",
        expected="an end record before the end of the file",
        found="none",
    )


def _read_zip64_end(data: memoryview, located: int, end: EndRecord) -> tuple[int, EndRecord]:
    locator = ZIP64_LOCATOR.read(data, located)
    wide = ZIP64_END.read(data[:located], locator.position)
    behind = locator.position + wide.length + 12
    _expect("the zip64 end record to end at byte", located, behind, locator.position)
    if locator.disk or locator.disks > 1:
        _refuse(located, "an archive in one part", "one of several")
    for what, narrow, true, most in (
        ("number of entries", end.entries, wide.entries, U16_MAX),
        ("directory size", end.directory_size, wide.directory_size, U32_MAX),
        ("directory position", end.directory_position, wide.directory_position, U32_MAX),
    ):
        if narrow != most:
            _expect(what, true, narrow, len(data))
    return locator.position, EndRecord(*wide[3:], end.comment_length)


def central_headers(
    data: memoryview, end: EndRecord, limits: Limits
) -> Iterator[tuple[int, CentralHeader, bytes, memoryview]]:
    """Position, header, path and extra fields of each entry of the directory."""
    at, stop = end.directory_position, end.directory_position + end.directory_size
    directory = data[:stop]
    for _ in range(end.entries):
        header = CENTRAL.read(directory, at)
        if header.name_length > limits.name_bytes:
            raise LimitError("name_bytes", limits.name_bytes, header.name_length, place=f"byte {at}")
        path = at + CENTRAL.size
        extra = path + header.name_length
        comment = extra + header.extra_length
        if comment + header.comment_length > stop:
            _expect("the directory to end at byte", stop, comment + header.comment_length, at)
        yield at, header, bytes(data[path:extra]), data[extra:comment]
        at = comment + header.comment_length
    _expect("the directory to end at byte", stop, at, at)


def _entry(records: memoryview, header: CentralHeader, path: bytes, extra: memoryview, name: str) -> Entry:
    """The entry of a central header, after a look at its local header."""
    size, stored_size, start = widened((header.size, header.stored_size, header.position), extra)
    _check_kind(header, start)
    local = LOCAL.read(records, start)
    after_name = start + LOCAL.size + local.name_length
    data = after_name + local.extra_length
    end = data + stored_size
    if end > len(records):
        _expect("its bytes to end before the directory, at byte", len(records), end, start)
    if records[start + LOCAL.size : after_name] != path:
        found = printable(decoded(bytes(records[start + LOCAL.size : after_name])))
        _refuse(start, "the same name in both headers", found)
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
    if not local.flags & FLAG_DESCRIPTOR:
        return 0
    for form in possible_descriptors(crc32, stored_size, size):
        if data[: len(form)] == form:
            return len(form)
    raise ArchiveError(expected="a descriptor with the directory's crc and sizes", found="other bytes")


def _check_kind(header: CentralHeader, at: int) -> None:
    """What this reader cannot or must not open."""
    if header.flags & FLAGS_ENCRYPTED:
        _refuse(at, "no encryption", f"flags {header.flags:#06x}")
    if header.method not in (STORED, DEFLATED):
        _refuse(at, "method 0 (stored) or 8 (deflated)", str(header.method))
    if header.disk:
        _refuse(at, "an archive in one part", "one of several")


def _check_sizes(entry: Entry) -> None:
    if not entry.deflated:
        _expect("a stored size of", entry.size, entry.stored_size, entry.start)
    if entry.is_folder:
        _expect("a folder's size to be", 0, entry.size, entry.start)


def _check_local(entry: Entry, local: LocalHeader, header: CentralHeader, extra: memoryview) -> None:
    """What the local header says has to agree, where it is not left to the descriptor."""
    _expect("the method to be", header.method, local.method, entry.start)
    _expect("encryption flags to be", 0, local.flags & FLAGS_ENCRYPTED, entry.start)
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
            _expect(what, true, said, entry.start)


def _check_apart(entries: list[Entry]) -> None:
    for first, second in pairwise(sorted(entries, key=attrgetter("start"))):
        if second.start < first.end:
            raise ArchiveError(
                record=printable(second.name),
                place=f"byte {second.start}",
                expected=f"to start behind {printable(first.name)}, at byte {first.end} or later",
                found=f"byte {second.start}",
            )


def _expect(what: str, expected: int, found: int, at: int) -> None:
    if found != expected:
        _refuse(at, f"{what} {expected}", str(found))


def _refuse(at: int, expected: str, found: str) -> NoReturn:
    raise ArchiveError(place=f"byte {at}", expected=expected, found=found)
