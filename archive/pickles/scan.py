"""Bytes -> tokens: where each pickle instruction begins, and its argument, as columns.

An instruction's length follows from its opcode, so positions are a chain: each known only from the
one before. It is followed in many *lanes* at once: lane *k* starts at byte 256·k, which may be the
middle of an instruction; but chains that meet stay together, and they meet after a few steps. Where
the chain of one lane enters the next one at a position that lane has visited, the two are one chain.
Where it does not (texts, names), a plain loop walks on until it meets a visited position.

The texts themselves are jumped over, never copied. Small records are joined for the scan, so that
hundreds of them cost about as much as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.errors import ArchiveError, LimitError
from archive.pickles.ops import BY_CODE, CODE, SIZE, Argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.limits import Limits

LANE = 256
WINDOW = 1 << 22
JOINED = 1 << 16
MAX_NAME = 4096
PROTOCOL = 2
PROTO, STOP, GLOBAL = CODE["PROTO"], CODE["STOP"], CODE["GLOBAL"]
TEXT32, TEXT64, LONG1 = CODE["BINUNICODE"], CODE["BINUNICODE8"], CODE["LONG1"]
KNOWN = np.isin(np.arange(256), list(BY_CODE))
STEP = np.where(KNOWN, SIZE, 1).astype(np.int64)  # a lane that starts amid an instruction gropes on
STEP[STOP] = 0
STEPS = STEP.tolist()


class Pickle(NamedTuple):
    """A record's name, for messages, and its bytes."""

    name: str
    data: memoryview


@dataclass(frozen=True, slots=True)
class Tokens:
    """The instructions of several pickles, one after the other.

    Attributes:
        pickles: what was scanned (p pickles).
        base: where each pickle would start if all stood in one buffer (p + 1 bytes positions).
        first: index of each pickle's first token (p + 1).
        op: opcode (n tokens).
        at: position of the opcode in that one buffer (n).
        arg: its number (n): an integer's value, a memo index, a text's length in bytes, a float's
            bits, the length of a global's two lines.
    """

    pickles: tuple[Pickle, ...]
    base: np.ndarray
    first: np.ndarray
    op: np.ndarray
    at: np.ndarray
    arg: np.ndarray

    def place(self, token: int) -> tuple[str, int]:
        """The record's name and the byte inside it at which a token stands."""
        pickle = int(np.searchsorted(self.first, token, "right")) - 1
        return self.pickles[pickle].name, int(self.at[token] - self.base[pickle])

    def fault(self, token: int, problem: str) -> ArchiveError:
        """An error at a token."""
        name, at = self.place(token)
        return ArchiveError(problem, record=name, place=f"byte {at}")


def scan(pickles: Sequence[Pickle], limits: Limits) -> Tokens:
    """Find all instructions of some pickles.

    Args:
        pickles: records with their bytes.
        limits: ``pickle_ops`` bounds the number of tokens.

    Raises:
        ArchiveError: an unknown opcode, no PROTO 2 in front, or no STOP before the end.
    """
    sizes = [len(pickle.data) for pickle in pickles]
    base = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    counts: list[int] = []
    ops: list[np.ndarray] = []
    ats: list[np.ndarray] = []
    args: list[np.ndarray] = []
    total = 0
    for members in _groups(sizes):
        joined = (
            pickles[members[0]].data
            if len(members) == 1
            else memoryview(b"".join(pickles[i].data for i in members))
        )
        data = np.frombuffer(joined, np.uint8)
        start = int(base[members[0]])
        entries = base[members[0] : members[-1] + 2] - start
        tokens = np.zeros(len(members), np.int64)
        for positions in _positions(joined, data, entries, [pickles[i].name for i in members]):
            total += len(positions)
            if total > limits.pickle_ops:
                raise LimitError("pickle_ops", limits.pickle_ops, total)
            op = data[positions]
            ops.append(op)
            args.append(_arguments(data, op, positions))
            ats.append(positions + start)
            if len(members) == 1:
                tokens[0] += len(positions)
            else:
                tokens = np.diff(np.searchsorted(positions, entries))
        counts += tokens.tolist()
    found = Tokens(
        tuple(pickles),
        base,
        np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        _joined(ops, np.uint8),
        _joined(ats, np.int64),
        _joined(args, np.int64),
    )
    unknown = np.flatnonzero(~KNOWN[found.op])
    if len(unknown):
        token = int(unknown[0])
        raise found.fault(
            token, f"expected a pickle opcode that PyTorch knows, found 0x{found.op[token]:02x}"
        )
    protocols = np.flatnonzero(found.op == PROTO)
    if not np.array_equal(protocols, found.first[:-1]):
        stray = np.setxor1d(protocols, found.first[:-1])
        raise found.fault(int(stray[0]), "a pickle starts with PROTO and has no other")
    if np.any(found.arg[protocols] != PROTOCOL):
        wrong = int(protocols[found.arg[protocols] != PROTOCOL][0])
        raise found.fault(wrong, f"expected pickle protocol 2, found {found.arg[wrong]}")
    return found


