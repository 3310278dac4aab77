"""Pickle instructions in columns, composed for many values at once.

An instruction is an opcode and a number: an integer, the number of a string, or a key. A key stands for a
value that is written once and read from the memo later. :func:`pickled` makes bytes of them: it chooses which
values take an entry of the memo, and which opcode holds each number.

PyTorch's own pickler gives an entry of the memo to every string, source and call stack, and uses no entry
twice. Its unpickler takes entries in any order, and overwrites them (tried with 2.13). So here a value gets
an entry only if it is read again, and the lowest one that is free by then. That is mostly below 256, which
takes two bytes instead of five, and the same few entries again and again help deflate.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, numbered, spread
from archive.base.quick_dataclass import dataclass
from archive.formats.schema.pickled.containers import INTLIST
from archive.pickles.ops import CODE_OF, SIZE, lookup
from archive.pickles.write import BYTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints

    Part = tuple[Ints | slice, Ints | int, np.ndarray | int, Ints | int]

INT, WIDE = CODE_OF["BININT1"], CODE_OF["BININT"]
"""Opcodes of an integer in the fewest bytes, and of one in at least four, as all of a column may have."""
TEXT, GLOBAL = CODE_OF["BINUNICODE"], CODE_OF["GLOBAL"]
SHARED_INT, SHARED_TEXT, SHARED_GLOBAL = range(3)
"""Codes of our own for an integer, text or name that is written once, and later read from the memo."""
PUT, GET = CODE_OF["BINPUT"], CODE_OF["BINGET"]
NONE, MARK, TUPLE, LIST, REDUCE = (CODE_OF[name] for name in ("NONE", "MARK", "TUPLE", "LIST", "REDUCE"))
CLOSE = [CODE_OF[name] for name in ("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")]
"""Opcodes that make a tuple of 0 to 3 items, without a MARK."""
NEVER = 1 << 62
"""A bound that no tag, count or length reaches."""
BUILDER = "".join(f"{line}\n" for line in INTLIST).encode()
"""The name of the function that types a list of integers. PyTorch refuses untyped lists (tried with 2.13)."""


@dataclass(frozen=True, slots=True, eq=False)
class Instructions:
    """The i instructions of n values.

    Attributes:
        first: the first instruction of each value (n + 1).
        op: opcode, or one of the ``SHARED`` codes (i).
        arg: the instruction's number, 0 where it has none (i).
    """

    first: Ints
    op: np.ndarray
    arg: Ints

    def __len__(self) -> int:
        return len(self.first) - 1


class Composer:
    """Composes n values side by side: each call adds instructions to all of them, or to some.

    >>> values = Composer(2)
    >>> values.add(INT, np.array([5, 6]))
    >>> values.add(PUT, at=np.array([1]))
    >>> bytes(values.code().op)
    b'KKq'
    """

    __slots__ = ("_counts", "_parts")

    def __init__(self, size: int) -> None:
        self._counts = np.zeros(size, np.int64)
        self._parts: list[Part] = []

    def add(self, op: np.ndarray | int, arg: Ints | int = 0, *, at: Ints | None = None) -> None:
        """Add one instruction to each value, or to those ``at`` some places, none twice."""
        where = slice(None) if at is None else at
        self._counts[where] += 1
        self._parts.append((where, 1, op, arg))

    def insert(self, code: Instructions, *, at: Ints | None = None) -> None:
        """Add the instructions of one value of ``code`` to each of the values ``at``, by default all."""
        where = slice(None) if at is None else at
        counts = np.diff(code.first)
        self._counts[where] += counts
        self._parts.append((where, counts, code.op, code.arg))

    def code(self) -> Instructions:
        """The finished values."""
        first = firsts(self._counts)
        op = np.empty(int(first[-1]), np.uint8)
        arg = np.empty(len(op), np.int64)
        cursor = first[:-1].copy()
        for where, counts, part_op, part_arg in self._parts:
            at = cursor[where]
            if not isinstance(counts, int):
                at = spread(at, counts)
            op[at], arg[at] = part_op, part_arg
            cursor[where] += counts
        return Instructions(first, op, arg)


def each(op: int, arg: Ints) -> Instructions:
    """Make values of one instruction each."""
    return Instructions(np.arange(len(arg) + 1), np.full(len(arg), op, np.uint8), arg)


def tuple_of(*parts: Instructions) -> Instructions:
    """Make one value: the tuple of all values of the parts."""
    items = Instructions(
        np.array([0, sum(len(part.op) for part in parts)]),
        np.concatenate([part.op for part in parts]),
        np.concatenate([part.arg for part in parts]),
    )
    return tuples(items, np.array([sum(map(len, parts))]))


def tuples(items: Instructions, counts: Ints) -> Instructions:
    """Make tuples: each value's instructions make the given number of items."""
    made = Composer(len(items))
    made.add(MARK, at=np.flatnonzero(counts >= len(CLOSE)))
    made.insert(items)
    made.add(np.array([*CLOSE, TUPLE])[np.minimum(counts, len(CLOSE))])
    return made.code()


