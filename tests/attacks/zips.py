"""Zips put together by hand: each field of each header may lie, in the local header or the central one."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from tests.attacks.pieces import pickled, text

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")
STORED, DEFLATED = 0, 8
NO_SIZE = 0xFFFFFFFF


class Header(NamedTuple):
    """What a header says of an entry; the local and the central one need not agree.

    Attributes:
        name: with the root.
        method: of compression.
        crc: of the inflated bytes.
        stored: bytes in the file.
        size: bytes once inflated.
        flags: bit 0 says that the entry is encrypted.
        offset: of the local header, in the central one.
        attributes: external ones, in the central header; the upper half is the mode on Unix.
        extra: extra fields.
    """

    name: bytes
    method: int
    crc: int
    stored: int
    size: int
    flags: int = 0
    offset: int = 0
    attributes: int = 0
    extra: bytes = b""


class Entry(NamedTuple):
    """An entry of a zip: two headers and bytes."""

    local: Header
    central: Header
    data: bytes

    def saying(self, *, local: bool = True, central: bool = True, **fields: object) -> Entry:
        """The entry with other fields in its headers."""
        return self._replace(
            local=self.local._replace(**fields) if local else self.local,  # type: ignore[arg-type]
            central=self.central._replace(**fields) if central else self.central,  # type: ignore[arg-type]
        )


def entry(name: str | bytes, data: bytes, *, deflate: bool = False) -> Entry:
    """An honest entry."""
    stored = deflated(data) if deflate else data
    named = name.encode() if isinstance(name, str) else name
    header = Header(named, DEFLATED if deflate else STORED, zlib.crc32(data), len(stored), len(data))
    return Entry(header, header, stored)


def deflated(data: bytes) -> bytes:
    """A raw deflate stream."""
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(data) + packer.flush()


def local_header(header: Header) -> bytes:
    """The bytes in front of an entry's own."""
    fields = (20, header.flags, header.method, 0, 0, header.crc, header.stored, header.size)
    head = LOCAL.pack(b"PK\3\4", *fields, len(header.name), len(header.extra))
    return head + header.name + header.extra


def central_header(header: Header) -> bytes:
    """The line of an entry in the zip's directory."""
    fields = (20, 20, header.flags, header.method, 0, 0, header.crc, header.stored, header.size)
    ends = (len(header.name), len(header.extra), 0, 0, 0, header.attributes, header.offset)
    return CENTRAL.pack(b"PK\1\2", *fields, *ends) + header.name + header.extra


def sizes64(size: int, stored: int) -> bytes:
    """The extra field of an entry whose sizes need 64 bits."""
    return struct.pack("<2H2Q", 1, 16, size, stored)


def zipped(*entries: Entry, before: bytes = b"", count: int | None = None, comment: bytes = b"") -> bytes:
    """A zip. An entry whose central header states an offset other than 0 keeps that."""
    out, directory = bytearray(before), []
    for one in entries:
        directory.append(central_header(one.central._replace(offset=one.central.offset or len(out))))
        out += local_header(one.local) + one.data
    return bytes(out) + closing(directory, len(out), count, comment)


def closing(directory: list[bytes], start: int, count: int | None = None, comment: bytes = b"") -> bytes:
    """The directory and the end of a zip; of more entries than 16 bits count, the wider one."""
    lines = b"".join(directory)
    listed = len(directory) if count is None else count
    if listed > 0xFFFF:
        return lines + end64(listed, len(lines), start, start + len(lines))
    return lines + END.pack(b"PK\5\6", 0, 0, listed, listed, len(lines), start, len(comment)) + comment


def end64(count: int, size: int, start: int, at: int) -> bytes:
    """The end of a zip that needs 64 bits, which stands at ``at``; all is as it says."""
    record = END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    locator = LOCATOR.pack(b"PK\6\7", 0, at, 1)
    return record + locator + END.pack(b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, NO_SIZE, NO_SIZE, 0)


def overlapped(stream: bytes, size: int, crc: int, count: int, root: bytes = b"m") -> bytes:
    """A zip whose entries all are the same deflated bytes."""
    header = Header(root + b"/x", DEFLATED, crc, len(stream), size)
    body = local_header(header) + stream
    names = [b"%b/code/%d.py" % (root, number) for number in range(count)]
    return body + closing([central_header(header._replace(name=name)) for name in names], len(body))


# --- archives

CONSTANTS = pickled(b")")
MODULE = pickled(b"c__torch__\nM\n)\x81}" + text("training") + b"\x88sb")
"""The module tree of a model without parts, of the class below."""
CLASS = b"""\
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.M) -> NoneType:
    return None
"""
LITE = {"data.pkl": MODULE, "constants.pkl": CONSTANTS, "code/__torch__.py": CLASS}
"""A model that PyTorch loads."""


def entries_of(records: dict[str, bytes], root: str = "m") -> list[Entry]:
    """The entries of an archive, deflated where that is shorter, the version last."""
    listed = {**records, "version": b"3\n"}
    return [entry(f"{root}/{name}", data, deflate=len(data) > 1_000) for name, data in listed.items()]


def archive_of(records: dict[str, bytes], root: str = "m") -> bytes:
    """An archive."""
    return zipped(*entries_of(records, root))
