r"""Strings of some bytes, by the form that the bytes have: JSON, a pickle, UTF-16, or any other.

A layer has the strings as they stand in its bytes, each once, with how often each one is there. A string may
be a layer's bytes itself: JSON in JSON. Where a string stands is looked up when asked for alone, as nearly
all strings tell nothing.
"""

from __future__ import annotations

import json
import pickletools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError
from archive.pickles.ops import BINUNICODE, BINUNICODE8, CODE_OF
from archive.pickles.scan import Pickle, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from archive.base.limits import Allowance

GLOBAL = CODE_OF["GLOBAL"]
HEADS = {BINUNICODE: 5, BINUNICODE8: 9, GLOBAL: 1}
"""Bytes of an instruction before its text."""
PYTHON_HEADS = {
    pickletools.TAKEN_FROM_ARGUMENT1: 2,
    pickletools.TAKEN_FROM_ARGUMENT4: 5,
    pickletools.TAKEN_FROM_ARGUMENT4U: 5,
    pickletools.TAKEN_FROM_ARGUMENT8U: 9,
}
"""The same by how ``pickletools`` finds the end of the text; 1 for all others, which are lines."""
MOST_OPCODES = 1 << 20
"""Opcodes that Python reads, in a second or so; what stands behind them is read as one text."""
PICKLE = re.compile(rb"\x80[\x02-\x05]")
JSON = re.compile(rb"[ \t\r\n]*[\[{][ \t\r\n]*[\[{\"\]}]")
ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(.))", re.DOTALL)
ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
SURROGATES, BEHIND_SURROGATES = 0xD800, 0xDC00
BACKSLASHES, QUOTE = (b"\\\\", b"\2\2"), (b'\\"', b"\\\1")
"""Escapes, and what stands for them while JSON is cut at its quotes."""
SEAM = b'\n"\n'
"""Stands between JSON and JSON, so that no string goes on, and no escape."""
SHORTEST = 6
"""Bytes of a string between other bytes that may give something away; in a pickle or in JSON one may."""
LONG = re.compile(rb"[^\0]{6,}")
ASCII_TEXT = bytes(range(32, 127)) + b"\t\n\r"
NO_TEXT = {*range(32), 127} - {*b"\t\n\r"}
TO_NUL = bytes(0 if code in NO_TEXT else code for code in range(256))
CLASSES = bytes(ord("a") if code in ASCII_TEXT else min(code, 1) for code in range(256))
"""Translates bytes to ``a`` for those of ASCII text, 0 for NUL, 1 for others."""
WIDE = re.compile(rb"(?:a\0){5,}+")
FEWEST_WIDE = b"a\0" * 5
PART = 64
"""Bytes of memory that a string costs while it is one of many."""
KEPT = 160
"""The same of a string that is kept, with its count."""

Outer = Callable[[int], int]
"""The byte of the record that a position in some bytes comes from."""


class Layer:
    """Strings of bytes that are cut where something stands that is no text.

    Args:
        data: the bytes.
        counts: the strings as they stand there, and how often.
        outer: tells where ``data`` comes from.
    """

    def __init__(self, data: bytes, counts: Mapping[bytes, int], outer: Outer = int) -> None:
        self.data = data
        self.counts = counts
        self._outer = outer

    def decoded(self, raw: bytes) -> bytes:
        """The text that a string stands for."""
        return raw

    def place(self, raw: bytes, position: int) -> int:
        """The byte of the record that a position in a decoded string comes from, at the first such string."""
        return self._outer(self._first[raw] + self._shift(raw, position))

    @cached_property
    def _first(self) -> dict[bytes, int]:
        """Where each string begins that is there first."""
        first: dict[bytes, int] = {}
        for one in LONG.finditer(self.data):
            first.setdefault(one[0], one.start())
        return first

    def _shift(self, _raw: bytes, position: int) -> int:
        return position


