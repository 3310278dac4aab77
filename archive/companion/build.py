"""The contents of a companion to its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.companion.layout import CompanionLayout
from archive.companion.mapped import build_mapped
from archive.companion.packed import build_packed

if TYPE_CHECKING:
    from archive.companion.contents import Contents

DEFAULT_LEVEL, HIGHEST = 9, 22
VALUE_COST, CANDIDATE_COST, STRING_COST = 16, 100, 200
"""Bytes of memory that a value of a column takes, that one of the longest column takes more, and a string."""
COPIES = 8
"""Copies of strings and raw records that exist at once."""


def build_companion(
    contents: Contents, layout: CompanionLayout = CompanionLayout.PACKED, level: int = DEFAULT_LEVEL
) -> bytes:
    """A companion file."""
    if not 1 <= level <= HIGHEST:
        raise ArchiveError(expected=f"a level from 1 to {HIGHEST}", found=str(level))
    if layout is CompanionLayout.MAPPED:
        return build_mapped(contents)
    rows = [len(values) for values in contents.columns.values()]
    strings = len(contents.strings.length) * STRING_COST + int(contents.strings.length.sum()) * COPIES
    raw = (len(contents.raw) + len(contents.object_tails)) * COPIES
    # Several encodings of each column are compared.
    cost = sum(rows) * VALUE_COST + max(rows, default=0) * CANDIDATE_COST + strings + raw
    with memory.lent(cost, "columns that are encoded"):
        return build_packed(contents, level)
