"""Records that ask for much: few bytes of pickle, source or code that stand for much memory or time."""

from __future__ import annotations

from tests.attacks.attack import MIB, Attack
from tests.attacks.pieces import (
    MARK,
    NONE,
    again,
    bytecode,
    doubled,
    handles,
    kept,
    method,
    method_handles,
    number,
    pickled,
    ranges,
    several,
    text,
)
from tests.attacks.zips import LITE, archive_of

CODE = {**LITE, "code/m.py": b"pass\n"}
ONE_LINE = {**CODE, "code/m.py.debug_pkl": ranges(b"x = 1\n")}
READ = ("inspect m.pt", "verify m.pt", "sizes m.pt", "leaks m.pt")
MADE = (
    "split m.pt -o s.pt -c s.ptdbg",
    "shrink m.pt -o c.pt",
    "shrink m.pt -o e.pt --level embed",
    "migrate m.pt -o n.pt --to latest --lossy",
)


def as_ranges(pickle: bytes) -> dict[str, bytes]:
    """A model whose source ranges are a pickle."""
    return {"m.pt": archive_of({**CODE, "code/m.py.debug_pkl": pickle})}


def as_data(pickle: bytes) -> dict[str, bytes]:
    """A model whose module tree, constants and bytecode are a pickle."""
    return {"m.pt": archive_of({**CODE, "data.pkl": pickle, "bytecode.pkl": pickle})}


def source_of(source: bytes, rows: int = 1) -> dict[str, bytes]:
    """A model with a source."""
    return as_ranges(ranges(source, rows))


def _huge_lengths() -> dict[str, bytes]:
    """A model for each opcode that states a length."""
    lengths = {
        "text": b"X\xff\xff\xff\x7f",
        "long text": b"\x8d" + b"\xff" * 7 + b"\x7f",
        "bytes": b"B\xff\xff\xff\xff",
        "integer": b"\x8b\xff\xff\xff\x7f",
        "frame": b"\x95" + b"\xff" * 7 + b"\x7f",
        "array": b"\x96" + b"\xff" * 7 + b"\x7f",
        "memo": NONE + b"r\xff\xff\xff\xff" + b"j\xff\xff\xff\xff",
    }
    made = {}
    for name, pickle in lengths.items():
        data = pickled(MARK, pickle, b"t")
        records = {**CODE, "data.pkl": data, "code/m.py.debug_pkl": data}
        made[f"{name}.pt".replace(" ", "-")] = archive_of(records)
    return made


LENGTHS = ("text", "long-text", "bytes", "integer", "frame", "array", "memo")


def _cycles() -> dict[str, bytes]:
    """A list, a dict and an object that hold themselves."""
    values = {
        "list": kept(b"]", 0) + again(0) + b"a",
        "dict": kept(b"}", 0) + text("k") + again(0) + b"s",
        "object": kept(b"cm\nC\n)\x81", 0) + again(0) + b"b",
        "ring": kept(b"]", 0) + kept(b"]", 1) + again(0) + b"a" + b"a",
    }
    return {
        f"{name}.pt": archive_of({**ONE_LINE, "data.pkl": pickled(value), "bytecode.pkl": pickled(value)})
        for name, value in values.items()
    }


def _shared_rows() -> dict[str, bytes]:
    """A call-stack map whose 200,000 rows are one row, remembered."""
    row = kept(several(number(1), number(0), text("aten::add"), NONE), 0)
    records = {**ONE_LINE, "callstack_debug_map.pkl": pickled(MARK, row, again(0) * 200_000, b"t")}
    return {"m.pt": archive_of(records)}


def interface_call(constant: bytes) -> dict[str, bytes]:
    """A model whose bytecode calls a method through an interface; the method's name is that constant."""
    name = "__torch__.M.forward"
    records = {
        **ONE_LINE,
        "bytecode.pkl": bytecode(method(text(name), several(constant), opcode="INTERFACE_CALL")),
        "mobile_debug_handles.pkl": method_handles(name, [1]),
        "callstack_debug_map.pkl": handles([1, 2], 1, b"prim::CallMethod"),
    }
    return {"m.pt": archive_of(records)}


def _long_names() -> dict[str, bytes]:
    """A row whose file name has 8 MB, repeated by 2,000 rows."""
    record = ranges(b"x = 1\n", rows=2_000, filename=b"/" * (8 * MIB))
    return {"m.pt": archive_of({**CODE, "code/m.py.debug_pkl": record})}


def _code_of_newlines() -> dict[str, bytes]:
    """Generated code of newlines alone."""
    code = {"code/__torch__/m.py": b"\n" * (8 * MIB), "code/__torch__/m.py.debug_pkl": ranges(b"x\n")}
    return {"m.pt": archive_of({**LITE, **code})}


