r"""Escapes in texts: ``%2F``, ``\x2f``, ``\057``, ``\u002f``, ``&#47;`` and ``&sol;`` all stand for a slash.

They may be mixed, and be escaped again: a text is decoded as a whole, and what comes out once more.
"""

from __future__ import annotations

import html
import re
import sys
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from archive.privacy.pieces.layer import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NAMES = ("percent-encoding", "escapes of Python and C", "HTML entities")
"""What is decoded, in words."""
MARKS = (b"%", b"\\", b"&")
ESCAPE = re.compile(
    rb"%(?P<percent>[0-9A-Fa-f]{2})"
    rb"|\\{1,2}(?:x(?P<hex>[0-9A-Fa-f]{2})|u(?P<short>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<octal>[0-3][0-7]{2}))"
    rb"|&(?P<html>#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,30});"
)


class EscapeLayer(Layer):
    """Strings of another layer, which have escapes.

    Args:
        parent: the other layer.
        raws: the strings as they stand there, by their texts.
        counts: how often each text is there.
    """

    def __init__(self, parent: Layer, raws: Mapping[bytes, bytes], counts: Mapping[bytes, int]) -> None:
        super().__init__(b"", counts)
        self._parent = parent
        self._raws = raws

    def decoded(self, raw: bytes) -> bytes:
        """The string without escapes."""
        return ESCAPE.sub(_stands_for, raw)

    def place(self, raw: bytes, position: int) -> int:
        """The byte of the record that a position in a decoded string comes from."""
        return self._parent.place(self._raws[raw], shift(raw, position))


def escaped(joined: bytes, texts: Sequence[bytes]) -> Iterator[int]:
    """The numbers of texts that have escapes.

    Args:
        joined: the texts with NUL between them.
        texts: the same.
    """
    if not any(mark in joined for mark in MARKS):
        return
    found = [one.start() for one in ESCAPE.finditer(joined)]
    starts = [0, *accumulate(len(text) + 1 for text in texts)] if found else []
    yield from sorted({bisect_right(starts, at) - 1 for at in found})


def shift(raw: bytes, position: int) -> int:
    """Bytes before a position in a decoded string, as the string stands there."""
    length = end = 0
    for one in ESCAPE.finditer(raw):
        if length + one.start() - end >= position:
            break
        length += one.start() - end + len(_stands_for(one))
        end = one.end()
    return end + max(position - length, 0)


def _stands_for(escape: re.Match[bytes]) -> bytes:
    """What an escape stands for: a byte, or a character in UTF-8."""
    kind, digits = escape.lastgroup, escape[escape.lastgroup or 0]
    if kind in ("percent", "hex"):
        return bytes([int(digits, 16)])
    if kind == "octal":
        return bytes([int(digits, 8)])
    if kind == "html":
        text = html.unescape(escape[0].decode())
        return text.encode(errors="surrogatepass")
    code = int(digits, 16)
    return chr(code).encode(errors="surrogatepass") if code <= sys.maxunicode else escape[0]