class JsonLayer(Layer):
    """Strings of JSON. ``data`` has no escaped quotes: other bytes stand for them."""

    def decoded(self, raw: bytes) -> bytes:
        """The string without escapes."""
        if b"\\" not in raw and BACKSLASHES[1] not in raw:
            return raw
        escaped = with_quotes(raw)
        try:
            return str(json.loads(b'"%s"' % escaped, strict=False)).encode(errors="surrogatepass")
        except ValueError:  # an escape that JSON does not know
            return ESCAPE.sub(_stands_for, escaped)

    @cached_property
    def _first(self) -> dict[bytes, int]:
        strings = self.data.split(b'"')
        quotes = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord('"'))
        return dict(zip(reversed(strings), reversed([0, *(quotes + 1).tolist()]), strict=True))

    def _shift(self, raw: bytes, position: int) -> int:
        """The byte behind all escapes before a position; that of the same escape, at least."""
        length = end = 0
        for one in ESCAPE.finditer(with_quotes(raw)):
            if length + one.start() - end >= position:
                break
            length += one.start() - end + len(_stands_for(one))
            end = one.end()
        return end + max(position - length, 0)


class PickleLayer(Layer):
    """Strings of a pickle, and its classes as ``module.name.``: so they are known from strings.

    Args:
        data: the pickle.
        starts: where each string begins.
        counts: how often each is there.
        classes: those that are a class: two lines.
        outer: tells where ``data`` comes from.
    """

    def __init__(
        self,
        data: bytes,
        starts: dict[bytes, int],
        counts: Mapping[bytes, int],
        classes: set[bytes],
        outer: Outer,
    ) -> None:
        super().__init__(data, counts, outer)
        self._starts = starts
        self._classes = classes

    def decoded(self, raw: bytes) -> bytes:
        """The string; controls, which opcodes are among, as NUL."""
        return raw.replace(b"\n", b".") if raw in self._classes else raw.translate(TO_NUL)

    @cached_property
    def _first(self) -> dict[bytes, int]:
        return self._starts


class WideLayer(Layer):
    """Strings in UTF-16 of either byte order: in both, every second byte of ASCII is NUL."""

    @cached_property
    def _first(self) -> dict[bytes, int]:
        first: dict[bytes, int] = {}
        for start, end in _wide_spans(self.data.translate(CLASSES)):
            first.setdefault(self.data[start:end:2], start)
        return first

    def _shift(self, _raw: bytes, position: int) -> int:
        return 2 * position


class Inner(NamedTuple):
    """A string that has strings in it.

    Attributes:
        raw: as it stands in its layer.
        text: decoded.
    """

    raw: bytes
    text: bytes


def has_form(text: bytes) -> bool:
    """Whether a string is JSON or a pickle."""
    return bool(JSON.match(text) or PICKLE.match(text))


def layers_within(layer: Layer, strings: Sequence[Inner], allowance: Allowance) -> Iterator[Layer]:
    """The layers of strings of a layer. All that are JSON have one, as they are many, small, and alike.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    json = [one for one in strings if not PICKLE.match(one.text) and _may_be_cut(one.text)]
    if json:
        starts = [0, *accumulate(len(one.text) + len(SEAM) for one in json)]
        yield _json(SEAM.join(one.text for one in json), allowance, partial(_outer, layer, json, starts))
    for one in strings:
        if PICKLE.match(one.text) or not _may_be_cut(one.text):
            yield from layers(one.text, allowance, partial(layer.place, one.raw))


def _outer(layer: Layer, strings: Sequence[Inner], starts: Sequence[int], position: int) -> int:
    number = bisect_right(starts, position) - 1
    return layer.place(strings[number].raw, position - starts[number])


def _may_be_cut(json: bytes) -> bool:
    """Whether JSON has none of the bytes that are to stand for escapes: they would be an error in it."""
    return BACKSLASHES[1][:1] not in json and QUOTE[1][1:] not in json


def layers(data: bytes, allowance: Allowance, outer: Outer = int) -> list[Layer]:
    """The strings in some bytes, by the forms that the bytes have.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    if PICKLE.match(data):
        found = [_pickled(data, allowance, outer)]
    elif JSON.match(data) and _may_be_cut(data):
        found = [_json(data, allowance, outer)]
    else:
        found = [_plain(data, allowance, outer)]
    wide = _wide(data, allowance, outer)
    return found if wide is None else [*found, wide]


