"""The first bytes of a companion. As in PNG files, a transfer as text breaks them, so that it is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.io.ranged import Bytes

MAGIC = b"\x89PTDBG\r\n\x1a\n"


def is_companion(data: Bytes) -> bool:
    """Whether these are the first bytes of a companion, of whatever version."""
    return bytes(data[: len(MAGIC)]) == MAGIC
