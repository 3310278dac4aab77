"""The strings of a piece, line by line, each line once: files repeat them at every node, a search need not.

A frame of a Python stack stays one line with the source that follows it. Strings that are JSON or pickles
themselves are read in the same way, and strings with escapes again without these; what base64 and the like in
them stand for is a piece of its own.

The form of the bytes says where strings are: JSON, a pickle, UTF-16 and UTF-32, or any other. A string may
be a layer's bytes itself: JSON in JSON.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.patterns import pattern_of
from archive.debuginfo import frames
from archive.privacy.pieces.encoded import (
    IN_LATIN,
    LATIN_FIRST,
    LATIN_HEADS,
    TENSORS,
    from_latin,
    is_file,
    runs,
    ways_in,
)
from archive.privacy.pieces.escaped_layers import JSON, EscapeLayer, JsonLayer, escaped, is_json, of_json
from archive.privacy.pieces.framed import is_text
from archive.privacy.pieces.joined import Joined
from archive.privacy.pieces.layers import SHORTEST, PlainLayer, of_numbers, of_plain, of_wide
from archive.privacy.pieces.lengths import without_lengths
from archive.privacy.pieces.long_runs import COPIES
from archive.privacy.pieces.pickle_strings import OLD_FIRST, PickleLayer, begins_pickle, is_pickle, of_pickle
from archive.privacy.pieces.rows import in_pickle, numpy_file, of_file, of_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.base.columns import Ints
    from archive.privacy.pieces.encoded import Letters
    from archive.privacy.pieces.layers import Layer, Outer


# --- layers

SEAM = b'\n"\n'
"""Stands between two texts of JSON, so that no string and no escape runs on."""


FIRST = {*(bytes([code]) for code in b"[{ \n\x80"), *OLD_FIRST}
"""First bytes of JSON and of pickles."""


class NestedString(NamedTuple):
    """A string that has strings in it.

    Attributes:
        raw: as it stands in its layer.
        text: decoded.
    """

    raw: bytes
    text: bytes


def with_form(texts: Sequence[bytes]) -> list[int]:
    """The numbers of strings that are JSON or a pickle; one of protocols 0 and 1 as a whole."""
    return [
        number
        for number, text in enumerate(texts)
        if text[:1] in FIRST
        and (JSON.match(text) or ((text[:1] == b"\x80" or text[-1:] == b".") and is_pickle(text)))
    ]


def is_bytes(text: bytes) -> bool:
    """Whether a string of a pickle, with NUL for controls, isn't text: bytes have any form."""
    if b"\0" in text or text.isascii():
        return b"\0" in text
    try:
        text.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return True
    return False


def layers(data: bytes, outer: Outer = int, shortest: int = 1) -> list[Layer]:
    """The strings in some bytes, by the bytes' form; for JSON, those of ``shortest`` bytes or more."""
    file = numpy_file(data)
    if file is not None and (layer := of_file(data, file, outer)) is not None:
        return [layer]
    if file is not None and file.has_objects and is_pickle(data[file.start :]):
        start = file.start
        return [of_pickle(data[start:], lambda position: outer(start + position))]
    if is_pickle(data):  # letters of any width are in its strings
        return [of_pickle(data, outer)]
    narrow = of_json(data, outer, shortest) if is_json(data) else of_plain(data, outer)
    return [narrow, *of_wide(data, outer)]


def long_strings(data: bytes | memoryview, words: Ints | None = None) -> list[Layer]:
    """The strings in bytes of numbers: those that are too long for chance, and those of wide letters.

    Args:
        words: the numbers of words of ASCII, where they are known to be few.
    """
    if begins_pickle(data):
        memory.take(len(data), "bytes of a record")
        data = bytes(data)
        if is_pickle(data):
            return layers(data)
    return [of_numbers(data, words), *of_wide(data, int, words)]


def layers_within(layer: Layer, strings: Sequence[NestedString], shortest: int) -> Iterator[Layer]:
    """The layers of strings of a layer. All JSON shares one, as these are many, small, and alike."""
    json = [string for string in strings if is_json(string.text)]
    if json:
        joined = Joined([string.text for string in json], SEAM)

        def outer(position: int) -> int:
            number, within = joined.place(position)
            return layer.place(json[number].raw, within)

        yield of_json(joined.data, outer, shortest)
    types = of_texts(layer.counts) if isinstance(layer, PickleLayer) else []
    for string in strings:
        if not is_json(string.text):
            place = partial(layer.place, string.raw)
            rows = in_pickle(string.text, types, place)
            yield from [rows] if rows else layers(string.text, place, shortest)


# --- strings

DEEPEST = 4
"""How deep strings within strings are read."""
FRAME = frames.BEGINNING.encode()
FRAMES = pattern_of(rb"\n(?=[ \t]*%b)" % FRAME)


AT_BEGINNING = (0,)
"""Where the line of a string of one line begins."""
FEWEST_IN_COLUMNS = 16
"""Positions whose lines are found in columns."""
BYTES = "bytes"
"""How bytes are stored as a string of a pickle."""


