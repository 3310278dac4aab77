r"""Texts in few pieces that they share.

PyTorch joins a text's pieces, whatever they are (tried with 2.13); it writes lines. Here they are

1. lines, cut around their line number where many differ in nothing else. Those of traced models do:
   ``/src/model.py(``, ``17``, ``6``, ``): forward\n``. The last digit is a piece alone, so that neighbours
   share the others;
2. what of this only ever stands together, in one.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.columns import firsts, spread

if TYPE_CHECKING:
    from archive.base.columns import Ints

TRACE_LINE = re.compile(rb"(.*\()([0-9]+)(\): .*)", re.DOTALL)
ALIKE = 8
"""So many lines must differ in their number alone to be cut."""


class Pieces(NamedTuple):
    """t texts: text i is the ``strings``, which are distinct, of numbers ``piece[first[i]:first[i + 1]]``."""

    strings: list[bytes]
    first: Ints
    piece: Ints

    def some(self, which: Ints) -> Pieces:
        """Some of the texts."""
        counts = np.diff(self.first)[which]
        return Pieces(self.strings, firsts(counts), self.piece[spread(self.first[which], counts)])

    def runs(self) -> list[bytes]:
        """The pieces of each text as a key: equal only where they are."""
        data, bounds = self.piece.tobytes(), (self.first * self.piece.itemsize).tolist()
        return [data[low:high] for low, high in pairwise(bounds)]

    def joined(self) -> list[bytes]:
        """The texts."""
        strings = list(map(self.strings.__getitem__, self.piece.tolist()))
        return [b"".join(strings[low:high]) for low, high in pairwise(self.first.tolist())]

    def length(self) -> int:
        """Bytes of all texts."""
        lengths = np.array([len(string) for string in self.strings], np.int64)
        return int(lengths[self.piece].sum())


def shared_pieces(texts: Pieces) -> Pieces:
    """The same texts in other pieces."""
    return _together(_cut(_lines(texts)))


def _lines(texts: Pieces) -> Pieces:
    """A piece for each line. Those of a string table are lines already."""
    if not any(b"\n" in string[:-1] for string in texts.strings):
        return texts
    lines = [string.splitlines(keepends=True) or [string] for string in texts.strings]
    known: dict[bytes, int] = {}
    part = np.array([known.setdefault(line, len(known)) for some in lines for line in some], np.int64)
    return _replaced(texts, list(known), np.array([len(some) for some in lines], np.int64), part)


def _cut(texts: Pieces) -> Pieces:
    """Lines that differ in their number alone, cut around it."""
    alike: dict[tuple[bytes, bytes], list[tuple[int, bytes]]] = {}
    for number, line in enumerate(texts.strings):
        if found := TRACE_LINE.fullmatch(line):
            before, digits, behind = found.groups()
            alike.setdefault((before, behind), []).append((number, digits))
    known: dict[bytes, int] = {}
    part = np.full((len(texts.strings), 4), -1, np.int64)
    for (before, behind), lines in alike.items():
        if len(lines) >= ALIKE:
            own = [number for number, _ in lines]
            heads = [digits[:-1] for _, digits in lines]
            part[own, 0] = known.setdefault(before, len(known))
            part[own, 1] = [known.setdefault(head, len(known)) if head else -1 for head in heads]
            part[own, 2] = [known.setdefault(digits[-1:], len(known)) for _, digits in lines]
            part[own, 3] = known.setdefault(behind, len(known))
    whole = np.flatnonzero(part[:, 0] < 0)
    part[whole, 0] = [known.setdefault(texts.strings[number], len(known)) for number in whole.tolist()]
    is_there = part >= 0
    return _replaced(texts, list(known), is_there.sum(1), part[is_there])


def _replaced(texts: Pieces, strings: list[bytes], counts: Ints, parts: Ints) -> Pieces:
    """Other pieces in place of each.

    Args:
        texts: whose pieces are replaced.
        strings: the other pieces.
        counts: how many come in place of each.
        parts: their numbers, one behind the other.
    """
    sizes = counts[texts.piece]
    part = parts[spread(firsts(counts)[texts.piece], sizes)]
    return Pieces(strings, firsts(sizes)[texts.first], part)


def _together(texts: Pieces) -> Pieces:
    """Neighbours of which neither ever stands without the other, as one piece."""
    strings, first, piece = texts
    begins = _are_heads(texts)
    at = np.flatnonzero(begins)
    stop = np.append(at[1:], len(piece))
    run = np.zeros(len(strings), np.int64)
    run[piece[at]] = np.arange(len(at))
    known: dict[bytes, int] = {}
    number = np.zeros(len(strings), np.int64)
    for one in np.unique(run[piece[at]]).tolist():
        members = piece[at[one] : stop[one]].tolist()
        number[members[0]] = known.setdefault(b"".join(map(strings.__getitem__, members)), len(known))
    return Pieces(list(known), firsts(begins.astype(np.int64))[first], number[piece[at]])


def _are_heads(texts: Pieces) -> np.ndarray:
    """Whether a piece does not always stand behind the same one, or that before others, too (p)."""
    strings, first, piece = texts
    filled = np.flatnonzero(np.diff(first))
    outside = len(strings)
    ahead, behind = np.roll(piece, 1), np.roll(piece, -1)
    ahead[first[filled]] = behind[first[filled + 1] - 1] = outside
    joins = _is_always(piece, ahead, outside) & (ahead != outside)
    joins[1:] &= _is_always(piece, behind, outside)[:-1]
    heads: np.ndarray = ~joins
    return heads


def _is_always(piece: Ints, neighbour: Ints, size: int) -> np.ndarray:
    """Whether a piece has the same neighbour wherever it stands (p)."""
    one = np.zeros(size, np.int64)
    one[piece] = neighbour
    varies = np.zeros(size, np.bool_)
    varies[piece[one[piece] != neighbour]] = True
    same: np.ndarray = ~varies[piece]
    return same
