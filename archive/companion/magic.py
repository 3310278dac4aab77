"""What each companion begins with: PNG's manner, so that a transfer as text breaks it in the first bytes."""

from __future__ import annotations

MAGIC = b"\x89PTDBG\r\n\x1a\n"


def is_companion(data: memoryview) -> bool:
    """Whether these are the first bytes of a companion, of whatever version."""
    return bytes(data[: len(MAGIC)]) == MAGIC
