"""The head of a FlatBuffer: ``[size U32] root U32, identifier``, by which its kind is recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.base.ranged import Bytes

SIZE = 4
"""Bytes of a size, a length or a reference."""
IDENTIFIER_BYTES = 4
ETDUMP_IDENTIFIER = b"ED00"


def identified_at(data: bytes | Bytes, identifier: bytes) -> int | None:
    """Where a FlatBuffer begins: 0, or behind its size; None where it is none with this identifier."""
    for start in (0, SIZE):
        if data[start + SIZE : start + SIZE + IDENTIFIER_BYTES] == identifier:
            return start
    return None
