"""``bytecode.pkl``: versions, instruction counts, and the operator that each instruction calls."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive import ArchiveError
from archive.base.limits import Limits
from archive.formats.bytecode import (
    UNVERSIONED_METHODS,
    VERSIONED_METHODS,
    InstructionTable,
    LiteInstruction,
    parse_bytecode,
    parse_operators,
    renumber_warnings,
)
from archive.formats.record_kinds import BYTECODE
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from tests.attacks import pieces
from tests.support import slow_reader
from tests.support.corpus import ARCHIVES, PATHS, RELEASES, raw, raw_records

if TYPE_CHECKING:
    from pathlib import Path

    from archive.pickles.tree import Tree

LITE = [path for path in ARCHIVES if any(one.name == BYTECODE for one in raw_records(path))]
GROUPS = sorted({path.parent.name for path in LITE})
NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
UNICODE = RELEASES / "torch-2.13.0" / "unicode.ptl"

UNBOUNDED = Limits(memory=1 << 40).allowance(0)


def tree_of(data: bytes) -> Tree:
    return read_trees([Pickle(BYTECODE, memoryview(data))], [False])


def operators(data: bytes) -> dict[str, list[bytes]]:
    return parse_operators(tree_of(data), 0)


def expected(data: bytes) -> tuple[int, dict[str, list[bytes]]]:
    """Version and operators, by the slow reader."""
    top = slow_reader.load(data)
    version, methods = (top[0], top[1:]) if isinstance(top[0], int) else (3, top)
    called = {}
    for name, table, *_ in methods:
        of = dict(table)
        called[name.decode("utf-8", "backslashreplace")] = [
            of[b"operators"][number][0] if code in (b"OP", b"OPN") else b""
            for code, number, *_ in of[b"instructions"]
        ]
    return version, called


@pytest.mark.parametrize("group", GROUPS)
def test_every_instruction_of_every_archive_calls_what_the_slow_reader_finds(group: str) -> None:
    for path in LITE:
        if path.parent.name != group:
            continue
        data = raw(path, BYTECODE)
        version, called = expected(data)
        assert operators(data) == called, path
        assert list(operators(data)) == list(called)
        found = parse_bytecode(tree_of(data), 0)
        assert (found.version, dict(found.instructions)) == (
            version,
            {name: len(calls) for name, calls in called.items()},
        )


def test_the_declaration_describes_itself() -> None:
    instructions = '("instructions", ((opcode: str, x: value, ...), ...))'
    operators = '("operators", ((name: str, overload: value, ...), ...))'
    table = f'({instructions}, {operators}, ("constants", (value, ...)), ...)'
    assert str(UNVERSIONED_METHODS) == f"((name: str, table: {table}, ...), ...)"
    assert str(VERSIONED_METHODS) == f"(int, (name: str, table: {table}, ...), ...)"


def test_a_model_calls_what_its_code_says() -> None:
    (calls,) = operators(raw(UNICODE, BYTECODE)).values()
    assert calls[4] == b"aten::sub"
    assert [one for one in calls if one] == [b"aten::sub", b"aten::mul", b"aten::sum", b"aten::add"]


def test_module_paths_are_as_many_as_operators_are_called() -> None:
    for path in LITE:
        if any(one.name == PATHS for one in raw_records(path)):
            _, paths = slow_reader.methods(raw(path, PATHS))
            called = operators(raw(path, BYTECODE))
            counts = {name: sum(map(bool, calls)) for name, calls in called.items()}
            assert {name.decode(): len(steps) for name, steps in paths} == counts


def test_methods_that_share_a_table_share_its_operators() -> None:
    table = method()[1]
    data = made((5, ("m.one", table), ("m.two", table)))
    found = operators(data)
    assert found == {"m.one": [b"aten::add", b"", b"aten::mul"], "m.two": [b"aten::add", b"", b"aten::mul"]}
    assert found["m.one"] is found["m.two"]


def test_bytecode_without_a_version_is_of_version_3() -> None:
    assert parse_bytecode(tree_of(made((method(),))), 0).version == 3
    assert operators(made((method(),))) == operators(made((5, method())))
    assert operators(made(())) == operators(made((5,))) == {}


@pytest.mark.parametrize(
    "constants",
    [b"(" * 500 + b"t" * 500, pieces.doubled(40), pieces.several(pieces.again(99))],
    ids=["500 deep", "of two to the power of 40 items", "the text that is the name"],
)
def test_constants_are_not_gone_through(constants: bytes) -> None:
    name = pieces.kept(pieces.text("m.f"), 99)
    tree = tree_of(pieces.bytecode(pieces.method(name, constants, operators=3, opcode="RET")))
    assert dict(parse_bytecode(tree, 0).instructions) == {"m.f": 3}
    assert [len(calls) for calls in parse_operators(tree, 0).values()] == [3]
    assert InstructionTable(tree, 0).at(b"m.f", 2) is not None


def test_a_name_may_be_remembered_and_used_again() -> None:
    first = pieces.method(pieces.kept(pieces.text("m.f"), 7), operators=2, opcode="RET")
    second = pieces.method(pieces.text("m.g"), pieces.several(pieces.again(7)))
    last = pieces.method(pieces.again(7), operators=5, opcode="RET")
    tree = tree_of(pieces.bytecode(first, second, last))
    assert dict(parse_bytecode(tree, 0).instructions) == {"m.f": 5, "m.g": 1}
    assert {name: len(calls) for name, calls in parse_operators(tree, 0).items()} == {
        "m.f": 5,
        "m.g": 1,
    }


# --- made-up bytecode


INSTRUCTIONS = (("OP", 0, 0), ("STOREN", 9, 0), ("OPN", 1, 2))
OPERATORS = (("aten::add", "Tensor"), ("aten::mul", ""))


def method(
    name: object = "m.f", instructions: object = INSTRUCTIONS, called: object = OPERATORS
) -> tuple[Any, Any]:
    return (name, (("instructions", instructions), ("operators", called), ("constants", ())))


def made(value: object) -> bytes:
    return pickle.dumps(value, protocol=2)


BROKEN: dict[str, tuple[object, str, str]] = {
    "no tuple": ({}, "a tuple of methods", "a dict"),
    "a method that is none": ((5, 7), "a method: name and table", "7"),
    "a method without a table": ((5, ("m.f",)), "a method: name and table", "a tuple of 1"),
    "a number as a name": ((5, method(7)), "a text", "7"),
    "a table that is none": ((5, ("m.f", "table")), "a method's table", "'table'"),
    "an entry that is none": ((5, ("m.f", (8,))), "a pair of key and value", "8"),
    "no instructions": (
        (5, ("m.f", (("operators", ()),))),
        "a method with instructions",
        "a tuple of 1",
    ),
    "no operators": (
        (5, ("m.f", (("instructions", ()),))),
        "a method with operators",
        "a tuple of 1",
    ),
    "a list of instructions": ((5, method(instructions=[])), "instructions", "a list of 0"),
    "operators that are none": ((5, method(called=3)), "operators", "3"),
    "an operator that is none": (
        (5, method(called=("aten::add",))),
        "an operator: name and overload",
        "'aten::add'",
    ),
    "an operator without an overload": (
        (5, method(called=(("aten::add",),))),
        "an operator: name and overload",
        "a tuple of 1",
    ),
    "an operator that is a number": ((5, method(called=((1, ""),))), "a text", "1"),
    "an instruction that is none": ((5, method(instructions=(("OP", 0, 0), 5))), "an instruction", "5"),
    "a short instruction": ((5, method(instructions=(("OP",),))), "an instruction", "a tuple of 1"),
    "a code that is a number": ((5, method(instructions=((1, 0, 0),))), "a text", "1"),
    "an operator behind the last": ((5, method(instructions=(("OP", 2, 0),))), "one of 2 operators", "2"),
    "a negative operator": ((5, method(instructions=(("OPN", -1, 0),))), "one of 2 operators", "-1"),
    "an operator by its name": (
        (5, method(instructions=(("OP", "add", 0),), called=OPERATORS * 10)),
        "one of 20 operators",
        "'add'",
    ),
    "an operator of none": ((5, method(called=())), "one of 0 operators", "0"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_no_bytecode_is_refused_with_its_place(what: str) -> None:
    value, wanted, found = BROKEN[what]
    with pytest.raises(ArchiveError) as caught:
        operators(made(value))
    error = caught.value
    assert (error.record, error.expected, error.found) == (BYTECODE, wanted, found)
    assert error.place is not None
    assert error.place.startswith("byte ")


def test_what_an_instruction_that_calls_nothing_says_does_not_matter() -> None:
    odd = (("LOADC", "x", 0), ("OP", 1, 0), ("RET", -5))
    assert operators(made((5, method(instructions=odd)))) == {"m.f": [b"", b"aten::mul", b""]}


@pytest.mark.parametrize("path", [UNICODE, RELEASES / "torch-1.7.0" / "unicode.ptl"], ids=str)
def test_every_cut_is_refused_and_every_change_gives_a_result_or_an_error(path: Path) -> None:
    data = raw(path, BYTECODE)
    for end in range(len(data)):
        with pytest.raises(ArchiveError):
            operators(data[:end])
    ends = set()
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        try:
            operators(changed)
            ends.add("")
        except ArchiveError as error:
            assert (error.record, bool(error.place)) == (BYTECODE, True)  # noqa: PT017 (each of many)
            ends.add("refused")
    assert ends == {"", "refused"}


def test_the_same_operators_are_found_in_an_open_archive() -> None:
    with archive.open(NESTED) as opened:
        assert parse_operators(opened.tree([BYTECODE]), 0) == operators(raw(NESTED, BYTECODE))


# --- warnings, which PyTorch numbers by a counter of its process


def warning(number: int) -> bytes:
    return pieces.several(pieces.text("WARN"), pieces.number(number), pieces.number(0))


def instructions(*calls: bytes) -> bytes:
    """The table of a method with nothing but instructions."""
    return pieces.several(pieces.several(pieces.text("instructions"), pieces.several(*calls)))


def warned(*numbers: int) -> bytes:
    """Bytecode of two methods that warn with these numbers in turn, behind a call of operator 300."""
    methods = []
    for at in (0, 1):
        calls = [pieces.several(pieces.text("OP"), pieces.number(300), pieces.number(0))]
        calls += [
            pieces.several(pieces.text("WARN"), pieces.number(one), pieces.number(0))
            for one in numbers[at::2]
        ]
        methods.append(pieces.several(pieces.text(f"m{at}"), instructions(*calls)))
    return pieces.bytecode(*methods)


@pytest.mark.parametrize("numbers", [(), (0, 1), (7, 300), (70_000, 3, 1 << 40, 0, 255)])
def test_warnings_are_numbered_from_0_in_their_order(numbers: tuple[int, ...]) -> None:
    ordered = list(range(len(numbers)))
    half = (len(numbers) + 1) // 2
    wanted = [ordered[:half][at // 2] if at % 2 == 0 else ordered[half:][at // 2] for at in ordered]
    assert renumber_warnings(tree_of(warned(*numbers)), 0) == warned(*wanted)


def test_a_warning_that_methods_share_keeps_one_number() -> None:
    first, again = instructions(pieces.kept(warning(9), 0)), instructions(pieces.again(0))
    data = pieces.bytecode(pieces.several(pieces.text("a"), first), pieces.several(pieces.text("b"), again))
    assert renumber_warnings(tree_of(data), 0) == data.replace(pieces.number(9), pieces.number(0))


@pytest.mark.parametrize(
    "root", [pieces.NONE, pieces.number(1), pieces.several(pieces.number(1), pieces.NONE)]
)
def test_a_record_of_another_form_has_no_instructions(root: bytes) -> None:
    tree = tree_of(pieces.pickled(root))
    assert InstructionTable(tree, 0).at(b"", 0) is None


def test_what_is_not_as_declared_is_not_there() -> None:
    table = (
        ("instructions", (("OP", 0, 0), 5, ("INTERFACE_CALL", 1, 2), ("INTERFACE_CALL", "x", 2), (7, 0, 0))),
        ("constants", (3, "forward")),
    )
    methods = ("m.f", table), 8, ("m.list", [table]), ("m.text", (("instructions", "OP"),)), ("alone",)
    instructions = InstructionTable(tree_of(made((5, *methods))), 0)
    assert [instructions.at(b"m.f", number) for number in range(-1, 6)] == [
        None,
        LiteInstruction(b"OP", b""),
        None,
        LiteInstruction(b"INTERFACE_CALL", b"forward"),
        LiteInstruction(b"INTERFACE_CALL", b""),
        LiteInstruction(b"", b""),
        None,
    ]
    assert [instructions.at(name, 0) for name in (b"m.list", b"m.text", b"alone", b"none")] == [None] * 4
