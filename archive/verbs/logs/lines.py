"""The lines of a log, read with lookahead; their line ends and the logger's prefix."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINE = 1 << 20
"""Bytes; a longer line is cut in pieces, so that any input needs little memory."""
CHUNK = 1 << 16
"""Bytes that are split into lines at once."""
DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


class Lines:
    """Reads a log line by line.

    Args:
        log: the log, in lines or any other pieces.

    Attributes:
        number: the number of the line taken last, from 1.
    """

    def __init__(self, log: Iterable[bytes]) -> None:
        self.number = 0
        self._lines = _split(log)
        self._ahead: deque[bytes] = deque()

    def peek(self, at: int = 0) -> bytes | None:
        """A line with its line end, so many behind the next one, without taking it; None behind the last."""
        while len(self._ahead) <= at:
            line = next(self._lines, None)
            if line is None:
                return None
            self._ahead.append(line)
        return self._ahead[at]

    def take(self) -> bytes | None:
        """Take the next line, with its line end; None behind the last one."""
        line = self.peek()
        self.skip(1)
        return line

    def number_of(self, line: int) -> int:
        """The number of a line, so many behind the one taken last."""
        return self.number + line

    def skip(self, count: int) -> None:
        """Take so many lines."""
        self.number += count
        for _ in range(min(count, len(self._ahead))):
            self._ahead.popleft()


class InnerLines(Lines):
    """The lines of a text that stands inside of one line of a log, and has its number.

    Args:
        text: the text.
        number: the number of the line.
    """

    def __init__(self, text: bytes, number: int) -> None:
        super().__init__([text])
        self._outer = self.number = number

    def number_of(self, line: int) -> int:  # noqa: ARG002 (all have one number)
        """The number of the outer line."""
        return self._outer

    def skip(self, count: int) -> None:
        """Take so many lines."""
        super().skip(count)
        self.number = self._outer


class Window:
    """Looks at the lines of a log that come next, without taking them.

    Args:
        lines: the log.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._at = 0

    def peek(self) -> bytes | None:
        """The next line with its line end; None behind the last one."""
        return self._lines.peek(self._at)

    def take(self) -> bytes | None:
        """Go behind the next line, and return it; None behind the last one."""
        line = self.peek()
        self._at += 1
        return line

    def again(self) -> Window:
        """The lines from the first one on."""
        return Window(self._lines)


def _split(log: Iterable[bytes]) -> Iterator[bytes]:
    """Split pieces of any size into lines, each with its line end."""
    rest = bytearray()
    for piece in log:
        for start in range(0, len(piece), CHUNK):
            *lines, last = piece[start : start + CHUNK].split(b"\n")
            for line in lines:
                yield bytes(rest) + line + b"\n"
                rest.clear()
            rest += last
            if len(rest) > MAX_LINE:
                yield bytes(rest)
                rest.clear()
    if rest:
        yield bytes(rest)


def has_shape(line: bytes, prefix: bytes) -> bool:
    """Whether a line begins with a prefix. Digits may differ, and blanks at the prefix's end be missing."""
    head = line[: len(prefix)].rstrip(b"\r\n").ljust(len(prefix))
    return head.translate(DIGITS_TO_ZERO) == prefix.translate(DIGITS_TO_ZERO)


def ending(line: bytes) -> bytes:
    """The line end that is used in a line's log."""
    return b"\r\n" if line.endswith(b"\r\n") else b"\n"


def without_end(line: bytes) -> bytes:
    """A line without its line end."""
    return line.removesuffix(b"\n").removesuffix(b"\r")