class StringInLayer(NamedTuple):
    """A string as it stands in a layer.

    Attributes:
        layer: the layer that it is in.
        raw: as it stands there.
    """

    layer: Layer
    raw: bytes

    def place(self, position: int) -> int:
        """The byte of the record that a position in the decoded string comes from."""
        return self.layer.place(self.raw, position)


class EncodedPart(NamedTuple):
    """What a part of a string stands for.

    Attributes:
        data: the bytes.
        how: they are encoded.
        string: the string that they are in.
        start: the first encoded letter in the decoded string.
    """

    data: bytes
    how: str
    string: StringInLayer
    start: int

    @property
    def is_file(self) -> bool:
        """Whether that isn't text: a pickle, a zip, a stream."""
        return self.how == BYTES or is_file(self.data)

    @property
    def place(self) -> int:
        """The first encoded byte in the record."""
        return self.string.place(self.start)


_LineSource = tuple["Layer", bytes, bytes | None]
"""A layer, a string of it, and its text if that isn't what it is decoded to."""


def _lines(text: bytes) -> list[bytes]:
    """The lines of a text, or the frames of a Python stack."""
    return FRAMES.split(text) if FRAME in text else text.split(b"\n")


def _without_lengths(texts: list[bytes]) -> list[bytes]:
    """Texts of bytes of no known form, with NUL in place of lengths among them; each as long as before."""
    joined = b"\0".join(texts)
    data = without_lengths(joined)
    if data is joined:
        return texts
    starts = accumulate((len(text) + 1 for text in texts), initial=0)
    return [data[at : at + len(text)] for at, text in zip(starts, texts, strict=False)]


