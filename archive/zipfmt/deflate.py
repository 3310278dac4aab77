"""Deflate streams, as short as they can be made here."""

from __future__ import annotations

import zlib


def deflate(data: bytes | memoryview) -> bytes:
    """The shortest raw deflate stream that is found for some bytes."""
    engine = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    return engine.compress(data) + engine.flush()
