"""Logs that gzip packed → their text, in bounded pieces."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PIECE = 1 << 16
"""Bytes that are inflated at once."""
GZIP = b"\x1f\x8b"
GZIP_WINDOW = 31
"""zlib's word for gzip."""
MOST_INFLATED = 64 << 20
INFLATED_A_BYTE = 256
"""A log that is packed may hold so many bytes, and so many more for each of its bytes."""


def unpacked(
    log: Iterable[bytes], least: int = MOST_INFLATED, a_byte: int = INFLATED_A_BYTE
) -> Iterator[bytes]:
    """The pieces of a log, inflated where it begins as gzip does.

    Args:
        log: the pieces.
        least: bytes that any log may have inflated.
        a_byte: those that each packed byte allows besides.

    Raises:
        ArchiveError: the log is no gzip from some byte on, or is cut short; what came before was yielded.
        LimitError: it inflates beyond all measure.
    """
    pieces = iter(log)
    first = b""
    while len(first) < len(GZIP) and GZIP.startswith(first) and (piece := next(pieces, None)) is not None:
        first += piece
    whole = _chained(first, pieces)
    return _inflated(whole, least, a_byte) if first.startswith(GZIP) else whole


def _chained(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


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
