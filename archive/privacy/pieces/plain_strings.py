"""Strings between bytes that are no text, in ASCII and UTF-8, in UTF-16, and in UTF-32, which NumPy has."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.privacy.pieces.layer import SHORTEST, Layer, Spans, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.privacy.pieces.layer import Outer

ASCII_TEXT = bytes(range(32, 127)) + b"\t\n\r"
NO_TEXT = {*range(32), 127} - {*b"\t\n\r"}
TO_NUL = bytes(0 if code in NO_TEXT else code for code in range(256))
LATIN = range(0xA0, 0x100)
CLASSES = bytes(
    ord("a") if code in ASCII_TEXT else ord("b") if code in LATIN else min(code, 1) for code in range(256)
)
"""Translates bytes to ``a`` for those of ASCII text, ``b`` for others of Latin-1, 0 for NUL, 1 else."""
WIDTHS = (2, 4)
"""Bytes of a letter in UTF-16, and in UTF-32."""
FEWEST_WIDE = {width: (b"a" + bytes(width - 1)) * 5 for width in WIDTHS}
WIDE = {width: re.compile(rb"(?:[ab]\0{%d}){5,}+" % (width - 1)) for width in WIDTHS}
FEWEST_LONG = b"a" * 12
LONG = re.compile(b"a++")
"""Text in the bytes of tensors, in :data:`CLASSES`; in those of random numbers it is rare."""
EDGE = 16
"""Bytes of memory that the place of an edge of a string costs."""


class WideLayer(Layer):
    """Strings in UTF-16 or UTF-32 of either byte order: in all, what is beside a letter of Latin-1 is NUL.

    Args:
        data: the bytes.
        counts: the strings in UTF-8, and how often.
        outer: tells where ``data`` comes from.
        width: bytes of a letter.
    """

    def __init__(self, data: bytes, counts: Mapping[bytes, int], outer: Outer, width: int) -> None:
        super().__init__(data, counts, outer)
        self._width = width

    @cached_property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        first: dict[bytes, int] = {}
        for start, text in _wide_texts(self.data, self.data.translate(CLASSES), self._width):
            first.setdefault(text, start)
        return first

    def shift(self, raw: bytes, position: int) -> int:
        """Bytes before a position in a string, so many for each letter."""
        return self._width * len(raw[:position].decode(errors="ignore"))


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


def of_numbers(data: bytes, allowance: Allowance) -> Spans:
    """The strings of ASCII between numbers, those that are too long for chance.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    with allowance.lent(len(data), "classes of bytes"):
        classes, spans = data.translate(CLASSES), []
        at = classes.find(FEWEST_LONG)
        while at >= 0:
            one = LONG.match(classes, at)
            spans.append((at, one.end() if one else at + len(FEWEST_LONG)))
            at = classes.find(FEWEST_LONG, spans[-1][1])
        found = np.array(spans or np.zeros((0, 2)), np.int64)
        return Spans(data, found[:, 0], found[:, 1], allowance, int)


def _stretches(text: bytes, allowance: Allowance) -> tuple[Ints, Ints]:
    """Where stretches without NUL begin, and where they end."""
    edges = np.diff(np.frombuffer(text, np.uint8) != 0, prepend=False, append=False)
    allowance.take(EDGE * int(np.count_nonzero(edges)), "strings of a record")
    places = np.flatnonzero(edges)
    return places[::2], places[1::2]


def has_wide(data: bytes) -> bool:
    """Whether there are strings in UTF-16 or UTF-32."""
    if b"\0" not in data:
        return False
    classes = data.translate(CLASSES)
    return any(fewest in classes for fewest in FEWEST_WIDE.values())


def of_wide(data: bytes, allowance: Allowance, outer: Outer) -> list[WideLayer]:
    """The strings in UTF-16, and those in UTF-32, if there are any.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    if b"\0" not in data:
        return []
    with allowance.lent(len(data), "classes of bytes"):
        classes = data.translate(CLASSES)
        widths = [width for width in WIDTHS if FEWEST_WIDE[width] in classes]
        texts = {width: [text for _, text in _wide_texts(data, classes, width)] for width in widths}
        return [WideLayer(data, counted(some, allowance), outer, width) for width, some in texts.items()]


def _wide_texts(data: bytes, classes: bytes, width: int) -> Iterator[tuple[int, bytes]]:
    """The strings of letters of a width, in UTF-8, and where they begin.

    They come with the letter behind, too, where that may be the last big-endian one.
    """
    fewest, pattern, beside = FEWEST_WIDE[width], WIDE[width], bytes(width - 1)
    at = classes.find(fewest)
    while at >= 0:
        one = pattern.match(classes, at)
        start, end = at, one.end() if one else at + len(fewest)
        ends = [end]
        if start >= width - 1 and classes[start - width + 1 : start] == beside:
            ends += [end + 1] * (classes[end : end + 1] in (b"a", b"b"))
        for stop in ends:
            text = data[start:stop:width].decode("latin-1").encode()
            if len(text) >= SHORTEST:
                yield start, text
        at = classes.find(fewest, end)
