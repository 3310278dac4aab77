"""Programs of ExecuTorch that ask for much, lie, overlap, share tables or lead in circles."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from archive.formats.executorch.layout import IDENTIFIER
from tests.attacks.attack import Attack
from tests.support.executorch import parsed, program_file
from tests.support.exported import record
from tests.support.flatbuffers_built import Number, flatbuffer, numbers, table, text, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.flatbuffers_built import Part

COMMANDS = (
    *("inspect m.pte", "sizes m.pte", "verify m.pte", "digest m.pte", "leaks m.pte", "diff m.pte m.pte"),
    *("symbolicate m.pte 0:0", "symbolicate m.etrecord --program m.pte 0:0"),
)
NO_PLACE, MANY = 0xFFFFFFFF, 50_000


def _made(make: Callable[[], bytes], name: str = "shop") -> Callable[[], dict[str, bytes]]:
    """A program, and the ETRecord of another one."""
    return lambda: {"m.pte": make(), "m.etrecord": record(name).read_bytes()}


def _int(value: int = 0) -> Number:
    return Number("i", value)


VALUE = table(Number("B", 2), table(Number("q", 5)))
ADD = table(text(b"aten::add"), text(b"out"))


def _call(*args: int) -> Part:
    return table(Number("B", 1), table(_int(), numbers("i", args)))


def _plan(
    name: bytes = b"forward",
    values: Part | None = None,
    instructions: Part | None = None,
    frames: Part | None = None,
) -> Part:
    nothing = numbers("i", [])
    chain = table(nothing, nothing, instructions or vector([_call(0)]), frames)
    return table(
        *(text(name), None, values or vector([VALUE]), nothing, nothing, vector([chain]), vector([ADD])),
        *(vector([]), numbers("q", [0])),
    )


def _program(plans: Sequence[Part], *more: Part | None) -> bytes:
    return flatbuffer(table(None, vector(plans), *more), IDENTIFIER)


def _tensor(*, sizes: Sequence[int], index: int = 0) -> Part:
    order = numbers("B", [*range(len(sizes))])
    fields = Number("b", 6), _int(), numbers("i", sizes), order, Number("B", 0), Number("I", index)
    return table(Number("B", 5), table(*fields))


def _many_methods() -> bytes:
    values = vector([VALUE] * 10_000)
    return _program([_plan(b"%d" % number, values) for number in range(4_000)])


def _framed(frames: Part, count: int = 1) -> bytes:
    plan = _plan(instructions=vector([_call(0)] * count), frames=vector([frames] * count))
    return _program([plan])


def _frame(context: bytes) -> Part:
    return table(text(b"m.py"), _int(1), text(b"forward"), text(context))


def _lying(name: str, form: str, wrong: int) -> bytes:
    """A program in which each number that may be an offset or a length is another."""
    data = bytearray(program_file(name).read_bytes())
    for at in range(40, len(data) - 3, 4):
        if 0 < struct.unpack_from("<i", data, at)[0] < len(data):
            struct.pack_into(form, data, at, wrong)
    return bytes(data)


def _in_header(at: int, value: int) -> bytes:
    data = bytearray(program_file("xnnpack").read_bytes())
    struct.pack_into("<Q", data, at, value)
    return bytes(data)


def _in_xnnpacks(change: Callable[[bytearray], None]) -> bytes:
    """A program whose first part of XNNPACK's is another one."""
    data = program_file("xnnpack").read_bytes()
    start, stop = parsed(data).methods[0].blobs[0].span
    part = bytearray(data[start:stop])
    change(part)
    return data[:start] + bytes(part) + data[stop:]


def _all_of_xnnpack(part: bytearray) -> None:
    """Each number that may be an offset or a length is the largest."""
    for at in range(32, len(part) - 3, 4):
        if 0 < struct.unpack_from("<I", part, at)[0] < len(part):
            struct.pack_into("<I", part, at, NO_PLACE)


def _circle() -> bytes:
    """A vtable that is its own table, whose fields lead back to it."""
    body = struct.pack("<iHHHH", 0, 12, 12, 4, 4) + bytes(64)
    return struct.pack("<I4s", 8, IDENTIFIER) + body


