"""The first bytes of a companion. Like PNG's, they are broken by a transfer as text, which is noticed then."""

from __future__ import annotations

MAGIC = b"\x89PTDBG\r\n\x1a\n"


def is_companion(data: memoryview) -> bool:
    """Whether these are the first bytes of a companion, of whatever version."""
    return bytes(data[: len(MAGIC)]) == MAGIC
