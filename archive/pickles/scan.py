"""Bytes -> values: one plain loop over pickles, a stack machine whose values are numbers.

Each instruction is a *token*, and a value is named by the token that made it: its *node*. So the stack holds
integers and nothing is built. ``(7, ("a", "b"), None)``::

    token     0 PROTO   1 K 7   2 X a   3 X b   4 TUPLE2   5 N   6 TUPLE3   7 STOP
    stack                1       1 2     1 2 3   1 4        1 4 5   6

    owner 4, size 2, part 2 3;   owner 6, size 3, part 1 4 5;   root 6

The loop reads only what it needs to go on: opcodes, lengths and memo indices. A value read from the memo is
the node that was written there, so a shared object is one node with several parents. The results are columns;
numpy then finds where each instruction begins, looks up the numbers after all opcodes at once, and puts the
parts of each owner side by side. Texts are skipped, never copied.

Two things are less simple than they could be, for speed:

- Each MARK opens a new stack, so that no instruction reaches a value below it, and none needs to check.
  ``IndexError`` and ``KeyError`` show what is missing, and become an error with its byte.
- What the loop finds is collected in lists. Every ``WINDOW`` bytes they move to the columns, and the memory
  in use is asked for.

The same with Python objects: ``load`` in ``tests/support/slow_reader.py``.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import replace
from struct import Struct, pack
from sys import getsizeof
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, spread
from archive.base.errors import ArchiveError, LimitError
from archive.base.quick_dataclass import dataclass
from archive.pickles.ops import (
    BINGET,
    BINPUT,
    BINUNICODE,
    BINUNICODE8,
    BUILD,
    BY_CODE,
    FIXED_SIZE,
    GLOBAL,
    KIND,
    LAYOUT,
    LONG1,
    LONG_BINGET,
    LONG_BINPUT,
    MARK,
    OPCODES,
    PROTO,
    SIZE,
    STOP,
    Argument,
    Takes,
    ValueKind,
    lookup,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


WINDOW = 1 << 11
"""Bytes after which lists become columns. Memory for the lists is not asked for: at most 200 KB."""
LARGE = 1 << 30
"""Bytes of pickles from which on positions in them, and the numbers of values and children, take 64 bits."""
JOINED = 1 << 16
"""Bytes up to which neighbouring records are joined, to look up their numbers at once."""
NUMBERED = 1 << 12
"""Tokens whose numbers are looked up at once."""
VALUE_BYTES, MARK_BYTES, ENTRY_BYTES = 49, 121, 64
"""Bytes of memory of a value on the stack, which may be moved with all others at once; of an open MARK with
its stack; and of the two integers of a memo entry."""
STATE_BYTES = 128
"""Bytes of memory that an object's state takes."""
STEP_BYTES = 44
"""Bytes of memory of an instruction that takes values, and of each value, while they are sorted by owner."""
PROTOCOL = 2
NOTHING = ValueKind.NOTHING
INT64 = range(-(1 << 63), 1 << 63)

# --- what the loop needs to know of an opcode
LEAF = tuple(
    FIXED_SIZE.get(op.argument, 0) if op and not op.takes and op.kind not in (NOTHING, ValueKind.GET) else 0
    for op in map(BY_CODE.get, range(256))
)
"""Bytes of an instruction that takes no values and leaves one, by code; 0 for all others, and where the
argument decides."""
MAKES = tuple(
    op.takes if op and op.takes > 0 and not op.fills and op.kind != NOTHING else 0
    for op in map(BY_CODE.get, range(256))
)
"""How many values an opcode makes one value of, by code; 0 for all others."""
TO_MARK, TARGET_TO_MARK = (
    frozenset(op.code for op in OPCODES if op.takes == takes)
    for takes in (Takes.TO_MARK, Takes.TARGET_TO_MARK)
)
FILLS = {op.code: op.takes - 1 for op in OPCODES if op.fills and op.takes > 0 and op.code != BUILD}
"""How many values an opcode puts into a container below them."""
KIND_NUMBERS = tuple(KIND.tolist())
OBJECTS = (ValueKind.OBJECT, ValueKind.REDUCE)
HEADS = {BINUNICODE: 5, BINUNICODE8: 9, LONG1: 2}
"""Bytes of an instruction that are needed to read its length."""
ARGUMENTS = len(Argument)
FORMS = {
    argument.value: np.dtype(form)
    for argument, form in (
        (Argument.U8, "u1"),
        (Argument.U16, "<u2"),
        (Argument.I32, "<i4"),
        (Argument.U32, "<u4"),
        (Argument.TEXT32, "<u4"),
        (Argument.TEXT64, "<i8"),
        (Argument.F64, ">i8"),
    )
}
"""The type of the number after an opcode, by the layout of its argument, if that is a plain one."""
_u32, _u64 = (Struct(form).unpack_from for form in ("<I", "<Q"))


