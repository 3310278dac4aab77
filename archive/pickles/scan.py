"""Bytes -> tokens: each pickle instruction's opcode, position and argument, as columns.

``walk`` finds the positions. Texts are jumped over, never copied. Small records are joined before the scan,
so that hundreds of them cost about as much as one; large ones are scanned window by window, which bounds
memory.

Plainly, one instruction after the other: ``instructions`` in ``tests/support/slow_reader.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.columns import joined
from archive.base.errors import ArchiveError
from archive.pickles.ops import BININT, BY_CODE, PROTO, Argument, lookup
from archive.pickles.walk import KNOWN_OPCODE, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.limits import Allowance

WINDOW = 1 << 19
"""Bytes that are scanned at once."""
JOINED = 1 << 16
"""Bytes up to which records are joined."""
PROTOCOL = 2
TOKEN_BYTES = 46
"""Bytes of memory that an opcode costs while its pickle becomes a tree; twice as many where positions in it
take 64 bits."""
COMPACT, LARGE = 1 << 18, 1 << 30
"""Bytes of pickles between which positions in them, and the numbers of values and children, take 32 bits.

Fewer cost little memory, and numpy looks up sooner by 64; more need those."""
SLOW = 255
"""Stands in ``NUMBER_WIDTH`` for arguments that are read one by one."""
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
"""Bytes of the number behind an opcode, by code."""


class Pickle(NamedTuple):
    """A record's name, for messages, and its bytes."""

    name: str
    data: memoryview


