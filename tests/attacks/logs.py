"""Logs with archives: short logs whose explanation by a small archive asks for much time or output."""

from __future__ import annotations

from tests.attacks.attack import MIB, Attack
from tests.attacks.pieces import (
    again,
    bytecode,
    doubled,
    handles,
    kept,
    method,
    ranges,
    several,
    text,
)
from tests.attacks.records import CODE, FAILED, ONE_LINE
from tests.attacks.zips import LITE, archive_of

ONES = [int("1" * digits) for digits in range(1, 9)]
EXPLAIN = ("symbolicate m.ptl",)


def failed(digits: str) -> bytes:
    """The lite interpreter's text of a failure."""
    return f"no\n\n  Debug info for handle(s): debug_handles:{{{digits}}}, was not found.\n\n".encode()


def model(numbers: list[int], frames: int, **records: bytes) -> dict[str, bytes]:
    """A model whose handles are calls that share one stack of so many frames; other records by name."""
    stacks = handles(numbers, frames, b"prim::CallMethod")
    named = {f"{name}.pkl": data for name, data in records.items()}
    return {"m.ptl": archive_of({**ONE_LINE, "callstack_debug_map.pkl": stacks, **named})}


def _long_line() -> dict[str, bytes]:
    """A model whose 4,000 frames each show a line of 60 KB."""
    records = {
        "code/m.py.debug_pkl": ranges(b"x" * 60_000 + b"\n"),
        "callstack_debug_map.pkl": handles([1], 4_000),
    }
    return {"m.ptl": archive_of({**CODE, **records})}


def _shared_key() -> dict[str, bytes]:
    """Bytecode whose 200 methods share one name, a tuple of 2^18 items."""
    first = method(kept(doubled(18, b")"), 99))
    methods = [several(again(99), b")") for _ in range(200)]
    return model([1, 2], 2, bytecode=bytecode(first, *methods))


def _many_instructions() -> dict[str, bytes]:
    """A method of 20,000 instructions, and as many handles."""
    code = bytecode(method(text("__torch__.M.forward"), operators=20_000))
    return model(list(range(1, 20_001)), 2, bytecode=code)


def _long_code() -> dict[str, bytes]:
    """Generated code of one line of 20 MB."""
    code = {"code/__torch__/m.py": b"x" * (20 * MIB), "code/__torch__/m.py.debug_pkl": ranges(b"x\n")}
    return {"m.ptl": archive_of({**LITE, **code})}


ATTACKS = {
    "equal digits": Attack(
        "Handles 1, 11, 111, … of 4,000 frames each, and a log that joins eight digits.",
        lambda: model(ONES, 4_000),
        EXPLAIN,
        failed("1" * 8),
    ),
    "many equal digits": Attack(
        "The same handles with 4 frames each, and 200 failures of 100 equal digits.",
        lambda: model(ONES, 4),
        EXPLAIN,
        failed("1" * 100) * 200,
    ),
    "many digits": Attack(
        "A failure of 200,000 digits.",
        lambda: model([*range(1, 1_000)], 2),
        EXPLAIN,
        failed("123456789" * 22_222),
    ),
    "different digits": Attack(
        "2,000 failures, each of 12 other digits, and handles that read each in many ways.",
        lambda: model([*range(1, 1_000)], 2),
        EXPLAIN,
        b"".join(failed(str(10**11 + 7_777_777 * at)) for at in range(2_000)),
    ),
    "shared key": Attack(
        "200 methods of bytecode whose name is one tuple of 2^18 items, and 20 failures.",
        _shared_key,
        (*EXPLAIN, "inspect m.ptl", "verify m.ptl"),
        failed("12") * 20,
    ),
    "many instructions": Attack(
        "A method of 20,000 instructions, and 500 failures that name its handles.",
        _many_instructions,
        (*EXPLAIN, "inspect m.ptl", "verify m.ptl"),
        b"".join(failed(str(at * 31 + 1)) for at in range(500)),
    ),
    "amplified handle": Attack(
        "One handle whose 4,000 frames each show a line of 60 KB: 240 MB in print.",
        _long_line,
        ("symbolicate m.ptl 1", "symbolicate m.ptl 1 --json"),
    ),
    "amplified log": Attack(
        "20 failures that name a handle of 4,000 frames, each of a line of 60 KB.",
        _long_line,
        EXPLAIN,
        failed("1") * 20,
    ),
    "repeated handle": Attack(
        "The same handle 20,000 times on the command line.",
        lambda: model([1], 400),
        ("symbolicate m.ptl " + "1 " * 20_000,),
    ),
    "one long line": Attack(
        "A log of one line of 8 MB.",
        lambda: model([1], 2),
        EXPLAIN,
        b"debug_handles:{" * (8 * MIB // 15),
    ),
    "log of headings": Attack(
        "50,000 headings of tracebacks, none of which ends.",
        lambda: model([1], 2),
        EXPLAIN,
        b"Traceback of TorchScript (most recent call last):\n" * 50_000,
        loops=3_000,
    ),
    "log of frames": Attack(
        "A traceback of 20,000 frames of a line of code of 20 MB.",
        _long_code,
        EXPLAIN,
        b"Traceback of TorchScript (most recent call last):\n"
        + b'  File "code/__torch__/m.py", line 1, in forward\n    x\n    ~ <--- HERE\n' * 20_000,
    ),
    "log of tracebacks": Attack(
        "2,000 tracebacks that each name a line of generated code of 20 MB.",
        _long_code,
        EXPLAIN,
        FAILED * 2_000,
    ),
}
