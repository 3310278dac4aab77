"""A source range as PyTorch prints it.

That is ``SourceRange::print_with_context`` in ``torch/csrc/jit/frontend/source_range.cpp``.

All positions are bytes of the text. A range that covers its whole text prints only the text (in traced models
the text is the Python stack). A range that starts after its text prints nothing. Any other prints:

1. if a filename is recorded, ``  File "<file>", line <n>, in <function>``;
2. the lines of the range, two lines before them and two after;
3. under each line of the range a marking: blanks up to the first byte of the range that isn't blank, then one
   ``~`` per byte, and `` <--- HERE`` after the last one.

A long text in pieces is searched and cut in place, without being joined.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.errors import LimitError
from archive.base.strings import StringTable, StringView, Text

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Limits, Steps
    from archive.debuginfo.model import SourceRange


# --- long text

CHUNK = 1 << 16
"""Bytes that are copied at once."""


class LongText:
    """A text with some methods of ``bytes``, only for newlines."""

    def __init__(self, text: Text | StringView) -> None:
        self._table = text.table
        self._pieces = np.asarray(text.indices if isinstance(text, Text) else [text.index], np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @cached_property
    def _ends(self) -> Ints:
        """Where each piece ends in the text."""
        if isinstance(self._table, StringTable):
            return np.cumsum(self._table.length[self._pieces])
        return np.cumsum([len(self._table.data(piece)) for piece in self._pieces.tolist()])

    def part(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` to ``stop``, copied."""
        parts = []
        at = int(np.searchsorted(self._ends, start, "right"))
        while start < stop and at < len(self._ends):
            data, end = self._table.data(int(self._pieces[at])), int(self._ends[at])
            begin = end - len(data)
            parts.append(data[start - begin : stop - begin])
            start, at = end, at + 1
        return b"".join(parts)

    def find(self, newline: bytes, start: int) -> int:
        """The first newline from ``start`` on; -1 if there is none."""
        size = len(self)
        while start < size:
            at = self.part(start, min(start + CHUNK, size)).find(newline)
            if at >= 0:
                return start + at
            start += CHUNK
        return -1

    def rfind(self, newline: bytes, start: int, stop: int) -> int:
        """The last newline between ``start`` and ``stop``; -1 if there is none."""
        while stop > start:
            low = max(start, stop - CHUNK)
            at = self.part(low, stop).rfind(newline)
            if at >= 0:
                return low + at
            stop = low
        return -1

    def count(self, newline: bytes, start: int, stop: int) -> int:
        """The newlines between ``start`` and ``stop``."""
        return sum(self.part(low, min(low + CHUNK, stop)).count(newline) for low in range(start, stop, CHUNK))


# --- excerpt

CONTEXT = 3
"""Newlines that PyTorch counts on each side; the first ends the range's own lines."""
UNSIGNED = 1 << 64  # PyTorch counts lines without a sign
HERE = b" <--- HERE\n"
LONG = 1 << 14
"""Bytes of a text; of a longer one, only the shown lines are copied."""
PLACE = 64
"""Most bytes of a frame's first line and of a marking's end, without the names."""


def excerpt(span: SourceRange, function: bytes, whole: bytes | None = None) -> bytes:
    """A range with its context, as PyTorch prints a frame of a traceback.

    Args:
        function: the name after "in"; left out if empty.
        whole: the source's text, from callers that have it in one piece.
    """
    source = span.source
    size = len(source.text)
    if span.end - span.start == size:
        return bytes(source.text)
    if span.start > size:
        return b""
    text = whole or (LongText(source.text) if size > LONG else bytes(source.text))
    place = b""
    if source.filename is not None:
        line = source.starting_line + text.count(b"\n", 0, span.start)
        place = b'  File "%b", line %d' % (bytes(source.filename), line % UNSIGNED)
        place += b", in %b\n" % function if function else b"\n"
    end = min(span.end, size)
    if isinstance(text, bytes):
        return place + marked(text, span.start, end)
    first, stop = _shown(text, span.start, end)
    return place + marked(text.part(first, stop), span.start - first, end - first)