def integer_lists(items: Instructions, builder: int) -> Instructions:
    """Make typed lists: each value's instructions make the integers."""
    lists = Composer(len(items))
    lists.add(SHARED_GLOBAL, builder)
    lists.add(MARK)
    lists.insert(items)
    for op in (LIST, CLOSE[1], REDUCE):
        lists.add(op)
    return lists.code()


# --- bytes

COPIES = 5
"""Copies of a pickle that there are: while it is written, and of others that it is compared with."""
WRITTEN_AS = np.array([INT, TEXT, GLOBAL], np.uint8)
START, STOP = bytes([CODE_OF["PROTO"], 2]), bytes([CODE_OF["STOP"]])
BININT2, LONG1 = CODE_OF["BININT2"], CODE_OF["LONG1"]
LONG_FORMS = {PUT: CODE_OF["LONG_BINPUT"], GET: CODE_OF["LONG_BINGET"]}
LONG1_BYTES = 8
"""The only length of a LONG1 that PyTorch reads."""
TEXT_BYTES = 4


def pickled(code: Instructions, strings: Sequence[bytes]) -> bytes:
    """Write the pickle of one value from instructions and strings; both lines of a name end in a newline."""
    with memory.lent(6 * memory.NUMBER * len(code.op), "instructions"):
        op, arg = _with_memo(code)
        op = _with_widths(op, arg)
        lengths = np.array([len(string) for string in strings], np.int64)
        size = _sizes(op, arg, lengths)
        with memory.lent(COPIES * int(size.sum()), "pickles"):
            return START + _bytes_of(op, arg, size, strings) + STOP


def _sizes(op: np.ndarray, arg: Ints, lengths: Ints) -> Ints:
    """Bytes of each instruction; ``lengths``: of the strings."""
    size = lookup(SIZE, op).astype(np.int64)
    texts, names = (np.flatnonzero(op == code) for code in (TEXT, GLOBAL))
    size[texts] = 1 + TEXT_BYTES + lengths[arg[texts]]
    size[names] = 1 + lengths[arg[names]]
    size[op == LONG1] = 2 + LONG1_BYTES
    return size


def _bytes_of(op: np.ndarray, arg: Ints, size: Ints, strings: Sequence[bytes]) -> bytes:
    """The instructions, concatenated."""
    at = firsts(size)
    out = np.empty(int(at[-1]), np.uint8)
    at = at[:-1]
    out[at] = op
    at += 1
    texts, names, longs = (np.flatnonzero(op == code) for code in (TEXT, GLOBAL, LONG1))
    for width in (1, 2, 4):
        own = np.flatnonzero(lookup(SIZE, op) == 1 + width)
        _write_numbers(out, at[own], arg[own], width)
    out[at[longs]] = LONG1_BYTES
    _write_numbers(out, at[longs] + 1, arg[longs], LONG1_BYTES)
    _write_numbers(out, at[texts], size[texts] - 1 - TEXT_BYTES, TEXT_BYTES)
    _write_strings(out, at[texts] + TEXT_BYTES, arg[texts], strings)
    _write_strings(out, at[names], arg[names], strings)
    return out.tobytes()


