"""Bytes -> positions: where each pickle instruction begins.

An instruction's length follows from its opcode, so positions are a chain: each known only from the
one before. It is followed in many *lanes* at once: lane *k* starts at byte 256·k, which may be the
middle of an instruction; but chains that meet stay together, and they meet after a few steps. Where
the chain of one lane enters the next one at a position that lane has visited, the two are one chain.
Where it does not (texts, names), a plain loop walks on until it meets a visited position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, LimitError
from archive.pickles.ops import BY_CODE, CODE, SIZE, lookup

if TYPE_CHECKING:
    from archive.base.limits import Limits

LANE = 256
STOP, GLOBAL = CODE["STOP"], CODE["GLOBAL"]
TEXT32, TEXT64, LONG1 = CODE["BINUNICODE"], CODE["BINUNICODE8"], CODE["LONG1"]
KNOWN_OPCODE = np.isin(np.arange(256), list(BY_CODE))
ADVANCE = np.where(KNOWN_OPCODE, SIZE, 1).astype(np.int64)  # a lane that starts amid an instruction gropes on
ADVANCE[STOP] = 0
ADVANCES = ADVANCE.tolist()
A_TEXT = 255
STRIDES = 16  # of all lanes, before those that have left are taken out
LANE_ADVANCE = ADVANCE.astype(np.uint8)
LANE_ADVANCE[TEXT32] = A_TEXT


class Walk:
    """One pass over a stretch of bytes: lanes, then stitching.

    ``entries``: where each record begins, and behind them the end of the stretch. ``whole``: whether
    each record must end inside. ``exit`` and ``stopped``: where the last record's chain left the
    stretch, and whether that was at its STOP.
    """

    def __init__(
        self,
        view: memoryview,
        data: np.ndarray,
        entries: np.ndarray,
        names: list[str],
        limits: Limits,
        *,
        whole: bool = True,
    ) -> None:
        self.view, self.data, self.names, self.limits, self.whole = view, data, names, limits, whole
        self.low = int(entries[0])
        self.entries = entries
        self.origin = entries if len(names) > 1 else np.zeros_like(entries)
        lengths = np.diff(entries)
        lanes = -(-lengths // LANE)
        first = np.cumsum(lanes) - lanes
        inside = np.arange(lanes.sum()) - np.repeat(first, lanes)
        self.start = np.repeat(entries[:-1], lanes) + inside * LANE
        self.end = np.minimum(self.start + LANE, np.repeat(entries[1:], lanes))
        self.visited = np.zeros(int(entries[-1]) - self.low, np.bool_)
        self.left = self._run_lanes()
        self.exit, self.stopped = self.low, False
        self.positions = self._stitch(first.tolist(), lanes.tolist(), inside == 0)

    def _run_lanes(self) -> np.ndarray:
        """Follow every lane to its end or to where it can't go on; returns where each one left."""
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
                if (step == A_TEXT).any():
                    texts = np.flatnonzero(step == A_TEXT)
                    at[texts] += self._text_sizes(spot[texts]) - A_TEXT
            left[active] = at
            going = (at < end) & (step > 0)
            active, at, end = active[going], at[going], end[going]
        self.visited = visited[:-1]
        left += self.low
        return left

    def _text_sizes(self, at: np.ndarray) -> np.ndarray:
        """Bytes of the BINUNICODE instructions at some places of the stretch."""
        at = at + self.low
        last = len(self.data) - 1
        size = np.full(len(at), 5)
        for byte in range(4):
            size += self.data[np.minimum(at + 1 + byte, last)].astype(np.int64) << (8 * byte)
        return size

    def _stitch(self, first: list[int], lanes: list[int], opens: np.ndarray) -> np.ndarray:
        """Keep of the lanes' chains what is the one chain of each record; its positions, sorted."""
        entered = np.where(opens, self.start, np.roll(self.left, 1))
        joins = opens.copy()
        inner = np.flatnonzero(~opens & (entered >= self.start) & (entered < self.end))
        joins[inner] = self.visited[entered[inner] - self.low]
        flows = (self.left >= self.end) & np.append(joins[1:] & ~opens[1:], False)
        breaks = np.flatnonzero(~flows)
        extra: list[int] = []
        for record, (begin, count) in enumerate(zip(first, lanes, strict=True)):
            if not count:
                raise ArchiveError(
                    record=self.names[record], place="byte 0", expected="a pickle", found="no bytes"
                )
            self._stitch_record(record, range(begin, begin + count), entered, breaks, extra)
        self._clear(np.minimum(entered, self.end))
        self.visited[np.array(extra, np.int64) - self.low] = True
        positions = np.flatnonzero(self.visited)
        positions += self.low
        return positions

    def _clear(self, until: np.ndarray) -> None:
        """Forget what lanes visited before the one chain entered them."""
        gaps = until - self.start
        first = self.start - self.low
        if gaps.sum() > len(self.visited) >> 2:  # long texts
            visited = np.flatnonzero(self.visited)
            begin = np.searchsorted(visited, first)
            gaps = np.searchsorted(visited, until - self.low) - begin
            self.visited[visited[_spans(begin, gaps)]] = False
        else:
            self.visited[_spans(first, gaps)] = False

    def _stitch_record(
        self, record: int, lanes: range, entered: np.ndarray, breaks: np.ndarray, extra: list[int]
    ) -> None:
        low, view = self.low, self.view
        begin, end = int(self.entries[record]), int(self.entries[record + 1])
        seen = self.visited.view(np.uint8).data
        lane = lanes[0]
        while True:
            lane = int(breaks[np.searchsorted(breaks, lane)])
            at = int(self.left[lane])
            stuck = at < self.end[lane]
            entered[lane + 1 : lanes[-1] + 1] = self.end[lane + 1 : lanes[-1] + 1]
            while at < end and (stuck or not seen[at - low]):
                op = view[at]
                if not stuck:
                    extra.append(at)
                stuck = False
                if op == STOP:
                    self.exit, self.stopped = at + 1, True
                    return
                at += ADVANCES[op] or self._length(record, at, op)
            if at >= end:
                if self.whole:
                    raise ArchiveError(
                        "the pickle ends before its STOP",
                        record=self.names[record],
                        place=f"byte {end - int(self.origin[record])}",
                    )
                self.exit, self.stopped = at, False
                return
            lane = lanes[0] + (at - begin) // LANE
            resumed = np.searchsorted(breaks, lane)
            until = int(breaks[resumed])
            entered[lane] = at
            entered[lane + 1 : until + 1] = self.left[lane:until]

    def _length(self, record: int, at: int, op: int) -> int:
        """Bytes of an instruction whose argument says how long it is."""
        view = self.view
        if op == TEXT32:
            return 5 + int.from_bytes(view[at + 1 : at + 5], "little")
        if op == TEXT64:
            return 9 + int.from_bytes(view[at + 1 : at + 9], "little")
        if op == LONG1:
            return 2 + (view[at + 1] if at + 1 < len(view) else 0)
        most = self.limits.global_bytes
        lines = bytes(view[at + 1 : at + 1 + most])
        end = lines.find(b"\n", lines.find(b"\n") + 1)
        if end <= lines.find(b"\n"):
            where = {"record": self.names[record], "place": f"byte {at - int(self.origin[record])}"}
            if len(lines) == most:
                raise LimitError("global_bytes", most, most + 1, **where)
            raise ArchiveError("expected two lines behind GLOBAL", **where)
        return 2 + end


def _spans(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The numbers of all spans, one span behind the other."""
    ends = np.cumsum(length)
    numbers: np.ndarray = np.arange(ends[-1]) + np.repeat(first - ends + length, length)
    return numbers
