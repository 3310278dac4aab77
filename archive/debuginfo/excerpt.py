"""A source range as PyTorch prints it.

That is ``SourceRange::print_with_context`` in ``torch/csrc/jit/frontend/source_range.cpp``.

All positions are bytes of the text. A range that covers its whole text prints the text alone (in traced
models the text is the Python stack). A range that starts behind its text prints nothing. Any other prints:

1. if a filename is recorded, ``  File "<file>", line <n>, in <function>``;
2. the lines of the range, two lines before them and two behind;
3. under each line of the range a marking: blanks up to the first byte of the range that is no blank, then one
``~``
   a byte, and `` <--- HERE`` behind the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.debuginfo.model import SourceRange

CONTEXT = 3
"""Newlines that PyTorch counts on each side; the first ends the range's own lines."""
UNSIGNED = 1 << 64  # PyTorch counts lines without a sign
HERE = b" <--- HERE\n"


def excerpt(span: SourceRange, function: bytes) -> bytes:
    """A range with its context, as PyTorch prints a frame of a traceback.

    Args:
        span: the range.
        function: the name behind "in"; left out if empty.
    """
    text = bytes(span.source.text)
    if span.end - span.start == len(text):
        return text
    if span.start > len(text):
        return b""
    place = b""
    if span.source.filename is not None:
        line = span.source.starting_line + text.count(b"\n", 0, span.start)
        place = b'  File "%b", line %d' % (bytes(span.source.filename), line % UNSIGNED)
        place += b", in %b\n" % function if function else b"\n"
    return place + marked(text, span.start, min(span.end, len(text)))


def marked(text: bytes, start: int, end: int) -> bytes:
    """The lines of ``text[start:end]`` with their context, and that part marked."""
    out = [text[_context_start(text, start) : start]]
    position = start
    while position < end:
        line_end = _line_end(text, position)
        line = text[position : line_end + 1]
        out.append(line if line.endswith(b"\n") else line + b"\n")
        out.append(_marking(text, start, end, position, line_end))
        position = line_end + 1
    if position <= len(text):
        stop = _context_end(text, end)
        rest = text[position:stop] if stop >= position else text[position:]
        out.append(rest if not rest or rest.endswith(b"\n") else rest + b"\n")
    return b"".join(out)


def _marking(text: bytes, start: int, end: int, position: int, line_end: int) -> bytes:
    """The marking under a line of the range; empty if the range has only blanks there."""
    begin = text.rfind(b"\n", 0, position) + 1
    stop = min(line_end, end)
    blanks = begin
    while blanks < stop and (blanks < start or text[blanks] == ord(" ")):
        blanks += 1
    if blanks == stop:
        return b""
    more = line_end < end and (end == len(text) or bool(text[line_end : end + 1].strip(b" \n")))
    return b" " * (blanks - begin) + b"~" * (stop - blanks) + (b"\n" if more else HERE)


def _line_end(text: bytes, position: int) -> int:
    end = text.find(b"\n", position)
    return len(text) if end < 0 else end


def _context_start(text: bytes, start: int) -> int:
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


def _context_end(text: bytes, end: int) -> int:
    """Where the second line behind that of ``end`` ends, or the text."""
    position = _line_end(text, end)
    for _ in range(CONTEXT - 1):
        if position < len(text):
            position = _line_end(text, position + 1)
    return position
