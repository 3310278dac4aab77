"""The end and the directory of a zip, read with every claim checked against the file.

The end record comes last, before a comment; zip64 puts a wider one, and its locator, before it. They say how
many entries the directory has and where it is.

Its entries are safe to slice: their bytes are in the file, before the directory, and do not overlap; their
names are unique, inside the one root folder, and the same in both headers. Whether the bytes inflate to what
is declared is checked when a record is read.

Local headers precede the records, all over the file. Where bytes are at hand, all are read at once; in a file
that is read by ranges, each is read when its record is first used, or when asked for: see :func:`read_place`.
"""

from __future__ import annotations

import struct
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, one_line, shown
from archive.base.quick_dataclass import dataclass
from archive.container.headers import (
    CENTRAL,
    DEFLATED,
    DESCRIPTOR,
    END,
    FLAG_DESCRIPTOR,
    FLAGS_ENCRYPTED,
    LOCAL,
    STORED,
    U16_MAX,
    U32_MAX,
    ZIP64_END,
    ZIP64_LOCATOR,
    possible_descriptors,
    widened,
)
from archive.container.names import OutsideError, as_text, inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.formats.schema.fixed import Row
    from archive.io.ranged import Bytes


ENTRY_BYTES = 1_000
"""Bytes of memory that an entry takes, with its record and a name of ordinary length."""
MANY = 64
"""Entries from which on local headers are read at once: of fewer, one by one takes less time."""
DESCRIPTOR_WIDTH = 24
"""Bytes of the longest descriptor."""
LENGTHS = struct.Struct("<3H").unpack_from
"""Of name, extra fields and comment in an entry of the directory."""
SEVERAL = (
    "torch.distributed.checkpoint writes .distcp files so, "
    "and its format_utils.dcp_to_torch_save makes one zip of a checkpoint"
)


# --- the end


def has_end(data: Bytes) -> bool:
    """Whether the file ends with an end record, as every whole zip does."""
    try:
        _find_end(data)
    except ArchiveError:
        return False
    return True


def bytes_after(data: Bytes) -> int:
    """How many other bytes follow a whole zip; 0 without a zip, or if nothing follows."""
    tail = bytes(data[-END.size - U16_MAX :])
    at = tail.rfind(END.magic)
    if at < 0 or at + END.size > len(tail):
        return 0
    others: int = len(tail) - at - END.size - END.read(memoryview(tail), at).comment_length
    if others <= 0:
        return 0
    try:
        read_end(data, len(data) - others)
    except ArchiveError:
        return 0
    return others


def read_end(data: Bytes, size: int | None = None) -> Row:
    """The end record, with the zip64 end record's values if there is one.

    Args:
        size: bytes of the zip, where others follow it.
    """
    at = _find_end(data, size)
    end = END.read(data, at)
    located = at - ZIP64_LOCATOR.size
    if located >= 0 and data[located : located + 4] == ZIP64_LOCATOR.magic:
        at, end = _read_zip64_end(data, located, end)
    if end.disk or end.directory_disk or end.disk_entries != end.entries:
        _refuse(at, "an archive in one part", "one of several")
    stop = end.directory_offset + end.directory_size
    _refuse_others_before(data, at - stop)
    _expect("the directory to end at byte", at, stop, at)
    return end


def _find_end(data: Bytes, size: int | None = None) -> int:
    """Position of the last end record whose comment fills the rest of the file, or of ``size`` bytes."""
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


def _read_zip64_end(data: Bytes, located: int, end: Row) -> tuple[int, Row]:
    """Position and values of the zip64 end record, whose locator is at byte ``located``."""
    locator = ZIP64_LOCATOR.read(data, located)
    _refuse_others_before(data, located - ZIP64_END.size - locator.end_offset)
    wide = ZIP64_END.read(data, locator.end_offset, located)
    stop = locator.end_offset + ZIP64_END.offset("version_made_by") + wide.record_size
    _expect("the zip64 end record to end at byte", located, stop, locator.end_offset)
    if locator.disk or locator.disks > 1:
        _refuse(located, "an archive in one part", "one of several")
    for what, narrow, true, most in (
        ("number of entries", end.entries, wide.entries, U16_MAX),
        ("directory size", end.directory_size, wide.directory_size, U32_MAX),
        ("directory position", end.directory_offset, wide.directory_offset, U32_MAX),
    ):
        if narrow != most:
            _expect(what, true, narrow, located + ZIP64_LOCATOR.size)
    return locator.end_offset, END.row(*wide[3:], end.comment_length)


