"""Layers: the strings of some bytes as they stand there, each once, with how often it is there.

The form of the bytes says where strings are: between other bytes, in ASCII, UTF-8, UTF-16 or UTF-32, which
NumPy has; in JSON (``escaped_layers``), in a pickle (``pickle_strings``). Where a string stands is looked up
only when asked for, as nearly all strings reveal nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, cast

import numpy as np

from archive.base import memory
from archive.base.patterns import pattern_of
from archive.privacy.pieces.framed import framed, is_text, without_heads
from archive.privacy.pieces.stretches import of_ascii, of_wide_letters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from archive.base.columns import Ints

SHORTEST = 6
"""Bytes of a string between other bytes that may give something away."""
SHORTEST_SURE = 10
"""Bytes of a string that random bytes do not have by chance."""
KEPT = 260
"""The same of a string that is kept, with its count and its place."""

Outer = Callable[[int], int]
"""The byte of the record that a position in some bytes comes from."""


class Layer:
    """Strings of some bytes.

    Attributes:
        data: the bytes.
        counts: the strings as stored, and how often.
        outer: maps positions in ``data`` to the record.
    """

    def __init__(self, data: bytes, counts: Mapping[bytes, int], outer: Outer = int) -> None:
        self.data = data
        self.counts = counts
        self.outer = outer

    def decoded(self, raw: bytes) -> bytes:
        """The text that a string stands for."""
        return raw

    def place(self, raw: bytes, position: int) -> int:
        """The byte of the record that a position in a decoded string comes from, at the first such string."""
        return self.outer(self.first[raw] + self.shift(raw, position))

    @property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        raise NotImplementedError

    def shift(self, _raw: bytes, position: int) -> int:
        """Bytes before a position in a decoded string, as the string stands there."""
        return position


class SpanLayer(Layer):
    """Strings that are stretches of some bytes, from ``begins`` to ``ends`` (n each)."""

    def __init__(self, data: bytes, begins: Ints, ends: Ints, outer: Outer) -> None:
        counts: dict[bytes, int] = {}
        self._first: dict[bytes, int] = {}
        with memory.lent(2 * len(data) + 8 * memory.NUMBER * len(begins), "strings of a record"):
            for begin, end, times in merged(data, begins, ends):
                string = data[begin:end]
                if string in counts:
                    counts[string] += times
                else:
                    counts[string] = times
                    self._first[string] = begin
            memory.take(KEPT * len(counts), "distinct strings")
        super().__init__(data, counts, outer)

    @property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        return self._first


class CutLayer(Layer):
    """Strings in few of many bytes, each with where it begins."""

    def __init__(self, data: bytes | memoryview, strings: Iterable[tuple[int, bytes]]) -> None:
        first: dict[bytes, int] = {}
        counts = Counter[bytes]()
        for begin, string in strings:
            if string not in first:
                memory.take(KEPT + len(string), "distinct strings")
                first[string] = begin
            counts[string] += 1
        super().__init__(cast("bytes", data), counts)  # for numbers, only its length is needed
        self._first = first

    @property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        return self._first


SHORT = 16
"""Bytes of a stretch that its first and last 8 and its length determine."""
FEWEST_COMPARED, AT_ONCE = 1 << 8, 1 << 14
"""The number of stretches below which cutting out is faster than comparing; and those compared at once."""
BYTES_OF_WORD = np.array([(1 << 8 * width) - 1 for width in range(9)], np.uint64)
"""The bytes of a word that count, by their number."""
HASH_BITS = 14
MIX, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - HASH_BITS)


def merged(data: bytes, begins: Ints, ends: Ints) -> Iterator[tuple[int, int, int]]:
    """Stretches of some bytes, in their order, and how many equal ones after each are left out.

    Programs repeat words like ``"name"`` at each node: short ones are compared in columns, not cut out.

    Returns:
        Where a stretch begins and ends, and for how many it stands.
    """
    if len(begins) < FEWEST_COMPARED:
        yield from zip(begins.tolist(), ends.tolist(), repeat(1))
        return
    words = np.ndarray((len(data) + 1,), "<u8", data + bytes(8), 0, (1,))
    for low in range(0, len(begins), AT_ONCE):
        begin, end = begins[low : low + AT_ONCE], ends[low : low + AT_ONCE]
        length = end - begin
        width = np.minimum(length, 8)
        head, tail = words[begin] & BYTES_OF_WORD[width], words[end - width] & BYTES_OF_WORD[width]
        place = ((head * MIX + tail + length.astype(np.uint64)) * MIX >> SHIFT).astype(np.intp)
        numbers = np.arange(len(begin))
        table = np.zeros(1 << HASH_BITS, np.intp)
        table[place[::-1]] = numbers[::-1]  # of several in one place the last stays, so the first stretch
        first = table[place]
        is_equal = (
            (head == head[first]) & (tail == tail[first]) & (length == length[first]) & (length <= SHORT)
        )
        times = np.bincount(first[is_equal], minlength=len(begin))
        times[~is_equal] = 1
        left = np.flatnonzero(times)
        yield from zip(begin[left].tolist(), end[left].tolist(), times[left].tolist(), strict=True)


def counted(strings: Iterable[bytes]) -> dict[bytes, int]:
    """Each string once, and how often it is there."""
    counts = Counter(strings)
    counts.pop(b"", None)
    memory.take(KEPT * len(counts), "distinct strings")
    return counts


# --- strings between other bytes

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
WIDE = {width: pattern_of(rb"(?:[\t\n\r -~\xa0-\xff]\0{%d}){5,}+" % (width - 1)) for width in WIDTHS}
WIDE_LETTER = {width: pattern_of(rb"[\t\n\r -~\xa0-\xff]\0{%d}" % (width - 1)) for width in WIDTHS}
FEWEST_LONG = b"a" * 12
LONG = pattern_of(b"a++")
"""Text in the bytes of tensors, in :data:`CLASSES`; in those of random numbers it is rare."""


class WideLayer(Layer):
    """Strings in UTF-16 or UTF-32 of either byte order: in all, the bytes beside a letter of Latin-1 are NUL.

    The strings are counted in UTF-8; ``width`` is bytes of a letter as stored.
    """

    def __init__(
        self, data: bytes | memoryview, counts: Mapping[bytes, int], outer: Outer, width: int
    ) -> None:
        super().__init__(cast("bytes", data), counts, outer)
        self._width = width

    @cached_property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        first: dict[bytes, int] = {}
        for start, text in _wide_texts(self.data, of_wide_letters(self.data), self._width):
            first.setdefault(text, start)
        return first

    def shift(self, raw: bytes, position: int) -> int:
        """Bytes before a position in a string, ``width`` for each letter."""
        return self._width * len(raw[:position].decode(errors="ignore"))


class PlainLayer(SpanLayer):
    """Strings between bytes that aren't text.

    Attributes:
        whole: the bytes, with their controls.
        is_framed: whether they are of a form with texts after their lengths, or a text as a whole.
        entries: then places of names and texts of its maps.
    """

    whole = b""
    is_framed = False
    entries: Sequence[tuple[tuple[int, int], tuple[int, int]]] = ()

    def may_be_numbers(self, raw: bytes) -> bool:
        """Whether a string may be random bytes: not in UTF-8, or short and without NUL before or after it."""
        if self.is_framed:
            return False
        try:
            raw.decode()
        except UnicodeDecodeError:
            return True
        at = self.first[raw]
        around = self.whole[max(at - 1, 0) : at] + self.whole[at + len(raw) : at + len(raw) + 1]
        return len(raw) < SHORTEST_SURE and around.strip(b"\0") != b""


def of_plain(data: bytes, outer: Outer) -> PlainLayer:
    """The strings between bytes that aren't text, among them lengths of texts."""
    whole = memory.current()
    with memory.part():
        memory.take(2 * len(data), "strings of a record")
        found = framed(data)
        text = (without_heads(data, found) if found else data).translate(TO_NUL)
        begins, ends = np.array([[0], [len(text)]])
        if b"\0" in text:
            edges = np.diff(np.frombuffer(text, np.uint8) != 0, prepend=False, append=False)
            memory.take(2 * memory.NUMBER * int(np.count_nonzero(edges)), "strings of a record")
            places = np.flatnonzero(edges)
            begins, ends = places[::2], places[1::2]
        long = ends - begins >= SHORTEST
        with memory.charged(whole):
            layer = PlainLayer(text, begins[long], ends[long], outer)
        layer.whole = data
        layer.entries = found.entries if found else ()
        layer.is_framed = found is not None or is_text(data)
        return layer


