"""Strings of a pickle, found by its instructions: they have any bytes, and letters may follow them.

Instructions of a known length are passed over by one regular expression: records of source ranges are small,
so columns would take longer than they save. Pickles of protocols 0 and 1, which have no mark, are recognised
by Python reading them to their last instruction.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.patterns import pattern_of
from archive.pickles.ops import (
    BINUNICODE,
    BINUNICODE8,
    CODE_OF,
    FIXED_SIZE,
    LONG1,
    OPCODES,
    PROTO,
    STOP,
)
from archive.privacy.pieces.escaped_layers import shift
from archive.privacy.pieces.layers import TO_NUL, Layer, counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.privacy.pieces.layers import Outer

GLOBAL = CODE_OF["GLOBAL"]
PROTOCOL = b"\x80\2"
PICKLE = pattern_of(rb"\x80[\x02-\x05]")
OLD_FIRST = frozenset(bytes([code]) for code in b"(]})cVSUXT")
"""First bytes of pickles of protocols 0 and 1 that have strings."""
OLD = pattern_of(
    rb"\([ldtVSUXTIFLKJMGN(\]})cp]|[\]})](?:q|p\d|\()|c[A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n|V[^\n]*\n|S['\"]|[UXT]",
)
MOST_IN_ROW = 16
"""Consecutive pickles that are read; PyTorch's former format has five."""
TEXT_HEADS = {BINUNICODE: 5, BINUNICODE8: 9}
"""Bytes of an instruction before its text."""
TRAILING = {"STRING": 2, "UNICODE": 1}
"""Bytes after a text of a line: its newline, and the quote before that."""
MOST_OPCODES = 1 << 20
"""Opcodes that Python reads, in a second or so; what follows them is read as one text."""
CHARGED = 1 << 10
"""Strings whose memory is reserved at once."""
WIDEST = 1 << 63
"""Integers have 64 bits."""


def _of_fixed_size() -> re.Pattern[bytes]:
    """Matches instructions of a fixed length, except for those that a pickle begins and ends with."""
    ways = []
    for size in sorted(set(FIXED_SIZE.values())):
        some = (op.code for op in OPCODES if FIXED_SIZE.get(op.argument) == size)
        codes = bytes(code for code in some if code not in (PROTO, STOP))
        ways.append(b"[%s].{%d}" % (re.escape(codes), size - 1) if size > 1 else b"[%s]" % re.escape(codes))
    return pattern_of(b"(?s:" + b"|".join(ways) + b")*+")


FIXED = _of_fixed_size()


class PickleLayer(Layer):
    """Strings of a pickle, and its classes as ``module.name.``: so they are known from strings.

    Args:
        data: the pickle.
        starts: where each string begins that is there first.
        counts: how often each is there.
        classes: the strings that are a class: two lines.
        lines: what strings of protocol 0 stand for, which have escapes.
        outer: maps positions in ``data`` to the record.
    """

    def __init__(  # noqa: PLR0917 (what a layer is made of)
        self,
        data: bytes,
        starts: dict[bytes, int],
        counts: Mapping[bytes, int],
        classes: set[bytes],
        lines: Mapping[bytes, bytes],
        outer: Outer,
    ) -> None:
        super().__init__(data, counts, outer)
        self._starts = starts
        self._classes = classes
        self._lines = lines

    def whole(self, raw: bytes) -> bytes:
        """The string with its controls: it may be a pickle itself."""
        return self._lines.get(raw, raw)

    def decoded(self, raw: bytes) -> bytes:
        """The string; controls, opcodes among them, as NUL."""
        return (
            raw.replace(b"\n", b".") if raw in self._classes else self._lines.get(raw, raw).translate(TO_NUL)
        )

    def shift(self, raw: bytes, position: int) -> int:
        """Bytes before a position in a decoded string, as the string stands there."""
        return shift(raw, position) if raw in self._lines else position

    @property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        return self._starts


class PickleSpans(NamedTuple):
    """Where strings of a pickle are: first byte, and the one after the last.

    Attributes:
        texts: those with 32 bits of length.
        long: those with 64.
        classes: modules and names of classes, with the newline between.
        lines: those of protocol 0, without newlines and quotes.
    """

    texts: list[tuple[int, int]]
    long: list[tuple[int, int]]
    classes: list[tuple[int, int]]
    lines: list[tuple[int, int]]


def begins_pickle(data: bytes | memoryview) -> bool:
    """Whether bytes begin as a pickle does."""
    return (PICKLE.match(data) or OLD.match(data)) is not None


def is_pickle(data: bytes) -> bool:
    """Whether bytes are a pickle of any protocol; one of 0 or 1 if Python reads it up to its end."""
    if PICKLE.match(data):
        return True
    if OLD.match(data) is None:
        return False
    import pickletools  # noqa: PLC0415 (nearly all pickles are PyTorch's own)

    with suppress(ValueError, OverflowError, UnicodeError):
        return any(op.name == "STOP" for op, _, _ in islice(pickletools.genops(data), MOST_OPCODES))
    return False