class Pickle(NamedTuple):
    """A record's name, for messages, and its bytes."""

    name: str
    data: memoryview


@dataclass(frozen=True, slots=True)
class Tokens:
    """The instructions of several pickles, concatenated.

    Attributes:
        pickles: the records (p).
        base: where each pickle would start if all were in one buffer, in bytes (p + 1).
        first: index of each pickle's first token (p + 1).
        op: opcode (n tokens).
        at: position of the opcode in that one buffer (n).
        arg: the opcode's argument (n): an integer's value, a memo index, a text's length in bytes, a
            float's bits, or the bytes of a global's two lines; of 32 bits if that suffices. That of a
            value with children is their number in ``ScannedValues.bounds``.
    """

    pickles: tuple[Pickle, ...]
    base: np.ndarray
    first: np.ndarray
    op: np.ndarray
    at: np.ndarray
    arg: np.ndarray

    def place(self, token: int) -> tuple[str, int]:
        """The record's name and the byte in it where a token is."""
        pickle = int(np.searchsorted(self.first, token, "right")) - 1
        return self.pickles[pickle].name, int(self.at[token] - self.base[pickle])

    def fault(self, token: int, problem: str) -> ArchiveError:
        """An error at a token."""
        name, at = self.place(token)
        return _fault(name, at, problem)


class ScannedValues(NamedTuple):
    """The tokens of some pickles, and the values that they make.

    Attributes:
        tokens: the pickles' tokens (n).
        roots: the outermost value of each pickle (p nodes).
        bounds: where the children of each node that has some begin in ``children``, in the order of its
            number, and where the last ones end (h + 2). Number 0 is for nodes that have none.
        children: nodes, those of one node side by side.
        states: the state that an object was built with last, by node.
    """

    tokens: Tokens
    roots: np.ndarray
    bounds: np.ndarray
    children: np.ndarray
    states: dict[int, int]


def scan(pickles: Sequence[Pickle]) -> ScannedValues:
    """Find all instructions of some pickles, and the values that each one takes."""
    base = firsts(np.array([len(pickle.data) for pickle in pickles], np.int64))
    scanned = _Scanned("i" if base[-1] < LARGE else "q")
    roots, first = [], [0]
    for pickle in pickles:
        roots.append(_run(pickle, scanned))
        first.append(len(scanned.op))
    record = pickles[0].name if pickles else None
    columns = len(scanned.op) + len(scanned.part) + len(scanned.owner) + 2  # arguments, children and bounds
    width = scanned.part.itemsize
    memory.take(width * columns, "pickle opcodes", record=record, place="byte 0")
    children = np.array(scanned.part)
    del scanned.part
    op = np.frombuffer(bytes(scanned.op), np.uint8)
    del scanned.op
    at = _positions(op, np.asarray(scanned.anchor))
    for number in range(1, len(pickles)):
        at[first[number] : first[number + 1]] += base[number]
    tokens = Tokens(tuple(pickles), base, np.array(first), op, at, np.zeros(0, np.int32))
    arg = _arguments(tokens, scanned.longs)
    tokens = replace(tokens, arg=arg)
    return ScannedValues(
        tokens, np.array(roots, np.int64), *_numbered(tokens, scanned, children), scanned.states
    )


