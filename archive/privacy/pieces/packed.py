"""Compressed streams and sections: found by their first bytes, unpacked within a budget.

gzip, zlib, xz, lzma and bzip2 are read by Python's own modules, zstd by zstandard. Bare deflate has no first
bytes: it is tried where a record begins like nothing else, and counts if text comes out. zlib has two, which
occur anywhere: after the first byte of a record, a stream counts if text comes out, or if it does not break
off. Sections of shared objects may be compressed by zlib or zstd: SHF_COMPRESSED (System V ABI, chapter 4,
"Section Compression"), and ``.zdebug_*`` of older binutils, which begin with ``ZLIB`` and the size.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.base.patterns import pattern_of
from archive.formats.elf.headers import headers_of
from archive.formats.elf.parse import is_elf, parse_object
from archive.privacy.pieces.layers import ASCII_TEXT, SHORTEST, TO_NUL

if TYPE_CHECKING:
    from collections.abc import Iterator


HEADS = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2"}
HEADS |= dict.fromkeys((b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"), "zlib")
"""First bytes of streams."""
ALONE = pattern_of(rb"\x5d\0\0(?:[\x01-\x80]\0|\0[\x01-\x08])(?:\xff{8}|.{4}[\0\1]\0{3})", re.DOTALL)
"""The first bytes of lzma's own format, as all encoders write it: properties, window, size."""
PACKED = ("deflate", "gzip", "zlib", "zstd", "xz", "lzma", "bzip2")
"""What is unpacked, in words."""
TRIED = 1 << 10
"""Bytes inflated from what may be bare deflate that have to be text."""
ELSEWHERE = (
    *((how, magic, 0) for magic, how in HEADS.items() if how not in ("zlib", "bzip2")),
    ("bzip2", b"1AY&SY", 4),
)
"""What streams have near their first byte, and how far after it."""
ZLIB = pattern_of(rb"x[\x01\x5e\x9c\xda]")
"""The first bytes of a stream of zlib; anything may begin so."""
UNREAD = (
    ("7z", b"\xbc", rb"7z\xbc\xaf\x27\x1c"),
    ("lz4", b"\x18", rb"\x04\x22\x4d\x18[\x40-\x7f][\x40\x50\x60\x70]"),
    ("lz4", b"\x18", rb"\x02\x21\x4c\x18..[\0-\x7f]\0"),  # its legacy frame
    ("snappy", b"\xff", rb"\xff\x06\0\0sNaPpY"),
    ("lzip", b"\x01", rb"LZIP\x01[\x0c-\xff]"),
    ("cab", b"\0", rb"MSCF\0\0\0\0"),
    ("RAR", b"\x1a", rb"Rar!\x1a\x07"),
    ("blosc2", b"\x9e", rb"\x9e\xa8b2frame\0"),
    ("age", b"/v1\n", rb"age-encryption\.org/v1\n"),
    ("age", b"-----BEGIN AGE", rb"-----BEGIN AGE ENCRYPTED FILE-----"),
    ("PGP", b"-----BEGIN PGP", rb"-----BEGIN PGP MESSAGE-----"),
)
"""Marks of files that are compressed or encrypted, and not unpacked, each after bytes of it that are found
soonest. They are long enough that hardly any occurs by chance."""
UNREAD_MARKS = [(how, rare, pattern_of(mark, re.DOTALL)) for how, rare, mark in UNREAD]
ENCRYPTS = {"age", "PGP"}
UNREAD_HEAD = b"\x1f\x9d"
"""First bytes of a file of ``compress``: too few to count anywhere else."""
SHF_COMPRESSED = 0x800
BY_NUMBER = {1: "zlib", 2: "zstd"}
"""Of ch_type."""
OLD_HEAD = 12
"""Bytes before the stream in a section of older binutils: ``ZLIB`` and the size."""
WINDOW = 1 << 27
"""Bytes of the largest window of zstd that is allowed; also what xz may take."""
PART = 1 << 20
"""Bytes that are unpacked at once, to at most some 32 times as many."""
WBITS = {"gzip": 16 + zlib.MAX_WBITS, "zlib": zlib.MAX_WBITS, "deflate": -zlib.MAX_WBITS}
STORED_BLOCK, UNKNOWN_BLOCK, STORED_HEAD = 0, 3, 5
"""Two of the four types of blocks of deflate, and the bytes before what is stored."""
CHUNK = 1 << 14
"""Bytes of a stream that are read at once."""


