"""Bytes -> positions: where each pickle instruction begins.

An instruction's opcode tells its length, so positions form a chain: each is known only from the one before.
Followed byte by byte, that is a Python loop. Here many *lanes* follow it at once, as numpy columns::

    byte          0            256           512           768
    lane          |--- 0 ------|--- 1 -------|--- 2 -------|--- 3 ---
    visited       o---o--o-----|-x--x-o---o--|--o----------|-x--o--o-
    the chain     o---o--o--------------o-o-----o--o~~~~~~~~~~~~o--o-
                               lane 1 starts       a long text: walked
                               amid an             one by one up to
                               instruction         a visited place

Lane *k* starts at byte 256·k, often amid an instruction, and first visits wrong positions (x). But chains
that meet stay together, and after a few steps a lane has met the true chain (o). The lanes are then
*stitched*:

- Where a lane leaves into the next one at a position that the latter visited, the chain *flows* on.
- Elsewhere it *breaks* (GLOBAL, a text longer than a lane): a plain loop walks to the next visited position.
- What a lane visited before the chain entered it is cleared. What stays visited is the answer.

Plainly, one instruction after the other: ``instructions`` in ``tests/support/slow_reader.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, LimitError
from archive.pickles.ops import BINUNICODE, BINUNICODE8, BY_CODE, LONG1, SIZE, STOP, lookup

if TYPE_CHECKING:
    from archive.base.limits import Allowance

LANE, LEAST_LANE = 256, 32
"""Bytes of a lane. Shorter ones meet the chain too late, longer ones are too few. A stretch that is too small
for ``LANES`` of them has shorter ones, for a step takes some µs, however many lanes there are."""
LANES = 16
STRIDES = 16
"""Steps of all lanes at once, before those that have left are taken out."""
KNOWN_OPCODE = np.zeros(256, np.bool_)
KNOWN_OPCODE[list(BY_CODE)] = True
ADVANCE = np.where(KNOWN_OPCODE, SIZE, 1).astype(np.int64)
"""Bytes from an instruction to the next, by code; 0: not told by the code alone, or STOP. Unknown codes count
1, so that a lane which starts amid an instruction gropes on."""
ADVANCE[STOP] = 0
ADVANCES = ADVANCE.tolist()
TEXT_HEAD = 5
"""Bytes of a BINUNICODE before its text: the opcode and a u32, the text's length."""
A_TEXT = 255
"""Stands for BINUNICODE in ``LANE_ADVANCE``: lanes read its length themselves, for texts are frequent."""
LANE_ADVANCE = ADVANCE.astype(np.uint8)
LANE_ADVANCE[BINUNICODE] = A_TEXT


