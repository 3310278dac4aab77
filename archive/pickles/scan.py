"""Bytes -> tokens: where each pickle instruction begins, and its argument, as columns.

The texts themselves are jumped over, never copied. Small records are joined for the scan, so that
hundreds of them cost about as much as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError, LimitError
from archive.pickles.ops import BY_CODE, CODE, Argument, lookup
from archive.pickles.walk import KNOWN_OPCODE, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.limits import Limits

WINDOW = 1 << 22
JOINED = 1 << 16
PROTOCOL = 2
PROTO = CODE["PROTO"]
SLOW = 255
NUMBER_SIZE = {
    Argument.NONE: 0,
    Argument.U8: 1,
    Argument.U16: 2,
    Argument.I32: 4,
    Argument.U32: 4,
    Argument.TEXT32: 4,
    Argument.TEXT64: 8,
}
NUMBER_WIDTH = np.zeros(256, np.uint8)
NUMBER_WIDTH[list(BY_CODE)] = [NUMBER_SIZE.get(op.argument, SLOW) for op in BY_CODE.values()]
BININT = CODE["BININT"]


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


class _WideIntError(Exception):
    """The integer at byte ``at`` of a stretch has ``size`` bytes and does not fit into 64 bits."""

    def __init__(self, at: int, size: int) -> None:
        super().__init__(at, size)
        self.at, self.size = at, size


def scan(pickles: Sequence[Pickle], limits: Limits) -> Tokens:
    """Find all instructions of some pickles.

    Args:
        pickles: records with their bytes.
        limits: ``pickle_ops`` bounds the number of tokens, ``global_bytes`` their names.

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
        own = [pickles[member] for member in members]
        joined = own[0].data if len(own) == 1 else memoryview(b"".join(pickle.data for pickle in own))
        data = np.frombuffer(joined, np.uint8)
        start = int(base[members[0]])
        entries = base[members[0] : members[-1] + 2] - start
        tokens = np.zeros(len(members), np.int64)
        for positions in _positions(joined, data, entries, [pickle.name for pickle in own], limits):
            total += len(positions)
            if total > limits.pickle_ops:
                where = _place(own, entries, int(positions[limits.pickle_ops - total]))
                raise LimitError("pickle_ops", limits.pickle_ops, total, **where)
            op = data[positions]
            ops.append(op)
            try:
                args.append(_arguments(data, op, positions, limits))
            except _WideIntError as error:
                where = _place(own, entries, error.at)
                raise ArchiveError(
                    expected="an integer of 64 bits", found=f"one of {error.size} bytes", **where
                ) from None
            ats.append(positions + start if start else positions)
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
    unknown = np.flatnonzero(~lookup(KNOWN_OPCODE, found.op))
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


def _place(pickles: list[Pickle], entries: np.ndarray, at: int) -> dict[str, str]:
    """Record and byte of a position in several joined pickles."""
    member = int(np.searchsorted(entries, at, "right")) - 1
    return {"record": pickles[member].name, "place": f"byte {at - int(entries[member])}"}


def _joined(chunks: list[np.ndarray], dtype: type[np.generic]) -> np.ndarray:
    if len(chunks) == 1:
        return chunks[0]
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
    view: memoryview, data: np.ndarray, entries: np.ndarray, names: list[str], limits: Limits
) -> Iterator[np.ndarray]:
    """The instructions' positions of joined records, or of one record window by window."""
    if len(names) > 1:
        yield Walk(view, data, entries, names, limits).positions
        return
    at, end = 0, len(view)
    while at < end:
        stop = min(at + WINDOW, end)
        walk = Walk(view, data, np.array([at, stop]), names, limits, whole=stop == end)
        yield walk.positions
        if walk.stopped:
            return
        at = walk.exit
    raise ArchiveError("the pickle ends before its STOP", record=names[0], place=f"byte {end}")


def _arguments(data: np.ndarray, op: np.ndarray, at: np.ndarray, limits: Limits) -> np.ndarray:
    """The numbers behind the opcodes."""
    width = lookup(NUMBER_WIDTH, op)
    spots = at + 1
    if len(spots) and spots[-1] == len(data):
        spots[-1] = 0  # of an opcode without argument, or cut off by the end, which is refused later
    arg: np.ndarray = data[spots].astype(np.int64)
    arg *= width > 0
    for size in (2, 4, 8):
        where = np.flatnonzero(width == size)
        for byte in range(1, size if len(where) else 1):
            more = data[np.minimum(spots[where] + byte, len(data) - 1)]
            arg[where] |= more.astype(np.int64) << (8 * byte)
    signed = np.flatnonzero(op == BININT)
    arg[signed] = arg[signed].astype(np.int32)
    for token in np.flatnonzero(width == SLOW).tolist():
        arg[token] = _slow_argument(data, BY_CODE[int(op[token])].argument, int(spots[token]), limits)
    return arg


def _slow_argument(data: np.ndarray, argument: Argument, at: int, limits: Limits) -> int:
    if argument == Argument.F64:
        return int.from_bytes(data[at : at + 8].tobytes(), "big", signed=True)
    if argument == Argument.LINES:
        lines = data[at : at + limits.global_bytes].tobytes()
        return lines.find(b"\n", lines.find(b"\n") + 1) + 1
    size = int(data[at])
    value = int.from_bytes(data[at + 1 : at + 1 + size].tobytes(), "little", signed=True)
    if not -(1 << 63) <= value < 1 << 63:
        raise _WideIntError(at - 1, size)
    return value
