r"""Strings get numbers, equal ones the same; texts are cut into few pieces that they share.

PyTorch writes texts in lines, but joins any pieces (tried with 2.13). Here the pieces are made in two steps:

1. Texts are cut into lines. Lines that differ only in their line number, as many of traced models do, are
   cut around it: ``/src/model.py(``, ``17``, ``6``, ``): forward\n``. The last digit is a piece of its own,
   so that neighbours share the others.
2. Pieces that only ever stand together become one.
"""

from __future__ import annotations

import re
from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.columns import distinct_values, firsts, numbered, sizes_of, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.columns import Ints
    from archive.base.strings import StringTable

TRACE_LINE = re.compile(rb"(.*\()([0-9]+)(\): .*)", re.DOTALL)
ALIKE = 8
"""Lines that must differ only in their number for them to be cut."""


# --- strings


def own_strings(strings: StringTable, index: Ints) -> tuple[list[bytes], Ints]:
    """The distinct strings among some of a table, and the number of each index in them; -1 stays (n)."""
    known: dict[bytes, int] = {}
    number = string_numbers(strings, index, known)
    return list(known), number


def string_numbers(strings: StringTable, index: Ints, known: dict[bytes, int]) -> Ints:
    """Number strings, equal ones alike, as in ``known``, to which new ones are added; -1 stays (n)."""
    there = index[index >= 0]
    low = int(there.min(initial=len(strings)))
    is_used = np.zeros(max(int(there.max(initial=0)) + 1 - low, 1), np.bool_)
    is_used[there - low] = True
    used = np.flatnonzero(is_used)
    memory.take(13 * memory.NUMBER * len(used) + int(strings.length[used + low].sum()), "strings")
    places = (column[used + low].tolist() for column in (strings.buffer, strings.start, strings.length))
    number = np.full(len(is_used), -1, np.int64)
    number[used] = [
        known.setdefault(bytes(strings.buffers[buffer][start : start + length]), len(known))
        for buffer, start, length in zip(*places, strict=True)
    ]
    return np.where(index < 0, -1, number[np.maximum(index - low, 0)])


# --- texts


class PiecedTexts(NamedTuple):
    """The pieces of t texts: text i is the strings of numbers ``piece[first[i]:first[i + 1]]``, joined.

    Attributes:
        strings: the distinct pieces.
        first: the first piece of each text (t + 1).
        piece: numbers of strings (p).
    """

    strings: list[bytes]
    first: Ints
    piece: Ints

    def some(self, which: Ints) -> PiecedTexts:
        """The pieces of some of the texts."""
        counts = sizes_of(self.first, which)
        return PiecedTexts(self.strings, firsts(counts), self.piece[spread(self.first[which], counts)])

    def numbered(self) -> tuple[Ints, Ints]:
        """Texts numbered by first appearance, those of equal pieces alike: as ``base.columns.numbered``."""
        known: dict[bytes, int] = {}
        number = np.array([known.setdefault(run, len(known)) for run in self.runs()], np.int64)
        return number, numbered(number)[1]

    def runs(self) -> list[bytes]:
        """A key for each text: equal for texts of equal pieces."""
        data, bounds = self.piece.tobytes(), (self.first * self.piece.itemsize).tolist()
        return [data[low:high] for low, high in pairwise(bounds)]

    def joined(self) -> Iterator[bytes]:
        """The texts as whole strings, each made when it is asked for."""
        for low, high in pairwise(self.first.tolist()):
            yield b"".join(map(self.strings.__getitem__, self.piece[low:high].tolist()))

    def length(self) -> int:
        """Bytes of all texts."""
        lengths = np.array([len(string) for string in self.strings], np.int64)
        return int(lengths[self.piece].sum())


def shared_pieces(texts: PiecedTexts) -> PiecedTexts:
    """Cut the texts into pieces that they share."""
    return _together(_cut(_lines(texts)))


