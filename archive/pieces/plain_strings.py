"""Strings between bytes that are no text, in ASCII and UTF-8, and in UTF-16."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from archive.pieces.layer import PART, SHORTEST, Layer, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.base.limits import Allowance
    from archive.pieces.layer import Outer

LONG = re.compile(rb"[^\0]{%d,}" % SHORTEST)
ASCII_TEXT = bytes(range(32, 127)) + b"\t\n\r"
NO_TEXT = {*range(32), 127} - {*b"\t\n\r"}
TO_NUL = bytes(0 if code in NO_TEXT else code for code in range(256))
CLASSES = bytes(ord("a") if code in ASCII_TEXT else min(code, 1) for code in range(256))
"""Translates bytes to ``a`` for those of ASCII text, 0 for NUL, 1 for others."""
WIDE = re.compile(rb"(?:a\0){5,}+")
FEWEST_WIDE = b"a\0" * 5


class PlainLayer(Layer):
    """Strings of bytes that are cut where something stands that is no text: NUL, in ``data``."""

    @cached_property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        first: dict[bytes, int] = {}
        for one in LONG.finditer(self.data):
            first.setdefault(one[0], one.start())
        return first


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


def of_plain(data: bytes, allowance: Allowance, outer: Outer, shortest: int) -> PlainLayer:
    """The strings between bytes that are no text.

    Args:
        data: the bytes.
        allowance: takes the memory that they cost.
        outer: tells where the bytes come from.
        shortest: bytes of a string that may tell something without a mark.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    count = min(data.count(b"\0"), len(data) // SHORTEST) + 1
    text = data.translate(TO_NUL)
    with allowance.lent(2 * len(data) + PART * count, "strings of a record"):
        return PlainLayer(text, counted(LONG.findall(text), allowance, shortest), outer)


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
    for one in WIDE.finditer(classes):
        start, end = one.span()
        yield start, end
        if classes[max(start - 1, 0) : start] == b"\0" and classes[end : end + 1] == b"a":
            yield start, end + 1