def of_numbers(data: bytes | memoryview, words: Ints | None = None) -> CutLayer:
    """The strings of ASCII between numbers, those that are too long for chance.

    Args:
        words: the numbers of words of ASCII, where they are known to be few.
    """
    return CutLayer(data, _long_texts(data, of_ascii(data, words)))


def _long_texts(
    data: bytes | memoryview, stretches: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, bytes]]:
    with memory.lent(2 * max((high - low for low, high in stretches), default=0), "classes of bytes"):
        for low, high in stretches:
            stretch = bytes(data[low:high])
            classes = stretch.translate(CLASSES)
            at = classes.find(FEWEST_LONG)
            while at >= 0:
                text = LONG.match(classes, at)
                end = text.end() if text else at + len(FEWEST_LONG)
                yield low + at, stretch[at:end]
                at = classes.find(FEWEST_LONG, end)


def has_wide(data: bytes) -> bool:
    """Whether there are strings in UTF-16 or UTF-32."""
    if b"\0" not in data:
        return False
    classes = data.translate(CLASSES)
    return any(fewest in classes for fewest in FEWEST_WIDE.values())


def of_wide(data: bytes | memoryview, outer: Outer, words: Ints | None = None) -> list[WideLayer]:
    """The strings in UTF-16, and those in UTF-32, if there are any.

    Args:
        words: the numbers of words of ASCII, where they are known to be few.
    """
    if isinstance(data, bytes) and b"\0" not in data:
        return []
    with memory.lent(len(data), "classes of bytes"):
        stretches = of_wide_letters(data, words)
        layers = []
        for width in WIDTHS:
            texts = [text for _, text in _wide_texts(data, stretches, width)]
            if texts:
                layers.append(WideLayer(data, counted(texts), outer, width))
        return layers


