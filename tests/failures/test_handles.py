"""Handles that PyTorch joined without a separator are split."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

import archive
from archive.base.limits import DEFAULT_LIMITS, Steps
from archive.base.spending import Spending
from archive.debuginfo.handle_tables import HandleTable, MethodTable
from archive.debuginfo.model import Generation
from archive.debuginfo.symbolicate import Style, Symbolication
from archive.debuginfo.unique_handles import PLAIN, HandleForm
from archive.failures.handles import HandleSplits
from archive.failures.lite import LiteAnswers, LiteFailure
from archive.formats.bytecode import InstructionTable
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from tests.support.corpus import ORACLES
from tests.support.cost import loops_below
from tests.support.reports import stream
from tests.support.strategies import Strings, column, firsts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive import Archive
    from archive.failures.failure import Answer

TOP = "__torch__.Top"
LOWERED = "torch.jit.LoweredModule.demo.__torch__.A"


def split(opened: archive.Archive, digits: str) -> list[tuple[int, ...]]:
    """All readings of some digits; the search takes no more steps than it may by default."""
    return HandleSplits(opened).fitting(digits, Steps(DEFAULT_LIMITS.work))


def model(
    methods: Mapping[str, Mapping[int, str]],
    delegated: Mapping[int, str],
    blob: Sequence[int] = (),
    owner: str = LOWERED,
    form: HandleForm = PLAIN,
    *,
    unread: str = "",
) -> Archive:
    """An archive that has handles and nothing else.

    Args:
        methods: the instructions of each method, handle to opcode; "> forward" calls `forward`.
        delegated: operator names of delegated handles.
        blob: handles in the blob of the lowered module.
        owner: class of the module that all instructions are in.
        form: of the handles.
        unread: what cannot be read of the blob.
    """
    opcodes = [opcode for method in methods.values() for opcode in method.values()]
    strings = Strings()
    operators = {handle: strings.add(op.encode()) for handle, op in delegated.items()}
    add, call = strings.add(b"aten::add"), strings.add(b"prim::CallMethod")
    instructions = [handle for method in methods.values() for handle in method]
    for handle, opcode in zip(instructions, opcodes, strict=True):
        operators[handle] = call if opcode.startswith("> ") else add
    stacks = [-1] * len(delegated) + [0] * (len(operators) - len(delegated))
    module, attribute = strings.add(owner.encode()), strings.add(b"low")
    names = [strings.add(name.encode()) for name in methods]
    zeros, one = column([0]), column([-1])
    table = strings.table()
    handles, ops = column(operators), column(operators.values())
    handle_table = HandleTable(
        table, handles, column([0] * len(handles)), ops, column(stacks),
        one, zeros, one, one, column([module]), column([attribute]),
    )  # fmt: skip
    counts = firsts([len(method) for method in methods.values()])
    tree = read_trees([Pickle("bytecode.pkl", memoryview(bytecode(methods)))], [False])
    return cast(
        "Archive",
        SimpleNamespace(
            limits=DEFAULT_LIMITS,
            programs={},
            handle_table=handle_table,
            handle_form=form,
            method_table=MethodTable(
                Generation.METHOD_HANDLES, table, 8, column(names), counts, column(instructions)
            ),
            instruction_table=InstructionTable(tree, 0),
            qualified_top="__torch__.Top",
            lowered={"low": SimpleNamespace(type_name=LOWERED, handles=tuple(blob), unread=unread)},
        ),
    )


def bytecode(methods: Mapping[str, Mapping[int, str]]) -> bytes:
    """The record ``bytecode.pkl`` of some methods, as in :func:`model`."""
    table: list[object] = [8]
    for name, instructions in methods.items():
        constants: list[str] = []
        rows: list[object] = []
        for opcode in instructions.values():
            calls = opcode.startswith("> ")
            rows.append(("INTERFACE_CALL", len(constants), 1) if calls else (opcode, 0, 0))
            constants += [opcode[2:]] * calls
        table.append((name, (("instructions", tuple(rows)), ("constants", tuple(constants)))))
    return pickle.dumps(tuple(table), protocol=2)


@pytest.mark.parametrize(
    ("case", "digits", "handles"),
    [
        ("lowered_shape", "126", (1, 26)),
        ("lowered_two", "358386", (358, 386)),
        ("plain_stack", "1445", (1445,)),
    ],
)
def test_the_fixtures_have_one_reading_each(case: str, digits: str, handles: tuple[int, ...]) -> None:
    with archive.open(ORACLES / f"{case}.ptl") as opened:
        assert split(opened, digits) == [handles]


@pytest.mark.parametrize(
    "digits",
    ["", "-1", "1-1", "\uff15\uff15", "9001", "0026", "2625", "117", "125", "261", "1261", "1" * 10_000],
)
def test_digits_that_fit_nothing(digits: str) -> None:
    with archive.open(ORACLES / "lowered_shape.ptl") as opened, loops_below(100):
        assert split(opened, digits) in ([], [(117,)])


def test_modules_called_through_interfaces_stand_behind_one_another() -> None:
    methods = {
        f"{TOP}.forward": {3: "OP", 7: "MOVE", 8: "> forward", 9: "> other"},
        "__torch__.Mid.forward": {13: "OP", 18: "> forward"},
        "__torch__.Impl.forward": {24: "OP"},
    }
    opened = model(methods, {})
    assert split(opened, "24188") == [(24, 18, 8)]
    assert split(opened, "138") == [(13, 8)]
    assert split(opened, "3") == [(3,)]
    for digits in ("24189", "137", "38", "818"):  # wrong name, no call, same method, then nobody calls 18
        assert split(opened, digits) in ([], [(8, 18)])


def test_delegated_operations_may_be_in_one_another() -> None:
    methods = {f"{TOP}.forward": {30: "> execute", 31: "> is_available", 40: "> inner"}}
    opened = model(methods, {2: "aten::add", 11: "prim::CallMethod", 12: "prim::CallMethod"})
    assert split(opened, "230") == [(2, 30)]
    assert split(opened, "2111230") == [(2, 11, 12, 30)]
    assert split(opened, "231") == split(opened, "240") == []
    assert split(opened, "2") == split(opened, "211") == []


def test_no_delegated_operation_is_outside_an_instruction() -> None:
    methods = {f"{TOP}.forward": {30: "> execute"}, "__torch__.Impl.forward": {24: "OP"}}
    assert split(model(methods, {2: "aten::add"}), "24230") == []


def test_a_delegated_failure_may_be_behind_an_interface() -> None:
    methods = {f"{TOP}.forward": {5: "> run"}, "__torch__.Low.run": {30: "> execute"}}
    assert split(model(methods, {2: "aten::add"}), "2305") == [(2, 30, 5)]


AMBIGUOUS = {f"{TOP}.forward": {30: "> execute", 230: "OP"}}


@pytest.mark.parametrize(
    ("opened", "first"),
    [
        pytest.param(model(AMBIGUOUS, {2: "aten::add"}, [2]), (2, 30), id="named in the blob"),
        pytest.param(model(AMBIGUOUS, {2: "aten::add"}), (2, 30), id="blob not readable"),
        pytest.param(model(AMBIGUOUS, {2: "aten::add"}, [1]), (230,), id="not in the blob"),
        pytest.param(
            model(AMBIGUOUS, {2: "aten::add"}, [1], unread="a program of version 9"),
            (2, 30),
            id="blob partly read",
        ),
        pytest.param(
            model(
                {f"{TOP}.forward": {30: "> execute"}, f"{LOWERED}.__setstate__": {230: "OP"}},
                {2: "aten::add"},
                [1],
            ),
            (2, 30),
            id="not in the top module",
        ),
    ],
)
def test_the_likelier_of_two_readings_comes_first(opened: Archive, first: tuple[int, ...]) -> None:
    readings = split(opened, "230")
    assert readings[0] == first
    assert sorted(readings) == [(2, 30), (230,)]


def answered(opened: Archive) -> Answer:
    """The answer to the digits 230; any handles are explained by the same line."""
    said = Symbolication((230,), (9,), "", (), ())
    vars(opened).update(symbolicate=lambda *_: said)
    failure = LiteFailure(stream(b"Debug info for handle(s): debug_handles:{230}, was not found.\n"))
    return LiteAnswers(opened, Style.CURRENT, Spending(DEFAULT_LIMITS)).answer(failure)


def test_of_equally_likely_readings_none_is_taken() -> None:
    answer = answered(model(AMBIGUOUS, {2: "aten::add"}, [2]))
    assert (answer.text, answer.is_possible) == (None, True)
    assert answer.notes == ((0, "handles {230}: may be 2, 30; 230, and nothing says which"),)


def test_a_likelier_reading_is_taken_and_the_others_are_told() -> None:
    answer = answered(model(AMBIGUOUS, {2: "aten::add"}, [1]))
    assert answer.text is not None
    assert answer.notes == ((0, "handles {230}: taken as 230, may also be 2, 30"),)


@pytest.mark.parametrize(
    ("op", "first"), [("aten::add", (2130,)), ("prim::CallMethod", (2, 1, 30))], ids=["add", "call"]
)
def test_an_operation_around_another_should_be_a_call(op: str, first: tuple[int, ...]) -> None:
    methods = {f"{TOP}.forward": {30: "> execute", 2130: "OP"}}
    readings = split(model(methods, {2: "aten::add", 1: op}, [1, 2]), "2130")
    assert readings[0] == first
    assert len(readings) == 2


def test_hostile_digits_cost_little() -> None:
    delegated = dict.fromkeys((1, 11, 111, 1111), "prim::CallMethod")
    opened = model({f"{TOP}.forward": {2: "> execute"}}, delegated)
    with loops_below(500):
        readings = split(opened, "1" * 10 + "2")
        assert len(readings) == len({*readings}) > 10
        assert readings[0] == min(readings, key=len)
        assert split(opened, "1" * 24 + "2") == []
        assert split(opened, "1" * 10_000) == []


# --- unique handles

PREFIX = 1_734_509_921
UNIQUE = HandleForm(PREFIX)
METHODS = {
    f"{TOP}.forward": {3: "OP", 8: "> forward", 17: "> execute"},
    "__torch__.Mid.forward": {18: "> forward"},
    "__torch__.Impl.forward": {24: "OP", 4: "OP"},
}


def printed(*handles: int, prefix: int = PREFIX) -> str:
    """Unique handles as the lite interpreter prints them."""
    return "".join(f"{prefix}{handle:08}" for handle in handles)


def test_unique_handles_are_split_by_their_width() -> None:
    """Without prefixes there would be several readings: 2 in 4, and 24."""
    opened = model(METHODS, {2: "aten::add"}, form=UNIQUE)
    assert split(opened, printed(24, 18, 8)) == [(24, 18, 8)]
    assert split(opened, printed(3)) == [(3,)]
    assert split(opened, printed(24, 3)) == []  # 3 calls nothing


def test_in_front_of_unique_handles_are_delegated_operations_alone() -> None:
    opened = model(METHODS, {1: "aten::add", 2: "prim::CallMethod"}, blob=[1, 2], form=UNIQUE)
    assert split(opened, "1" + printed(17)) == [(1, 17)]
    assert split(opened, "12" + printed(17)) == [(1, 2, 17)]
    assert split(opened, "3" + printed(17)) == []  # an instruction's
    assert split(opened, "9" + printed(17)) == []
    assert split(opened, printed(1)) == []  # a delegated operation has no unique form
    assert split(opened, printed(17) + "1") == []


def test_handles_of_another_archive_have_no_reading() -> None:
    opened = model(METHODS, dict.fromkeys((*range(3), *range(100, 1000)), "aten::add"), form=UNIQUE)
    for handle in (24, 101_102, 10_000_000):
        assert split(opened, printed(handle, prefix=PREFIX + 1)) == []
        assert split(opened, printed(handle, 3, prefix=PREFIX + 1)) == []


def test_unique_handles_are_no_plain_ones_of_an_archive_that_has_such() -> None:
    opened = model(METHODS, dict.fromkeys((*range(3), *range(100, 20_000)), "aten::add"))
    assert split(opened, f"{PREFIX}17") != []
    for handle in (17, 1_017, 10_017):
        assert split(opened, printed(handle)) == []


def test_handles_that_the_archive_printed_before_they_were_unique_are_read_as_before() -> None:
    opened = model(METHODS, {1: "aten::add"}, form=UNIQUE)
    assert split(opened, "117") == [(1, 17)]
    assert split(opened, "24188") == [(24, 18, 8)]
