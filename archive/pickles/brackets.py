"""The opcodes that take all values from a MARK on, with their MARKs, and the values in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import STEP
from archive.pickles.ops import LEVEL, MARK, STOP, TAKES, lookup

if TYPE_CHECKING:
    from archive.pickles.scan import Tokens


class Brackets:
    """MARKs and the opcodes that close them, by depth.

    Attributes:
        depth: open MARKs behind each token (n).

    Inside, a token's *key* is one integer of 64 bits: its depth, and in the lowest bits its number. Sorted
    keys are tokens by depth and position.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.index = tokens.at.dtype
        self.depth = np.cumsum(lookup(LEVEL, tokens.op), dtype=self.index)
        self.bits = len(tokens.op).bit_length()

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The opcodes that take all from a MARK on (*closers*), and the MARK of each.

        Brackets match by depth: within one depth, MARKs and closers alternate. So both, sorted by depth and
        position, stand in the same order.

        Raises:
            ArchiveError: there are more of the ones than of the others.
        """
        op, depth = self.tokens.op, self.depth
        stops = np.flatnonzero(op == STOP)
        lone = np.flatnonzero(depth < 0)
        open_ = stops[depth[stops] > 0]
        if len(lone) and not (len(open_) and open_[0] < lone[0]):
            raise self.tokens.fault(int(lone[0]), "no MARK for this opcode")
        if len(open_):
            raise self.tokens.fault(int(open_[0]), f"{int(depth[open_[0]])} open MARKs at STOP")
        closers, marks = np.flatnonzero(lookup(TAKES, op) < 0), np.flatnonzero(op == MARK)
        return self._numbers(self._by_depth(closers)), self._numbers(self._by_depth(marks))

    def between(self, free: np.ndarray, closers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many values each closer takes, and these.

        A value belongs to the first closer behind it at its depth. Depth and position form one key, so that a
        single search among the sorted values finds where each closer's parts end.

        Args:
            free: values that nothing else takes (rising), of 64 bits; changed here.
            closers: as above.
        """
        keys = self._by_depth(free)
        inside = self._keys(closers.astype(np.int64)) + (1 << self.bits)
        size = np.diff(np.searchsorted(keys, inside), prepend=0)
        return size.astype(self.index), self._numbers(keys)

    def _by_depth(self, tokens: np.ndarray) -> np.ndarray:
        """The keys of some tokens, sorted; takes the place of the tokens."""
        keys = self._keys(tokens)
        keys.sort()
        return keys

    def _keys(self, tokens: np.ndarray) -> np.ndarray:
        """The keys of some tokens; takes the place of the tokens."""
        for at in range(0, len(tokens), STEP):
            keys = tokens[at : at + STEP]
            keys |= self.depth[keys].astype(np.int64) << self.bits
        return tokens

    def _numbers(self, keys: np.ndarray) -> np.ndarray:
        """The tokens of some keys."""
        return (keys & ((1 << self.bits) - 1)).astype(self.index)
