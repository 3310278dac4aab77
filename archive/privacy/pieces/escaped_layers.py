r"""Layers of strings with escapes: those of URLs, Python, C and HTML, and those of JSON.

Strings that have escapes are a layer of their own: ``%2F``, ``\x2f``, ``\057``, ``\u002f``, ``&#47;`` and
``&sol;`` all stand for a slash. They may be mixed, and be escaped again: a text is decoded as a whole, and
the result again. JSON is cut at its quotes, in columns.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.patterns import pattern_of
from archive.privacy.pieces.layers import Layer, SpanLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.base.columns import Ints
    from archive.privacy.pieces.joined import Joined
    from archive.privacy.pieces.layers import Outer

# --- escapes

ESCAPES = ("percent-encoding", "escapes of Python and C", "HTML entities")
"""What is decoded, in words."""
WAYS_TO_ESCAPE = {
    b"%": rb"%(?P<percent>[0-9A-Fa-f]{2})",
    b"\\": rb"\\{1,8}(?:x(?P<hex>[0-9A-Fa-f]{2})|u(?P<short>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})"
    rb"|(?P<octal>[0-3][0-7]{2}))",
    b"&": rb"&(?P<html>#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,30});",
}
"""By the byte that each begins with. Backslashes are doubled each time a text is escaped again."""
ESCAPE = pattern_of(b"|".join(WAYS_TO_ESCAPE.values()))


class EscapeLayer(Layer):
    """Strings of another layer that have escapes; ``raws`` has them as they stand there, by their texts."""

    def __init__(self, parent: Layer, raws: Mapping[bytes, bytes], counts: Mapping[bytes, int]) -> None:
        super().__init__(b"", counts)
        self._parent = parent
        self._raws = raws

    def decoded(self, raw: bytes) -> bytes:
        """The string without escapes. A number is a byte, or a character where bytes would be no UTF-8."""
        return unescaped_text(raw)

    def place(self, raw: bytes, position: int) -> int:
        """The byte of the record that a position in a decoded string comes from."""
        return self._parent.place(self._raws[raw], shift(raw, position, ESCAPE, _meaning(raw)))


def unescaped_text(raw: bytes) -> bytes:
    """A text with what its escapes stand for."""
    return ESCAPE.sub(_meaning(raw), raw)


def escaped(joined: Joined) -> list[int]:
    """The numbers of texts, with NUL between them, that have escapes."""
    data, numbers = joined.data, set[int]()
    for mark in WAYS_TO_ESCAPE:  # single bytes are found sooner than patterns
        at = data.find(mark)
        while at >= 0:
            if ESCAPE.match(data, at):
                numbers.add(joined.number(at))
                at = data.find(b"\0", at)  # the rest of the text has nothing to add
            at = data.find(mark, at + 1) if at >= 0 else -1
    return sorted(numbers)


def shift(
    raw: bytes,
    position: int,
    escapes: re.Pattern[bytes] = ESCAPE,
    stands_for: Callable[[re.Match[bytes]], bytes] | None = None,
) -> int:
    """Bytes before a position in a decoded string, as the string stands there."""
    length = end = 0
    for escape in escapes.finditer(raw):
        if length + escape.start() - end >= position:
            break
        length += escape.start() - end + len((stands_for or _stands_for)(escape))
        end = escape.end()
    return end + max(position - length, 0)


def _stands_for(escape: re.Match[bytes]) -> bytes:
    """What an escape stands for: a byte, or a character in UTF-8."""
    kind, digits = escape.lastgroup, escape[escape.lastgroup or 0]
    if kind in ("percent", "hex"):
        return bytes([int(digits, 16)])
    if kind == "octal":
        return bytes([int(digits, 8)])
    if kind == "html":
        import html  # noqa: PLC0415 (few texts have such escapes)

        text = html.unescape(escape[0].decode())
        return text.encode(errors="surrogatepass")
    code = int(digits, 16)
    return chr(code).encode(errors="surrogatepass") if code <= sys.maxunicode else escape[0]


def _as_character(escape: re.Match[bytes]) -> bytes:
    """The same, where numbers are those of characters."""
    stands_for = _stands_for(escape)
    return stands_for.decode("latin-1").encode() if escape.lastgroup in ("hex", "octal") else stands_for


def _meaning(raw: bytes) -> Callable[[re.Match[bytes]], bytes]:
    """What escapes of a string stand for."""
    try:
        ESCAPE.sub(_stands_for, raw).decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return _as_character
    return _stands_for


# --- JSON

JSON = pattern_of(
    rb"[ \t\r\n]*[\[{][ \t\r\n]*"
    rb"(?:(?:-?[0-9][0-9.eE+-]{0,40}|true|false|null)[ \t\r\n]*,[ \t\r\n]*)*+[\[{\"\]}]"
)
"""How JSON with strings begins: perhaps with numbers before the first of them, as in ``[1, {"type": …``."""
NO_JSON = (b"\1", b"\2")
"""Controls, which JSON has only as escapes. Bytes of other kinds that begin like JSON may have some."""
JSON_ESCAPE = pattern_of(rb"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(.))", re.DOTALL)
ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
SURROGATES, LOW_SURROGATES = 0xD800, 0xDC00
QUOTE, BACKSLASH = b'"\\'


class JsonLayer(SpanLayer):
    """Strings of JSON, and what stands between them."""

    def decoded(self, raw: bytes) -> bytes:
        """The string without escapes."""
        if b"\\" not in raw:
            return raw
        try:
            return str(json.loads(b'"%s"' % raw, strict=False)).encode(errors="surrogatepass")
        except ValueError:  # an escape that JSON does not know
            return JSON_ESCAPE.sub(_json_stands_for, raw)

    def shift(self, raw: bytes, position: int) -> int:
        """The byte after all escapes before a position; at least after its own escape."""
        return shift(raw, position, JSON_ESCAPE, _json_stands_for)


def is_json(data: bytes) -> bool:
    """Whether bytes are JSON, as far as their first ones and controls show."""
    return JSON.match(data) is not None and not any(control in data for control in NO_JSON)


def of_json(data: bytes, outer: Outer, shortest: int) -> JsonLayer:
    """The strings of JSON of ``shortest`` bytes or more, which may reveal something."""
    with memory.lent(2 * len(data), "strings of JSON"):
        codes = np.frombuffer(data, np.uint8)
        is_quote = codes == QUOTE
        with memory.lent(8 * memory.NUMBER * int(np.count_nonzero(is_quote)), "strings of JSON"):
            quotes = np.flatnonzero(is_quote)
            cuts = quotes[unescaped(codes, quotes)]
            begins, ends = np.append(0, cuts + 1), np.append(cuts, len(data))
            kept = ends - begins >= shortest
            return JsonLayer(data, begins[kept], ends[kept], outer)


def unescaped(codes: np.ndarray, quotes: Ints) -> np.ndarray:
    """Which quotes of JSON have no backslash before them, or an even number, as flags.

    Args:
        codes: the bytes.
        quotes: the positions of quotes among them (n).
    """
    escaped: np.ndarray = codes[np.maximum(quotes - 1, 0)] == BACKSLASH
    several = np.flatnonzero(escaped & (codes[np.maximum(quotes - 2, 0)] == BACKSLASH))
    if len(several):
        slashes = np.flatnonzero(codes == BACKSLASH)
        runs = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
        last = np.searchsorted(slashes, quotes[several]) - 1
        escaped[several] = (last - runs[np.searchsorted(runs, last, "right") - 1]) % 2 == 0
    return ~escaped


def _json_stands_for(escape: re.Match[bytes]) -> bytes:
    """What an escape stands for, in UTF-8."""
    first, second, plain = escape.groups()
    if plain is not None:
        return ESCAPED.get(plain, plain)
    code = int(first, 16)
    if second is None:
        return chr(code).encode(errors="surrogatepass")
    if not SURROGATES <= code < LOW_SURROGATES:
        return (chr(code) + chr(int(second, 16))).encode(errors="surrogatepass")
    return chr(0x10000 + ((code - SURROGATES) << 10) + int(second, 16) - LOW_SURROGATES).encode()