class ExcerptCost(NamedTuple):
    """The cost of an excerpt, computed from columns before it is cut.

    Attributes:
        size: most bytes of it.
        steps: the steps to make it: see ``Limits.work``.
    """

    size: int
    steps: int


def cost_of(span: SourceRange, function: bytes) -> ExcerptCost:
    """The cost of the excerpt that :func:`excerpt` makes from the same arguments."""
    source = span.source
    size = len(source.text)
    steps = 1 + size // 4096 + (len(source.text.indices) // 16 if isinstance(source.text, Text) else 0)
    if span.end - span.start == size:
        return ExcerptCost(size, steps)
    if span.start > size:
        return ExcerptCost(0, steps)
    end = min(span.end, size)
    steps += max(0, end - span.start) // 4  # the range is read line by line
    shown = size
    if size > LONG:
        first, stop = _shown(LongText(source.text), span.start, end)
        shown = stop - first
    place = PLACE + len(function) + (0 if source.filename is None else len(source.filename))
    return ExcerptCost(place + 2 * shown, steps)  # no marking is longer than its line


def bounded_excerpt(span: SourceRange, function: bytes, limits: Limits, steps: Steps) -> bytes:
    """An excerpt that is cut only if its cost is allowed."""
    cost = cost_of(span, function)
    steps.take(cost.steps)
    if cost.size > limits.output:
        raise LimitError("output", limits.output, cost.size)
    return excerpt(span, function)


def _shown(text: LongText, start: int, end: int) -> tuple[int, int]:
    """The part of a text that an excerpt shows; to the text's end if the range ends before it starts."""
    stop = min(_context_end(text, end) + 1, len(text))
    return _context_start(text, start), stop if start <= stop else len(text)


def marked(text: bytes, start: int, end: int) -> bytes:
    """The lines of ``text[start:end]`` with their context, and that part marked."""
    out = bytearray(text[_context_start(text, start) : start])
    position = start
    last = len(text[: end + 1].rstrip(b" \n")) - 1
    while position < end:
        line_end = _line_end(text, position)
        line = text[position : line_end + 1]
        out += line if line.endswith(b"\n") else line + b"\n"
        more = line_end < end and (end == len(text) or last >= line_end)
        out += _marking(text, start, end, position, more=more)
        position = line_end + 1
    if position <= len(text):
        stop = _context_end(text, end)
        rest = text[position:stop] if stop >= position else text[position:]
        out += rest if not rest or rest.endswith(b"\n") else rest + b"\n"
    return bytes(out)


def _marking(text: bytes, start: int, end: int, position: int, *, more: bool) -> bytes:
    """The marking under a line of the range; empty if the range has only blanks there."""
    begin = text.rfind(b"\n", 0, position) + 1
    stop = min(_line_end(text, position), end)
    blanks = stop - len(text[min(max(begin, start), stop) : stop].lstrip(b" "))
    if blanks == stop:
        return b""
    return b" " * (blanks - begin) + b"~" * (stop - blanks) + (b"\n" if more else HERE)


def _line_end(text: bytes | LongText, position: int) -> int:
    end = text.find(b"\n", position)
    return len(text) if end < 0 else end


def _context_start(text: bytes | LongText, start: int) -> int:
    """Where the second line before that of ``start`` begins, or the text."""
    position = text.rfind(b"\n", 0, start) + 1
    for _ in range(CONTEXT):
        if not position:
            break
        newline = position - 1
        position = text.rfind(b"\n", 0, newline) + 1
    else:
        return newline + 1
    return position


def _context_end(text: bytes | LongText, end: int) -> int:
    """Where the second line after that of ``end`` ends, or the text."""
    position = _line_end(text, end)
    for _ in range(CONTEXT - 1):
        if position < len(text):
            position = _line_end(text, position + 1)
    return position
