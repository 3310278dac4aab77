"""Deflate streams: inflated without trusting what is said about them, deflated as short as possible.

libdeflate makes streams 1 to 7 % shorter than zlib at its strongest, in a fraction of the time, and the same
ones on every machine. Two more levels take twice the time of ``STRONGEST``, for 0.2 % fewer bytes. PyTorch
reads either.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from archive.base.errors import DAMAGED, ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG_DATA = 1 << 22
"""Bytes above which a quick stream determines a size; it is a few percent longer than the shortest."""
STRONGEST, QUICK = 10, 6
MINIZ_LEVEL = 9
MOST_PER_BYTE = 1032
"""Bytes that a byte of any deflate stream can become: four times 258, by codes of one bit each (RFC 1951)."""
_PIECE = 1 << 10
"""Bytes of a stream that are inflated at once, to 1 MiB at most; zlib reserves a few times as much."""


def deflate(data: bytes | memoryview, level: int = STRONGEST) -> bytes:
    """A raw deflate stream of some data, by default the shortest that libdeflate finds."""
    from deflate import deflate_compress  # noqa: PLC0415 (only those who deflate pay for it)

    return bytes(deflate_compress(data, level))


def deflated_size(data: bytes | memoryview) -> int:
    """The bytes that some data take in an archive: deflated, or stored if that takes no more."""
    return min(len(data), len(deflate(data, STRONGEST if len(data) <= LONG_DATA else QUICK)))


def deflated_as_by_pytorch(data: bytes | memoryview) -> bytes:
    """The raw deflate stream that PyTorch's miniz makes from some bytes, at level 9.

    cramjam deflates with miniz_oxide, a port of miniz. It reproduced every stream of PyTorch 1.4 to 2.13 that
    was tried, to the byte.
    """
    import cramjam  # noqa: PLC0415 (only those who deflate pay for it)

    return bytes(cramjam.deflate.compress(data, level=MINIZ_LEVEL))


def inflate(stream: memoryview, size: int) -> bytearray:
    """Inflate a raw deflate stream, piece by piece and to no more than one byte beyond ``size``."""
    data = bytearray(size)  # a growing one would take up to an eighth more
    made = 0
    for piece in inflated(stream, size):
        data[made : made + len(piece)] = piece
        made += len(piece)
    return data


def inflated(stream: memoryview, size: int) -> Iterator[bytes]:
    """The same in pieces; whether they are ``size`` bytes is known after the last."""
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    fed = made = 0
    try:
        while fed < len(stream) and not engine.eof and made <= size:
            piece = engine.decompress(stream[fed : fed + _PIECE], size - made + 1)
            fed += _PIECE
            made += len(piece)
            yield piece
    except zlib.error as cause:
        raise ArchiveError(DAMAGED) from cause
    if made > size:
        raise ArchiveError(expected=f"{size} bytes inflated", found="more")
    if not engine.eof or made != size:
        raise ArchiveError(expected=f"{size} bytes inflated", found=f"an end after {made}")
    if engine.unused_data or fed < len(stream):
        raise ArchiveError(DAMAGED, expected="only compressed bytes", found="others after them")
