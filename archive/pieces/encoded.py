"""Base64 in texts: what stands for other text, a pickle, a zip or a compressed stream, is decoded.

Names and paths are of base64's letters, too: a run counts as base64 if what comes out is text, or begins as
one of those files does. A long run of which nothing such comes out is masked if its letters are random: a
path can stand in it by chance alone.
"""

from __future__ import annotations

import base64
import math
import re
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
SHORTEST_RUN = 24
"""Letters of the shortest run that is decoded: 18 bytes, of which chance makes no text."""
CLASSES = bytes(ord("a") if code in LETTERS + b"+/-_" else 0 for code in range(256))
LONG = b"a" * SHORTEST_RUN
LETTERS_RUN = re.compile(LONG + b"a*+")
"""A run in :data:`CLASSES`."""
RUN = re.compile(rb"(?:[A-Za-z0-9+/]{60,76}\r?\n)+[A-Za-z0-9+/]{1,76}={0,2}|[A-Za-z0-9+/_-]++={0,2}")
"""Base64 in lines, as e-mail has it, or in one."""
FILES = re.compile(
    rb"\x80[\x02-\x05]|PK\x03\x04|\x1f\x8b\x08|\x28\xb5\x2f\xfd|\xfd7zXZ|BZh[1-9]|\x78[\x01\x5e\x9c\xda]|\x7fELF"
)
"""First bytes of pickles, zips, compressed streams and shared objects."""
ASCII = rb"[I-Za-f][C-HS-Xi-nyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589]."
HEAD = re.compile(
    rb"(?:" + ASCII + rb"){2}|[CDw-z0-7]|gA|UEsDB|H4sI|KLUv|/Td6|_Td6|Qlpo|eAE|eF4|eJw|eNo|f0VM",
    re.DOTALL,
)
"""What base64 begins with that stands for text (6 bytes of ASCII, a wide character, a tab), or for a file."""
TEXT = bytes({*range(32, 127), *b"\t\n\r"})
IN_LATIN = re.compile(
    rb"\xc2\x80[\x02-\x05]|PK\x03\x04|\x1f\xc2\x8b\x08|\x28\xc2\xb5\x2f\xc3\xbd|\xc3\xbd7zXZ|BZh[1-9]"
    rb"|\x78(?:\x01|\x5e|\xc2\x9c|\xc3\x9a)|\x7fELF"
)
"""The same in Latin-1 as UTF-8, which pickles of protocol 2 have for ``bytes``."""
LATIN_HEADS = (b"\xc2\x80", b"PK", b"\x1f", b"\x28\xc2", b"\xc3\xbd", b"BZh", b"\x78", b"\x7f")
FIRST_WIDE = 0x80
"""The first byte that stands for no character of ASCII."""
LINE = 60
"""Letters of the shortest line of base64 in lines."""
MASKED = 512
"""Letters of the shortest run that is masked."""
SAMPLE = 4096
BITS = 4.8
"""Bits of entropy a letter, of a long run that is no text: words have some 4, base64 nearly 6."""


class Run(NamedTuple):
    """Base64 in a text.

    Attributes:
        start: its first letter.
        end: behind its last one.
        data: what it stands for; None where that is neither text nor a file that is known.
        is_masked: whether its letters tell nothing: they are many, and random.
    """

    start: int
    end: int
    data: bytes | None
    is_masked: bool


def runs(text: bytes) -> Iterator[Run]:
    """The base64 in a text: runs that are decoded, or masked."""
    if len(text) < SHORTEST_RUN:
        return
    classes = text.translate(CLASSES)
    at = classes.find(LONG)
    while at >= 0:
        one = RUN.match(text, at)
        end = one.end() if one else at + SHORTEST_RUN
        data = _decoded(text[at:end]) if HEAD.match(text, at) else None
        is_masked = end - at >= MASKED and _is_random(text[at : min(end, at + SAMPLE)])
        if data is not None or is_masked:
            yield Run(at, end, data, is_masked)
        at = classes.find(LONG, end)


def in_base64(joined: bytes, texts: Sequence[bytes]) -> Iterator[int]:
    """The numbers of texts that may have base64: a run of its letters that is masked, or begins as one.

    Args:
        joined: the texts with NUL between them.
        texts: the same.
    """
    letters = joined.translate(CLASSES)
    begun = [
        one.start()
        for one in LETTERS_RUN.finditer(letters)
        if HEAD.match(joined, one.start()) or _goes_on(joined, *one.span())
    ]
    starts = [0, *accumulate(len(text) + 1 for text in texts)] if begun else []
    for at in begun:
        yield bisect_right(starts, at) - 1


def _goes_on(joined: bytes, at: int, end: int) -> bool:
    """Whether letters that stand for no text are so many that they are masked, in one line or in several."""
    return end - at >= MASKED or (end - at >= LINE and joined[end : end + 1] in b"\r\n")


def from_latin(text: bytes) -> bytes | None:
    """The file that a string of a pickle is in Latin-1; None for any other."""
    if not IN_LATIN.match(text):
        return None
    try:
        return text.decode().encode("latin-1")
    except UnicodeError:
        return None


def _decoded(run: bytes) -> bytes | None:
    letters = run.replace(b"\r", b"").replace(b"\n", b"").rstrip(b"=")
    if len(letters) % 4 == 1:  # one letter is less than a byte
        letters = letters[:-1]
    head = base64.b64decode(_padded(letters[:SHORTEST_RUN]), b"-_" if b"-" in run or b"_" in run else None)
    if not FILES.match(head) and not _is_text(head):
        return None
    data = base64.b64decode(_padded(letters), b"-_" if b"-" in run or b"_" in run else None)
    return data if FILES.match(data) or _is_text(data) else None


def _padded(letters: bytes) -> bytes:
    return letters + b"=" * (-len(letters) % 4)


def _is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8 without controls, the last character perhaps cut."""
    odd = data.translate(None, TEXT)
    if odd and min(odd) < FIRST_WIDE:
        return False
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        return problem.end == len(data)
    return True


def _is_random(letters: bytes) -> bool:
    counts = Counter(letters).values()
    return -sum(count / len(letters) * math.log2(count / len(letters)) for count in counts) >= BITS
