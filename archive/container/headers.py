"""The headers of a PyTorch archive, byte for byte. This text is the specification.

An archive is, with nothing between the parts::

    for each record   local header, name, extra fields, stored bytes, descriptor
    for each record   central header, name, extra fields
    at the end        zip64 end, zip64 locator, end record

It is written by ``caffe2/serialize/inline_container.cc`` (``PyTorchStreamWriter::writeRecord``,
``getPadding``) through ``third_party/miniz-*/miniz.c``, and read by ``PyTorchStreamReader`` in the same file.

Integers are little-endian. Each header starts with its four magic bytes; its fields are those of the tuple of
its name below. PyTorch fills them so:

- *local header*: version needed 20 when deflated, else 0; flags 0x0800 (UTF-8 name), and 0x0008 (a
  descriptor follows) unless the record is empty; method 0 (stored) or 8 (deflated); crc and sizes 0.
  Time and date are 0 from PyTorch 1.4 on, as far as seen; 1.0 to 1.2 put the wall clock there.
- *extra fields* of the local header: a zip64 field when the record needs one, then always the padding
  field ``'FB' u16 n, n x 'Z'``, so that the stored bytes start at a multiple of 64. The central header
  has only the zip64 field.
- *descriptor*, unless the record is empty: ``'PK' 7 8, crc, stored size, size``. The crc is that of the
  inflated bytes, or 0 if PyTorch was told not to compute it. The sizes are u32, or u64 when the local
  header has a zip64 field.
- *central header*: made-by 0, version needed, flags and method as in the local header, true crc and
  sizes, the position of the local header; attributes 0, no comment.
- *zip64 end*: 44 bytes follow its length, made-by 798, version needed 45, all disks 0. PyTorch always
  writes it and its *locator* (disk 0 of 1). The *end record* repeats both counts and the place of the
  central headers, saturated.

Sizes, counts and positions that do not fit are saturated, 0xFFFF or 0xFFFFFFFF, and a zip64 field
``u16 1, u16 length`` holds the true ones as u64: size and stored size when the size is at least
0xFFFFFFFF, then the position when that is. In the local header, written before the data, the stored size
in that field is 0, and the sizes outside of it stay 0 as always.

Ordinary zip tools differ: sizes and crc in the local header and no descriptor, or one without magic; no
zip64 end; other extra fields; comments; entries for folders. All of that can be read.
"""

from __future__ import annotations

from struct import iter_unpack, pack
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.base.layout import U16, U32, U64, BinaryLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

U16_MAX = 0xFFFF
U32_MAX = 0xFFFF_FFFF
RECORD_ALIGNMENT = 64

STORED, DEFLATED = 0, 8
"""Compression methods."""

FLAG_DESCRIPTOR = 0x0008
FLAG_UTF8 = 0x0800
FLAGS_ENCRYPTED = 0x2041
"""Encryption, strong encryption, masked headers."""

ZIP64_FIELD, PADDING_FIELD = 0x0001, 0x4246
"""Kinds of extra fields; the second one reads ``FB``."""


class LocalHeader(NamedTuple):
    """The header before a record's bytes; ``modified`` is MS-DOS time and date."""

    needed: U16
    flags: U16
    method: U16
    modified: U32
    crc32: U32
    stored_size: U32
    size: U32
    name_length: U16
    extra_length: U16


class CentralHeader(NamedTuple):
    """A record's entry in the directory; ``position`` is that of its local header."""

    made_by: U16
    needed: U16
    flags: U16
    method: U16
    modified: U32
    crc32: U32
    stored_size: U32
    size: U32
    name_length: U16
    extra_length: U16
    comment_length: U16
    disk: U16
    internal: U16
    external: U32
    position: U32


class ExtraField(NamedTuple):
    """What stands before the bytes of an extra field."""

    kind: U16
    length: U16


class Descriptor(NamedTuple):
    """What PyTorch puts behind a record's own bytes."""

    crc32: U32
    stored_size: U32
    size: U32


class WideDescriptor(NamedTuple):
    """The same where the local header has a zip64 field."""

    crc32: U32
    stored_size: U64
    size: U64


