"""The pickle opcodes of model archives, declared once.

These are the opcodes that PyTorch reads and writes (protocol 2). Everything else is refused, so a
pickle that reaches a tree holds inert values only: numbers, texts, containers, and *names* of
globals with the arguments they would be called with.

Each opcode has a name, a code, a layout of its argument and an effect: how many values it takes off
the stack and the kind of value it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np


class Argument(IntEnum):
    """Layout of the bytes behind an opcode; all numbers are little endian, except F64."""

    NONE = 0
    U8 = 1
    U16 = 2
    I32 = 3
    U32 = 4
    F64 = 5  # big endian
    LONG1 = 6  # u8 length n, then n bytes of a two's complement integer
    TEXT32 = 7  # u32 length n, then n bytes of UTF-8
    TEXT64 = 8  # u64 length n, then n bytes of UTF-8
    LINES = 9  # two lines, each closed by a newline: module, name


class ValueKind(IntEnum):
    """What a finished value is."""

    NOTHING = 0  # the opcode leaves no value of its own
    INT = 1
    BOOL = 2
    NONE = 3
    FLOAT = 4
    TEXT = 5
    TUPLE = 6
    LIST = 7
    DICT = 8
    GLOBAL = 9
    REDUCE = 10  # children: global, arguments
    OBJECT = 11  # children: class, arguments; a state besides
    PERSISTENT = 12  # child: the persistent id
    GET = 13  # another node stands for it


class Takes(IntEnum):
    """What an opcode takes off the stack: 0 to 3 values, or all above the last MARK."""

    TO_MARK = -1
    TARGET_TO_MARK = -2  # and the container below the MARK, which stays


@dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode: ``takes`` is a number of values or one of ``Takes``; ``same``: the first value stays."""

    name: str
    code: int
    argument: Argument
    takes: int
    kind: ValueKind
    same: bool = False


A, K = Argument, ValueKind
OPCODES = (
    Opcode("PROTO", 0x80, A.U8, 0, K.NOTHING),
    Opcode("STOP", ord("."), A.NONE, 1, K.NOTHING),
    Opcode("MARK", ord("("), A.NONE, 0, K.NOTHING),
    Opcode("BININT1", ord("K"), A.U8, 0, K.INT),
    Opcode("BININT2", ord("M"), A.U16, 0, K.INT),
    Opcode("BININT", ord("J"), A.I32, 0, K.INT),
    Opcode("LONG1", 0x8A, A.LONG1, 0, K.INT),
    Opcode("NEWTRUE", 0x88, A.NONE, 0, K.BOOL),
    Opcode("NEWFALSE", 0x89, A.NONE, 0, K.BOOL),
    Opcode("NONE", ord("N"), A.NONE, 0, K.NONE),
    Opcode("BINFLOAT", ord("G"), A.F64, 0, K.FLOAT),
    Opcode("BINUNICODE", ord("X"), A.TEXT32, 0, K.TEXT),
    Opcode("BINUNICODE8", 0x8D, A.TEXT64, 0, K.TEXT),
    Opcode("EMPTY_TUPLE", ord(")"), A.NONE, 0, K.TUPLE),
    Opcode("TUPLE1", 0x85, A.NONE, 1, K.TUPLE),
    Opcode("TUPLE2", 0x86, A.NONE, 2, K.TUPLE),
    Opcode("TUPLE3", 0x87, A.NONE, 3, K.TUPLE),
    Opcode("TUPLE", ord("t"), A.NONE, Takes.TO_MARK, K.TUPLE),
    Opcode("EMPTY_LIST", ord("]"), A.NONE, 0, K.LIST),
    Opcode("LIST", ord("l"), A.NONE, Takes.TO_MARK, K.LIST),
    Opcode("APPEND", ord("a"), A.NONE, 2, K.LIST, same=True),
    Opcode("APPENDS", ord("e"), A.NONE, Takes.TARGET_TO_MARK, K.LIST, same=True),
    Opcode("EMPTY_DICT", ord("}"), A.NONE, 0, K.DICT),
    Opcode("DICT", ord("d"), A.NONE, Takes.TO_MARK, K.DICT),
    Opcode("SETITEM", ord("s"), A.NONE, 3, K.DICT, same=True),
    Opcode("SETITEMS", ord("u"), A.NONE, Takes.TARGET_TO_MARK, K.DICT, same=True),
    Opcode("GLOBAL", ord("c"), A.LINES, 0, K.GLOBAL),
    Opcode("REDUCE", ord("R"), A.NONE, 2, K.REDUCE),
    Opcode("NEWOBJ", 0x81, A.NONE, 2, K.OBJECT),
    Opcode("BUILD", ord("b"), A.NONE, 2, K.OBJECT, same=True),
    Opcode("BINPERSID", ord("Q"), A.NONE, 1, K.PERSISTENT),
    Opcode("BINPUT", ord("q"), A.U8, 0, K.NOTHING),
    Opcode("LONG_BINPUT", ord("r"), A.U32, 0, K.NOTHING),
    Opcode("BINGET", ord("h"), A.U8, 0, K.GET),
    Opcode("LONG_BINGET", ord("j"), A.U32, 0, K.GET),
)
del A, K

BY_CODE = {op.code: op for op in OPCODES}
CODE = {op.name: op.code for op in OPCODES}

FIXED_SIZE = {
    Argument.NONE: 1,
    Argument.U8: 2,
    Argument.U16: 3,
    Argument.I32: 5,
    Argument.U32: 5,
    Argument.F64: 9,
}


def _table(value: dict[int, int], dtype: type[np.generic], missing: int = 0) -> np.ndarray:
    """A table of 256 entries from opcode to a property of it."""
    table = np.full(256, missing, dtype)
    for code, entry in value.items():
        table[code] = entry
    return table


SIZE = _table({op.code: FIXED_SIZE.get(op.argument, 0) for op in OPCODES}, np.uint8)
"""Bytes of an instruction by opcode; 0 where they depend on the argument and for unknown opcodes."""

KIND = _table({op.code: op.kind for op in OPCODES}, np.uint8)
TAKES = _table({op.code: op.takes for op in OPCODES}, np.int8)
IS_PUT = _table({CODE["BINPUT"]: 1, CODE["LONG_BINPUT"]: 1}, np.bool_)
LEVEL = _table({op.code: -1 for op in OPCODES if op.takes < 0} | {CODE["MARK"]: 1}, np.int8)
"""How an opcode changes the number of open MARKs."""

FILLS = _table({op.code: op.same for op in OPCODES}, np.bool_)


def lookup(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """``table[codes]`` for tables of one byte an entry, several times as fast on long columns."""
    return np.frombuffer(codes.tobytes().translate(table.tobytes()), table.dtype)
