"""Tokens that stand anywhere in a file, in whatever form: without the package under test.

A token is ``zq``, small letters, and ``xz``: ``zquserxz``. The scanner unpacks by magic numbers, wherever
they stand. It trusts no length and no directory of a zip, which is only searched besides, and names places.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import io
import json
import lzma
import re
import zipfile
import zlib
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOKEN = re.compile(rb"zq[a-z]{3,20}?xz")
WIDE = re.compile(rb"z\0(?:\0\0)?q")
ESCAPE = re.compile(rb"(?:\\u00|\\x)[0-9a-fA-F]{2}|\\[0-3][0-7]{2}|%[0-9a-fA-F]{2}")
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}={0,2}")
HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){9,}")
COMPANION = b"\x89PTDBG"
LOCAL = b"PK\3\4"
ZLIB = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
DEEPEST = 7
MOST = 1 << 28
"""Bytes that one stream is inflated to, at most."""
DICTIONARIES = Path(__file__).parents[2] / "archive" / "companion"


def tokens_in(data: bytes) -> dict[str, set[str]]:
    """Each token that stands somewhere in a file, with its places: names of records, and how it is packed."""
    found: dict[str, set[str]] = {}
    for place, piece in _pieces(data, "", 0):
        for token in _tokens(piece):
            found.setdefault(token, set()).add(place)
    return found


def _tokens(piece: bytes) -> set[str]:
    """The tokens in some bytes: in UTF-8, UTF-16 and UTF-32, with characters escaped or not."""
    found = set(TOKEN.findall(piece))
    if WIDE.search(piece):
        found |= set(TOKEN.findall(piece.replace(b"\0", b"")))
    if ESCAPE.search(piece):
        plain = ESCAPE.sub(_unescaped, piece)
        found |= set(TOKEN.findall(plain)) | set(TOKEN.findall(ESCAPE.sub(_unescaped, plain)))
    return {one.decode() for one in found}


def _unescaped(escape: re.Match[bytes]) -> bytes:
    text = escape[0]
    if text[:1] == b"%":
        return unquote_to_bytes(text)
    return bytes([int(text[-2:], 16) if text[1:2] in b"ux" else int(text[1:], 8)])


def _pieces(data: bytes, place: str, depth: int) -> Iterator[tuple[str, bytes]]:
    """Bytes, and all that is packed in them, by where that is."""
    yield place, data
    if depth < DEEPEST:
        for how, inner in _unpacked(data):
            yield from _pieces(inner, f"{place}!{how}" if place else how, depth + 1)


def _told(data: bytes) -> dict[int, tuple[str, int]]:
    """What a zip's directory tells of its records: names without root, sizes, by places of headers."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            infos = opened.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return {}
    roots = {info.filename.partition("/")[0] for info in infos}
    cut = len(next(iter(roots))) + 1 if len(roots) == 1 else 0
    return {one.header_offset: (one.filename[cut:] or one.filename, one.compress_size) for one in infos}


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What is packed in some bytes: the record's name, or how it is packed; and what."""
    yield from _local_records(data)
    streams: list[tuple[str, bytes, Callable[[bytes], bytes]]] = [
        ("gzip", b"\x1f\x8b\x08", lambda one: zlib.decompressobj(31).decompress(one, MOST)),
        ("xz", b"\xfd7zXZ\0", lambda one: lzma.LZMADecompressor().decompress(one, MOST)),
        ("bzip2", b"BZh", lambda one: bz2.BZ2Decompressor().decompress(one, MOST)),
        ("zstd", b"\x28\xb5\x2f\xfd", _unzstd),
    ]
    for how, magic, unpack in streams:
        for start in _each(data, magic):
            yield from _tried(how, unpack, data[start:])
    for one in ZLIB.finditer(data):
        yield from _tried("zlib", _inflated, data[one.start() :])
    if data.startswith(COMPANION):
        yield from _companion(data)
    for how, pattern, decode in (("base64", BASE64, _from_base64), ("hex", HEX, _from_hex)):
        for one in pattern.finditer(data):
            for shift in range(4 if how == "base64" else 1):
                decoded = decode(one[0][shift:])
                if _worth_it(decoded):
                    yield how, decoded