def _overlapping() -> bytes:
    """Constants that begin within each other."""
    values = vector([_tensor(sizes=[1_000], index=number) for number in range(1, 2_000)])
    offsets = table(Number("I", 0), numbers("Q", range(2_000)))
    data = _program(
        [_plan(values=values)],
        *(None, None, vector([table(Number("Q", 0), Number("Q", 8_000))]), offsets),
    )
    return _with_segments(data, bytes(8_000))


def _with_segments(data: bytes, segments: bytes) -> bytes:
    """A FlatBuffer with an extended header, and what follows it."""
    shift = 32
    root, size = struct.unpack_from("<I", data)[0] + shift, len(data) + shift
    head = struct.pack("<I4s4sIQQ8x", root, IDENTIFIER, b"eh00", 24, size, size)
    return head + data[8:] + segments


ATTACKS = {
    "values of a program that are one": Attack(
        "200,000 references lead to one value.",
        _made(lambda: _program([_plan(values=vector([VALUE] * 4 * MANY))])),
        COMMANDS,
    ),
    "methods of a program that are one": Attack(
        "50,000 references lead to one method of 50,000 values.",
        _made(lambda: _program([_plan(values=vector([VALUE] * MANY))] * MANY)),
        COMMANDS,
    ),
    "methods of a program that share their values": Attack(
        "4,000 methods have the same 10,000 values.", _made(_many_methods), COMMANDS
    ),
    "instructions of a program that are one": Attack(
        "50,000 references lead to one instruction of 50,000 arguments.",
        _made(lambda: _program([_plan(instructions=vector([_call(*[0] * MANY)] * MANY))])),
        COMMANDS,
    ),
    "tensors of a program that are one": Attack(
        "50,000 references lead to one tensor of 64 dimensions, each the largest.",
        _made(lambda: _program([_plan(values=vector([_tensor(sizes=[0x7FFFFFFF] * 64)] * MANY))])),
        COMMANDS,
    ),
    "frames of a program that are one": Attack(
        "50,000 instructions have the same 50,000 frames, which are one.",
        _made(lambda: _framed(table(vector([_frame(b"x")] * MANY)), MANY)),
        COMMANDS,
    ),
    "long frames of a program": Attack(
        "A frame's code of 4 MB has line feeds and a terminal's orders.",
        _made(lambda: _framed(table(vector([_frame(b"\n\x1b[31m" * 700_000)])))),
        COMMANDS,
    ),
    "a method with a long name": Attack(
        "A name of 4 MB has line feeds and a terminal's orders.",
        _made(lambda: _program([_plan(b"\n\x1b[31m" * 700_000)])),
        COMMANDS,
    ),
    "constants of a program that overlap": Attack(
        "2,000 constants of 4,000 bytes begin one byte after each other.",
        _made(_overlapping),
        COMMANDS,
    ),
    "largest numbers in a program": Attack(
        "Each offset and length is the largest number.",
        _made(lambda: _lying("framed", "<I", NO_PLACE)),
        COMMANDS,
    ),
    "offsets of a program that lead nowhere": Attack(
        "Each offset and length is 0.", _made(lambda: _lying("framed", "<I", 0)), COMMANDS
    ),
    "tables of a program that are their vtables": Attack(
        "A table is its own vtable, and leads to itself.", _made(_circle), COMMANDS
    ),
    "a program of the largest size": Attack(
        "The extended header says that the FlatBuffer has 2^64 - 1 bytes.",
        _made(lambda: _in_header(16, (1 << 64) - 1)),
        COMMANDS,
    ),
    "segments of a program before its beginning": Attack(
        "Segments begin at the largest number, from which their offsets lead around.",
        _made(lambda: _in_header(24, (1 << 64) - 1)),
        COMMANDS,
    ),
    "XNNPACK's part leads out of itself": Attack(
        "Each offset and length in XNNPACK's part is the largest number.",
        _made(lambda: _in_xnnpacks(_all_of_xnnpack), "xnnpack"),
        COMMANDS,
    ),
    "XNNPACK's part is cut": Attack(
        "XNNPACK's FlatBuffer has the largest size.",
        _made(lambda: _in_xnnpacks(lambda part: struct.pack_into("<I", part, 14, NO_PLACE)), "xnnpack"),
        COMMANDS,
    ),
    "an ETRecord in the place of its program": Attack(
        "The program is the ETRecord itself.",
        lambda: dict.fromkeys(("m.pte", "m.etrecord"), record("shop").read_bytes()),
        COMMANDS,
    ),
}
