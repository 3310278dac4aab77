"""Strings of JSON, cut at its quotes in columns."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.pieces.layer import MARKS, PART, Layer, counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.pieces.layer import Outer

JSON = re.compile(rb"[ \t\r\n]*[\[{][ \t\r\n]*[\[{\"\]}]")
NO_JSON = (b"\1", b"\2")
"""Controls, which JSON has as escapes alone: other bytes begin like JSON, too, and may have some."""
ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(.))", re.DOTALL)
ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
SURROGATES, BEHIND_SURROGATES = 0xD800, 0xDC00
QUOTE, BACKSLASH = b'"\\'
IS_MARK = bytes(code in MARKS for code in range(256))


class JsonLayer(Layer):
    """Strings of JSON, and what stands between them.

    Args:
        data: the JSON.
        begins: where each string begins.
        ends: where each one ends.
        allowance: takes the memory that they cost.
        outer: tells where ``data`` comes from.
    """

    def __init__(self, data: bytes, begins: Ints, ends: Ints, allowance: Allowance, outer: Outer) -> None:
        self._begins, self._ends = begins, ends
        with allowance.lent(len(data) + PART * len(begins), "strings of JSON"):
            super().__init__(data, counted(self._strings(data), allowance), outer)

    def _strings(self, data: bytes) -> list[bytes]:
        return [
            data[begin:end] for begin, end in zip(self._begins.tolist(), self._ends.tolist(), strict=True)
        ]

    def decoded(self, raw: bytes) -> bytes:
        """The string without escapes."""
        if b"\\" not in raw:
            return raw
        try:
            return str(json.loads(b'"%s"' % raw, strict=False)).encode(errors="surrogatepass")
        except ValueError:  # an escape that JSON does not know
            return ESCAPE.sub(_stands_for, raw)

    @cached_property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        return dict(zip(reversed(self._strings(self.data)), self._begins[::-1].tolist(), strict=True))

    def shift(self, raw: bytes, position: int) -> int:
        """The byte behind all escapes before a position; that of the same escape, at least."""
        length = end = 0
        for one in ESCAPE.finditer(raw):
            if length + one.start() - end >= position:
                break
            length += one.start() - end + len(_stands_for(one))
            end = one.end()
        return end + max(position - length, 0)


def is_json(data: bytes) -> bool:
    """Whether bytes are JSON, as far as their first ones tell, and controls."""
    return JSON.match(data) is not None and not any(control in data for control in NO_JSON)


def of_json(data: bytes, allowance: Allowance, outer: Outer, shortest: int) -> JsonLayer:
    """The strings of JSON.

    Args:
        data: the JSON.
        allowance: takes the memory that they cost.
        outer: tells where the bytes come from.
        shortest: bytes of a string that may tell something without a mark.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    with allowance.lent(2 * len(data), "strings of JSON"):
        codes = np.frombuffer(data, np.uint8)
        is_quote = codes == QUOTE
        with allowance.lent(PART * int(np.count_nonzero(is_quote)), "strings of JSON"):
            cuts = unescaped(codes, np.flatnonzero(is_quote))
            begins, ends = np.append(0, cuts + 1), np.append(cuts, len(data))
            lengths = ends - begins
            kept = lengths >= shortest
            if shortest > 1:
                marks = np.flatnonzero(np.frombuffer(data.translate(IS_MARK), np.bool_))
                marked = np.searchsorted(begins, marks, "right") - 1
                kept[marked] = True
            return JsonLayer(data, begins[kept], ends[kept], allowance, outer)


def unescaped(codes: np.ndarray, quotes: Ints) -> Ints:
    """The quotes of JSON that no backslash is before, or an even number of them.

    Args:
        codes: the bytes.
        quotes: the positions of quotes among them.
    """
    behind = np.flatnonzero(codes[np.maximum(quotes - 1, 0)] == BACKSLASH)
    if not len(behind):
        return quotes
    slashes = np.flatnonzero(codes == BACKSLASH)
    runs = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    last = np.searchsorted(slashes, quotes[behind]) - 1
    count = last - runs[np.searchsorted(runs, last, "right") - 1] + 1
    return np.delete(quotes, behind[count % 2 == 1])


def _stands_for(escape: re.Match[bytes]) -> bytes:
    """What an escape stands for, in UTF-8."""
    first, second, plain = escape.groups()
    if plain is not None:
        return ESCAPED.get(plain, plain)
    code = int(first, 16)
    if second is None:
        return chr(code).encode(errors="surrogatepass")
    if not SURROGATES <= code < BEHIND_SURROGATES:
        return (chr(code) + chr(int(second, 16))).encode(errors="surrogatepass")
    return chr(0x10000 + ((code - SURROGATES) << 10) + int(second, 16) - BEHIND_SURROGATES).encode()
