"""Deflate streams, inflated without trust in what is said about them."""

from __future__ import annotations

import zlib

from archive.base.errors import ArchiveError

_PIECE = 16 << 10  # inflates to 16 MiB at most


def inflate(stream: memoryview, size: int) -> bytearray:
    """Inflate a raw deflate stream, piece by piece and to no more than one byte beyond ``size``.

    Raises:
        ArchiveError: it is no such stream, gives another number of bytes, or does not end with the data.
    """
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    data = bytearray()
    fed = 0
    try:
        while fed < len(stream) and not engine.eof and len(data) <= size:
            piece = stream[fed : fed + _PIECE]
            data += engine.decompress(piece, size - len(data) + 1)
            fed += len(piece)
    except zlib.error as cause:
        raise ArchiveError(expected="a deflate stream", found=str(cause)) from cause
    if len(data) > size:
        raise ArchiveError(expected=f"{size} bytes inflated", found="more")
    if not engine.eof or len(data) != size:
        raise ArchiveError(expected=f"{size} bytes inflated", found=f"an end after {len(data)}")
    if engine.unused_data or fed < len(stream):
        raise ArchiveError(expected="a deflate stream alone", found="bytes behind it")
    return data
