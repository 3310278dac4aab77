r"""Strings as templates and numbers.

Traced models have thousands of strings that differ only in a number: ``/a/b.py(12): forward``,
``code/__torch__/torch/nn/modules/linear/___torch_mangle_7.py``. Such a number is in parentheses before
``: ``, or after ``___torch_mangle_``; it is decimal, without leading zeros, of up to 18 digits. It leaves a
*hole*, byte 1, in the string's template::

    strings                    templates                      numbers
    /a.py(12): f               0  /a.py(): f                12, 14 (template 0)
    x.___torch_mangle_7.A      1  x.___torch_mangle_.A      7 (template 1)
    /a.py(14): f

Numbers are ordered by template, within a template by hole, and within a hole by string: so similar ones are
adjacent. If any string contains a byte 0 or 1 itself, no string is taken apart.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, ordinals
from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.formats.mangling import MANGLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints

MANGLED = MANGLE.encode()
AFTER = b"): "
HOLE, SEPARATOR = b"\1", b"\0"
MOST_DIGITS = 18
POINTER = 64
"""Bytes of memory that a string takes besides its text, for limits."""
FRAME_TEMPLATE = re.compile(rb"([^\x01]*)\(\x01\): ")
NO_FILE = -2


@dataclass(frozen=True, eq=False)
class Templates:
    """n strings as t templates and numbers.

    Attributes:
        texts: the templates (t).
        which: the template of each string (n).
        numbers: the numbers in the holes.
    """

    texts: Sequence[bytes]
    which: Ints
    numbers: Ints

    @property
    def holes(self) -> Ints:
        """The number of holes in each template; 0 if no string was taken apart: then byte 1 is none (t)."""
        if not len(self.numbers):
            return np.zeros(len(self.texts), np.int64)
        return np.array([text.count(HOLE) for text in self.texts], np.int64)

    @property
    def size(self) -> int:
        """An upper bound of the memory of all strings, in bytes."""
        lengths = np.array([len(text) for text in self.texts], np.int64)
        uses = np.bincount(self.which, minlength=len(self.texts))
        return int((lengths * uses).sum()) + MOST_DIGITS * len(self.numbers) + POINTER * len(self.which)

    def frames(self) -> tuple[Ints, Ints]:
        """File and line of the strings that are frames of a Python stack, ``<file>(<line>): <function>``.

        Returns:
            For each string, the number of the string that is the file, or NO_FILE; and the line, or 0 (n).
        """
        number = np.full(len(self.texts), -1, np.int64)
        number[self.which] = np.arange(len(self.which))
        known = {text: int(string) for text, string in zip(self.texts, number, strict=True) if string >= 0}
        heads = [FRAME_TEMPLATE.match(text) for text in self.texts]
        files = np.array([known.get(head[1], NO_FILE) if head else NO_FILE for head in heads], np.int64)
        framed = np.array([head is not None for head in heads], np.bool_)[self.which]
        line = np.zeros(len(self.which), np.int64)
        if len(self.numbers):
            at = self._bounds()[:-1][self.which] + ordinals(self.which)
            line[framed] = self.numbers[at[framed]]
        else:
            framed[:] = False
        return np.where(framed, files[self.which], NO_FILE), line

    def _bounds(self) -> Ints:
        """Where the numbers of each template begin, and where those of the last one end (t + 1)."""
        first = firsts(np.bincount(self.which, minlength=len(self.texts)) * self.holes)
        if first[-1] != len(self.numbers):
            raise ArchiveError(expected=f"{first[-1]} numbers for templates", found=f"{len(self.numbers)}")
        return first

    def filled(self) -> list[bytes]:
        """The original strings."""
        if not len(self.numbers):
            return [self.texts[template] for template in self.which.tolist()]
        bounds = self._bounds()[:-1]
        uses = np.bincount(self.which, minlength=len(self.texts)).tolist()
        at = (bounds[self.which] + ordinals(self.which)).tolist()
        values = [b"%d" % number for number in self.numbers.tolist()]
        split = [text.split(HOLE) for text in self.texts]
        strings = []
        for template, place in zip(self.which.tolist(), at, strict=True):
            head, *rest = split[template]
            for part in rest:
                head += values[place] + part
                place += uses[template]  # noqa: PLW2901 (goes on from where it is)
            strings.append(head)
        return strings


def templated(strings: Sequence[bytes]) -> Templates:
    """Take strings apart; templates are numbered by first use."""
    blob = SEPARATOR.join(strings)
    if HOLE in blob or blob.count(SEPARATOR) != max(len(strings) - 1, 0):
        texts = {string: number for number, string in enumerate(dict.fromkeys(strings))}
        which = np.array([texts[string] for string in strings], np.int64)
        return Templates(list(texts), which, np.zeros(0, np.int64))
    if not strings:
        return Templates([], np.zeros(0, np.int64), np.zeros(0, np.int64))
    start, stop = _numbers(np.frombuffer(blob, np.uint8))
    texts = {}
    parts = _without(blob, start, stop).split(SEPARATOR)
    which = np.array([texts.setdefault(text, len(texts)) for text in parts], np.int64)
    ends = np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)) + 1)
    owner = np.searchsorted(ends, start, "right")
    place = ordinals(owner)
    order = np.lexsort((owner, place, which[owner]))
    return Templates(list(texts), which, _values(blob, start, stop)[order])


def _numbers(data: np.ndarray) -> tuple[Ints, Ints]:
    """Where the numbers that leave a hole begin and end."""
    digit = np.zeros(len(data) + 2, np.bool_)
    digit[1:-1] = (data >= ord("0")) & (data <= ord("9"))
    edges = np.flatnonzero(digit[1:] != digit[:-1])
    start, stop = edges[::2], edges[1::2]
    fits = (stop - start <= MOST_DIGITS) & ((data[start] != ord("0")) | (stop - start == 1))
    start, stop = start[fits], stop[fits]
    bracketed = _stands(data, start - 1, b"(") & _stands(data, stop, AFTER)
    chosen = bracketed | _stands(data, start - len(MANGLED), MANGLED)
    return start[chosen], stop[chosen]


def _stands(data: np.ndarray, at: Ints, word: bytes) -> np.ndarray:
    """Whether a word is at each of some positions."""
    stands = (at >= 0) & (at + len(word) <= len(data))
    for offset, byte in enumerate(word):
        stands[stands] = data[at[stands] + offset] == byte
    return stands


def _without(blob: bytes, start: Ints, stop: Ints) -> bytes:
    """The bytes with a hole in place of each number."""
    data = np.frombuffer(blob, np.uint8).copy()
    inside = np.zeros(len(data) + 1, np.int8)
    inside[start + 1] += 1
    inside[stop] -= 1
    data[start] = HOLE[0]
    left: bytes = data[np.cumsum(inside[:-1], dtype=np.int8) == 0].tobytes()
    return left


def _values(blob: bytes, start: Ints, stop: Ints) -> Ints:
    """The values of the numbers between some positions."""
    data = np.frombuffer(blob, np.uint8)
    values = np.zeros(len(start), np.int64)
    for offset in range(int((stop - start).max(initial=0))):
        more = start + offset < stop
        values[more] = values[more] * 10 + data[start[more] + offset] - ord("0")
    return values


def cut(data: bytes | memoryview, length: Ints) -> list[bytes]:
    """Cut concatenated strings apart."""
    bounds = firsts(length).tolist()
    if bounds[-1] != len(data):
        raise ArchiveError(expected=f"strings of {bounds[-1]} bytes together", found=f"{len(data)}")
    whole = bytes(data)
    return [whole[start:end] for start, end in pairwise(bounds)]