FAILED = (
    b"The following operation failed in the TorchScript interpreter.\n"
    b"Traceback of TorchScript (most recent call last):\n"
    b'  File "code/__torch__/m.py", line 3, in forward\n\n'
    b"        ~~~ <--- HERE\nRuntimeError: no\n"
)
FAILED_HANDLES = b"no\n\n  Debug info for handle(s): debug_handles:{21}, was not found.\n\n"
LOCATE = "symbolicate m.pt --at code/m.py:0"

ATTACKS = {
    "opcodes": Attack(
        "8 MB of opcodes that make empty tuples, in 8 KB of deflated source ranges.",
        lambda: as_ranges(pickled(MARK, b")" * (8 * MIB), b"t")),
        (*READ, LOCATE, *MADE),
    ),
    "opcodes of data": Attack(
        "The same in the module tree and the bytecode.",
        lambda: as_data(pickled(MARK, b")" * (8 * MIB), b"t")),
        (*READ, "migrate m.pt -o n.pt --to latest --lossy"),
    ),
    "marks": Attack(
        "A million MARKs, each closed by a TUPLE.",
        lambda: as_ranges(pickled(MARK * MIB, b"t" * MIB)),
        (*READ, LOCATE),
    ),
    "nested": Attack(
        "300,000 tuples, each inside the next, as module tree and bytecode.",
        lambda: as_data(pickled(b")", b"\x85" * 300_000)),
        (*READ, "inspect m.pt --effects", *MADE),
    ),
    "nested ranges": Attack(
        "300,000 tuples, each inside the next, as source ranges.",
        lambda: as_ranges(pickled(b")", b"\x85" * 300_000)),
        (*READ, LOCATE, *MADE),
    ),
    "nested constant": Attack(
        "A constant of bytecode that is 990 tuples deep, as a method's name, and a log that needs it.",
        lambda: interface_call(b")" + b"\x85" * 990),
        ("symbolicate m.pt", *READ, *MADE),
        FAILED_HANDLES,
    ),
    "deep constant": Attack(
        "The same, 100,000 tuples deep.",
        lambda: interface_call(b")" + b"\x85" * 100_000),
        ("symbolicate m.pt", *READ, *MADE),
        FAILED_HANDLES,
    ),
    "doubled constant": Attack(
        "The same with a constant of 2^19 items that share their parts.",
        lambda: interface_call(doubled(19)),
        ("symbolicate m.pt", *READ, *MADE),
        FAILED_HANDLES,
    ),
    "memo doubling": Attack(
        "A tuple of the same tuple twice, 60 levels deep: 2^60 items, in every pickle.",
        lambda: {
            "m.pt": archive_of(
                {
                    **CODE,
                    "code/m.py.debug_pkl": pickled(doubled(60)),
                    "data.pkl": pickled(doubled(60)),
                    "constants.pkl": pickled(doubled(60)),
                    "bytecode.pkl": pickled(several(number(8), doubled(60))),
                    "callstack_debug_map.pkl": pickled(doubled(60)),
                }
            )
        },
        (*READ, LOCATE, "symbolicate m.pt 1", "inspect m.pt --effects", *MADE),
    ),
    "memo doubling of lists": Attack(
        "The same with lists, which Python's own unpickler shares as well, as the module tree.",
        lambda: {
            "m.pt": archive_of({**ONE_LINE, "data.pkl": pickled(b"]" + doubled(40, b"]") + b"a")}),
        },
        (*READ, *MADE),
    ),
    "huge lengths": Attack(
        "Texts, integers, frames and memo keys that state lengths of 2 GB to 2^63.",
        _huge_lengths,
        tuple(f"{verb} {name}.pt" for name in LENGTHS for verb in ("inspect", "verify")),
    ),
    "cycles": Attack(
        "A list, a dict and an object that hold themselves, as module tree and bytecode.",
        _cycles,
        tuple(f"{v} {n}.pt" for n in ("list", "dict", "object", "ring") for v in ("inspect", "verify")),
    ),
    "shared rows": Attack(
        "A call-stack map of 200,000 rows that all are one row, with one handle.",
        _shared_rows,
        (*READ, "symbolicate m.pt 1", *MADE),
    ),
    "source of newlines": Attack(
        "A source of 4 MB of newlines: as many lines as bytes.",
        lambda: source_of(b"\n" * (4 * MIB)),
        (*READ, LOCATE, "sizes m.pt --by source", *MADE),
    ),
    "code of newlines": Attack(
        "8 MB of newlines as generated code, and a log that names a line of it.",
        _code_of_newlines,
        ("symbolicate m.pt", *READ, *MADE),
        FAILED,
    ),
    "long source": Attack(
        "A source of one line of 160 MB, in an archive of 160 KB.",
        lambda: source_of(b"x" * (160 * MIB)),
        (LOCATE, *READ, *MADE),
    ),
    "long names": Attack(
        "A file name of 8 MB that 2,000 rows repeat.",
        _long_names,
        (LOCATE, *READ, *MADE),
        loops=2_000,
    ),
}
