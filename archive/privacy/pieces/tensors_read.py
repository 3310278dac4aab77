"""What was found in the bytes of tensors, for a file that has the same bytes again, as a redacted one has.

Equal bytes have equal strings. So a tensor need not be read twice if its bytes are compared with those that
were read, and are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.io.mapped import same_bytes

if TYPE_CHECKING:
    from archive.formats.record_kinds import RecordKind
    from archive.privacy.pieces.piece import FilePiece
    from archive.privacy.pieces.strings import PieceStrings

SHARE = 16
"""The part of the allowed memory that all that is kept may take."""
FEWEST_BYTES = 4
"""Bytes of a tensor for each byte that is kept of it, at least."""


class _Found(NamedTuple):
    """The bytes of a tensor, their strings, and the steps from one word of ASCII to the next."""

    data: memoryview
    strings: PieceStrings
    steps: np.ndarray


class TensorsRead:
    """What was found in tensors, where that is little.

    What is kept is charged to the allowance that is current when this is made.
    """

    def __init__(self) -> None:
        self._allowance = memory.current()
        self._left = self._allowance.memory // SHARE
        self._found: dict[tuple[str, RecordKind], _Found] = {}

    def keep(self, piece: FilePiece) -> None:
        """Keep what was found in a tensor."""
        if piece.ascii_words is None:  # it is short, or a text
            return
        steps = np.diff(piece.ascii_words, prepend=0)
        steps = steps.astype(np.min_scalar_type(steps.max(initial=0)))
        size = piece.allowance.taken - piece.ascii_words.nbytes + steps.nbytes
        if size <= min(self._left, len(piece.data) // FEWEST_BYTES):
            self._allowance.take(size, "strings of tensors")
            self._left -= size
            self._found[piece.record, piece.kind] = _Found(piece.data, piece.strings, steps)

    def give(self, piece: FilePiece) -> bool:
        """Give a tensor what was found in the one of its name, and say whether that has the same bytes."""
        found = self._found.get((piece.record, piece.kind))
        if found is None or not same_bytes(found.data, piece.data):
            return False
        piece.strings, piece.ascii_words = found.strings, np.cumsum(found.steps, dtype=np.intp)
        piece.allowance.take(piece.ascii_words.nbytes, "words of ASCII")
        return True