class PieceStrings:
    """The strings of some bytes.

    Args:
        data: the bytes.
        shortest: bytes of a string of JSON that may reveal something.
        in_numbers: whether the bytes are numbers, which have short strings by chance.
        words: of numbers, as in :func:`long_strings`.

    Attributes:
        encoded: what base64 and the like in them stand for, and ``bytes`` of Python that are files.
        layers: pickles, JSON and texts, each as it stands in the one before; empty for numbers.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        shortest: int = 1,
        *,
        in_numbers: bool = False,
        words: Ints | None = None,
    ) -> None:
        self.allowance = memory.current()
        self._shortest = shortest
        self._times: dict[bytes, int] = {}
        self._numbers: list[int] = []
        self._sources: list[_LineSource] = []
        self._begins: dict[int, Sequence[int]] = {}
        self.encoded: list[EncodedPart] = []
        self.layers: list[Layer] = []
        outermost = long_strings(data, words) if in_numbers else layers(bytes(data), int, shortest)
        for layer in outermost:
            self._read(layer, 1, 0)
        if in_numbers:
            self.layers = []

    @property
    def json(self) -> bytes | None:
        """The bytes if they are JSON; None else."""
        first = next(iter(self.layers), None)
        return first.data if isinstance(first, JsonLayer) else None

    @property
    def data(self) -> bytes:
        """The lines, each once, with NULs between them."""
        return self._joined.data

    @cached_property
    @memory.asking
    def _joined(self) -> Joined:
        memory.take(sum(map(len, self._times)), "lines of strings")
        return Joined(list(self._times), b"\0")

    def line(self, position: int) -> bytes:
        """The line that stands at a position in ``data``."""
        return self._joined.texts[self._joined.number(position)]

    def times(self, position: int) -> int:
        """How often the line at a position in ``data`` occurs."""
        return self._times[self._joined.texts[self._joined.number(position)]]

    def times_of_all(self, positions: Sequence[int]) -> int:
        """How often the lines at some positions in ``data`` occur, together."""
        if len(positions) < FEWEST_IN_COLUMNS:
            return sum(map(self.times, positions))
        return int(self._columns[self._joined.numbers(positions)].sum())

    @cached_property
    def _columns(self) -> Ints:
        """How often each line occurs, by its number."""
        return np.array(list(self._times.values()), np.int64)

    def place(self, position: int) -> int:
        """The first byte of the record at which the text at a position in ``data`` occurs."""
        number, within = self._joined.place(position)
        source = bisect_right(self._numbers, number) - 1
        layer, raw, _ = self._sources[source]
        begins = self._begins.get(source)
        if begins is None:
            begins = self._begins[source] = self._begins_in(source)
        return layer.place(raw, begins[number - self._numbers[source]] + within)

    def _begins_in(self, source: int) -> Sequence[int]:
        """Where each line begins in the string in which it occurs first; looked for once."""
        layer, raw, changed = self._sources[source]
        first, *rest = self._numbers[source : source + 2]
        lines = self._joined.texts[first : rest[0] if rest else None]
        text = layer.decoded(raw) if changed is None else changed
        if text.rstrip(b"\n") == lines[0]:
            return AT_BEGINNING
        self.allowance.take(memory.NUMBER * len(lines), "places of lines")
        begins, begin = array("q"), 0
        new = iter(lines)
        sought = next(new, None)
        for line in _lines(text):
            if line == sought:
                begins.append(begin)
                sought = next(new, None)
            begin += len(line) + 1
        return begins

    def may_be_numbers(self, position: int) -> bool:
        """Whether the text at a position in ``data`` may be random bytes."""
        layer, raw, _ = self._source(self._joined.number(position))
        return isinstance(layer, PlainLayer) and layer.may_be_numbers(raw)

    def _source(self, number: int) -> _LineSource:
        """The string that a line is in, where it occurs first."""
        return self._sources[bisect_right(self._numbers, number) - 1]

    def _read(self, layer: Layer, times: int, depth: int) -> None:
        """Take the lines of a layer's strings, and read the layers in them."""
        self.layers.append(layer)
        if not layer.counts:
            return
        raws = list(layer.counts)
        texts = [layer.decoded(raw) for raw in raws]
        counts = [times * number for number in layer.counts.values()]
        # an opcode may be a control, and a string a pickle
        wholes = [layer.whole(raw) for raw in raws] if isinstance(layer, PickleLayer) else texts
        within: dict[int, list[NestedString]] = defaultdict(list)
        files = self._files(layer, raws, wholes)
        formed = with_form(wholes) if depth < DEEPEST else []
        if isinstance(layer, PickleLayer) and depth < DEEPEST:
            # most strings are ASCII: nearly all are ruled out here
            some = (number for number, text in enumerate(texts) if b"\0" in text or not text.isascii())
            formed = sorted({*formed, *(number for number in some if is_bytes(texts[number]))})
        for number in files:
            if not is_text(wholes[number]):  # a text may begin like a file
                texts[number] = b""
        for number in formed:
            if number not in files and (
                len(raws[number]) < len(layer.data) or isinstance(layer, EscapeLayer)
            ):
                within[counts[number]].append(NestedString(raws[number], wholes[number]))
                texts[number] = b""
        unchanged = list(texts)
        size = len(texts) + sum(map(len, texts))
        with memory.lent((1 + COPIES) * size, "texts of strings, and letters of what is encoded"):
            joined = Joined(unchanged, b"\0")
            ways = ways_in(joined)
        lines = len(texts) + joined.data.count(b"\n")
        memory.take(20 * memory.NUMBER * lines + size, "lines of strings")
        for number in sorted(ways):
            texts[number] = self._decoded(StringInLayer(layer, raws[number]), texts[number], ways[number])
        if isinstance(layer, PlainLayer) and not layer.is_framed:
            texts = _without_lengths(texts)
        self._add(layer, zip(raws, texts, counts, unchanged, strict=True))
        numbers = escaped(joined) if depth < DEEPEST else []
        if numbers:
            by_text = {texts[at]: raws[at] for at in numbers}
            times_of = {texts[at]: counts[at] for at in numbers}
            with memory.lent(2 * sum(map(len, by_text)), "texts without escapes"):
                self._read(EscapeLayer(layer, by_text, times_of), 1, depth + 1)
        for number, strings in within.items():
            for inner in layers_within(layer, strings, self._shortest):
                self._read(inner, number, depth + 1)

    def _files(self, layer: Layer, raws: Sequence[bytes], wholes: Sequence[bytes]) -> set[int]:
        """The numbers of strings that are files: any in Latin-1, those of tensors in bytes. They are kept."""
        files = set()
        has_controls = False
        if not isinstance(layer, PlainLayer):
            with memory.lent(sum(map(len, wholes)), "texts of strings"):
                has_controls = IN_LATIN.search(b"\n".join(wholes)) is not None
        for number, whole in enumerate(wholes):
            is_headed = whole[:1] in LATIN_FIRST and whole.startswith(LATIN_HEADS)
            if not (is_headed or (has_controls and IN_LATIN.search(whole))):
                continue  # files of tensors have controls, too
            file = from_latin(whole)
            if file is None and isinstance(layer, PickleLayer) and TENSORS.match(whole):
                file = whole
            if file is not None:
                self.encoded.append(EncodedPart(file, BYTES, StringInLayer(layer, raws[number]), 0))
                files.add(number)
        return files

    def _add(self, layer: Layer, strings: Iterable[tuple[bytes, bytes, int, bytes]]) -> None:
        """Count the lines of strings: each as it stands, its text, its count, and what it is decoded to."""
        lines = self._times
        for raw, text, times, decoded in strings:
            if text in lines:
                lines[text] += times
                continue
            known = len(lines)
            if b"\n" in text:
                for line in _lines(text):
                    if line in lines:
                        lines[line] += times
                    elif len(line) >= SHORTEST:
                        lines[line] = times
            elif text:
                lines[text] = times
            if len(lines) > known:
                self._numbers.append(known)
                self._sources.append((layer, raw, None if text is decoded else text))

    def _decoded(self, string: StringInLayer, text: bytes, ways: Iterable[Letters]) -> bytes:
        """A text without masked letters; what its parts stand for is kept."""
        masked = None
        for run in runs(text, ways):
            if run.data is not None:
                memory.take(20 * memory.NUMBER + len(run.data), "what is encoded")
                self.encoded.append(EncodedPart(run.data, run.how, string, run.start))
            if run.is_masked:
                masked = masked or bytearray(text)
                masked[run.start : run.end] = bytes(run.end - run.start)
        return text if masked is None else bytes(masked)