class Walk:
    """One pass over a stretch of bytes: lanes, then stitching.

    Attributes:
        positions: where instructions begin in the data, sorted.
        exit: where the last record's chain left the stretch.
        stopped: whether that was at its STOP.

    Inside, ``start`` and ``end`` are the lanes' bounds and ``left`` is where each lane left, in bytes of the
    data; ``visited`` is a flag for each byte of the stretch, which begins at byte ``low``.
    """

    def __init__(
        self,
        view: memoryview,
        data: np.ndarray,
        entries: np.ndarray,
        names: list[str],
        allowance: Allowance,
        *,
        whole: bool = True,
    ) -> None:
        """Find the instructions.

        Args:
            view: the bytes.
            data: the same as an array.
            entries: where each record begins; the last entry is the end of the stretch.
            names: of the records, for messages.
            allowance: bounds module and name of a GLOBAL.
            whole: whether each record must end in the stretch.

        Raises:
            ArchiveError: a record is empty or has no STOP, or a GLOBAL has no two lines.
        """
        self.view, self.data, self.names, self.allowance, self.whole = view, data, names, allowance, whole
        self.low = int(entries[0])
        self.entries = entries
        self.origin = entries if len(names) > 1 else np.zeros_like(entries)
        lengths = np.diff(entries)
        self.lane = min(LANE, max(LEAST_LANE, int(entries[-1] - self.low) // LANES))
        lanes = -(-lengths // self.lane)
        first = np.cumsum(lanes) - lanes
        inside = np.arange(lanes.sum()) - np.repeat(first, lanes)
        self.start = np.repeat(entries[:-1], lanes) + inside * self.lane
        self.end = np.minimum(self.start + self.lane, np.repeat(entries[1:], lanes))
        self.visited = np.zeros(int(entries[-1]) - self.low, np.bool_)
        self.left = self._run_lanes()
        self.exit, self.stopped = self.low, False
        self.positions = self._stitch(first.tolist(), lanes.tolist(), inside == 0)

    def _run_lanes(self) -> np.ndarray:
        """Follow every lane to its end, or to where it can't go on; returns where each one left."""
        steps = lookup(LANE_ADVANCE, self.data[self.low : self.low + len(self.visited)])
        steps = np.append(steps, np.uint8(0))
        visited = np.zeros(len(steps), np.bool_)
        at, end = self.start - self.low, self.end - self.low
        left: np.ndarray = at.copy()
        active = np.arange(len(left))
        while len(active):
            for _ in range(STRIDES):
                inside = at < end
                spot = np.minimum(at, end)  # a lane that has left marks the next one's start, which is marked
                visited[spot] = True
                step = steps[spot] * inside
                at = at + step
                texts = (step == A_TEXT).nonzero()[0]
                if len(texts):
                    at[texts] += self._text_sizes(spot[texts]) - A_TEXT
            left[active] = at
            going = (at < end) & (step > 0)
            active, at, end = active[going], at[going], end[going]
        self.visited = visited[:-1]
        left += self.low
        return left

    def _text_sizes(self, at: np.ndarray) -> np.ndarray:
        """Bytes of the BINUNICODE instructions at some places of the stretch."""
        if len(self.data) < TEXT_HEAD:
            return np.full(len(at), TEXT_HEAD)
        lengths = np.ndarray(len(self.data) - TEXT_HEAD + 1, "<u4", self.data, offset=1, strides=(1,))
        # a length that the end of the data cuts off leads behind the end, whatever is read of it
        size: np.ndarray = lengths[np.minimum(at + self.low, len(lengths) - 1)].astype(np.int64)
        size += TEXT_HEAD
        return size

    def _stitch(self, first: list[int], lanes: list[int], opens: np.ndarray) -> np.ndarray:
        """Keep the one chain of each record; returns its positions.

        Args:
            first: the first lane of each record.
            lanes: how many lanes each record has.
            opens: whether a lane is the first of its record.
        """
        # Suppose that the chain flows everywhere: it enters each lane where the one before left.
        entered = np.where(opens, self.start, np.roll(self.left, 1))
        joins = opens.copy()
        inner = np.flatnonzero(~opens & (entered >= self.start) & (entered < self.end))
        joins[inner] = self.visited[entered[inner] - self.low]
        flows = (self.left >= self.end) & np.append(joins[1:] & ~opens[1:], False)
        breaks = np.flatnonzero(~flows)
        walked: list[int] = []
        for record, (begin, count) in enumerate(zip(first, lanes, strict=True)):
            if not count:
                raise ArchiveError(
                    record=self.names[record], place="byte 0", expected="a pickle", found="no bytes"
                )
            self._stitch_record(record, range(begin, begin + count), entered, breaks, walked)
        self._clear(np.minimum(entered, self.end))
        self.visited[np.array(walked, np.int64) - self.low] = True
        positions = np.flatnonzero(self.visited)
        positions += self.low
        return positions

    def _stitch_record(
        self, record: int, lanes: range, entered: np.ndarray, breaks: np.ndarray, walked: list[int]
    ) -> None:
        """Follow one record's chain to its STOP or out of the stretch, from break to break.

        Args:
            record: its number.
            lanes: its lanes.
            entered: where the chain enters each lane, or its end if it never does; corrected here.
            breaks: the lanes from which the chain does not flow on.
            walked: receives the positions found one by one.
        """
        begin, end = int(self.entries[record]), int(self.entries[record + 1])
        lane = lanes[0]
        while True:
            lane = int(breaks[np.searchsorted(breaks, lane)])
            behind = slice(lane + 1, lanes[-1] + 1)
            entered[behind] = self.end[behind]  # not entered, as far as is known
            at = self._walk_on(record, lane, walked)
            if self.stopped:
                return
            if at >= end:
                self._leave(record, at)
                return
            lane = lanes[0] + (at - begin) // self.lane
            until = int(breaks[np.searchsorted(breaks, lane)])
            entered[lane] = at
            entered[lane + 1 : until + 1] = self.left[lane:until]

    def _walk_on(self, record: int, lane: int, walked: list[int]) -> int:
        """Step from where a lane left to the next visited position, the record's end, or behind its STOP."""
        low, view, end = self.low, self.view, int(self.entries[record + 1])
        seen = self.visited.view(np.uint8).data
        at = int(self.left[lane])
        stuck = at < self.end[lane]  # at an instruction that it visited, but could not step over
        self.stopped = False
        while at < end and (stuck or not seen[at - low]):
            op = view[at]
            if not stuck:
                walked.append(at)
            stuck = False
            if op == STOP:
                self.exit, self.stopped = at + 1, True
                return at + 1
            at += ADVANCES[op] or self._length(record, at, op)
        return at

    def _leave(self, record: int, at: int) -> None:
        """The chain leaves the stretch without a STOP: allowed only if the record goes on behind it."""
        if self.whole:
            end = int(self.entries[record + 1]) - int(self.origin[record])
            raise ArchiveError(
                "the pickle ends before its STOP", record=self.names[record], place=f"byte {end}"
            )
        self.exit = at

    def _clear(self, until: np.ndarray) -> None:
        """Forget what each lane visited before the chain entered it, at ``until``."""
        gaps = until - self.start
        first = self.start - self.low
        if gaps.sum() > len(self.visited) >> 2:  # long texts: few positions in many bytes
            visited = np.flatnonzero(self.visited)
            begin = np.searchsorted(visited, first)
            gaps = np.searchsorted(visited, until - self.low) - begin
            self.visited[visited[_spans(begin, gaps)]] = False
        else:
            self.visited[_spans(first, gaps)] = False

    def _length(self, record: int, at: int, op: int) -> int:
        """Bytes of an instruction whose argument tells its length."""
        view = self.view
        if op == BINUNICODE:
            return 5 + int.from_bytes(view[at + 1 : at + 5], "little")
        if op == BINUNICODE8:
            return 9 + int.from_bytes(view[at + 1 : at + 9], "little")
        if op == LONG1:
            return 2 + (view[at + 1] if at + 1 < len(view) else 0)
        return self._global_length(record, at)

    def _global_length(self, record: int, at: int) -> int:
        """Bytes of a GLOBAL: the opcode, and two lines with their newlines."""
        most = self.allowance.limits.name_bytes
        lines = bytes(self.view[at + 1 : at + 1 + most])
        module_end = lines.find(b"\n")
        name_end = lines.find(b"\n", module_end + 1)
        if name_end > module_end >= 0:
            return 2 + name_end
        where = {"record": self.names[record], "place": f"byte {at - int(self.origin[record])}"}
        if len(lines) == most:
            raise LimitError("name_bytes", most, most + 1, record=where["record"], place=where["place"])
        raise ArchiveError("expected two lines behind GLOBAL", **where)


def _spans(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The numbers of all spans, one span behind the other: ``length[i]`` of them from ``first[i]`` on."""
    ends = np.cumsum(length)
    numbers: np.ndarray = np.arange(ends[-1]) + np.repeat(first - ends + length, length)
    return numbers
