"""What may be unpacked of a file: so deep, so many streams, so many bytes in all; and what was not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line

if TYPE_CHECKING:
    from archive.base.limits import Allowance

DEEPEST = 4
"""So deep are zips, streams and base64 read that are in one another."""
MOST_STREAMS = 2_000
"""Streams of a file that are unpacked, or tried."""
SHARE = 4
"""The part of the allowed memory that all streams of a file may hold, one after the other."""


class Bounds:
    """Bounds on what is unpacked of a file.

    Args:
        allowance: the memory that the file may cost.

    Attributes:
        problems: what could not be read as it should.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._bytes = allowance.memory // SHARE
        self._streams = MOST_STREAMS
        self._is_told = False
        self.problems: list[str] = []

    @property
    def limit(self) -> int:
        """Bytes that one more stream may hold."""
        return min(self._bytes, self._allowance.memory - self._allowance.taken)

    def spend(self, work: int) -> None:
        """Note bytes that were read and made of a stream."""
        self._bytes -= work

    def may_unpack(self, name: str, depth: int) -> bool:
        """Whether one more stream may be unpacked; if not, that is told once.

        Args:
            name: what the stream is called.
            depth: how many others it is in.
        """
        if depth >= DEEPEST:
            self.tell(name, "packed too deep, not read")
            return False
        if self._streams <= 0 or self._bytes <= 0:
            if not self._is_told:
                self.tell(name, "packed, not read, nor is any behind it: too much in one file")
            self._is_told = True
            return False
        self._streams -= 1
        return True

    def tell(self, name: str, problem: str) -> None:
        """Note what could not be read."""
        self.problems.append(one_line(f"{name}: {problem}" if name else problem))