def _refuse_others_before(data: Bytes, begin: int) -> None:
    """Refuse a zip whose offsets count from a byte other than the first, if a local header is there."""
    if begin <= 0 or bytes(data[begin : begin + 4]) != LOCAL.magic:
        return
    if bytes(data[:4]) == LOCAL.magic:
        raise ArchiveError(f"several concatenated zips, the last one from byte {begin:,}: {SEVERAL}")
    raise ArchiveError(f"a zip after {begin:,} other bytes: this tool wants it without them")


def _expect(what: str, expected: int, found: int, at: int) -> None:
    """Refuse a number that isn't the expected one; ``at``: the byte of the place, for the message."""
    if found != expected:
        _refuse(at, f"{what} {expected}", str(found))


def _refuse(at: int, expected: str, found: str) -> NoReturn:
    """Raise an error at a byte of the file."""
    raise ArchiveError(place=f"byte {at}", expected=expected, found=found)


# --- the directory


class DirectoryEntry(NamedTuple):
    """One file of the archive.

    Attributes:
        name: without the root folder; bytes that are not UTF-8 are surrogate escapes.
        path: the same with it, as in the file.
        start: byte of the archive where its local header is.
        size: inflated size in bytes, as declared.
        stored_size: size in the archive in bytes.
        crc32: of the inflated bytes; 0 also means that it was not computed.
        deflated: whether the stored bytes are a deflate stream.
        modified: MS-DOS time (low 16 bits) and date (high 16 bits).
    """

    name: str
    path: bytes
    start: int
    size: int
    stored_size: int
    crc32: int
    deflated: bool
    modified: int

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, as ordinary zip tools write them."""
        return not self.name or self.name.endswith("/")

    @property
    def least_end(self) -> int:
        """The byte after it, if its local header has no extra fields and no descriptor follows."""
        return self.start + LOCAL.size + len(self.path) + self.stored_size


class StoredSpan(NamedTuple):
    """Where the stored bytes of a file of the archive are, by its local header.

    Attributes:
        data: byte where they begin.
        end: byte after them and the descriptor.
    """

    data: int
    end: int


@dataclass(slots=True)
class PlacedEntry:
    """A file of the archive, as the directory lists it.

    Attributes:
        entry: the directory's facts.
        place: where it is; None if its local header is read later.
        stop: byte before which it must end: where the next file begins, or the directory.
        is_checked: whether its crc32 has been compared with its bytes, if these are at hand.
    """

    entry: DirectoryEntry
    place: StoredSpan | None
    stop: int
    is_checked: bool = False

    @property
    def end(self) -> int:
        """The byte after it, or the first one that this may be."""
        return self.entry.least_end if self.place is None else self.place.end


class Directory(NamedTuple):
    """What the directory of a zip says.

    Attributes:
        root: the folder that all files are in; "" where there is none.
        files: in the directory's order, folders left out.
        memory: bytes that entries and records cost.
    """

    root: str
    files: list[PlacedEntry]
    memory: int


def read_directory(data: Bytes, *, rooted: bool, placed: bool = True) -> Directory:
    """The directory of a zip.

    Args:
        rooted: whether all files must be in one folder, as PyTorch's are; otherwise the root is "" if they
            are not.
        placed: read all local headers, too.
    """
    end = read_end(data)
    cost = ENTRY_BYTES * min(end.entries, end.directory_size // CENTRAL.size)
    memory.take(cost, "entries")
    try:
        root, files = _read_entries(data, end, rooted=True, placed=placed)
    except OutsideError:
        if rooted:
            raise
        root, files = _read_entries(data, end, rooted=False, placed=placed)
    return Directory(root, files, cost)


def _read_entries(data: Bytes, end: Row, *, rooted: bool, placed: bool) -> tuple[str, list[PlacedEntry]]:
    """The root folder and the files; "" for the root if none is required."""
    stop = end.directory_offset
    placed_entries: dict[str, PlacedEntry] = {}
    root, used = "", 0
    at_once = placed and end.entries >= MANY and isinstance(data, memoryview)
    known = chain(ordinary_places(data, end) if at_once else (), repeat(None))
    for (at, header, raw_path, extra), place in zip(central_headers(data, end), known, strict=False):
        path = as_text(raw_path)
        try:
            root = root or path[: max(path.find("/"), 0) if rooted else 0]
            entry = _entry(header, raw_path, extra, inside(root, path, rooted=rooted))
            file = PlacedEntry(entry, place or (read_place(data, entry, stop) if placed else None), stop)
            if placed_entries.setdefault(entry.name, file) is not file:
                _refuse(entry.start, "every name once", shown(entry.name))
            stored_end = file.end
            if stored_end > stop:
                _expect("its bytes to end before what follows, at byte", stop, stored_end, entry.start)
            used += stored_end - entry.start
            if used > stop:  # at once: reading many that overlap could take very long
                _refuse(entry.start, f"records of {stop} bytes together", str(used))
        except ArchiveError as problem:
            problem.within(record=one_line(path.removeprefix(f"{root}/")), place=f"byte {at}")
            raise
    _check_apart(placed_entries.values())
    files = [file for file in placed_entries.values() if not file.entry.is_folder]
    if not files:
        raise ArchiveError(expected="at least one record", found="none")
    return root, files


def names_only(data: Bytes, end: Row) -> list[str]:
    """The paths of all entries, in the directory's order, for who refuses the file."""
    directory = bytes(data[end.directory_offset : end.directory_offset + end.directory_size])
    steps = list(_steps(directory, end.entries))
    _expect(
        "the directory to end at byte", len(directory), steps[-1][2] if steps else 0, end.directory_offset
    )
    return [as_text(directory[begin + CENTRAL.size : path]) for begin, path, _ in steps]


