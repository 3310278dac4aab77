"""Pickles of which a few bytes, often repeated, ask for much. They deflate a thousandfold."""

from __future__ import annotations

import struct
from typing import NamedTuple

HEAD, STOP = b"\x80\x02", b"."
MARKER = b"FORMAT_WITH_STRING_TABLE"


class Repeated(NamedTuple):
    """A pickle of parts, two of which are repeated equally often.

    Attributes:
        before: stands once.
        motif: is repeated.
        between: stands once.
        closing: is repeated behind that, as what closes each motif.
        after: stands once.
    """

    before: bytes
    motif: bytes
    between: bytes = b""
    closing: bytes = b""
    after: bytes = b""

    def pickle(self, times: int) -> bytes:
        """The pickle with so many repetitions."""
        repeated = (self.motif * times, self.between, self.closing * times)
        return b"".join((HEAD, self.before, *repeated, self.after, STOP))

    @property
    def step(self) -> int:
        """Bytes of each repetition."""
        return len(self.motif) + len(self.closing)


def text(value: bytes) -> bytes:
    """A text."""
    return b"X" + struct.pack("<I", len(value)) + value


def integer(value: int) -> bytes:
    """An integer of up to 31 bits, or of 64."""
    if 0 <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def sequence(*items: bytes) -> bytes:
    """A tuple of any length."""
    return b"(" + b"".join(items) + b"t"


def integers(listed: bytes) -> bytes:
    """``build_intlist`` of instructions that each leave an integer."""
    return b"ctorch.jit._pickle\nbuild_intlist\n" + b"(](" + listed + b"etR"


ZERO, NONE, MARK = b"K\0", b"N", b"("
DOUBLING = Repeated(b")", b"q\0h\0\x86")
"""A tuple of the same tuple twice, of the same tuple twice, …; one memo entry serves all."""
NESTED_LIST = Repeated(b"", b"](", NONE, b"e")

ANYWHERE = {
    "marks": Repeated(b"", MARK, b"", b"t"),
    "open marks": Repeated(b"", MARK),
    "nones": Repeated(MARK, NONE, after=b"t"),
    "empty tuples": Repeated(MARK, b")", after=b"t"),
    "empty lists": Repeated(MARK, b"]", after=b"t"),
    "empty dicts": Repeated(b"](", b"}", after=b"e"),
    "true": Repeated(b"](", b"\x88", after=b"e"),
    "small integers": Repeated(b"](", ZERO, after=b"e"),
    "long integers": Repeated(b"](", b"\x8a\0", after=b"e"),
    "floats": Repeated(b"](", b"G" + bytes(8), after=b"e"),
    "empty texts": Repeated(b"](", text(b""), after=b"e"),
    "globals": Repeated(b"](", b"ca\nb\n", after=b"e"),
    "memo entries": Repeated(b"N", b"q\0"),
    "memo reads": Repeated(b"](Nq\0", b"h\0", after=b"e"),
    "nested tuples": Repeated(b")", b"\x85"),
    "pairs": Repeated(b")", b"N\x86"),
    "nested lists": NESTED_LIST,
    "nested dicts": Repeated(b"", b"}(N", NONE, b"u"),
    "appends": Repeated(b"]", b"Na"),
    "appends of nothing": Repeated(b"]", b"(e"),
    "set items": Repeated(b"}", b"NNs"),
    "doubling": DOUBLING,
    "calls": Repeated(b"ca\nb\nq\0", b")R"),
    "objects": Repeated(b"](ca\nb\nq\0", b"h\0)\x81", after=b"e"),
    "states": Repeated(b"ca\nb\n)\x81", b"Nb"),
    "persistent ids": Repeated(b"N", b"Q"),
    "tensors": Repeated(
        b"](ctorch._utils\n_rebuild_tensor_v2\nq\0((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0aX\3\0\0\0cpuK\1tQ"
        b"K\0)))X\0\0\0\0tq\1",
        b"h\0h\1R",
        after=b"e",
    ),
}
"""The cheapest bytes for the most instructions, nesting, values and memo entries."""

