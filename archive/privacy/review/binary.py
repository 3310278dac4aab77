"""Bytes that are no text: the texts in them, and a row for all of them.

Random bytes have short texts by chance. A text counts if it is so long that this many bytes hardly have one,
or if it has six letters and a NUL after it, as texts of C do. The bytes are a row, too, with their number and
digest: so somebody knows of them, and is asked again when one changes.
"""

from __future__ import annotations

import math
import re
from hashlib import sha256
from typing import TYPE_CHECKING

from archive.privacy.pieces.layers import TO_NUL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.privacy.pieces.layers import PlainLayer

SURE, FEWEST = 0.01, 6
"""How often a text may be there by chance, and letters that it has at least."""
MOST_SHORT, MOST_BY_CHANCE = 64, 8
"""Bytes that have few texts by chance, and short texts that are listed all the same."""
SHARE_OF_LETTERS = 98 / 256
"""Of all bytes, those that are ASCII's letters, signs and blanks."""
LETTER = rb"(?:[\t\n\r -~]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
TEXT = re.compile(LETTER + rb"{%d,}+" % FEWEST)
NO_TEXT = "bytes that are no text"


def is_binary(data: bytes) -> bool:
    """Whether bytes have controls, or aren't UTF-8."""
    if b"\0" in data.translate(TO_NUL):
        return True
    try:
        data.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return True
    return False


def shortest_text(data: bytes) -> int:
    """Bytes of a text that random bytes hardly have, in as many of them as are no letters."""
    others = data.translate(TO_NUL).count(0) + len(re.findall(rb"[\x80-\xff]", data))
    return max(FEWEST, math.ceil(math.log(max(others, 1) / SURE, 1 / SHARE_OF_LETTERS)))


def is_long_binary(data: bytes) -> bool:
    """Whether bytes are no text, and so many that they have texts by chance."""
    return len(data) > MOST_SHORT and is_binary(data)


def texts_of_binary(data: bytes) -> Iterator[tuple[str, int]]:
    """The texts of bytes that are no text, each with its place; last a row for all of them."""
    shortest = shortest_text(data)
    for run in TEXT.finditer(data):
        if len(run[0]) >= shortest or data[run.end() : run.end() + 1] == b"\0":
            yield run[0].decode("utf-8", "backslashreplace"), run.start()
    if data.strip(b"\0"):
        yield no_text(data), 0


def strings_by_chance(layer: PlainLayer) -> list[bytes]:
    """The strings of a layer that are there by chance: all that are short, where these are many."""
    if layer.is_framed or not is_long_binary(layer.whole):
        return []
    shortest, found = shortest_text(layer.whole), []
    for raw in layer.counts:
        end = layer.first[raw] + len(raw)
        longest = max(map(len, TEXT.findall(raw)), default=0)
        if longest < shortest and (longest < len(raw) or layer.whole[end : end + 1] != b"\0"):
            found.append(raw)
    return found if len(found) > MOST_BY_CHANCE else []


def no_text(data: bytes) -> str:
    """The row of bytes that are no text."""
    return f"{len(data):,} {NO_TEXT}, SHA-256 {sha256(data).hexdigest()[:16]}"