class _Scanned:
    """What the loop finds, of all pickles.

    Args:
        code: of the columns of positions and nodes: "i" or "q".

    Attributes:
        op: opcode of each token (n).
        anchor: each token whose opcode does not determine its length, and each pickle's last one; each
            followed by the byte of its pickle at which it begins.
        owner: the nodes that were given values, once for each time (m), and how many they were: ``size`` (m).
        part: these values, nodes (sum of ``size``).
        states: the state of each object, by node.
        longs: the integers of LONG1.
    """

    def __init__(self, code: str) -> None:
        self.op = bytearray()
        self.anchor, self.owner, self.size, self.part = (array(code) for _ in range(4))
        self.states: dict[int, int] = {}
        self.longs = array("q")
        self._taken = 0

    def add(self, *new: list[int]) -> None:
        """Move lists to the columns."""
        for column, values in zip((self.anchor, self.owner, self.size, self.part), new, strict=True):
            for low in range(0, len(values), WINDOW):
                some = values[low : low + WINDOW]
                column.frombytes(pack(f"{len(some)}{column.typecode}", *some))  # twice as fast as fromlist
            values.clear()

    def settle(self, working: int, record: str, at: int) -> None:
        """Ask for the memory of the columns and ``working`` bytes more, or return what is free."""
        columns = (self.anchor, self.owner, self.size, self.part, self.longs)
        used = sum(len(column) * column.itemsize for column in columns) * 17 // 16  # an array grows by a 16th
        used += len(self.op) * 9 // 8 + len(self.op) * self.part.itemsize + working  # positions are to come
        if used > self._taken:
            memory.take(used - self._taken, "pickle opcodes", record=record, place=f"byte {at}")
        else:
            memory.give(self._taken - used)
        self._taken = used


def _run(pickle: Pickle, scanned: _Scanned) -> int:
    """Read one pickle; returns the node of its value."""
    name, data = pickle
    end = len(data)
    if not end:
        raise ArchiveError(record=name, place="byte 0", expected="a pickle", found="no bytes")
    if data[0] != PROTO and data[0] in BY_CODE:
        raise _fault(name, 0, PROTO_PROBLEM)
    at, node, root = 0, len(scanned.op) - 1, -1
    stack: list[int] = []
    levels: list[list[int]] = []  # the stacks below each open MARK
    below = 0  # values on these
    memo: dict[int, int] = {}
    ops = scanned.op
    anchors: list[int] = []
    owners: list[int] = []
    sizes: list[int] = []
    parts: list[int] = []
    try:
        while True:  # with a condition here, Python 3.11 would not specialise what is called once
            begin, stop = at, min(at + WINDOW, end)
            while at < stop:
                op = data[at]
                ops.append(op)
                node += 1
                if size := LEAF[op]:
                    stack.append(node)
                    at += size
                elif op == BINPUT:
                    memo[data[at + 1]] = stack[-1]
                    at += 2
                elif op == BINGET:
                    stack.append(memo[data[at + 1]])
                    at += 2
                elif size := MAKES[op]:
                    if len(stack) < size:
                        raise IndexError  # noqa: TRY301 (as from the lists)
                    parts += stack[-size:]
                    stack[-size:] = (node,)
                    owners.append(node)
                    sizes.append(size)
                    at += 1
                elif op == BINUNICODE:
                    stack.append(node)
                    anchors += node, at
                    at += 5 + _u32(data, at + 1)[0]
                elif op == LONG_BINPUT:
                    memo[_u32(data, at + 1)[0]] = stack[-1]
                    at += 5
                elif op == LONG_BINGET:
                    stack.append(memo[_u32(data, at + 1)[0]])
                    at += 5
                elif op == MARK:
                    below += len(stack)
                    levels.append(stack)
                    stack = []
                    at += 1
                elif op in TO_MARK:
                    owners.append(node)
                    sizes.append(len(stack))
                    parts += stack
                    stack = levels.pop()
                    below -= len(stack)
                    stack.append(node)
                    at += 1
                elif op in TARGET_TO_MARK:
                    owner = levels[-1][-1]
                    _check_kind(name, at, op, ops[owner])
                    owners.append(owner)
                    sizes.append(len(stack))
                    parts += stack
                    stack = levels.pop()
                    below -= len(stack)
                    at += 1
                elif size := FILLS.get(op, 0):
                    owner = stack[-1 - size]
                    _check_kind(name, at, op, ops[owner])
                    owners.append(owner)
                    sizes.append(size)
                    parts += stack[-size:]
                    del stack[-size:]
                    at += 1
                elif op == BUILD:
                    owner = stack[-2]
                    if KIND_NUMBERS[ops[owner]] not in OBJECTS:
                        raise _fault(name, at, "expected an object to give a state")
                    if owner not in scanned.states:
                        place = f"byte {at}"
                        memory.take(STATE_BYTES, "states of objects", record=name, place=place)
                    scanned.states[owner] = stack.pop()
                    at += 1
                elif op == GLOBAL:
                    stack.append(node)
                    anchors += node, at
                    at += _global_size(name, data, at, memory.limits().name_bytes)
                elif op == LONG1:
                    stack.append(node)
                    size = 2 + data[at + 1]
                    value = int.from_bytes(data[at + 2 : at + size], "little", signed=True)
                    if value not in INT64:
                        raise ArchiveError(
                            record=name,
                            place=f"byte {at}",
                            expected="an integer of 64 bits",
                            found=f"one of {size - 2} bytes",
                        )
                    scanned.longs.append(value)
                    anchors += node, at
                    at += size
                elif op == BINUNICODE8:
                    stack.append(node)
                    anchors += node, at
                    at += 9 + _u64(data, at + 1)[0]
                elif op == STOP:
                    if levels:
                        raise _fault(name, at, f"{len(levels)} open MARKs at STOP")
                    root = stack.pop()
                    if stack:
                        raise _fault(name, at, "more than one value on the stack at STOP")
                    anchors += node, at
                    break
                elif op == PROTO:
                    if at:
                        raise _fault(name, at, PROTO_PROBLEM)
                    if data[1] != PROTOCOL:
                        raise _fault(name, at, f"expected pickle protocol 2, found {data[1]}")
                    at += 2
                else:
                    raise _fault(name, at, f"expected a pickle opcode that PyTorch knows, found 0x{op:02x}")
            scanned.add(anchors, owners, sizes, parts)
            values = below + len(stack)
            working = VALUE_BYTES * values + MARK_BYTES * len(levels) + ENTRY_BYTES * len(memo)
            working += getsizeof(memo) * 3 // 2  # a growing dict exists beside the old one
            scanned.settle(working, name, begin)
            if root >= 0:
                scanned.settle(0, name, 0)
                return root
            if at >= end:
                raise _fault(name, end, CUT)
    except (IndexError, KeyError, struct.error) as error:
        raise _missing(name, data, at, error, is_marked=bool(levels)) from None