class Zip64End(NamedTuple):
    """The end record with wide fields; ``length`` counts the bytes behind it."""

    length: U64
    made_by: U16
    needed: U16
    disk: U32
    directory_disk: U32
    entries_here: U64
    entries: U64
    directory_size: U64
    directory_position: U64


class Zip64Locator(NamedTuple):
    """The position of the zip64 end record."""

    disk: U32
    position: U64
    disks: U32


class EndRecord(NamedTuple):
    """The position and size of the directory, saturated."""

    disk: U16
    directory_disk: U16
    entries_here: U16
    entries: U16
    directory_size: U32
    directory_position: U32
    comment_length: U16


LOCAL = BinaryLayout("local header", LocalHeader, magic=b"PK\3\4")
CENTRAL = BinaryLayout("central header", CentralHeader, magic=b"PK\1\2")
EXTRA = BinaryLayout("extra field", ExtraField)
DESCRIPTOR = BinaryLayout("descriptor", Descriptor, magic=b"PK\7\x08")
WIDE_DESCRIPTOR = BinaryLayout("descriptor", WideDescriptor, magic=b"PK\7\x08")
ZIP64_END = BinaryLayout("zip64 end record", Zip64End, magic=b"PK\6\6")
ZIP64_LOCATOR = BinaryLayout("zip64 locator", Zip64Locator, magic=b"PK\6\7")
END = BinaryLayout("end record", EndRecord, magic=b"PK\5\6")


def descriptor(crc32: int, stored_size: int, size: int, *, wide: bool) -> bytes:
    """The descriptor of a record; ``wide``: its sizes take 64 bits."""
    if wide:
        return WIDE_DESCRIPTOR.pack(WideDescriptor(crc32, stored_size, size))
    return DESCRIPTOR.pack(Descriptor(crc32, stored_size, size))


def possible_descriptors(crc32: int, stored_size: int, size: int) -> Iterator[bytes]:
    """All forms of a descriptor with these values: u32 or u64, with or without magic."""
    for wide in (False, True) if max(stored_size, size) <= U32_MAX else (True,):
        full = descriptor(crc32, stored_size, size, wide=wide)
        yield full
        yield full[len(DESCRIPTOR.magic) :]


def zip64_field(*values: int) -> bytes:
    """The zip64 extra field of some u64 values; nothing for none."""
    true = pack(f"<{len(values)}Q", *values)
    return EXTRA.pack(ExtraField(ZIP64_FIELD, len(true))) + true if values else b""


def padding_field(position: int, alignment: int = RECORD_ALIGNMENT) -> bytes:
    """The padding field that ends at a multiple of a number if it starts at this byte of the file."""
    length = -(position + EXTRA.size) % alignment
    return EXTRA.pack(ExtraField(PADDING_FIELD, length)) + b"Z" * length


def extra_fields(extra: memoryview) -> Iterator[tuple[int, int, int]]:
    """Kind, first byte and the one behind the last of each extra field; the last one may be cut off."""
    at = 0
    while at + EXTRA.size <= len(extra):
        kind, length = EXTRA.read(extra, at)
        end = at + EXTRA.size + length
        yield kind, at, end
        at = end


def zip64_values(extra: memoryview) -> list[int]:
    """The u64 values of the zip64 field among extra fields; none if there is no such field."""
    for kind, start, end in extra_fields(extra):
        if kind == ZIP64_FIELD:
            true = extra[start + EXTRA.size : end]
            return [value for (value,) in iter_unpack("<Q", true[: len(true) // 8 * 8])]
    return []


def widened(values: tuple[int, ...], extra: memoryview) -> tuple[int, ...]:
    """The values, each saturated u32 replaced by the next value of the zip64 field.

    Raises:
        ArchiveError: the field is missing or too short.
    """
    if U32_MAX not in values:
        return values
    wide = zip64_values(extra)
    if len(wide) < values.count(U32_MAX):
        raise ArchiveError(
            expected=f"a zip64 field of {values.count(U32_MAX)} values", found=f"{len(wide)} of them"
        )
    return tuple(wide.pop(0) if value == U32_MAX else value for value in values)
