"""Pickle instructions in columns, composed for many values at once.

An instruction is an opcode and a number: an integer, the number of a string, or a key. A key stands for a
value that is written once and read from the memo later. ``encoding`` gives it an entry of the memo, if it
needs one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, spread
from archive.formats.schema.containers import INTLIST
from archive.pickles.ops import CODE_OF

if TYPE_CHECKING:
    from archive.base.columns import Ints

    Part = tuple[Ints | slice, Ints | int, np.ndarray | int, Ints | int]

INT, WIDE = CODE_OF["BININT1"], CODE_OF["BININT"]
"""Opcodes of an integer in the fewest bytes, and of one in at least four, as all of a column may have."""
TEXT, GLOBAL = CODE_OF["BINUNICODE"], CODE_OF["GLOBAL"]
SHARED_INT, SHARED_TEXT, SHARED_GLOBAL = range(3)
"""Codes of our own for an integer, text or name that is written once, and read from the memo elsewhere."""
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
        """Add one instruction to each value.

        Args:
            op: its opcode: one for all, or one for each.
            arg: its number: one for all, or one for each.
            at: the values that get it, none twice; by default all.
        """
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
    """Make typed lists: each value's instructions make the integers.

    Args:
        items: the integers.
        builder: the number of ``BUILDER`` among the strings.
    """
    lists = Composer(len(items))
    lists.add(SHARED_GLOBAL, builder)
    lists.add(MARK)
    lists.insert(items)
    for op in (LIST, CLOSE[1], REDUCE):
        lists.add(op)
    return lists.code()
