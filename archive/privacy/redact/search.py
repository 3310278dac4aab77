"""Texts that are looked for: the bytes that a text may stand as, and a search for many of them at once.

*Spellings.* Unicode has two ways to write ``ë``: as one character (NFC), or as ``e`` and what stands above
it (NFD), as macOS names files. Bytes have small letters and capitals only for ASCII, so other letters are
spelled in both.

*Forms.* A spelling may stand in several encodings, with escapes, and in base64 and the like. These have
three, five or four ways to write a text, by where it begins among others; letters that depend on its
surroundings are left out.

*Search, in columns.* A text of 15 bytes or more has 8 bytes that begin at a multiple of 8, wherever it
stands. So only each eighth place is looked up, in a table of the 8 bytes that begin at each text's first 8
places; what is in the table is compared byte by byte. Shorter texts go by words of 4 and of 2 bytes in the
same way. Where many places begin like a long text, as in a run of one letter, sums of the bytes before each
place say in one step whether the text goes on there, so that it isn't compared at each.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections import defaultdict
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING
from unicodedata import normalize

import numpy as np

from archive.privacy.pieces.stretches import WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.base.columns import Ints

# --- forms

CODECS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
LONGEST = 4_096
"""Characters of a text that are looked for: where it stands, its beginning stands."""
SHORTEST_CORE = 12
"""Letters of the shortest form in base64 and the like: shorter ones stand in weights by chance."""
SHORTEST_PART = 6
"""Bytes of the shortest name that is a part of a longer one without a border: ``annabelnet``."""
NAME_BEFORE, NAME_AFTER = re.compile(rb"[\w.$-]+\Z"), re.compile(rb"[\w.$-]+")
"""Names of classes, files and records before and after a place."""
SLASH = re.compile(r"/|\\+")


def spellings_of(text: bytes) -> set[bytes]:
    """Spellings of a text in Unicode: composed or not, in small letters and capitals."""
    if text.isascii():
        return {text}
    try:
        string = text.decode(errors="surrogatepass")[:LONGEST]
    except UnicodeDecodeError:
        return {text}
    cases = (string, string.lower(), string.upper(), string.title())
    strings = {normalize(way, case) for way in ("NFC", "NFD") for case in cases}
    return {text, *(spelling.encode(errors="surrogatepass") for spelling in strings)}


def forms_of(text: bytes, *, in_letters: bool, either_slash: bool) -> set[bytes]:
    """The bytes that a text may stand as.

    Args:
        in_letters: whether base64 and the like count.
        either_slash: whether slashes may be backslashes, doubled or not, and the other way round.
    """
    try:
        string = text.decode(errors="surrogatepass")[:LONGEST]
    except UnicodeDecodeError:  # not a text that JSON or UTF-16 could have
        return {text}
    text = string.encode(errors="surrogatepass")
    strings = {string}
    if either_slash and SLASH.search(string):
        strings |= {SLASH.sub(lambda _, slash=slash: slash, string) for slash in ("/", "\\", "\\\\")}  # type: ignore[misc]
    once = {json.dumps(form, ensure_ascii=pure)[1:-1] for form in strings for pure in (True, False)}
    twice = {json.dumps(form)[1:-1] for form in once}
    forms = {form.encode(codec, "surrogatepass") for form in strings | once | twice for codec in CODECS}
    if not text.isascii() and len(string) >= SHORTEST_PART:
        with suppress(UnicodeEncodeError):
            forms.add(string.encode("latin-1"))  # as it is where Python's ``\xeb`` stood, too
    return forms | set(_in_letters(text)) if in_letters else forms


def _in_letters(text: bytes) -> Iterator[bytes]:
    """The letters that stand for a text wherever it begins."""
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
    """The name that contains a name of a person, or that name itself; b"" where it stands there by chance.

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
    before, after = NAME_BEFORE.search(data[:at]), NAME_AFTER.match(data, end)
    return data[before.start() if before else at : after.end() if after else end]


def _is_border(before: bytes, after: bytes) -> bool:
    """Whether a word ends between two bytes."""
    if not (before.isalpha() and after.isalpha()):
        return True
    return before.islower() and after.isupper()


# --- search