_SOURCE = sequence(text(b"x"), NONE, ZERO)
_RANGE = sequence(_SOURCE + b"q\0", ZERO, ZERO)
_PIECED = sequence(integers(ZERO), ZERO, ZERO)
_TABLE = text(MARKER) + sequence(text(b"x" * 999 + b"\n"))

RANGES = {
    "pair rows": Repeated(MARK + b"K\0" + _RANGE + b"q\1\x86", b"K\0h\1\x86", after=b"t"),
    "tag-first rows": Repeated(MARK + b"K\0K\0" + _RANGE + b"q\1\x87", b"K\0K\0h\1\x87", after=b"t"),
    "inline rows": Repeated(MARK, b"K\0" + _RANGE + b"K\0\x87", after=b"t"),
    "shared rows": Repeated(MARK + b"K\0" + _RANGE + b"K\0\x87q\1", b"h\1", after=b"t"),
    "rows of one range": Repeated(
        MARK + b"K\0" + _RANGE + b"q\1K\0\x87",
        b"K\0h\1K\0\x87",
        after=b"t",
    ),
    "sources": Repeated(MARK, b"K\0" + b"X\0\0\0\0NK\0\x87K\0K\0\x87K\0\x87", after=b"t"),
    "strings": Repeated(text(MARKER) + MARK, text(b""), after=b"t)\x87"),
    "pieces": Repeated(
        _TABLE + b"(K\0ctorch.jit._pickle\nbuild_intlist\n(](",
        ZERO,
        after=b"etRK\0K\0\x87K\0K\0\x87K\0\x87t\x87",
    ),
    "pieced sources": Repeated(_TABLE + MARK, b"K\0" + _PIECED + b"K\0K\0\x87K\0\x87", after=b"t\x87"),
}
HANDLES = {
    "handles of 3": Repeated(MARK, b"K\0K\0N\x87", after=b"t"),
    "handles of 4": Repeated(MARK, b"(K\0K\0X\0\0\0\0Nt", after=b"t"),
    "shared handles": Repeated(MARK + b"(K\0K\0X\0\0\0\0Ntq\0", b"h\0", after=b"t"),
    "frames of 3": Repeated(b"(K\1K\0", b"NK\0", NONE, b"\x87", b"\x87t"),
    "frames of 4": Repeated(b"((K\1K\0X\0\0\0\0", b"(NK\0", NONE, b"X\0\0\0\0t", b"tt"),
    "modules": Repeated(MARK, b"(K\1K\0X\0\0\0\0(X\0\0\0\0X\0\0\0\0\x86K\0NX\0\0\0\0tt", after=b"t"),
}
_HANDLES_KEY, _PATHS_KEY = text(b"function_debug_handles"), text(b"module_debug_info")
_NAMED = b"(K\4X\1\0\0\0m"
METHODS = {
    "methods": Repeated(
        _NAMED + _HANDLES_KEY + integers(b"") + b"\x85\x86\x85q\0\x86", b"X\0\0\0\0h\0\x86", after=b"t"
    ),
    "instructions": Repeated(
        _NAMED + _HANDLES_KEY + b"ctorch.jit._pickle\nbuild_intlist\n(](",
        ZERO,
        after=b"etR\x85\x86\x85\x86t",
    ),
}
PATHS = {
    "paths": Repeated(
        _NAMED + _PATHS_KEY + MARK + text(b"top(T)" * 50) + b"q\0", b"h\0", after=b"t\x86\x85\x86t"
    ),
}
_INSTRUCTIONS, _OPERATORS = text(b"instructions"), text(b"operators")
_ONE_OPERATOR = _OPERATORS + sequence(sequence(text(b"aten::add"), text(b""))) + b"\x86"
BYTECODE = {
    "called methods": Repeated(
        _NAMED + MARK + _INSTRUCTIONS + b")\x86" + _ONE_OPERATOR + b"t\x86q\0", b"h\0", after=b"t"
    ),
    "lite instructions": Repeated(
        _NAMED + MARK + _INSTRUCTIONS + b"(X\2\0\0\0OPK\0K\0\x87q\0",
        b"h\0",
        after=b"t\x86" + _ONE_OPERATOR + b"t\x86t",
    ),
    "operators": Repeated(
        _NAMED + MARK + _INSTRUCTIONS + b")\x86" + _OPERATORS + MARK,
        b"X\0\0\0\0X\0\0\0\0\x86",
        after=b"t\x86t\x86t",
    ),
    "names of one value": Repeated(b"(K\4)" + DOUBLING.motif * 18 + b"q\1)\x86", b"h\1)\x86", after=b"t"),
}
_BLOB = text(b"<debug_handle>1" * 400)
DATA = {
    "lowered states": Repeated(
        b"](ctorch.jit\nLoweredModule.demo.M\nq\0" + _BLOB + b"q\1",
        b"h\0)\x81Nh\1\x86b",
        after=b"e",
    ),
    "attributes": Repeated(b"c__torch__\nM\n)\x81}(", b"X\0\0\0\0N", after=b"ub"),
    "modules inside one another": Repeated(
        b"](c__torch__\nM\nq\0", b"h\0)\x81}X\1\0\0\0m", NONE, b"sb", b"e"
    ),
}
_MINUS_ONE, _LONG = b"J\xff\xff\xff\xff", text(b"0x" + b"f" * 9_998)
_EMPTY = b")"
_LOCAL = sequence(sequence(text(b"local"), _MINUS_ONE, b"K\1"))
_NAMED_STRINGS = sequence(text(b"forward"), text(b"self"))
_VALUES = sequence(sequence(text(b"source"), ZERO, _EMPTY))
_METHOD = sequence(sequence(ZERO, _EMPTY, ZERO, _EMPTY))
_TABLES = _NAMED_STRINGS + _EMPTY + _LOCAL + _VALUES
"""Strings, constants, sources and values of a method that gives back its module."""