class _Decompressor(Protocol):
    """What decompressors have in common."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    def decompress(self, data: bytes, /) -> bytes:
        """What is in more of the stream."""


class PackedStream(NamedTuple):
    """Compressed bytes.

    Attributes:
        how: they are compressed.
        start: their first byte.
    """

    how: str
    start: int


class Unpacked(NamedTuple):
    """What a stream holds.

    Attributes:
        data: what could be read.
        problem: why that isn't all; "" if it is.
        work: bytes that were read and made.
    """

    data: bytes
    problem: str
    work: int


def how_packed(data: memoryview) -> str:
    """How bytes are compressed, by their beginning; "" for others."""
    head = bytes(data[:6])
    how = next((how for magic, how in HEADS.items() if head.startswith(magic)), "")
    return how or ("lzma" if ALONE.match(data[:16]) else "")


def is_deflate(data: memoryview) -> bool:
    """Whether bytes that begin like nothing else are a bare stream of deflate that holds text."""
    return _begins_deflate(data) and _holds("deflate", data)


def _begins_deflate(data: memoryview) -> bool:
    """Whether the first block of deflate has a known type, and a stored one its length twice (RFC 1951)."""
    kind = data[0] >> 1 & 3 if data else UNKNOWN_BLOCK
    if kind == STORED_BLOCK:
        length = int.from_bytes(data[1:3], "little")
        return len(data) < STORED_HEAD or length ^ 0xFFFF == int.from_bytes(data[3:5], "little")
    return kind != UNKNOWN_BLOCK


def _holds(how: str, data: memoryview) -> bool:
    """Whether what may be a stream begins with text; for zlib it is enough that it does not break off."""
    stream = zlib.decompressobj(WBITS[how])
    try:
        made = stream.decompress(bytes(data[:TRIED]), TRIED)
    except zlib.error:
        return False
    if how == "zlib" and (stream.eof or 2 * len(made) >= TRIED):  # random bytes break off long before
        return len(made) >= SHORTEST
    return len(made) >= SHORTEST and (
        len(made.translate(None, ASCII_TEXT)) * 8 <= len(made) or _is_text(made)
    )


def _is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8 without controls, the last character perhaps cut: letters of any script."""
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        if problem.end < len(data):
            return False
        text = data[: problem.start].decode()
    return data.translate(TO_NUL) == data and len(text) >= SHORTEST


def streams(data: bytes) -> Iterator[PackedStream]:
    """Where streams may begin after the first byte."""
    if data.isascii():
        return
    for how, magic, shift in ELSEWHERE:
        at = data.find(magic, shift + 1)
        while at >= 0:
            yield PackedStream(how, at - shift)
            at = data.find(magic, at + 1)
    for head in ALONE.finditer(data, 1):
        yield PackedStream("lzma", head.start())
    whole = memoryview(data)
    for head in ZLIB.finditer(data, 1):
        if _holds("zlib", whole[head.start() :]):
            yield PackedStream("zlib", head.start())


def unread(data: bytes) -> list[str]:
    """How files in some bytes that are not unpacked here are compressed or encrypted."""
    found = [
        f"{'encrypted' if how in ENCRYPTS else 'compressed'} by {how}"
        for how, rare, mark in UNREAD_MARKS
        if rare in data and mark.search(data)
    ]
    return ["compressed by compress"] * data.startswith(UNREAD_HEAD) + list(dict.fromkeys(found))


def unpacked(how: str, data: memoryview, limit: int) -> Unpacked:
    """What a stream holds; what follows it is left.

    Args:
        how: it is compressed.
        data: the stream, and what follows it.
        limit: bytes that are unpacked, at most.
    """
    import lzma  # noqa: PLC0415 (few files hold compressed streams)

    import zstandard  # noqa: PLC0415 (the same)

    pieces: list[bytes] = []
    size = read = 0
    problem = ""
    try:
        for piece, taken in _parts(how, data):
            size += len(piece)
            read += taken
            pieces.append(piece)
            if size + read > limit:
                problem = f"more than {limit:,} bytes"
                break
    except (zlib.error, lzma.LZMAError, OSError, EOFError, zstandard.ZstdError) as broken:
        problem = str(broken)
    return Unpacked(b"".join(pieces), problem, size + read)


def _parts(how: str, data: memoryview) -> Iterator[tuple[bytes, int]]:
    """What a stream holds, part by part, each with how many bytes of the stream were read for it."""
    import bz2  # noqa: PLC0415 (few files hold compressed streams)
    import lzma  # noqa: PLC0415 (the same)

    import zstandard  # noqa: PLC0415 (the same)

    if how in ("bzip2", "xz", "lzma"):  # a chunk may hold much, so its parts are requested by length
        form = lzma.FORMAT_XZ if how == "xz" else lzma.FORMAT_ALONE
        stream = bz2.BZ2Decompressor() if how == "bzip2" else lzma.LZMADecompressor(form, WINDOW)
        for at in range(0, len(data), CHUNK):
            yield stream.decompress(data[at : at + CHUNK], PART), CHUNK
            while not stream.eof and not stream.needs_input:
                yield stream.decompress(b"", PART), 0
            if stream.eof:
                return
    else:  # zlib makes 1 KB of a byte at most, zstd 32 KB
        small: _Decompressor = (
            zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
            if how == "zstd"
            else zlib.decompressobj(WBITS[how])
        )
        chunk = CHUNK >> 4 if how == "zstd" else CHUNK
        for at in range(0, len(data), chunk):
            yield small.decompress(bytes(data[at : at + chunk])), chunk
            if small.eof:
                return
    raise EOFError("its end is missing")


class PackedSection(NamedTuple):
    """A compressed section of a shared object.

    Attributes:
        name: of the section.
        how: it is compressed; "" where that is not known.
        data: its stream.
    """

    name: str
    how: str
    data: memoryview


def packed_sections(data: memoryview) -> Iterator[PackedSection]:
    """The compressed sections of a shared object; none of other bytes."""
    if not is_elf(data):
        return
    shared_object = parse_object(data)
    for section in shared_object.sections:
        content = data[section.offset : section.end]
        if section.flags & SHF_COMPRESSED:
            head = headers_of(shared_object.bits, shared_object.order).compression
            if len(content) >= head.size:
                how = BY_NUMBER.get(head.read(content).type, "")
                yield PackedSection(section.name, how, content[head.size :])
        elif section.name.startswith(".zdebug_") and bytes(content[:4]) == b"ZLIB":
            yield PackedSection(section.name, "zlib", content[OLD_HEAD:])