def _joined(chunks: list[np.ndarray], dtype: type[np.generic]) -> np.ndarray:
    return np.concatenate(chunks) if chunks else np.zeros(0, dtype)


def _groups(sizes: list[int]) -> Iterator[list[int]]:
    """Neighbouring small records together, large ones alone."""
    group: list[int] = []
    held = 0
    for index, size in enumerate(sizes):
        if group and (size > JOINED or held + size > WINDOW):
            yield group
            group, held = [], 0
        group.append(index)
        held += size
        if size > JOINED:
            yield group
            group, held = [], 0
    if group:
        yield group


def _positions(
    view: memoryview, data: np.ndarray, entries: np.ndarray, names: list[str]
) -> Iterator[np.ndarray]:
    """The instructions' positions of joined records, or of one record window by window."""
    if len(names) > 1:
        yield _Walk(view, data, entries, names).positions
        return
    at, end = 0, len(view)
    while at < end:
        stop = min(at + WINDOW, end)
        walk = _Walk(view, data, np.array([at, stop]), names, whole=stop == end)
        yield walk.positions
        if walk.stopped:
            return
        at = walk.exit
    raise ArchiveError("the pickle ends before its STOP", record=names[0], place=f"byte {end}")


class _Walk:
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
        *,
        whole: bool = True,
    ) -> None:
        self.view, self.data, self.names, self.whole = view, data, names, whole
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
        left: np.ndarray = self.start.copy()
        active = np.arange(len(left))
        at, end = self.start, self.end
        last = len(self.data) - 1
        while len(active):
            self.visited[at - self.low] = True
            op = self.data[at]
            step = STEP[op]
            texts = np.flatnonzero(op == TEXT32)
            if len(texts):
                step[texts] = 5
                for byte in range(4):
                    more = self.data[np.minimum(at[texts] + 1 + byte, last)].astype(np.int64)
                    step[texts] += more << (8 * byte)
            at = at + step
            going = (at < end) & (step > 0)
            if not going.all():
                gone = ~going
                left[active[gone]] = at[gone]
                active, at, end = active[going], at[going], end[going]
        return left

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
                raise ArchiveError("expected a pickle, found no bytes", record=self.names[record])
            self._stitch_record(record, range(begin, begin + count), entered, breaks, extra)
        positions = np.flatnonzero(self.visited) + self.low
        counts = np.diff(np.append(np.searchsorted(positions, self.start), len(positions)))
        positions = positions[positions >= np.repeat(entered, counts)]
        if not extra:
            return positions
        walked = np.array(extra, np.int64)
        return np.sort(np.concatenate((positions, walked)), kind="stable")

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
                at += STEPS[op] or self._length(record, at, op)
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
        lines = bytes(view[at + 1 : at + 1 + MAX_NAME])
        end = lines.find(b"\n", lines.find(b"\n") + 1)
        if end <= lines.find(b"\n"):
            raise ArchiveError(
                f"expected two lines of at most {MAX_NAME} bytes behind GLOBAL",
                record=self.names[record],
                place=f"byte {at - int(self.origin[record])}",
            )
        return 2 + end


def _arguments(data: np.ndarray, op: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The numbers behind the opcodes."""
    arg = np.zeros(len(op), np.int64)
    for code in np.flatnonzero(np.bincount(op, minlength=256)).tolist():
        argument = BY_CODE[code].argument if code in BY_CODE else Argument.NONE
        if argument == Argument.NONE:
            continue
        where = np.flatnonzero(op == code)
        spots = at[where] + 1
        if argument == Argument.U8:
            arg[where] = data[spots]
        elif argument == Argument.U16:
            arg[where] = _little(data, spots, 2)
        elif argument in (Argument.U32, Argument.TEXT32):
            arg[where] = _little(data, spots, 4)
        elif argument == Argument.I32:
            arg[where] = _little(data, spots, 4).astype(np.int32)
        elif argument == Argument.TEXT64:
            arg[where] = _little(data, spots, 8)
        else:
            arg[where] = [_slow_argument(data, argument, spot) for spot in spots.tolist()]
    return arg


def _little(data: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    at = np.minimum(at, len(data) - size)  # an instruction cut off by the end is refused later
    value: np.ndarray = data[at].astype(np.int64)
    for byte in range(1, size):
        value |= data[at + byte].astype(np.int64) << (8 * byte)
    return value


def _slow_argument(data: np.ndarray, argument: Argument, at: int) -> int:
    if argument == Argument.F64:
        return int.from_bytes(data[at : at + 8].tobytes(), "big", signed=True)
    if argument == Argument.LINES:
        lines = data[at : at + MAX_NAME].tobytes()
        return lines.find(b"\n", lines.find(b"\n") + 1) + 1
    size = int(data[at])
    value = int.from_bytes(data[at + 1 : at + 1 + size].tobytes(), "little", signed=True)
    if not -(1 << 63) <= value < 1 << 63:
        raise ArchiveError(expected="an integer of 64 bits", found=f"{size} bytes", place=f"byte {at - 1}")
    return value