PROTO_PROBLEM = "a pickle starts with PROTO and has no other"
CUT = "the pickle ends before its STOP"


def _check_kind(name: str, at: int, op: int, made: int) -> None:
    """Refuse to fill anything but a list, or a dict; ``made``: the opcode that made it."""
    if KIND_NUMBERS[made] != KIND_NUMBERS[op]:
        raise _fault(name, at, f"expected a {ValueKind(KIND_NUMBERS[op]).name.lower()} to fill")


def _missing(name: str, data: memoryview, at: int, error: Exception, *, is_marked: bool) -> ArchiveError:
    """What an instruction needs that is missing; ``error``: from looking for it."""
    op = data[at]
    if at + (HEADS.get(op) or int(SIZE[op])) > len(data):
        return _fault(name, len(data), CUT)
    if isinstance(error, KeyError):
        return _fault(name, at, "the memo has no such entry")
    if op in (BINPUT, LONG_BINPUT):
        return _fault(name, at, "nothing on the stack to put into the memo")
    if op in TO_MARK | TARGET_TO_MARK and not is_marked:
        return _fault(name, at, "no MARK for this opcode")
    return _fault(name, at, "too few values on the stack for this opcode")


def _fault(record: str, at: int, problem: str) -> ArchiveError:
    """An error at a byte of a record."""
    return ArchiveError(problem, record=record, place=f"byte {at}")


def _global_size(name: str, data: memoryview, at: int, most: int) -> int:
    """Bytes of a GLOBAL: the opcode, and two lines with their newlines, of at most ``most`` bytes."""
    lines = bytes(data[at + 1 : at + 1 + most])
    size = lines.find(b"\n", lines.find(b"\n") + 1) + 2
    if lines.count(b"\n", 0, size) == 2:  # noqa: PLR2004 (two lines)
        return size
    if len(lines) == most:
        raise LimitError("name_bytes", most, most + 1, record=name, place=f"byte {at}")
    raise _fault(name, at, "expected two lines after GLOBAL")


