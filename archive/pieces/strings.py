"""The strings of a piece, line by line, each line once: files repeat them at every node, a search need not.

A frame of a Python stack stays one line with the source that follows it. Strings that are JSON or pickles
themselves are read in the same way; what base64 in them stands for is a piece of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from archive.pieces.encoded import FILES, LATIN_HEADS, SHORTEST_RUN, from_latin, in_base64, runs
from archive.pieces.json_strings import JsonLayer
from archive.pieces.layer import SHORTEST
from archive.pieces.layers import Inner, has_form, layers, layers_within
from archive.pieces.pickle_strings import PickleLayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.limits import Allowance
    from archive.pieces.layer import Layer

DEEPEST = 4
"""Strings within strings so deep are read."""
FRAME = b'File "'
FRAMES = re.compile(rb'\n(?=[ \t]*File ")')
LINE = 160
"""Bytes of memory that a line costs besides its text."""
HAS_FORM = {b"[", b"{", b"\x80", b" ", b"\n"}
"""First bytes of strings that may have strings in them."""


class String(NamedTuple):
    """A string as it stands in a layer.

    Attributes:
        layer: that it stands in.
        raw: as it stands there.
    """

    layer: Layer
    raw: bytes

    def place(self, position: int) -> int:
        """The byte of the record that a position in the decoded string comes from."""
        return self.layer.place(self.raw, position)


class Encoded(NamedTuple):
    """What a part of a string stands for.

    Attributes:
        data: the bytes.
        how: they are encoded.
        string: that they are in.
        start: the first encoded letter in the decoded string.
    """

    data: bytes
    how: str
    string: String
    start: int

    @property
    def is_file(self) -> bool:
        """Whether that is no text: a pickle, a zip, a stream."""
        return bool(FILES.match(self.data))

    @property
    def place(self) -> int:
        """The first encoded byte in the record."""
        return self.string.place(self.start)


class Strings:
    """The strings of some bytes.

    Args:
        data: the bytes.
        allowance: takes the memory that the strings cost.
        shortest: bytes of a string of JSON that may tell something.

    Attributes:
        encoded: what base64 in them stands for, and ``bytes`` of Python that are files.

    Raises:
        LimitError: they would take more memory than allowed.
    """

    def __init__(self, data: bytes, allowance: Allowance, shortest: int = 1) -> None:
        self._allowance = allowance
        self._shortest = shortest
        self._times: dict[bytes, int] = {}
        self._first: dict[bytes, tuple[Layer, bytes, int]] = {}
        self.encoded: list[Encoded] = []
        self._layers = layers(data, allowance, int, shortest)
        for layer in self._layers:
            self._read(layer, 1, 0)

    @property
    def json(self) -> bytes | None:
        """The bytes if they are JSON; None else."""
        first = self._layers[0]
        return first.data if isinstance(first, JsonLayer) else None

    @cached_property
    def data(self) -> bytes:
        """The lines, each once, with NULs between them."""
        self._allowance.take(sum(map(len, self._times)), "lines of strings")
        return b"\0".join(self._times)

    @cached_property
    def _lines(self) -> list[bytes]:
        return list(self._times)

    @cached_property
    def _at(self) -> Sequence[int]:
        return [0, *accumulate(len(line) + 1 for line in self._times)]

    def line(self, position: int) -> bytes:
        """The line that stands at a position in ``data``."""
        return self._lines[bisect_right(self._at, position) - 1]

    def times(self, position: int) -> int:
        """How often the line is there that stands at a position in ``data``."""
        return self._times[self.line(position)]

    def place(self, position: int) -> int:
        """The first byte of the record at which there is what stands at a position in ``data``."""
        number = bisect_right(self._at, position) - 1
        layer, raw, begin = self._first[self._lines[number]]
        return layer.place(raw, begin + position - self._at[number])

    def _read(self, layer: Layer, times: int, depth: int) -> None:
        """Take the lines of a layer's strings, and read the layers of those that have their own."""
        raws = list(layer.counts)
        texts = [layer.decoded(raw) for raw in raws]
        counts = [times * number for number in layer.counts.values()]
        inner = _forms(texts) if depth < DEEPEST else []
        within: dict[int, list[Inner]] = defaultdict(list)
        for number in inner:
            if len(raws[number]) < len(layer.data):
                within[counts[number]].append(Inner(raws[number], texts[number]))
                texts[number] = b""
        with self._allowance.lent(sum(map(len, texts)), "texts of strings"):
            joined = b"\0".join(texts)
        lines = len(texts) + joined.count(b"\n")
        self._allowance.take(LINE * lines + len(joined), "lines of strings")
        self._decode(layer, raws, texts, joined)
        self._add(layer, raws, texts, counts)
        for number, some in within.items():
            for one in layers_within(layer, some, self._allowance, self._shortest):
                self._read(one, number, depth + 1)

    def _add(self, layer: Layer, raws: list[bytes], texts: list[bytes], counts: list[int]) -> None:
        """Count the lines of some texts."""
        lines, first = self._times, self._first
        for raw, text, times in zip(raws, texts, counts, strict=True):
            if b"\n" in text:
                self._add_lines(layer, raw, text, times)
            elif text in lines:
                lines[text] += times
            elif text:
                lines[text] = times
                first[text] = layer, raw, 0

    def _add_lines(self, layer: Layer, raw: bytes, text: bytes, times: int) -> None:
        some = FRAMES.split(text) if FRAME in text else text.split(b"\n")
        at = 0
        for line in some:
            if len(line) >= SHORTEST or len(some) == 1:
                if line in self._times:
                    self._times[line] += times
                else:
                    self._times[line] = times
                    self._first[line] = layer, raw, at
            at += len(line) + 1

    def _decode(self, layer: Layer, raws: list[bytes], texts: list[bytes], joined: bytes) -> None:
        """Keep what parts of texts stand for; texts lose letters that tell nothing."""
        with self._allowance.lent(len(joined), "letters of base64"):
            encoded = set(in_base64(joined, texts))
        if isinstance(layer, PickleLayer):
            encoded.update(number for number, raw in enumerate(raws) if raw.startswith(LATIN_HEADS))
        for number in sorted(encoded):
            if len(texts[number]) >= SHORTEST_RUN:
                texts[number] = self._decoded(String(layer, raws[number]), texts[number])

    def _decoded(self, string: String, text: bytes) -> bytes:
        file = from_latin(string.raw) if isinstance(string.layer, PickleLayer) else None
        if file is not None:
            self.encoded.append(Encoded(file, "bytes", string, 0))
        masked = None
        for one in runs(text):
            if one.data is not None:
                self._allowance.take(LINE + len(one.data), "what base64 stands for")
                self.encoded.append(Encoded(one.data, "base64", string, one.start))
            if one.is_masked:
                masked = masked or bytearray(text)
                masked[one.start : one.end] = bytes(one.end - one.start)
        return text if masked is None else bytes(masked)


def _forms(texts: list[bytes]) -> list[int]:
    """The numbers of texts that may have strings in them."""
    return [number for number, text in enumerate(texts) if text[:1] in HAS_FORM and has_form(text)]
