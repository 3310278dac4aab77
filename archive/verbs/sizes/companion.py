"""The pieces of a companion: its header and directory, its tables by column, its strings.

The columns of a packed companion are compressed as one; its stored bytes are apportioned to them by what each
compresses to on its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.companion.sections import section_parts
from archive.verbs.sizes.account import Piece
from archive.verbs.sizes.apportioning import apportioned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Limits
    from archive.reader.companion import Companion


def companion_pieces(companion: Companion, limits: Limits) -> Iterator[Piece]:
    """All bytes of a companion file: the kind is a table, the part a column."""
    data, directory = companion.data, companion.opened.directory
    used = 0
    for number, (start, end) in directory.places.items():
        parts = section_parts(data, directory, number, limits)
        shares = apportioned(end - start, [weight for _, weight, _ in parts])
        for (name, _, inflated), stored in zip(parts, shares, strict=True):
            yield Piece(name.partition(".")[0], name, None, None, None, stored, inflated)
        used += end - start
    yield Piece("directory", "directory", None, None, None, len(data) - used, 0)
