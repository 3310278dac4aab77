"""Strings between bytes that are no text, in ASCII and UTF-8, and in UTF-16."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.pieces.layer import SHORTEST, Layer, Spans, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.pieces.layer import Outer

ASCII_TEXT = bytes(range(32, 127)) + b"\t\n\r"
NO_TEXT = {*range(32), 127} - {*b"\t\n\r"}
TO_NUL = bytes(0 if code in NO_TEXT else code for code in range(256))
CLASSES = bytes(ord("a") if code in ASCII_TEXT else min(code, 1) for code in range(256))
"""Translates bytes to ``a`` for those of ASCII text, 0 for NUL, 1 for others."""
WIDE = re.compile(rb"(?:a\0){5,}+")
FEWEST_WIDE = b"a\0" * 5
EDGE = 16
"""Bytes of memory that the place of an edge of a string costs."""


class WideLayer(Layer):
    """Strings in UTF-16 of either byte order: in both, every second byte of ASCII is NUL."""

    @cached_property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        first: dict[bytes, int] = {}
        for start, end in _wide_spans(self.data.translate(CLASSES)):
            first.setdefault(self.data[start:end:2], start)
        return first

    def shift(self, _raw: bytes, position: int) -> int:
        """Bytes before a position in a string, two for each letter."""
        return 2 * position


def of_plain(data: bytes, allowance: Allowance, outer: Outer) -> Spans:
    """The strings between bytes that are no text.

    Args:
        data: the bytes.
        allowance: takes the memory that they cost.
        outer: tells where the bytes come from.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    with allowance.part() as part:
        part.take(2 * len(data), "strings of a record")
        text = data.translate(TO_NUL)
        begins, ends = _stretches(text, part) if b"\0" in text else np.array([[0], [len(text)]])
        long = ends - begins >= SHORTEST
        return Spans(text, begins[long], ends[long], allowance, outer)


def _stretches(text: bytes, allowance: Allowance) -> tuple[Ints, Ints]:
    """Where stretches without NUL begin, and where they end."""
    edges = np.diff(np.frombuffer(text, np.uint8) != 0, prepend=False, append=False)
    allowance.take(EDGE * int(np.count_nonzero(edges)), "strings of a record")
    places = np.flatnonzero(edges)
    return places[::2], places[1::2]


def of_wide(data: bytes, allowance: Allowance, outer: Outer) -> WideLayer | None:
    """The strings in UTF-16; None where there are none.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    if b"\0" not in data:
        return None
    with allowance.lent(len(data), "classes of bytes"):
        classes = data.translate(CLASSES)
        if FEWEST_WIDE not in classes:
            return None
        strings = [data[start:end:2] for start, end in _wide_spans(classes)]
        long = (one for one in strings if len(one) >= SHORTEST)
        return WideLayer(data, counted(long, allowance), outer)


def _wide_spans(classes: bytes) -> Iterator[tuple[int, int]]:
    """Where strings in UTF-16 are; with the letter behind, too, where that may be the last big-endian one."""
    at = classes.find(FEWEST_WIDE)
    while at >= 0:
        one = WIDE.match(classes, at)
        start, end = at, one.end() if one else at + len(FEWEST_WIDE)
        yield start, end
        if classes[max(start - 1, 0) : start] == b"\0" and classes[end : end + 1] == b"a":
            yield start, end + 1
        at = classes.find(FEWEST_WIDE, end)