def _wide_texts(
    data: bytes | memoryview, stretches: Iterable[tuple[int, int]], width: int
) -> Iterator[tuple[int, bytes]]:
    """The strings of letters of a width, in UTF-8, and where they begin; all begin in some stretches.

    They include the next letter, too, where that may be the last big-endian one.
    """
    fewest, pattern, beside = FEWEST_WIDE[width], WIDE[width], bytes(width - 1)
    end = 0
    for low, high in stretches:
        classes = bytes(data[low:high]).translate(CLASSES)
        at = classes.find(fewest, max(end - low, 0))
        while at >= 0:
            start = _wide_start(data, low + at, end, width)
            letters = pattern.match(data, start)
            end = letters.end() if letters else start + len(fewest)
            ends = [end]
            if start >= width - 1 and data[start - width + 1 : start] == beside:
                ends += [end + 1] * (bytes(data[end : end + 1]).translate(CLASSES) in (b"a", b"b"))
            for stop in ends:
                text = bytes(data[start:stop:width]).decode("latin-1").encode()
                if len(text) >= SHORTEST:
                    yield start, text
            at = classes.find(fewest, end - low)


def _wide_start(data: bytes | memoryview, at: int, first: int, width: int) -> int:
    """Where a string begins, given some of its letters: others of Latin-1 may stand before these."""
    while at - width >= first and WIDE_LETTER[width].match(data, at - width):
        at -= width
    return at