WINDOW = 1 << 22
"""Bytes that are searched at once."""
WIDTHS = (8, 4, 2)
"""Bytes of words. A text is at least twice as long, less a byte."""
SHORTEST = 2 * WIDTHS[-1] - 1
"""Bytes of the shortest text that can be looked for."""
LOAD = 8
"""Bytes that are compared at once, where a word was found."""
MOST_BITS, SPARE_BITS = 20, 8
"""Most bits of a place in a table; and how many more than those that count its numbers."""
SPAN, COMPARED = 1 << 15, 1 << 22
"""Bytes with places that are looked at together; and how many bytes may be compared in one window."""
BASE = secrets.randbits(64) | 1
VALUES = np.random.default_rng().integers(0, 1 << 63, 1 << 8, np.uint64)
"""The base of sums. No file can know it."""
MIXES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
"""Odd factors, by which numbers are mixed: the upper bits of a product are its place in a table."""


class Search:
    """Finds texts of 3 bytes at least."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        groups: dict[tuple[int, bool], list[bytes]] = defaultdict(list)
        for text in texts:
            width = next(width for width in WIDTHS if len(text) >= 2 * width - 1)
            groups[width, text.isascii()].append(text)
        self._groups = [
            _WordGroup(width, some, is_ascii=is_ascii) for (width, is_ascii), some in groups.items()
        ]

    def found(self, data: memoryview, ascii_words: Ints | None = None) -> Iterator[tuple[int, bytes]]:
        """The texts that stand somewhere in some bytes, and where each begins.

        Args:
            data: the bytes.
            ascii_words: the numbers of their words of ASCII, where they are few:
                :func:`archive.privacy.pieces.stretches.ascii_words`.
        """
        padded = data if len(data) >= LOAD else memoryview(bytes(data) + bytes(LOAD - len(data)))
        for group in self._groups:
            for low in range(0, len(padded), WINDOW):
                for at in group.likely(padded, group.places(padded, low, ascii_words)):
                    for text in group.at(data, at):
                        yield at, text


class _WordGroup:
    """Texts that are found by words of one width.

    Args:
        width: bytes of a word.
        texts: each at least twice as long, less a byte.
        is_ascii: whether all their bytes are below 128, as in any encoding of ASCII.
    """

    def __init__(self, width: int, texts: list[bytes], *, is_ascii: bool) -> None:
        self._width = width
        self._is_ascii = is_ascii
        self._type = np.dtype(f"<u{width}")
        self._head = min(LOAD, 2 * width - 1)
        self._texts = set(texts)
        self._longest = max(map(len, texts))
        self._lengths: dict[bytes, set[int]] = defaultdict(set)
        for text in texts:
            self._lengths[text[: self._head]].add(len(text))
        self._words, self._heads = _BitTable(width * len(texts), width), _BitTable(len(self._lengths), LOAD)
        for shift in range(width):
            words = b"".join({text[shift : shift + width] for text in texts})
            self._words.add(np.frombuffer(words, self._type), 1 << shift)
        heads = b"".join(head + bytes(LOAD - self._head) for head in self._lengths)
        self._heads.add(np.frombuffer(heads, "<u8"), 1)

    def places(self, data: memoryview, low: int, ascii_words: Ints | None) -> Ints:
        """Where texts may begin that have their first aligned word in a window.

        Args:
            data: 8 bytes or more.
            low: the window's first byte.
            ascii_words: as in :meth:`Search.found`.
        """
        width = self._width
        words = np.frombuffer(data, self._type, min(len(data) - low, WINDOW) // width, low)
        if ascii_words is None or not self._is_ascii or width < WORD:
            found, shifts = self._words.look_up(words)
        else:
            likely = _within(ascii_words, low, low + len(words) * width, width)
            found, shifts = self._words.look_up(words[likely])
            found = likely[found]
        if not len(found):
            return found
        places = found * width + low
        starts = np.concatenate([places[shifts & 1 << shift > 0] - shift for shift in range(width)])
        starts = starts[(starts >= 0) & (starts + self._head <= len(data))]
        begun: Ints = starts[self._heads.look_up(self._loaded(data, starts))[0]]
        return begun

    def _loaded(self, data: memoryview, starts: Ints) -> np.ndarray:
        """The heads at some places, as numbers; bytes after a head as 0."""
        last = len(data) - LOAD
        every = np.ndarray((last + 1,), "<u8", data, 0, (1,))
        beyond = np.maximum(starts - last, 0)
        loaded = every[starts - beyond] >> (8 * beyond).astype(np.uint64)
        return loaded & np.uint64((1 << 8 * self._head) - 1)

    def likely(self, data: memoryview, starts: Ints) -> Iterator[int]:
        """Those of the places beginning like a text where one may begin."""
        if len(starts) * self._longest <= COMPARED:
            yield from starts.tolist()
            return
        starts = np.sort(starts)
        for span in np.split(starts, np.flatnonzero(np.diff(starts // SPAN)) + 1):
            yield from self._summed(data, span).tolist()

    def _summed(self, data: memoryview, starts: Ints) -> Ints:
        """The places at which the sum of some bytes is that of a text; hardly any others have it."""
        first, end = int(starts[0]), min(int(starts[-1]) + self._longest, len(data))
        powers, inverse = _powers(end - first)
        sums = np.zeros(end - first + 1, np.uint64)
        np.cumsum(VALUES[np.frombuffer(data[first:end], np.uint8)] * powers, out=sums[1:])
        heads = self._loaded(data, starts)
        is_likely = np.zeros(len(starts), np.bool_)
        for head, by_length in self._sums.items():
            begun = np.flatnonzero(heads == np.uint64(head))
            for length, wanted in by_length.items():
                at = begun[starts[begun] + length <= end]
                begin = starts[at] - first
                found = (sums[begin + length] - sums[begin]) * inverse[begin]
                is_likely[at[np.isin(found, wanted)]] = True
        return starts[is_likely]

    @cached_property
    def _sums(self) -> dict[int, dict[int, np.ndarray]]:
        """The sums of the texts, by their heads as numbers and their lengths."""
        sums: dict[int, dict[int, list[np.uint64]]] = defaultdict(lambda: defaultdict(list))
        powers, _ = _powers(self._longest)
        for text in self._texts:
            head = int.from_bytes(text[: self._head], "little")
            total = (VALUES[np.frombuffer(text, np.uint8)] * powers[: len(text)]).sum(dtype=np.uint64)
            sums[head][len(text)].append(total)
        return {
            head: {length: np.array(some, np.uint64) for length, some in by_length.items()}
            for head, by_length in sums.items()
        }

    def at(self, data: memoryview, start: int) -> Iterator[bytes]:
        """The texts that begin at a byte."""
        for length in self._lengths.get(bytes(data[start : start + self._head]), ()):
            text = bytes(data[start : start + length])
            if text in self._texts:
                yield text


def _within(ascii_words: Ints, low: int, high: int, width: int) -> Ints:
    """The words of 4 or 8 bytes of ASCII from one byte to another, counted from the first of these."""
    first, end = np.searchsorted(ascii_words, (low // WORD, high // WORD))
    numbers: Ints = ascii_words[first:end] - low // WORD
    if width == WORD:
        return numbers
    wide: Ints = numbers[:-1][(numbers[:-1] % 2 == 0) & (np.diff(numbers) == 1)] // 2
    return wide


def _powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The powers of the number that sums are made with, from 0 on, and of its inverse, modulo 2^64."""
    powers = np.empty((2, count), np.uint64)
    for row, factor in zip(powers, (BASE, pow(BASE, -1, 1 << 64)), strict=True):
        row[:] = np.uint64(factor)
    powers[:, :1] = 1
    np.cumprod(powers, axis=1, out=powers)
    return powers[0], powers[1]


