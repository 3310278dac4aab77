"""The headers of a PyTorch archive, byte for byte. This text is the specification.

An archive is, with nothing between the parts::

    for each record   local header, name, extra fields, stored bytes, descriptor
    for each record   central header, name, extra fields
    at the end        zip64 end, zip64 locator, end record

It is written by ``caffe2/serialize/inline_container.cc`` (``PyTorchStreamWriter::writeRecord``,
``getPadding``) through ``third_party/miniz-*/miniz.c``, and read by ``PyTorchStreamReader`` in the same file.

Integers are little-endian. Fields are named as in APPNOTE.TXT, PKWARE's specification of zip files. PyTorch
fills them like this:

- *local header*: version needed 20 when deflated, else 0; flags 0x0800 (UTF-8 name), and 0x0008 (a
  descriptor follows) unless the record is empty; method 0 (stored) or 8 (deflated); crc and sizes 0.
  Time and date are 0 since PyTorch 1.4, as far as seen; 1.0 to 1.2 put the wall clock there.
- *extra fields* of the local header: a zip64 field when the record needs one, then always the padding
  field ``'FB' u16 n, n x 'Z'``, so that the stored bytes start at a multiple of 64. The central header
  has only the zip64 field.
- *descriptor*, unless the record is empty: ``'PK' 7 8, crc, stored size, size``. The crc is that of the
  inflated bytes, or 0 if PyTorch was set not to compute it. The sizes are u32, or u64 when the local
  header has a zip64 field.
- *central header*: made-by 0, version needed, flags and method as in the local header, true crc and
  sizes, the position of the local header; attributes 0, no comment.
- *zip64 end*: 44 bytes follow its length, made-by 798, version needed 45, all disks 0. PyTorch always
  writes it and its *locator* (disk 0 of 1). The *end record* repeats both counts and the position of the
  central headers, saturated.

Sizes, counts and positions that do not fit are saturated, 0xFFFF or 0xFFFFFFFF, and a zip64 field
``u16 1, u16 length`` holds the true ones as u64: size and stored size when the size is at least
0xFFFFFFFF, then the position when that is. In the local header, written before the data, the stored size
in that field is 0, and the sizes outside it stay 0 as always.

Ordinary zip tools differ: sizes and crc in the local header and no descriptor, or one without magic; no
zip64 end; other extra fields; comments; entries for folders. All of that is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import Const, Int16ul, Int32ul, Int64ul, Struct

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


LOCAL = Layout(
    "local header"
    / Struct(
        "signature" / Const(b"PK\3\4"),
        "version_needed" / Int16ul * "to extract, times 10",
        "flags" / Int16ul * "0x0001, 0x0040, 0x2000: encrypted; 0x0008: a descriptor follows; 0x0800: UTF-8",
        "method" / Int16ul * "0 stored, 8 deflated",
        "modified" / Int32ul * "MS-DOS time (low 16 bits) and date",
        "crc32" / Int32ul * "of the inflated bytes; 0 where a descriptor has it",
        "compressed_size" / Int32ul * "as stored; 0 where a descriptor has it, 0xFFFFFFFF in the zip64 field",
        "uncompressed_size" / Int32ul * "the same for the inflated bytes",
        "name_length" / Int16ul * "bytes of the name, which follows the header",
        "extra_length" / Int16ul * "bytes of the extra fields, which follow the name",
    )
)
CENTRAL = Layout(
    "central header"
    / Struct(
        "signature" / Const(b"PK\1\2"),
        "version_made_by" / Int16ul * "high byte: the system, 3 is Unix",
        "version_needed" / Int16ul * "as in the local header, like all up to extra_length",
        "flags" / Int16ul,
        "method" / Int16ul,
        "modified" / Int32ul,
        "crc32" / Int32ul * "true, as the sizes are",
        "compressed_size" / Int32ul,
        "uncompressed_size" / Int32ul,
        "name_length" / Int16ul,
        "extra_length" / Int16ul,
        "comment_length" / Int16ul * "bytes of the comment, which follows the extra fields",
        "disk_start" / Int16ul * "0: archives in several parts are refused",
        "internal_attributes" / Int16ul * "bit 0: a text",
        "external_attributes" / Int32ul * "high half: the mode of a file of Unix",
        "header_offset" / Int32ul * "where the local header begins; 0xFFFFFFFF: in the zip64 field",
    )
)
EXTRA = Layout(
    "extra field"
    / Struct(
        "header_id" / Int16ul * "1 zip64, 0x4246 PyTorch's padding",
        "data_size" / Int16ul * "bytes of the field, which follow",
    )
)
ZIP64_VALUE = Layout("zip64 value" / Struct("value" / Int64ul * "the next of the saturated values"))
DESCRIPTOR = Layout(
    "descriptor"
    / Struct(
        "signature" / Const(b"PK\7\x08"),
        "crc32" / Int32ul,
        "compressed_size" / Int32ul,
        "uncompressed_size" / Int32ul,
    )
)
WIDE_DESCRIPTOR = Layout(
    "wide descriptor"
    / Struct(
        "signature" / Const(b"PK\7\x08"),
        "crc32" / Int32ul,
        "compressed_size" / Int64ul * "64 bits, where the local header has a zip64 field",
        "uncompressed_size" / Int64ul,
    )
)
ZIP64_END = Layout(
    "zip64 end record"
    / Struct(
        "signature" / Const(b"PK\6\6"),
        "record_size" / Int64ul * "bytes of this record that follow this field",
        "version_made_by" / Int16ul,
        "version_needed" / Int16ul,
        "disk" / Int32ul,
        "directory_disk" / Int32ul,
        "disk_entries" / Int64ul * "central headers on this disk",
        "entries" / Int64ul * "central headers in all",
        "directory_size" / Int64ul * "bytes of the central headers",
        "directory_offset" / Int64ul * "where they begin",
    )
)
ZIP64_LOCATOR = Layout(
    "zip64 locator"
    / Struct(
        "signature" / Const(b"PK\6\7"),
        "disk" / Int32ul * "with the zip64 end record",
        "end_offset" / Int64ul * "where the zip64 end record begins",
        "disks" / Int32ul,
    )
)
END = Layout(
    "end record"
    / Struct(
        "signature" / Const(b"PK\5\6"),
        "disk" / Int16ul,
        "directory_disk" / Int16ul,
        "disk_entries" / Int16ul * "0xFFFF or more: in the zip64 end record, like the following three",
        "entries" / Int16ul,
        "directory_size" / Int32ul,
        "directory_offset" / Int32ul,
        "comment_length" / Int16ul * "bytes of the comment, which ends the file",
    )
)


def descriptor(crc32: int, stored_size: int, size: int, *, wide: bool) -> bytes:
    """The descriptor of a record; ``wide``: its sizes take 64 bits."""
    layout = WIDE_DESCRIPTOR if wide else DESCRIPTOR
    return layout.pack((crc32, stored_size, size))


def possible_descriptors(crc32: int, stored_size: int, size: int) -> Iterator[bytes]:
    """All forms of a descriptor with these values: u32 or u64, with or without magic."""
    for wide in (False, True) if max(stored_size, size) <= U32_MAX else (True,):
        full = descriptor(crc32, stored_size, size, wide=wide)
        yield full
        yield full[len(DESCRIPTOR.magic) :]


def zip64_field(*values: int) -> bytes:
    """The zip64 extra field of some u64 values; empty if there are none."""
    true = b"".join([ZIP64_VALUE.build(value=value) for value in values])
    return EXTRA.build(header_id=ZIP64_FIELD, data_size=len(true)) + true if values else b""


def padding_field(position: int, alignment: int = RECORD_ALIGNMENT) -> bytes:
    """The padding field that, starting at this byte of the file, ends at a multiple of the alignment."""
    length = -(position + EXTRA.size) % alignment
    return EXTRA.build(header_id=PADDING_FIELD, data_size=length) + b"Z" * length


def extra_fields(extra: memoryview) -> Iterator[tuple[int, int, int]]:
    """Kind, first byte and the byte after the last of each extra field; the last field may be cut off."""
    at = 0
    while at + EXTRA.size <= len(extra):
        kind, length = EXTRA.read(extra, at)
        end = at + EXTRA.size + length
        yield kind, at, end
        at = end


def zip64_values(extra: memoryview) -> list[int]:
    """The u64 values of the zip64 field among extra fields; empty without that field."""
    for kind, start, end in extra_fields(extra):
        if kind == ZIP64_FIELD:
            true = extra[start + EXTRA.size : end]
            whole = true[: len(true) // ZIP64_VALUE.size * ZIP64_VALUE.size]
            return [value for (value,) in ZIP64_VALUE.read_all(whole)]
    return []


def widened(values: tuple[int, ...], extra: memoryview) -> tuple[int, ...]:
    """The values, each saturated u32 replaced by the next value of the zip64 field."""
    if U32_MAX not in values:
        return values
    wide = zip64_values(extra)
    if len(wide) < values.count(U32_MAX):
        raise ArchiveError(
            expected=f"a zip64 field of {values.count(U32_MAX)} values", found=f"{len(wide)} of them"
        )
    return tuple(wide.pop(0) if value == U32_MAX else value for value in values)
