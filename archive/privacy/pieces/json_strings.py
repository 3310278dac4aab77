"""Strings of JSON, cut at its quotes in columns."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np

from archive.privacy.pieces.layer import PART, Spans

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.privacy.pieces.layer import Outer

JSON = re.compile(rb"[ \t\r\n]*[\[{][ \t\r\n]*[\[{\"\]}]")
NO_JSON = (b"\1", b"\2")
"""Controls, which JSON has as escapes alone: other bytes begin like JSON, too, and may have some."""
ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(.))", re.DOTALL)
ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
SURROGATES, BEHIND_SURROGATES = 0xD800, 0xDC00
QUOTE, BACKSLASH = b'"\\'


class JsonLayer(Spans):
    """Strings of JSON, and what stands between them."""

    def decoded(self, raw: bytes) -> bytes:
        """The string without escapes."""
        if b"\\" not in raw:
            return raw
        try:
            return str(json.loads(b'"%s"' % raw, strict=False)).encode(errors="surrogatepass")
        except ValueError:  # an escape that JSON does not know
            return ESCAPE.sub(_stands_for, raw)

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
        shortest: bytes of a string that may tell something.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    with allowance.lent(2 * len(data), "strings of JSON"):
        codes = np.frombuffer(data, np.uint8)
        is_quote = codes == QUOTE
        with allowance.lent(PART * int(np.count_nonzero(is_quote)), "strings of JSON"):
            quotes = np.flatnonzero(is_quote)
            cuts = quotes[unescaped(codes, quotes)]
            begins, ends = np.append(0, cuts + 1), np.append(cuts, len(data))
            kept = ends - begins >= shortest
            return JsonLayer(data, begins[kept], ends[kept], allowance, outer)


def unescaped(codes: np.ndarray, quotes: Ints) -> np.ndarray:
    """Which quotes of JSON no backslash is before, or an even number of them, as flags.

    Args:
        codes: the bytes.
        quotes: the positions of quotes among them.
    """
    escaped: np.ndarray = codes[np.maximum(quotes - 1, 0)] == BACKSLASH
    several = np.flatnonzero(escaped & (codes[np.maximum(quotes - 2, 0)] == BACKSLASH))
    if len(several):
        slashes = np.flatnonzero(codes == BACKSLASH)
        runs = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
        last = np.searchsorted(slashes, quotes[several]) - 1
        escaped[several] = (last - runs[np.searchsorted(runs, last, "right") - 1]) % 2 == 0
    return ~escaped


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