class _BitTable:
    """Bits for numbers; others have some by chance, few of them.

    Args:
        count: how many numbers will get bits, at most. Few take a table that stays in a cache.
        width: bytes of a number. They are mixed at this width: wider products take several times as long.
    """

    def __init__(self, count: int, width: int) -> None:
        number = np.dtype(f"<u{width}").type
        place_bits = min(MOST_BITS, count.bit_length() + SPARE_BITS, 8 * width)
        self._mixes = [number(mix & ((1 << 8 * width) - 1)) for mix in MIXES]
        self._shift = number(8 * width - place_bits)
        self._bits = np.zeros((2, 1 << place_bits), np.uint8)

    def add(self, numbers: np.ndarray, bits: int) -> None:
        """Give bits to some numbers."""
        for table, mix in zip(self._bits, self._mixes, strict=True):
            table[self._places(numbers, mix)] |= np.uint8(bits)

    def look_up(self, numbers: np.ndarray) -> tuple[Ints, np.ndarray]:
        """The positions of numbers that have bits, and these."""
        positions = np.flatnonzero(self._bits[0][self._places(numbers, self._mixes[0])] != 0)
        first, second = (self._places(numbers[positions], mix) for mix in self._mixes)
        bits = self._bits[0][first] & self._bits[1][second]
        is_known = bits != 0
        return positions[is_known], bits[is_known]

    def _places(self, numbers: np.ndarray, mix: np.unsignedinteger) -> Ints:
        places: Ints = (numbers * mix >> self._shift).astype(np.intp)
        return places