@dataclass(frozen=True, slots=True)
class Tokens:
    """The instructions of several pickles, one after the other.

    Attributes:
        pickles: the records (p).
        base: where each pickle would start if all stood in one buffer, in bytes (p + 1).
        first: index of each pickle's first token (p + 1).
        op: opcode (n tokens).
        at: position of the opcode in that one buffer (n).
        arg: the opcode's argument (n): an integer's value, a memo index, a text's length in bytes, a
            float's bits, or the bytes of a global's two lines; of 32 bits where that suffices.
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
    """The integer at byte ``at`` of a stretch has ``size`` bytes: its value needs more than 64 bits."""

    def __init__(self, at: int, size: int) -> None:
        super().__init__(at, size)
        self.at, self.size = at, size


def scan(pickles: Sequence[Pickle], allowance: Allowance) -> Tokens:
    """Find all instructions of some pickles.

    Args:
        pickles: records with their bytes.
        allowance: the memory that they may cost, and the length of names.

    Raises:
        ArchiveError: an unknown opcode, no PROTO 2 in front, or no STOP before the end.
        LimitError: too many tokens, or a global too long.
    """
    sizes = [len(pickle.data) for pickle in pickles]
    base = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    scanner = _Scanner(index_type(int(base[-1])), allowance)
    for members in _groups(sizes):
        entries = base[members[0] : members[-1] + 2]
        scanner.add([pickles[member] for member in members], entries)
    tokens = Tokens(
        tuple(pickles),
        base,
        np.concatenate(([0], np.cumsum(scanner.counts, dtype=np.int64))),
        joined(scanner.ops, np.uint8),
        joined(scanner.ats, scanner.index),
        joined(scanner.args, np.int32),
    )
    _check(tokens)
    return tokens


class _Scanner:
    """Collects the columns of tokens, group by group.

    Attributes:
        counts: tokens of each pickle so far.
        ops: opcodes, window by window; likewise ``ats``, their positions, and ``args``, their arguments.
    """

    def __init__(self, index: type[np.signedinteger], allowance: Allowance) -> None:
        self.index = index
        self.allowance = allowance
        self.counts: list[int] = []
        self.ops: list[np.ndarray] = []
        self.ats: list[np.ndarray] = []
        self.args: list[np.ndarray] = []

    def add(self, pickles: list[Pickle], base: np.ndarray) -> None:
        """Scan some pickles as one stretch; ``base``: their positions, and where the last one ends."""
        view = pickles[0].data
        if len(pickles) > 1:
            view = memoryview(b"".join(pickle.data for pickle in pickles))
        data = np.frombuffer(view, np.uint8)
        start = int(base[0])
        entries = base - start
        counts = np.zeros(len(pickles), np.int64)
        for positions in _positions(view, data, entries, [pickle.name for pickle in pickles], self.allowance):
            self._ask(positions, pickles, entries)
            op = data[positions]
            self.ops.append(op)
            try:
                self.args.append(_narrow(_arguments(data, op, positions, self.allowance)))
            except _WideIntError as error:
                raise ArchiveError(
                    expected="an integer of 64 bits",
                    found=f"one of {error.size} bytes",
                    **_place(pickles, entries, error.at),
                ) from None
            self.ats.append((positions + start).astype(self.index))
            # several windows of one pickle, or one window of several pickles
            counts += len(positions) if len(pickles) == 1 else np.diff(np.searchsorted(positions, entries))
        self.counts += counts.tolist()

    def _ask(self, positions: np.ndarray, pickles: list[Pickle], entries: np.ndarray) -> None:
        """Ask for the memory of some tokens, and of all that is made of them."""
        where = _place(pickles, entries, int(positions[0])) if len(positions) else {}
        each = TOKEN_BYTES * np.dtype(self.index).itemsize // 4
        self.allowance.take(each * len(positions), "pickle opcodes", **where)


def _check(tokens: Tokens) -> None:
    """Refuse unknown opcodes, and pickles that do not begin with PROTO 2."""
    unknown = np.flatnonzero(~lookup(KNOWN_OPCODE, tokens.op))
    if len(unknown):
        token = int(unknown[0])
        code = f"0x{tokens.op[token]:02x}"
        raise tokens.fault(token, f"expected a pickle opcode that PyTorch knows, found {code}")
    protocols = np.flatnonzero(tokens.op == PROTO)
    if not np.array_equal(protocols, tokens.first[:-1]):
        stray = np.setxor1d(protocols, tokens.first[:-1])
        raise tokens.fault(int(stray[0]), "a pickle starts with PROTO and has no other")
    wrong = protocols[tokens.arg[protocols] != PROTOCOL]
    if len(wrong):
        token = int(wrong[0])
        raise tokens.fault(token, f"expected pickle protocol 2, found {tokens.arg[token]}")


def _place(pickles: list[Pickle], entries: np.ndarray, at: int) -> dict[str, str]:
    """Record and byte of a position in several joined pickles."""
    member = int(np.searchsorted(entries, at, "right")) - 1
    return {"record": pickles[member].name, "place": f"byte {at - int(entries[member])}"}


def index_type(size: int) -> type[np.signedinteger]:
    """The type of positions in so many bytes, and of the numbers of the opcodes in them."""
    return np.int32 if COMPACT <= size < LARGE else np.int64


def _narrow(values: np.ndarray) -> np.ndarray:
    """Integers in 32 bits if all have their place there."""
    narrow = values.astype(np.int32)
    return narrow if (narrow == values).all() else values


def _groups(sizes: list[int]) -> Iterator[list[int]]:
    """The numbers of neighbouring small records together, of large ones alone."""
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
    view: memoryview, data: np.ndarray, entries: np.ndarray, names: list[str], allowance: Allowance
) -> Iterator[np.ndarray]:
    """The positions of instructions: of joined records at once, of a single record window by window."""
    if len(names) > 1:
        yield Walk(view, data, entries, names, allowance).positions
        return
    at, end = 0, len(view)
    while at < end:
        stop = min(at + WINDOW, end)
        walk = Walk(view, data, np.array([at, stop]), names, allowance, whole=stop == end)
        yield walk.positions
        if walk.stopped:
            return
        at = walk.exit
    raise ArchiveError("the pickle ends before its STOP", record=names[0], place=f"byte {end}")


def _arguments(data: np.ndarray, op: np.ndarray, at: np.ndarray, allowance: Allowance) -> np.ndarray:
    """The numbers behind the opcodes (n)."""
    width = lookup(NUMBER_WIDTH, op)
    spots = at + 1
    if len(spots) and spots[-1] == len(data):
        spots[-1] = 0  # the last opcode has no argument, or the end cuts it off, which is refused later
    arg: np.ndarray = data[spots].astype(np.int64)
    arg *= width > 0
    for size in (2, 4, 8):
        where = np.flatnonzero(width == size)
        for byte in range(1, size if len(where) else 1):
            more = data[np.minimum(spots[where] + byte, len(data) - 1)]
            arg[where] |= more.astype(np.int64) << (8 * byte)
    signed = np.flatnonzero(op == BININT)
    arg[signed] = arg[signed].astype(np.int32)
    for token in np.flatnonzero(width == SLOW).data:  # a list would take five times the memory
        arg[token] = _slow_argument(data, BY_CODE[int(op[token])].argument, int(spots[token]), allowance)
    return arg


def _slow_argument(data: np.ndarray, argument: Argument, at: int, allowance: Allowance) -> int:
    """A float's bits, the length of a global's lines, or a LONG1: these are rare."""
    if argument == Argument.F64:
        return int.from_bytes(data[at : at + 8].tobytes(), "big", signed=True)
    if argument == Argument.LINES:
        lines = data[at : at + allowance.limits.name_bytes].tobytes()
        return lines.find(b"\n", lines.find(b"\n") + 1) + 1
    size = int(data[at])
    value = int.from_bytes(data[at + 1 : at + 1 + size].tobytes(), "little", signed=True)
    if not -(1 << 63) <= value < 1 << 63:
        raise _WideIntError(at - 1, size)
    return value
