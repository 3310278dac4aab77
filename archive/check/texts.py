"""Texts of debug records: checks that they are UTF-8, and compares sources by content."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints
    from archive.base.limits import Limits
    from archive.base.strings import StringTable
    from archive.check.diagnostic import Diagnostics
    from archive.debuginfo.tables import SourceTable

CHUNK_BYTES = 1 << 24
"""Bytes looked at together; bounds the memory for large buffers."""


def check_texts(strings: StringTable, records: Sequence[str], report: Diagnostics) -> None:
    """Warn about texts that are not UTF-8; PyTorch reads any bytes.

    Args:
        strings: the texts, in the order in which they stand in their buffers.
        records: the name of the record that each buffer holds.
        report: takes the diagnostics.
    """
    bounds = np.searchsorted(strings.buffer, np.arange(len(strings.buffers) + 1))
    for number, (record, buffer) in enumerate(zip(records, strings.buffers, strict=True)):
        own = slice(int(bounds[number]), int(bounds[number + 1]))
        wrong: dict[int, str] = {}
        for index in _beyond_ascii(buffer, strings.start[own], strings.length[own]).tolist():
            try:
                str(strings.data(own.start + index), "utf-8")
            except UnicodeDecodeError as error:
                at = int(strings.start[own.start + index]) + error.start
                wrong[at] = f"expected UTF-8, found 0x{buffer[at]:02x} ({error.reason})"

        def describe(at: int, wrong: dict[int, str] = wrong) -> tuple[str, str]:
            return f"byte {at}", wrong[at]

        report.add_each("warning", record, "texts that are not UTF-8", list(wrong), describe)


def _beyond_ascii(buffer: memoryview, start: Ints, length: Ints) -> Ints:
    """The numbers of a buffer's strings that have bytes from 0x80 on, sorted."""
    data = np.frombuffer(buffer, np.uint8)
    found = [np.zeros(0, np.int64)]
    for low in range(0, len(data) if len(start) else 0, CHUNK_BYTES):
        at = np.flatnonzero(data[low : low + CHUNK_BYTES] >= 0x80) + low  # noqa: PLR2004 (ASCII ends there)
        owner = np.searchsorted(start, at, "right") - 1
        inside = (owner >= 0) & (at < (start + length)[owner])
        found.append(np.unique(owner[inside]))
    return np.unique(np.concatenate(found))


class SourceContents:
    """Compares the sources of a table by content, each of which is digested once.

    A source without filename equals one with an empty filename: PyTorch reads either as empty, and string
    tables have only the empty one.

    Attributes:
        skipped: the number of sources that were not compared, because of the limit ``compared_bytes``.
    """

    __slots__ = ("_digests", "_left", "_sources", "skipped")

    def __init__(self, sources: SourceTable, limits: Limits) -> None:
        self.skipped = 0
        self._sources = sources
        self._left = limits.compared_bytes
        self._digests: dict[int, bytes | None] = {}

    def equal(self, first: Ints, second: Ints) -> np.ndarray:
        """Whether sources are equal, pair by pair (n); pairs that are not compared count as equal."""
        line, lengths = self._sources.line, self._sources.lengths
        same: np.ndarray = (line[first] == line[second]) & (lengths[first] == lengths[second])
        doubtful = np.flatnonzero(same & (first != second))
        size = len(self._sources)
        pairs, back = np.unique(first[doubtful] * size + second[doubtful], return_inverse=True)
        answers = [self._equal(*divmod(pair, size)) for pair in pairs.tolist()]
        same[doubtful] = np.array(answers, np.bool_)[back]
        return same

    def _equal(self, first: int, second: int) -> bool:
        one, other = self._digest(first), self._digest(second)
        return one is None or other is None or one == other

    def _digest(self, index: int) -> bytes | None:
        if index not in self._digests:
            self._digests[index] = self._computed(index)
        return self._digests[index]

    def _computed(self, index: int) -> bytes | None:
        """The digest of a source's filename and text; None beyond the limit."""
        sources, strings = self._sources, self._sources.strings
        filename = int(sources.filename[index])
        name = b"" if filename < 0 else strings.data(filename)
        cost = len(name) + int(sources.lengths[index])
        if cost > self._left:
            self.skipped += 1
            return None
        self._left -= cost
        state = hashlib.blake2b(name, digest_size=16)
        state.update(b"\0")
        for piece in sources.piece[int(sources.first[index]) : int(sources.first[index + 1])].tolist():
            state.update(strings.data(piece))
        return state.digest()