def _rows(before: bytes, row: bytes, after: bytes) -> Repeated:
    """A record of effects: the tables before, one of the same row again and again, and the tables after."""
    return Repeated(b"(" + before + b"(" + row + b"q\1", b"h\1", after=b"t" + after + b"t")


EFFECTS = {
    "rows of one string": _rows(b"K\4", _LONG, _EMPTY * 6),
    "constants of one string": _rows(
        b"K\4" + sequence(_LONG), sequence(text(b"int"), ZERO, _EMPTY), _EMPTY * 5
    ),
    "constants": _rows(b"K\4)", sequence(text(b"none"), _MINUS_ONE, _EMPTY), _EMPTY * 5),
    "temporaries": _rows(b"K\4))", sequence(text(b"temporary"), integer(1 << 20), _MINUS_ONE), _EMPTY * 4),
    "outputs": _rows(b"K\4)))", sequence(text(b"output"), integer(1 << 20), _EMPTY), _EMPTY * 3),
    "methods with effects": _rows(b"K\4" + _TABLES, _METHOD[1:-1], _EMPTY * 2),
    "effects": _rows(
        b"K\4" + _TABLES + b"((" + ZERO + _EMPTY + ZERO,
        sequence(text(b"clear"), ZERO, _MINUS_ONE, _MINUS_ONE, integer(1 << 20)),
        b"tt" + _EMPTY * 2,
    ),
    "places of state": _rows(b"K\4" + _TABLES + _METHOD, sequence(ZERO, ZERO), _EMPTY),
    "guards": _rows(
        b"K\4" + _TABLES + _METHOD + _EMPTY + b"((",
        sequence(text(b"dim"), ZERO, ZERO, _MINUS_ONE, integer(1 << 20)),
        _EMPTY + b"tt",
    ),
    "items of a value": Repeated(
        b"(K\4)))(" + sequence(text(b"output"), ZERO, _EMPTY) + b"(" + text(b"list") + _MINUS_ONE + b"(",
        ZERO,
        after=b"ttt" + _EMPTY * 3 + b"t",
    ),
}
