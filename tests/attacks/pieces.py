"""Pickles put together by hand, from bytes alone: nothing here depends on the code under attack."""

from __future__ import annotations

import struct

PROTO, STOP, NONE, MARK = b"\x80\x02", b".", b"N", b"("


def pickled(*pieces: bytes) -> bytes:
    """A whole pickle."""
    return PROTO + b"".join(pieces) + STOP


def text(value: bytes | str) -> bytes:
    """A text."""
    data = value.encode() if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int) -> bytes:
    """An integer of 64 bits, written as PyTorch writes it."""
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def several(*items: bytes) -> bytes:
    """A tuple."""
    if not items:
        return b")"
    if len(items) > 3:
        return MARK + b"".join(items) + b"t"
    return b"".join(items) + b"\x85\x86\x87"[len(items) - 1 :][:1]


def kept(value: bytes, key: int) -> bytes:
    """A value, remembered under a key."""
    return value + b"r" + struct.pack("<I", key)


def again(key: int) -> bytes:
    """The value that was remembered under a key."""
    return b"j" + struct.pack("<I", key)


def doubled(times: int, seed: bytes = b"K\x01") -> bytes:
    """A tuple of the same tuple twice, of the same tuple twice, …: two to the power of ``times`` items."""
    levels = (kept(b"", level) + again(level) + b"\x86" for level in range(times))
    return seed + b"".join(levels)


# --- the records of a small model


def ranges(source: bytes, rows: int = 1, filename: bytes = b"m.py") -> bytes:
    """Source ranges in inline rows, all of one source."""
    shared = kept(several(text(source), text(filename), number(1)), 0)
    first = several(number(0), several(shared, number(0), number(1)), number(0))
    rest = [several(number(at), several(again(0), number(0), number(1)), number(at)) for at in range(1, rows)]
    return pickled(MARK, first, *rest, b"t")


def handles(numbers: list[int], frames: int, operator: bytes = b"aten::add") -> bytes:
    """A call-stack map whose handles share one stack of so many frames; each frame leads to tag 0."""
    stack = several(NONE, number(0), NONE, text("f"))
    for _ in range(frames - 1):
        stack = several(NONE, number(0), stack, text("f"))
    first, *rest = numbers
    rows = [several(number(first), number(0), text(operator), kept(stack, 1))]
    rows += [several(number(one), number(0), text(operator), again(1)) for one in rest]
    return pickled(MARK, *rows, b"t")


def method(name: bytes, constants: bytes = b")", operators: int = 1, opcode: str = "OP") -> bytes:
    """A method of bytecode with one instruction an operator; name and constants are pickled values."""
    calls = [several(text(opcode), number(at % 256), number(0)) for at in range(operators)]
    table = several(
        several(text("instructions"), several(*calls)),
        several(text("operators"), several(several(text("aten::add"), text("Tensor")))),
        several(text("constants"), constants),
        several(text("types"), b")"),
        several(text("register_size"), number(1)),
    )
    return several(name, table)


def bytecode(*methods: bytes) -> bytes:
    """A record of bytecode, version 8."""
    return pickled(several(number(8), *methods))


def method_handles(name: str, handles_of_method: list[int]) -> bytes:
    """The debug handles of one method's instructions."""
    listed = b"](" + b"".join(map(number, handles_of_method)) + b"e"
    values = b"ctorch.jit._pickle\nbuild_intlist\n" + several(listed) + b"R"
    table = several(several(text("function_debug_handles"), several(values)))
    return pickled(several(number(8), several(text(name), table)))