def _positions(op: np.ndarray, anchor: np.ndarray) -> np.ndarray:
    """Where each token begins in its pickle (n): as far before the next anchor as opcodes determine."""
    node, place = anchor[::2], anchor[1::2]
    at = np.zeros(len(op), anchor.dtype)
    at[1:] = lookup(SIZE, op[:-1])
    np.cumsum(at, out=at)
    at += np.repeat(place - at[node], np.diff(node, prepend=-1))
    return at


def _arguments(tokens: Tokens, longs: array[int]) -> np.ndarray:
    """The numbers after the opcodes (n)."""
    arg = np.zeros(len(tokens.op), np.int32)
    for begin, end in _neighbours(tokens.base):
        pickles = tokens.pickles[begin:end]
        joined = b"".join([pickle.data for pickle in pickles]) if len(pickles) > 1 else pickles[0].data
        data, last = np.frombuffer(joined, np.uint8), int(tokens.first[end])
        for low in range(int(tokens.first[begin]), last, NUMBERED):
            high = min(low + NUMBERED, last)
            numbers = _numbers(data, tokens.op[low:high], tokens.at[low:high] - int(tokens.base[begin]))
            arg = _put(arg, slice(low, high), numbers)
    names = np.flatnonzero(tokens.op == GLOBAL)  # none of them is the very last token
    arg[names] = tokens.at[names + 1] - tokens.at[names] - 1
    return _put(arg, np.flatnonzero(tokens.op == LONG1), np.array(longs))


def _neighbours(base: np.ndarray) -> Iterator[tuple[int, int]]:
    """Neighbouring pickles that are small together: the first one, and the one after the last."""
    begin = 0
    for end in range(1, len(base)):
        if end + 1 == len(base) or base[end + 1] - base[begin] > JOINED:
            yield begin, end
            begin = end


def _numbers(data: np.ndarray, op: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The plain numbers after some opcodes (n); 0 where there is none."""
    layout = lookup(LAYOUT, op)
    numbers = np.zeros(len(op), np.int64)
    there = np.bincount(layout, minlength=ARGUMENTS)
    for argument, form in FORMS.items():
        if there[argument]:
            where = np.flatnonzero(layout == argument)
            size = len(data) - form.itemsize + 1
            numbers[where] = np.ndarray(size, form, data, strides=(1,))[at[where] + 1]
    return numbers


def _put(column: np.ndarray, where: slice | np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """A column with some numbers in it: in 32 bits if all fit."""
    narrow = numbers.astype(column.dtype)
    if not np.array_equal(narrow, numbers):
        column, narrow = column.astype(np.int64), numbers
    column[where] = narrow
    return column


def _numbered(tokens: Tokens, scanned: _Scanned, children: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the nodes that have children, in their arguments; where the children begin, and the children."""
    owner, size = np.asarray(scanned.owner), np.asarray(scanned.size)  # not copied
    for low in range(0, len(owner), NUMBERED):
        tokens.arg[owner[low : low + NUMBERED]] = np.arange(low, min(low + NUMBERED, len(owner))) + 1
    for low in range(0, len(owner), NUMBERED):
        owners = owner[low : low + NUMBERED]
        again = np.flatnonzero(tokens.arg[owners] != np.arange(low, low + len(owners)) + 1)
        if len(again):  # a container that was filled in several steps
            name, at = tokens.place(int(owners[again[0]]))
            sorting = STEP_BYTES * (len(owner) + len(children))
            with memory.lent(sorting, "values of one container", record=name, place=f"byte {at}"):
                owner, size, children = _by_owner(owner, size, children)
                tokens.arg[owner] = np.arange(len(owner)) + 1
            break
    bounds = np.zeros(len(size) + 2, children.dtype)
    np.cumsum(size, out=bounds[2:])
    return bounds, children


def _by_owner(
    owner: np.ndarray, size: np.ndarray, children: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each owner once, with all that it was given, side by side, in its order."""
    order = np.argsort(owner, kind="stable")
    start = np.cumsum(size) - size
    ordered, sizes = owner[order], size[order]
    begin = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[begin], np.add.reduceat(sizes, begin), children[spread(start[order], sizes)]