def _steps(directory: bytes | memoryview, entries: int) -> Iterator[tuple[int, int, int]]:
    """Where each entry of a directory begins in it, and its path and itself end, as far as it reaches."""
    at, lengths, last = 0, CENTRAL.offset("name_length"), len(directory) - CENTRAL.size
    for _ in range(entries):
        if at > last:
            return
        name, extra, comment = LENGTHS(directory, at + lengths)
        path = at + CENTRAL.size + name
        yield at, path, path + extra + comment
        at = path + extra + comment


def central_headers(data: Bytes, end: Row) -> Iterator[tuple[int, Row, bytes, memoryview]]:
    """Position, header, path and extra fields of each entry of the directory."""
    at, stop = end.directory_offset, end.directory_offset + end.directory_size
    longest = memory.limits().name_bytes
    for _ in range(end.entries):
        header = CENTRAL.read(data, at, stop)
        if header.name_length > longest:
            raise LimitError("name_bytes", longest, header.name_length, place=f"byte {at}")
        path = at + CENTRAL.size
        extra = path + header.name_length
        comment = extra + header.extra_length
        if comment + header.comment_length > stop:
            _expect("the directory to end at byte", stop, comment + header.comment_length, at)
        yield at, header, bytes(data[path:extra]), data[extra:comment]
        at = comment + header.comment_length
    _expect("the directory to end at byte", stop, at, at)


def _entry(header: Row, path: bytes, extra: memoryview, name: str) -> DirectoryEntry:
    """The entry of a central header; refuses encryption, unknown methods, several parts, two sizes."""
    size, stored_size, start = widened(
        (header.uncompressed_size, header.compressed_size, header.header_offset), extra
    )
    method = header.method
    if header.flags & FLAGS_ENCRYPTED:
        _refuse(start, "no encryption", f"flags {header.flags:#06x}")
    if method not in (STORED, DEFLATED):
        _refuse(start, "method 0 (stored) or 8 (deflated)", str(method))
    if header.disk_start:
        _refuse(start, "an archive in one part", "one of several")
    if method == STORED:
        _expect("a stored size of", size, stored_size, start)
    entry = DirectoryEntry(
        name, path, start, size, stored_size, header.crc32, method == DEFLATED, header.modified
    )
    if entry.is_folder:
        _expect("a folder's size to be", 0, size, start)
    return entry


def read_place(data: Bytes, entry: DirectoryEntry, stop: int) -> StoredSpan:
    """Where a file of the archive is, by its local header, which must agree with the directory.

    Args:
        stop: byte before which the file must end.
    """
    start = entry.start
    local = LOCAL.read(data, start, stop)
    name = start + LOCAL.size
    after_name = name + local.name_length
    begin = after_name + local.extra_length
    end = begin + entry.stored_size
    if end > stop:
        _expect("its bytes to end before what follows, at byte", stop, end, start)
    path = data[name:after_name]
    if path != entry.path:
        _refuse(start, "the same name in both headers", one_line(as_text(bytes(path))))
    if local.flags & FLAG_DESCRIPTOR:
        end += _descriptor_length(data[end : min(end + DESCRIPTOR_WIDTH, stop)], entry)
    _check_local(entry, local, data[after_name:begin])
    return StoredSpan(begin, end)