def _local_records(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Records of zips by their local headers, so that those which no directory lists are met, too."""
    told = _told(data)
    starts = [*_each(data, LOCAL), len(data)]
    for start, next_one in pairwise(starts):
        head = data[start : start + 30]
        if len(head) < len(LOCAL) + 26:
            continue
        method = int.from_bytes(head[8:10], "little")
        begin = start + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        name, size = told.get(start, ("hidden record", max(next_one - begin, 0)))
        if method == zipfile.ZIP_DEFLATED:
            yield from _tried(name, _inflated_raw, data[begin:])
        else:
            yield name, data[begin : begin + size]


def _tried(how: str, unpack: Callable[[bytes], bytes], data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        inner = unpack(data)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, zstandard.ZstdError):
        return
    if inner:
        yield how, inner


def _inflated(data: bytes) -> bytes:
    return zlib.decompressobj().decompress(data, MOST)


def _inflated_raw(data: bytes) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, MOST)


def _unzstd(data: bytes, *, magic: bool = True) -> bytes:
    """A frame of zstd, with the first dictionary that it takes."""
    form = zstandard.FORMAT_ZSTD1 if magic else zstandard.FORMAT_ZSTD1_MAGICLESS
    for dictionary in _dictionaries():
        try:
            unpack = zstandard.ZstdDecompressor(dict_data=dictionary, format=form).decompressobj()
            return unpack.decompress(data)
        except zstandard.ZstdError:
            continue
    return b""


@cache
def _dictionaries() -> list[zstandard.ZstdCompressionDict | None]:
    """None; blanks, which leave readable whatever is not in the true words; those of companions."""
    blanks = zstandard.ZstdCompressionDict(b" " * (1 << 16), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    words = [file.read_bytes() for file in sorted(DICTIONARIES.glob("*.zdict"))]
    words += [zstandard.decompress(file.read_bytes()) for file in sorted(DICTIONARIES.glob("*.zst"))]
    return [None, blanks, *map(zstandard.ZstdCompressionDict, words)]


def _companion(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Streams without a magic number, from wherever one may begin: companions have such."""
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 23, "lc": 0, "lp": 0, "pb": 0}]
    for start in range(len(data)):
        yield from _tried("zstd", partial(_unzstd, magic=False), data[start:])
        if data[start] == 0:
            unpack = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters).decompress
            yield from _tried("lzma", partial(unpack, max_length=1 << 22), data[start:])


def _from_base64(text: bytes) -> bytes:
    text = text.rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
    text = text[: len(text) // 4 * 4] if len(text) % 4 == 1 else text + b"=" * (-len(text) % 4)
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _from_hex(text: bytes) -> bytes:
    return binascii.unhexlify(text[: len(text) // 2 * 2])


def _worth_it(data: bytes) -> bool:
    """Whether bytes that were decoded are a token, or packed once more; all others are chance."""
    magics = (LOCAL, b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", COMPANION)
    return TOKEN.search(data) is not None or b"z\0q\0" in data or data.startswith(magics) or _is_text(data)


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return False
    if text[:1] in "[{":
        try:
            json.loads(text)
        except ValueError:
            return False
        return True
    return text.isprintable()


def _each(data: bytes, magic: bytes) -> Iterator[int]:
    at = data.find(magic)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)


def everything_in(data: bytes) -> list[bytes]:
    """The file, and every record of it and of zips inside of it."""
    found = [data]
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            for name in opened.namelist():
                found += everything_in(opened.read(name))
    return found


def holds(data: bytes, text: str) -> bool:
    """Whether a text stands anywhere: in UTF-8, in UTF-16, with its backslashes and quotes escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    forms = {one.encode(codec) for one in (text, escaped) for codec in ("utf-8", "utf-16-le", "utf-16-be")}
    return any(form in piece for piece in everything_in(data) for form in forms)
