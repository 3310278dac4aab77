"""The bytes that a text may stand as, and the names that one may be a part of.

Base64 and the like have three, five or four ways to write a text, by where it begins among others; letters
that depend on what stands around it are left out.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODECS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
LONGEST = 4_096
"""Characters of a text that are looked for: where it stands, its beginning does."""
SHORTEST_CORE = 12
"""Letters of the shortest form in base64 and the like: shorter ones stand in weights by chance."""
SHORTEST_PART = 6
"""Bytes of the shortest name that is a part of a longer one without a border: ``annabelnet``."""
NAME = re.compile(rb"[\w.$-]+\Z"), re.compile(rb"[\w.$-]+")
"""Names of classes, files and records before a place, and behind."""
SLASH = re.compile(r"/|\\+")


def forms_of(text: bytes, *, in_letters: bool, either_slash: bool) -> set[bytes]:
    """The bytes that a text may stand as.

    Args:
        text: the text.
        in_letters: whether base64 and the like count.
        either_slash: whether slashes may be backslashes, doubled or not, and the other way round.
    """
    try:
        string = text.decode(errors="surrogatepass")[:LONGEST]
    except UnicodeDecodeError:  # no text that JSON or UTF-16 could have
        return {text}
    text = string.encode(errors="surrogatepass")
    strings = {string}
    if either_slash and SLASH.search(string):
        strings |= {SLASH.sub(lambda _, slash=slash: slash, string) for slash in ("/", "\\", "\\\\")}  # type: ignore[misc]
    once = {json.dumps(one, ensure_ascii=pure)[1:-1] for one in strings for pure in (True, False)}
    twice = {json.dumps(one)[1:-1] for one in once}
    forms = {one.encode(codec, "surrogatepass") for one in strings | once | twice for codec in CODECS}
    return forms | set(_in_letters(text)) if in_letters else forms


def _in_letters(text: bytes) -> Iterator[bytes]:
    """What letters stand for a text wherever it begins."""
    ways: tuple[tuple[Callable[[bytes], bytes], int, int], ...] = (
        (base64.b64encode, 3, 4),
        (base64.urlsafe_b64encode, 3, 4),
        (base64.b32encode, 5, 8),
        (base64.b85encode, 4, 5),
        (base64.a85encode, 4, 5),
    )
    hexadecimal = text.hex().encode()
    if len(hexadecimal) >= SHORTEST_CORE:
        yield from (hexadecimal, hexadecimal.upper())
    for encode, size, letters in ways:
        for shift in range(size):
            start = -shift % size
            whole = (len(text) - start) // size * size
            core = encode(text[start : start + whole])
            if len(core) >= max(SHORTEST_CORE, letters):
                yield core


def name_around(data: bytes, at: int, length: int) -> bytes:
    """The name that a name of a person is a part of, or it alone; b"" where it is one by chance.

    A part begins and ends at a border: where letters begin or end, or small letters and capitals meet. A
    longer name has a border at one end.

    Args:
        data: what stands around.
        at: where the name of the person begins.
        length: its bytes.
    """
    end = at + length
    begins = _is_border(data[max(at - 1, 0) : at], data[at : at + 1])
    ends = _is_border(data[end - 1 : end], data[end : end + 1])
    is_part = begins or ends if length >= SHORTEST_PART else begins and ends
    if not is_part:
        return b""
    before, behind = NAME[0].search(data[:at]), NAME[1].match(data, end)
    return data[before.start() if before else at : behind.end() if behind else end]


def _is_border(one: bytes, other: bytes) -> bool:
    """Whether a word ends between two bytes."""
    if not (one.isalpha() and other.isalpha()):
        return True
    return one.islower() and other.isupper()