def _with_widths(op: np.ndarray, arg: Ints) -> np.ndarray:
    """The opcodes that are wide enough for their integers and memo entries."""
    op = op.copy()
    ints = np.flatnonzero((op == INT) | (op == WIDE))
    value = arg[ints]
    is_long = (value < -(1 << 31)) | (value >= 1 << 31)
    is_wide = (op[ints] == WIDE) | (value < 0) | (value >= 1 << 16)
    op[ints] = np.select([is_long, is_wide, value >= BYTE], [LONG1, WIDE, BININT2], INT)
    for short, long in LONG_FORMS.items():
        op[(op == short) & (arg >= BYTE)] = long
    return op


def _write_numbers(out: np.ndarray, at: Ints, values: Ints, width: int) -> None:
    """Write integers in little endian, one byte of all of them at a time."""
    for byte in range(width):
        out[at + byte] = values >> 8 * byte & 0xFF


def _write_strings(out: np.ndarray, at: Ints, number: Ints, strings: Sequence[bytes]) -> None:
    view = out.data
    for start, string in zip(at.tolist(), map(strings.__getitem__, number.tolist()), strict=True):
        view[start : start + len(string)] = string


def _with_memo(code: Instructions) -> tuple[np.ndarray, Ints]:
    """Opcodes and arguments of all instructions, with entries of the memo in place of keys."""
    op, arg = _written_once(code.op, code.arg)
    is_read = np.zeros(_keys(op, arg), np.bool_)
    is_read[arg[op == GET]] = True
    needed = op != PUT
    needed[~needed] = is_read[arg[~needed]]
    op, arg = op[needed], arg[needed]
    moves = np.flatnonzero((op == PUT) | (op == GET))
    arg[moves] = _entries(op[moves] == PUT, arg[moves], len(is_read))
    return op, arg


def _keys(op: np.ndarray, arg: Ints) -> int:
    """The number of keys in memo writes and reads."""
    return int(arg[(op == PUT) | (op == GET)].max(initial=-1)) + 1


def _written_once(op: np.ndarray, arg: Ints) -> tuple[np.ndarray, Ints]:
    """Write each shared integer, text or name where it stands first, and read it from the memo later."""
    shared = np.flatnonzero(op <= SHARED_GLOBAL)
    keys = _keys(op, arg)
    number, first = numbered(op[shared].astype(np.int64), arg[shared])
    written = shared[first]
    plain, value = WRITTEN_AS[op[written]], arg[written]
    op, arg = op.copy(), arg.copy()
    op[shared], arg[shared] = GET, keys + number
    op[written], arg[written] = plain, value
    return np.insert(op, written + 1, PUT), np.insert(arg, written + 1, keys + np.arange(len(written)))


def _entries(is_put: np.ndarray, key: Ints, keys: int) -> Ints:
    """The entry of each memo write and read.

    Args:
        is_put: whether it is a write (m). Each key is written once, before it is read.
        key: the value's key (m).
    """
    every = np.arange(len(key))
    last = np.zeros(keys, np.int64)
    last[key] = every
    turns = np.flatnonzero(is_put | (last[key] == every))
    entry = [0] * keys
    free: list[int] = []
    used = 0
    for begins, value in zip(is_put[turns].tolist(), key[turns].tolist(), strict=True):
        if not begins:
            heappush(free, entry[value])
        elif free:
            entry[value] = heappop(free)
        else:
            entry[value] = used
            used += 1
    return np.array(entry, np.int64)[key]