def of_pickle(data: bytes, outer: Outer) -> PickleLayer:
    """The strings of a pickle; of bytes that only begin like one, the rest as well."""
    whole = memory.current()
    with memory.part():
        spans, end = PickleSpans([], [], [], []), 0
        for _ in range(MOST_IN_ROW):
            rest = data[end:] if end else data
            try:
                some, length = _of_torch(rest)
            except ValueError:
                some, length = _of_python(rest)
            for places, added in zip(spans, some, strict=True):
                places.extend((end + begin, end + stop) for begin, stop in added)
            end += length
            if not length or end >= len(data) or not is_pickle(data[end:]):
                break
        texts, classes = [*spans.texts, *spans.long, *spans.lines], spans.classes
        following = [] if end >= len(data) else [(end, len(data))]
        every = [*texts, *classes, *following]
        memory.take(8 * memory.NUMBER * len(every), "strings of a pickle")
        strings = [data[begin:end] for begin, end in every]
        first = dict(zip(reversed(strings), [begin for begin, _ in reversed(every)], strict=True))
        names = strings[len(texts) : len(texts) + len(classes)]
        lines = {data[begin:stop]: _of_line(data, begin, stop) for begin, stop in spans.lines}
        with memory.charged(whole):
            counts = counted(strings)
        return PickleLayer(data, first, counts, set(names), lines, outer)


def _of_line(data: bytes, begin: int, end: int) -> bytes:
    """What a text of protocol 0 stands for; Python 2 wrote some in quotes."""
    line = data[begin:end]
    try:
        if data[begin - 1 : begin] == b"V":
            return line.decode("raw-unicode-escape").encode(errors="surrogatepass")
        return codecs.escape_decode(line)[0]
    except ValueError:  # an escape that Python does not know
        return line


def _of_torch(data: bytes) -> tuple[PickleSpans, int]:
    """Where the strings of a pickle of PyTorch's opcodes are, and the byte after its last instruction.

    Raises:
        ValueError: it isn't one.
    """
    spans = PickleSpans([], [], [], [])
    found = 0
    kinds = {BINUNICODE: spans.texts, BINUNICODE8: spans.long}
    at = len(PROTOCOL) if data.startswith(PROTOCOL) else len(data)
    while at < len(data):
        fixed = FIXED.match(data, at)
        at = fixed.end() if fixed else at
        code = data[at] if at < len(data) else None
        if code in kinds:
            begin = at + TEXT_HEADS[code]
            at = begin + int.from_bytes(data[at + 1 : begin], "little")
            kinds[code].append((begin, at))
        elif code == GLOBAL:
            begin, most = at + 1, at + 1 + memory.limits().name_bytes
            name = data.find(b"\n", begin, most) + 1
            at = data.find(b"\n", name, most) + 1
            if not name or not at:
                break
            spans.classes.append((begin, at))
        elif code == LONG1:
            begin = at + 2
            at = begin + int.from_bytes(data[at + 1 : begin])
            if not -WIDEST <= int.from_bytes(data[begin:at], "little", signed=True) < WIDEST:
                break
        elif code == STOP:
            return spans, at + 1
        else:
            break
        found += 1
        if found % CHARGED == 0:
            memory.take(CHARGED * 20 * memory.NUMBER, "strings of a pickle")
    raise ValueError(at)


def _of_python(data: bytes) -> tuple[PickleSpans, int]:
    """Where texts and names of classes are, by Python, which has more opcodes than those of TorchScript."""
    import pickletools  # noqa: PLC0415 (nearly all pickles are PyTorch's own)

    heads = {  # bytes of an instruction before its text; 1 for all others, which are lines
        pickletools.TAKEN_FROM_ARGUMENT1: 2,
        pickletools.TAKEN_FROM_ARGUMENT4: 5,
        pickletools.TAKEN_FROM_ARGUMENT4U: 5,
        pickletools.TAKEN_FROM_ARGUMENT8U: 9,
    }
    spans = PickleSpans([], [], [], [])
    begin, places, end, trailing = 0, spans.texts, 0, 0
    with suppress(ValueError, OverflowError, UnicodeError):  # no pickle from there on
        for op, argument, at in islice(pickletools.genops(data), MOST_OPCODES):
            end = at or 0
            if begin:
                places.append((begin, end - trailing))
            is_text = isinstance(argument, str | bytes | bytearray)
            begin = end + heads.get(op.arg.n, 1) if is_text and op.arg else 0
            trailing = TRAILING.get(op.name, 0)
            begin += bool(begin) and op.name == "STRING"
            places = spans.classes if op.name in ("GLOBAL", "INST") else spans.texts
            places = spans.lines if op.name in TRAILING else places
            end += 1
    return spans, end