def _lines(texts: PiecedTexts) -> PiecedTexts:
    """Cut texts into lines. The pieces of a string table are lines already."""
    if not any(b"\n" in string[:-1] for string in texts.strings):
        return texts
    known: dict[bytes, int] = {}
    counts, parts = [], array("q")
    for string in texts.strings:
        memory.take(
            13 * memory.NUMBER * (string.count(b"\n") + string.count(b"\r") + 1) + len(string), "lines"
        )
        lines = string.splitlines(keepends=True) or [string]
        counts.append(len(lines))
        parts.extend(known.setdefault(line, len(known)) for line in lines)
    part = np.frombuffer(parts, np.int64)
    return _replaced(texts, list(known), np.array(counts, np.int64), part)


def _cut(texts: PiecedTexts) -> PiecedTexts:
    """Cut lines around their line number, if many differ only in it."""
    memory.take(memory.TEXT * len(texts.strings) + sum(map(len, texts.strings)), "lines")
    alike: dict[tuple[bytes, bytes], list[tuple[int, bytes]]] = {}
    for number, line in enumerate(texts.strings):
        if found := TRACE_LINE.fullmatch(line):
            before, digits, after = found.groups()
            alike.setdefault((before, after), []).append((number, digits))
    known: dict[bytes, int] = {}
    part = np.full((len(texts.strings), 4), -1, np.int64)
    for (before, after), lines in alike.items():
        if len(lines) >= ALIKE:
            own = [number for number, _ in lines]
            heads = [digits[:-1] for _, digits in lines]
            part[own, 0] = known.setdefault(before, len(known))
            part[own, 1] = [known.setdefault(head, len(known)) if head else -1 for head in heads]
            part[own, 2] = [known.setdefault(digits[-1:], len(known)) for _, digits in lines]
            part[own, 3] = known.setdefault(after, len(known))
    whole = np.flatnonzero(part[:, 0] < 0)
    part[whole, 0] = [known.setdefault(texts.strings[number], len(known)) for number in whole.tolist()]
    is_there = part >= 0
    return _replaced(texts, list(known), is_there.sum(1), part[is_there])


def _replaced(texts: PiecedTexts, strings: list[bytes], counts: Ints, parts: Ints) -> PiecedTexts:
    """Replace each piece by as many others as ``counts`` says; ``parts`` has their numbers, concatenated."""
    sizes = counts[texts.piece]
    memory.take(8 * memory.NUMBER * int(sizes.sum()), "pieces of texts")
    part = parts[spread(firsts(counts)[texts.piece], sizes)]
    return PiecedTexts(strings, firsts(sizes)[texts.first], part)


def _together(texts: PiecedTexts) -> PiecedTexts:
    """Join neighbours into one piece if neither ever stands without the other."""
    strings, first, piece = texts
    begins = _are_heads(texts)
    at = np.flatnonzero(begins)
    stop = np.append(at[1:], len(piece))
    run = np.zeros(len(strings), np.int64)
    run[piece[at]] = np.arange(len(at))
    known: dict[bytes, int] = {}
    number = np.zeros(len(strings), np.int64)
    for number_of_run in distinct_values(run[piece[at]]).tolist():
        members = piece[at[number_of_run] : stop[number_of_run]].tolist()
        number[members[0]] = known.setdefault(b"".join(map(strings.__getitem__, members)), len(known))
    return PiecedTexts(list(known), firsts(begins.astype(np.int64))[first], number[piece[at]])


def _are_heads(texts: PiecedTexts) -> np.ndarray:
    """Whether a piece begins a joined one: several precede it, or follow the one before (p)."""
    strings, first, piece = texts
    filled = np.flatnonzero(np.diff(first))
    outside = len(strings)
    previous, following = np.roll(piece, 1), np.roll(piece, -1)
    previous[first[filled]] = following[first[filled + 1] - 1] = outside
    joins = _is_always(piece, previous, outside) & (previous != outside)
    joins[1:] &= _is_always(piece, following, outside)[:-1]
    heads: np.ndarray = ~joins
    return heads


def _is_always(piece: Ints, neighbour: Ints, size: int) -> np.ndarray:
    """Whether a piece has the same neighbour everywhere (p)."""
    first = np.zeros(size, np.int64)
    first[piece] = neighbour
    varies = np.zeros(size, np.bool_)
    varies[piece[first[piece] != neighbour]] = True
    same: np.ndarray = ~varies[piece]
    return same