def _plain(data: bytes, allowance: Allowance, outer: Outer) -> Layer:
    count = min(data.count(b"\0"), len(data) // SHORTEST) + 1
    text = data.translate(TO_NUL)
    with allowance.lent(2 * len(data) + PART * count, "strings of a record"):
        return Layer(text, _counted(LONG.findall(text), allowance), outer)


def _json(data: bytes, allowance: Allowance, outer: Outer) -> Layer:
    text = data
    if b"\\" in data:
        text = data.replace(*BACKSLASHES).replace(*QUOTE)
    with allowance.lent(2 * len(data) + PART * text.count(b'"'), "strings of JSON"):
        return JsonLayer(text, _counted(text.split(b'"'), allowance, 1), outer)


def _counted(strings: Iterable[bytes], allowance: Allowance, shortest: int = SHORTEST) -> dict[bytes, int]:
    counts = Counter(strings)
    allowance.take(KEPT * len(counts), "distinct strings")
    return {one: times for one, times in counts.items() if len(one) >= shortest}


def _wide(data: bytes, allowance: Allowance, outer: Outer) -> Layer | None:
    if b"\0" not in data:
        return None
    with allowance.lent(len(data), "classes of bytes"):
        classes = data.translate(CLASSES)
        if FEWEST_WIDE not in classes:
            return None
        strings = [data[start:end:2] for start, end in _wide_spans(classes)]
    return WideLayer(data, _counted(strings, allowance), outer)


def _wide_spans(classes: bytes) -> Iterator[tuple[int, int]]:
    """Where strings in UTF-16 are; with the letter behind, too, where that may be the last big-endian one."""
    for one in WIDE.finditer(classes):
        start, end = one.span()
        yield start, end
        if classes[max(start - 1, 0) : start] == b"\0" and classes[end : end + 1] == b"a":
            yield start, end + 1


def _pickled(data: bytes, allowance: Allowance, outer: Outer) -> Layer:
    """The strings of a pickle; of bytes that only begin like one, all of them behind."""
    try:
        with allowance.part() as part:
            tokens = scan([Pickle("", memoryview(data))], part)
            spans = []
            for code, head in HEADS.items():
                found = np.flatnonzero(tokens.op == code)
                begins = tokens.at[found] + head
                spans.append((begins.tolist(), (begins + tokens.arg[found]).tolist()))
            end = int(tokens.at[-1]) + 1
    except ArchiveError:
        spans, end = _of_python(data)
    (*texts, names) = spans
    strings = [data[begin:end] for begins, ends in texts for begin, end in zip(begins, ends, strict=True)]
    classes = [data[begin:end] for begin, end in zip(*names, strict=True)]
    starts = [at for begins, _ in spans for at in begins]
    behind = [] if end >= len(data) else [data[end:]]
    every = [*strings, *classes, *behind]
    with allowance.lent(PART * len(every), "strings of a pickle"):
        first = dict(zip(reversed(every), reversed([*starts, *[end] * len(behind)]), strict=True))
        return PickleLayer(data, first, _counted(every, allowance, 1), set(classes), outer)


def _of_python(data: bytes) -> tuple[list[tuple[list[int], list[int]]], int]:
    """Where texts and names of classes are, by Python, which has more opcodes than those of TorchScript."""
    texts: tuple[list[int], list[int]] = ([], [])
    names: tuple[list[int], list[int]] = ([], [])
    begin, kept, end = 0, texts, 0
    with suppress(ValueError, OverflowError, UnicodeError):  # no pickle from there on
        for op, argument, at in islice(pickletools.genops(data), MOST_OPCODES):
            end = at or 0
            if begin:
                kept[0].append(begin)
                kept[1].append(end)
            is_text = isinstance(argument, str | bytes | bytearray)
            begin = end + PYTHON_HEADS.get(op.arg.n, 1) if is_text and op.arg else 0
            kept = names if op.name in ("GLOBAL", "INST") else texts
            end += 1
    return [texts, names], end


def with_quotes(raw: bytes) -> bytes:
    """A string of JSON with the escapes that other bytes stand for."""
    return raw.replace(BACKSLASHES[1], BACKSLASHES[0]).replace(QUOTE[1], QUOTE[0])


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