def ordinary_places(data: Bytes, end: Row) -> list[StoredSpan | None]:
    """Where the files are whose headers are as PyTorch and most zip tools write them, all read at once.

    None stands for each other one: :func:`read_place` reads it by itself, and says what is wrong with it.
    """
    stop = end.directory_offset
    directory = data[stop : stop + end.directory_size]
    begins, paths = [], []
    for begin, path, _ in _steps(directory, end.entries):
        begins.append(begin)
        paths.append(path)
    if not begins:
        return []
    central, _ = CENTRAL.columns_at(directory, np.array(begins))
    starts, stored, size = (
        central[name].astype(np.int64) for name in ("header_offset", "compressed_size", "uncompressed_size")
    )
    is_narrow = np.maximum(np.maximum(starts, stored), size) < U32_MAX  # others are in a zip64 field
    is_ordinary = is_narrow & (starts + LOCAL.size <= stop)
    local, are_headers = LOCAL.columns_at(data, np.where(is_ordinary, starts, 0))
    names = starts + LOCAL.size
    after_names = names + local["name_length"]
    data_at = after_names + local["extra_length"]
    ends = data_at + stored
    is_ordinary &= are_headers & (ends <= stop) & (local["flags"] & FLAGS_ENCRYPTED == 0)
    for name in ("method", "name_length"):
        is_ordinary &= local[name] == central[name]
    is_described = local["flags"] & FLAG_DESCRIPTOR > 0
    has_room = is_ordinary & is_described & (ends + DESCRIPTOR.size <= stop)
    described, are_descriptors = DESCRIPTOR.columns_at(data, np.where(has_room, ends, 0))
    agree, is_described_well = ~is_described, has_room & are_descriptors
    for name in ("crc32", "compressed_size", "uncompressed_size"):
        agree &= local[name] == central[name]
        is_described_well &= (local[name] == 0) & (described[name] == central[name])
    is_ordinary &= agree | is_described_well
    ends += np.where(is_described_well, DESCRIPTOR.size, 0)
    own_paths = map(slice, names.tolist(), after_names.tolist())
    columns = (is_ordinary.tolist(), own_paths, begins, paths, data_at.tolist(), ends.tolist())
    return [
        StoredSpan(at, after) if well and data[own] == directory[begin + CENTRAL.size : path] else None
        for well, own, begin, path, at, after in zip(*columns, strict=True)
    ]


def _descriptor_length(data: memoryview, entry: DirectoryEntry) -> int:
    """Bytes of the descriptor after a record, which its local header announces."""
    for form in possible_descriptors(entry.crc32, entry.stored_size, entry.size):
        if data[: len(form)] == form:
            return len(form)
    raise ArchiveError(expected="a descriptor with the directory's crc and sizes", found="other bytes")


def _check_local(entry: DirectoryEntry, local: Row, extra: memoryview) -> None:
    """Refuse a local header that contradicts the central one; fields left to the descriptor may be 0."""
    _expect("the method to be", DEFLATED if entry.deflated else STORED, local.method, entry.start)
    _expect("encryption flags to be", 0, local.flags & FLAGS_ENCRYPTED, entry.start)
    if local.flags & FLAG_DESCRIPTOR and not (
        local.crc32 or local.uncompressed_size or local.compressed_size
    ):
        return
    size, stored_size = widened((local.uncompressed_size, local.compressed_size), extra)
    unknown = 0 if local.flags & FLAG_DESCRIPTOR else None
    for what, said, true in (
        ("the crc to be", local.crc32, entry.crc32),
        ("the size to be", size, entry.size),
        ("the stored size to be", stored_size, entry.stored_size),
    ):
        if said != unknown:
            _expect(what, true, said, entry.start)


def _check_apart(entries: Iterable[PlacedEntry]) -> None:
    """Refuse files that overlap, and note where each must end: where the next one begins."""
    for first, second in pairwise(sorted(entries, key=lambda file: file.entry.start)):
        first.stop = second.entry.start
        if first.stop < first.end:
            raise ArchiveError(
                record=one_line(second.entry.name),
                place=f"byte {first.stop}",
                expected=f"to start after {one_line(first.entry.name)}, at byte {first.end} or later",
                found=f"byte {first.stop}",
            )
