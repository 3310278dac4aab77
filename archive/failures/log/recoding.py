"""Logs that gzip packed, or that are in UTF-16 → UTF-8; what is explained, back in UTF-16.

PowerShell's ``>`` writes logs in UTF-16.
"""

from __future__ import annotations

import codecs
import re
import zlib
from itertools import chain
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PIECE = 1 << 16
"""Bytes that are inflated at once."""
GZIP = b"\x1f\x8b"
GZIP_WINDOW = 31
"""zlib's word for gzip."""
MOST_INFLATED = 64 << 20
INFLATED_A_BYTE = 256
"""A packed log may hold this many bytes, and this many more for each of its bytes."""
HEAD = 4
"""Bytes at a log's beginning that show its encoding: a mark, or two ASCII characters."""
LITTLE = re.compile(rb"\xff\xfe|[\t-~]\0[\t-~]\0")
BIG = re.compile(rb"\xfe\xff|\0[\t-~]\0[\t-~]")


def unpacked(
    log: Iterable[bytes], least: int = MOST_INFLATED, a_byte: int = INFLATED_A_BYTE
) -> Iterator[bytes]:
    """The pieces of a log, inflated where it begins as gzip does.

    Args:
        log: the pieces.
        least: bytes that any log may have inflated.
        a_byte: bytes that each packed byte allows besides.

    Raises:
        ArchiveError: the log is no gzip from some byte on, or is cut short; what came before was yielded.
        LimitError: it inflates beyond all measure.
    """
    pieces, first = iter(log), b""
    while len(first) < len(GZIP) and GZIP.startswith(first) and (piece := next(pieces, None)) is not None:
        first += piece
    whole = chain((first,), pieces)
    return _inflated(whole, least, a_byte) if first.startswith(GZIP) else whole


def _inflated(packed: Iterable[bytes], least: int, a_byte: int) -> Iterator[bytes]:
    read = made = 0
    stream = zlib.decompressobj(GZIP_WINDOW)
    for piece in packed:
        read += len(piece)
        left = piece
        while left:
            if stream.eof:  # files that were joined, or the zeros that fill a tape's block
                left = left.lstrip(b"\0")
                if not left:
                    break
                stream = zlib.decompressobj(GZIP_WINDOW)
            try:
                text = stream.decompress(left, PIECE)
            except zlib.error as error:
                raise ArchiveError(f"no gzip in its first {read:,} bytes: {error}", file="log") from None
            left = stream.unused_data if stream.eof else stream.unconsumed_tail
            made += len(text)
            if made > least + a_byte * read:
                raise LimitError("output", least + a_byte * read, made)
            yield text
    if not stream.eof:  # copied in part, or still written to
        raise ArchiveError(f"its gzip is cut short after {read:,} bytes; the rest was not read", file="log")


def utf_16(head: bytes) -> str:
    """The kind of UTF-16 that a log begins in; "" where it does in none."""
    return "utf-16-le" if LITTLE.match(head) else "utf-16-be" if BIG.match(head) else ""


def in_utf8(log: Iterable[bytes], explain: Callable[[Iterable[bytes]], Iterator[bytes]]) -> Iterator[bytes]:
    """A log, explained by a function that reads UTF-8, in the log's own encoding.

    Halves of surrogate pairs in UTF-16, which are no characters, stay.
    """
    pieces, head = iter(log), b""
    while len(head) < HEAD and (piece := next(pieces, None)) is not None:
        head += piece
    whole = chain((head,), pieces)
    encoding = utf_16(head)
    if not encoding:
        yield from explain(whole)
        return
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def texts() -> Iterator[bytes]:
        for piece in whole:
            text = decoder.decode(piece)
            if text or not piece:
                yield text.encode("utf-8", "surrogatepass")

    explained = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    for piece in explain(texts()):
        try:
            text = explained.decode(piece)
        except UnicodeDecodeError:  # a model's source may be no UTF-8
            explained.reset()
            text = piece.decode("utf-8", "replace")
        yield text.encode(encoding, "surrogatepass")
    yield decoder.getstate()[0]
