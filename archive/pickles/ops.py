"""The pickle opcodes of model archives, declared once.

PyTorch writes them in ``torch/csrc/jit/serialization/pickler.cpp`` (class ``Pickler``, protocol 2) and reads
them in ``unpickler.cpp`` beside it (``Unpickler::readInstruction``). Every other opcode is refused, so a
pickle that becomes a tree holds inert values only: numbers, texts, containers, and *names* of globals
with the arguments they would be called with.

An opcode has a name, a code, the layout of its argument, the number of values it takes off the stack, and
the kind of value it leaves there.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import numpy as np

_DOUBLE = Struct(">d")


def float_bytes(value: float) -> bytes:
    """The eight bytes of a float as BINFLOAT has them: every nan and both zeros have their own."""
    return _DOUBLE.pack(value)


def float_of(data: bytes) -> float:
    """The float of the eight bytes that BINFLOAT has."""
    value: float
    (value,) = _DOUBLE.unpack(data)
    return value


class Argument(IntEnum):
    """The layout of the bytes after an opcode. Numbers are little-endian, except F64."""

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
    """The kind of a value."""

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
    GET = 13  # a memo read: the value is another token's


HOLDERS = frozenset(
    {
        ValueKind.TUPLE,
        ValueKind.LIST,
        ValueKind.DICT,
        ValueKind.REDUCE,
        ValueKind.OBJECT,
        ValueKind.PERSISTENT,
    }
)
"""The kinds of values that may have children."""


class Takes(IntEnum):
    """How many values an opcode takes off the stack, where that isn't a fixed number from 0 to 3."""

    TO_MARK = -1  # all above the last MARK
    TARGET_TO_MARK = -2  # all above it, into the container below the MARK, which stays


class Opcode(NamedTuple):
    """One opcode.

    Attributes:
        name: as in Python's ``pickletools``.
        code: its byte.
        argument: the layout of its argument.
        takes: a number of values, or one of ``Takes``.
        kind: the kind of value it leaves.
        fills: whether the value that it leaves is the first one that it takes, filled or given a state.
    """

    name: str
    code: int
    argument: Argument
    takes: int
    kind: ValueKind
    fills: bool = False


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
    Opcode("APPEND", ord("a"), A.NONE, 2, K.LIST, fills=True),
    Opcode("APPENDS", ord("e"), A.NONE, Takes.TARGET_TO_MARK, K.LIST, fills=True),
    Opcode("EMPTY_DICT", ord("}"), A.NONE, 0, K.DICT),
    Opcode("DICT", ord("d"), A.NONE, Takes.TO_MARK, K.DICT),
    Opcode("SETITEM", ord("s"), A.NONE, 3, K.DICT, fills=True),
    Opcode("SETITEMS", ord("u"), A.NONE, Takes.TARGET_TO_MARK, K.DICT, fills=True),
    Opcode("GLOBAL", ord("c"), A.LINES, 0, K.GLOBAL),
    Opcode("REDUCE", ord("R"), A.NONE, 2, K.REDUCE),
    Opcode("NEWOBJ", 0x81, A.NONE, 2, K.OBJECT),
    Opcode("BUILD", ord("b"), A.NONE, 2, K.OBJECT, fills=True),
    Opcode("BINPERSID", ord("Q"), A.NONE, 1, K.PERSISTENT),
    Opcode("BINPUT", ord("q"), A.U8, 0, K.NOTHING),
    Opcode("LONG_BINPUT", ord("r"), A.U32, 0, K.NOTHING),
    Opcode("BINGET", ord("h"), A.U8, 0, K.GET),
    Opcode("LONG_BINGET", ord("j"), A.U32, 0, K.GET),
)
del A, K

BY_CODE = {op.code: op for op in OPCODES}
CODE_OF = {op.name: op.code for op in OPCODES}
"""The code of an opcode, by its name."""
BYTE_OF = {op.name: bytes([op.code]) for op in OPCODES}
"""The code as it is written."""

PROTO, STOP, MARK, BUILD = (CODE_OF[name] for name in ("PROTO", "STOP", "MARK", "BUILD"))
GLOBAL, LONG1, NEWTRUE = (CODE_OF[name] for name in ("GLOBAL", "LONG1", "NEWTRUE"))
BINUNICODE, BINUNICODE8 = CODE_OF["BINUNICODE"], CODE_OF["BINUNICODE8"]
BINPUT, LONG_BINPUT = CODE_OF["BINPUT"], CODE_OF["LONG_BINPUT"]
BINGET, LONG_BINGET = CODE_OF["BINGET"], CODE_OF["LONG_BINGET"]

FIXED_SIZE = {
    Argument.NONE: 1,
    Argument.U8: 2,
    Argument.U16: 3,
    Argument.I32: 5,
    Argument.U32: 5,
    Argument.F64: 9,
}


def _table(value: dict[int, int], dtype: type[np.generic]) -> np.ndarray:
    """A table of 256 entries: the property of each opcode, by its code; 0 for unknown ones."""
    table = np.zeros(256, dtype)
    for code, entry in value.items():
        table[code] = entry
    return table


SIZE = _table({op.code: FIXED_SIZE.get(op.argument, 0) for op in OPCODES}, np.uint8)
"""Bytes of an instruction, by code; 0 if the argument decides, and for unknown opcodes."""

LAYOUT = _table({op.code: op.argument for op in OPCODES}, np.uint8)
KIND = _table({op.code: op.kind for op in OPCODES}, np.uint8)
VALUE_KINDS = tuple(map(ValueKind, KIND.tolist()))
"""The same for single codes, several times as fast."""
HOLDS = _table({op.code: True for op in OPCODES if op.kind in HOLDERS}, np.bool_)
"""Whether the value that an opcode makes may have children."""
IS_PUT = _table({CODE_OF["BINPUT"]: True, CODE_OF["LONG_BINPUT"]: True}, np.bool_)


def lookup(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """``table[codes]``, several times as fast on long columns; the table has one byte an entry."""
    return np.frombuffer(codes.tobytes().translate(table.tobytes()), table.dtype)
