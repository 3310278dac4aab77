"""The texts of source ranges, line by line; those of traced operations are Python stacks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.frames import BYTES_CALL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.columns import Ints
    from archive.base.strings import StringTable
    from archive.debuginfo.tables import RangeTable, SourceTable


@dataclass(frozen=True, slots=True)
class RangeTexts:
    """The texts of some sources, line by line. RangeTexts share lines: equal lines are one object.

    Attributes:
        number: the text of each source (s).
        lines: the lines of each text.
        calls: the lines of Python stacks.
    """

    number: Ints
    lines: list[tuple[bytes, ...]]
    calls: set[bytes]

    def are_calls(self, lines: Iterable[bytes]) -> bool:
        """Whether a text is the Python stack of a traced operation."""
        own = [line for line in lines if line]
        return bool(own) and self.calls.issuperset(own)


def called(table: RangeTable) -> set[tuple[bytes, bytes]]:
    """The Python functions in stacks of traced operations, each with its file."""
    with memory.part():
        texts = texts_of(table.sources)
        lines = {line for text in texts.lines if texts.are_calls(text) for line in text}
        return {(call["file"], call["function"]) for call in map(BYTES_CALL.fullmatch, lines) if call}


def texts_of(sources: SourceTable) -> RangeTexts:
    """The texts of sources."""
    known: dict[bytes, int] = {}
    numbers: dict[tuple[bytes, ...], int] = {}
    number: list[int] = []
    cutter = _Cutter(sources.strings)
    for low, high in pairwise(sources.first.tolist()):
        pieces = sources.piece[low:high]
        same = pieces.tobytes()
        if same not in known:
            memory.take(memory.TEXT + len(same), "texts of sources")
            lines = cutter.lines(pieces.tolist())
            if lines not in numbers:
                memory.take(memory.ROW + 3 * memory.NUMBER * len(lines), "texts of sources")
            known[same] = numbers.setdefault(lines, len(numbers))
        number.append(known[same])
    calls = set(filter(BYTES_CALL.fullmatch, cutter.every))
    return RangeTexts(np.array(number, np.int64), list(numbers), calls)


class _Cutter:
    """Cuts texts into lines: each piece once; lines of several pieces are put together once.

    Attributes:
        every: each line.
    """

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._cut: dict[int, list[bytes]] = {}
        self._joined: dict[tuple[bytes, ...], bytes] = {}
        self.every: dict[bytes, bytes] = {}

    def lines(self, pieces: Iterable[int]) -> tuple[bytes, ...]:
        """The lines of a text; the last one is what follows the last line feed."""
        complete: list[bytes] = []
        begun: list[bytes] = []
        for piece in pieces:
            first, *others = self._cut.get(piece) or self._cut_in(piece)
            if first:
                begun.append(first)
            if others:
                complete.append(self._whole(begun))
                complete += others[:-1]
                begun = others[-1:] if others[-1] else []
        return (*complete, self._whole(begun))

    def _cut_in(self, piece: int) -> list[bytes]:
        """The lines of a piece; the first and last may be parts of lines."""
        size = int(self._strings.length[piece])
        with memory.lent(2 * size, "texts of sources"):
            text = bytes(self._strings.data(piece))
            count = text.count(b"\n") + 1
            memory.take(memory.TEXT + 3 * memory.NUMBER * count, "lines of sources")
            with memory.lent(memory.TEXT * count, "lines of sources"):
                lines = text.split(b"\n")
        self._cut[piece] = [self._known(line) for line in lines]
        return self._cut[piece]

    def _whole(self, parts: list[bytes]) -> bytes:
        """A line that was cut into parts."""
        if len(parts) <= 1:
            return parts[0] if parts else b""
        key = tuple(parts)
        if key not in self._joined:
            memory.take(memory.TEXT + 3 * memory.NUMBER * len(parts), "lines of sources")
            with memory.lent(sum(map(len, parts)), "lines of sources"):
                self._joined[key] = self._known(b"".join(parts))
        return self._joined[key]

    def _known(self, line: bytes) -> bytes:
        """A line as it is among all lines."""
        if line not in self.every:
            memory.take(memory.TEXT + 6 * len(line), "lines of sources")
        return self.every.setdefault(line, line)
