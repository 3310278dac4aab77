"""Call stacks, handles and module paths between releases, beside what these record of the same models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from tests.support import slow_reader, tampering
from tests.support.corpus import CALLSTACKS, HANDLES, PATHS, RELEASES
from tests.support.migrations import NESTED, PATHED, RANGES, SMALL_1_9, migrated, original, records
from tests.support.tampering import edited, methods, tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from tests.support.tampering import Change

MODELS = ["nested", "traced", "unicode"]
UNKNOWN = b"FunctionName_UNKNOWN"


def stacks(data: bytes) -> dict[int, slow_reader.HandleRow]:
    return {row.handle: row for row in slow_reader.callstack_map(data)}


def operators(bytecode: bytes) -> dict[bytes, list[bytes]]:
    """For each method the operator of each instruction, b"" for those that call none."""
    found = {}
    for name, table, *_ in slow_reader.load(bytecode)[1:]:
        entries = dict(entry[:2] for entry in table)
        names = [operator[0] for operator in entries[b"operators"]]
        found[name] = [names[x] if op in (b"OP", b"OPN") else b"" for op, x, _ in entries[b"instructions"]]
    return found


@pytest.mark.parametrize("path", sorted(RELEASES.glob("torch-1.9.0/*.ptl")), ids=lambda path: path.stem)
def test_a_map_of_three_elements_gets_operators_from_the_bytecode(path: object) -> None:
    before, after = original(path), records(migrated(path, "2.13").data)  # type: ignore[arg-type]
    if CALLSTACKS not in before:
        assert CALLSTACKS not in after
        return
    assert after[HANDLES] == before[HANDLES]
    old, new = stacks(before[CALLSTACKS]), stacks(after[CALLSTACKS])
    assert old.keys() == new.keys()
    for handle, row in old.items():
        assert new[handle].tag == row.tag
        assert new[handle].stack == tuple(call._replace(function=UNKNOWN) for call in row.stack)
    named = 0
    for name, handles in slow_reader.methods(after[HANDLES])[1]:
        for handle, operator in zip(handles, operators(after["bytecode.pkl"])[name], strict=True):
            if operator:
                assert new[handle].op == operator
                named += 1
    assert named


@pytest.mark.parametrize("model", MODELS)
def test_a_map_of_four_elements_loses_names_alone(model: str) -> None:
    path = RELEASES / "torch-2.13.0" / f"{model}.ptl"
    before, after = original(path), records(migrated(path, "1.9").data)
    old, new = stacks(before[CALLSTACKS]), stacks(after[CALLSTACKS])
    assert list(old) == list(new)
    for handle, row in old.items():
        nameless = tuple(call._replace(function=None) for call in row.stack)
        assert (new[handle].tag, new[handle].op, new[handle].stack) == (row.tag, None, nameless)


@pytest.mark.parametrize("source", ["1.10.0", "2.0.0", "2.13.0"])
@pytest.mark.parametrize("model", MODELS)
def test_module_paths_are_those_of_1_8_or_tell_more(model: str, source: str) -> None:
    """PyTorch 1.8 takes operators inside of branches and loops for the top module's own."""
    made = migrated(RELEASES / f"torch-{source}" / f"{model}.ptl", "1.8").data
    version, ours = slow_reader.methods(records(made)[PATHS])
    _, theirs = slow_reader.methods(original(RELEASES / "torch-1.8.0" / f"{model}.ptl")[PATHS])
    assert version == slow_reader.load(records(made)["bytecode.pkl"])[0]
    paths = {name.rpartition(b".")[2]: listed for name, listed in theirs}
    same = 0
    for name, listed in ours:
        real = paths[name.rpartition(b".")[2]]
        assert len(real) == len(listed)
        for path, theirs_of_it in zip(listed, real, strict=True):
            top = theirs_of_it.partition(b")")[0] + b").forward"
            assert path == theirs_of_it or (theirs_of_it == top and path.startswith(top[:-7]))
            same += path == theirs_of_it
    assert same >= {"nested": 33, "traced": 31, "unicode": 4}[model]


def test_1_7_names_the_last_method_alone() -> None:
    made = records(migrated(RELEASES / "torch-2.13.0" / "nested.ptl", "1.7").data)
    paths = {path for _, listed in slow_reader.methods(made[PATHS])[1] for path in listed}
    assert paths == {
        b"top(Stack).first(Affine).forward",
        b"top(Stack).gate(Gate).inner(Affine).forward",
        b"top(Stack).gate(Gate).forward",
        b"top(Stack).forward",
        b"top(Stack).step",
    }


@pytest.mark.parametrize("release", ["1.7.0", "1.8.0"])
@pytest.mark.parametrize("model", MODELS)
def test_module_paths_become_call_stacks(model: str, release: str) -> None:
    path = RELEASES / f"torch-{release}" / f"{model}.ptl"
    before, after = original(path), records(migrated(path, "2.13").data)
    rows = stacks(after[CALLSTACKS])
    called = operators(before["bytecode.pkl"])
    paths = dict(slow_reader.methods(before[PATHS])[1])
    for name, handles in slow_reader.methods(after[HANDLES])[1]:
        rest = iter(paths[name])
        for handle, operator in zip(handles, called[name], strict=True):
            row = rows[handle]
            assert (row.op, row.tag) == (operator, 0)
            called_on = [call.module or (b"", b"") for call in row.stack]
            steps = [b"%s(%s)" % (name, kind.rpartition(b".")[2]) for kind, name in called_on]
            expected = next(rest) if operator else b"top()"
            modules = [step for step in expected.split(b".")[1:] if b"(" in step]
            assert steps == [step.replace(b"INSTANCE_NAME_UNKNOWN", b"SELF") for step in modules]
            if modules and not expected.endswith(b")"):
                assert row.stack[-1].function == expected.rpartition(b".")[2]
        assert next(rest, None) is None


def test_what_cannot_be_made_up_is_told() -> None:
    plan = archive.migrate(RELEASES / "torch-1.8.0" / "nested.ptl", to="latest", dry_run=True).plan
    assert not plan.losses
    assert any("have no source lines" in remark for remark in plan.remarks)


@pytest.mark.parametrize(
    ("path", "to", "told"),
    [
        (
            "torch-1.5.0/nested-nodebug.ptl",
            "latest",
            "version 3, and the lite interpreter of PyTorch 2.13 reads 4 to 9",
        ),
        (
            "torch-2.13.0/nested.ptl",
            "1.11",
            "version 8, and the lite interpreter of PyTorch 1.11 may read up to 7",
        ),
        ("torch-2.13.0/nested.ptl", "1.4", "may have none that reads it"),
    ],
)
def test_bytecode_that_the_target_refuses_is_told(path: str, to: str, told: str) -> None:
    plan = archive.migrate(RELEASES / path, to=to, dry_run=True).plan
    assert any(told in remark for remark in plan.remarks)


# --- operators that the bytecode tells, of maps of three elements


def with_handles(change: Callable[[MethodTable], MethodTable]) -> Mapping[int, slow_reader.HandleRow]:
    """The completed map of an archive of PyTorch 1.9 whose instructions have other handles."""
    data = tampered(SMALL_1_9, methods(SMALL_1_9, change))
    return stacks(records(archive.migrate(data, to="2.13").data)[CALLSTACKS])


def named() -> dict[int, bytes]:
    """The handles of an archive that name an operator, in the order of their instructions."""
    before = original(SMALL_1_9)
    (name, handles), *_ = slow_reader.methods(before[HANDLES])[1]
    called = operators(before["bytecode.pkl"])[name]
    return {int(handle): operator for handle, operator in zip(handles, called, strict=True) if operator}


def test_of_instructions_that_share_a_handle_the_first_that_calls_names_its_operator() -> None:
    calls = named()
    first, *_, last = calls
    assert calls[first] != calls[last]
    rows = with_handles(lambda table: edited(table, value=dict.fromkeys(range(len(table.value)), last)))
    assert rows[last].op == calls[first]
    assert rows[first].op == b""


@pytest.mark.parametrize("unknown", [-5, 1 << 40])
def test_a_handle_that_the_map_lacks_names_no_other_one_s_operator(unknown: int) -> None:
    whole = with_handles(lambda table: table)
    rows = with_handles(lambda table: edited(table, value={0: unknown, len(table.value) - 1: unknown}))
    assert rows.keys() == whole.keys()
    for handle, row in rows.items():
        assert row.op in (b"", whole[handle].op)
    assert sum(row.op != b"" for row in rows.values()) >= len(named()) - 2


def test_a_method_of_more_handles_than_instructions_names_no_operator() -> None:
    def longer(table: MethodTable) -> MethodTable:
        return replace(table, value=np.append(table.value, 7), first=table.first + (table.first > 0))

    assert {row.op for row in with_handles(longer).values()} == {b""}
    assert {row.op for row in with_handles(lambda table: table).values()} != {b""}


def test_a_map_without_handles_of_instructions_or_of_one_row_is_completed_as_far_as_can_be() -> None:
    alone = archive.migrate(tampered(SMALL_1_9, {HANDLES: None}), to="2.13").data
    rows = stacks(records(alone)[CALLSTACKS])
    assert rows.keys() == stacks(original(SMALL_1_9)[CALLSTACKS]).keys()
    assert {row.op for row in rows.values()} == {b""}

    def first(table: HandleTable) -> HandleTable:
        columns = {name: getattr(table, name)[:1] for name in ("handle", "tag", "op", "stack")}
        return replace(table, **columns)

    whole = stacks(records(migrated(SMALL_1_9, "2.13").data)[CALLSTACKS])
    one = archive.migrate(tampered(SMALL_1_9, tampering.handles(SMALL_1_9, first)), to="2.13").data
    ((handle, row),) = stacks(records(one)[CALLSTACKS]).items()
    assert row.op == whole[handle].op


# --- module paths of other shapes


def led_to(changes: Mapping[str, Change]) -> set[tuple[tuple[bytes, bytes, bytes], ...]]:
    """The call stacks, as class, instance and function, that the changed paths of an archive become."""
    made = records(archive.migrate(tampered(PATHED, changes), to="2.13").data)
    return {
        tuple((*(call.module or (b"", b"")), call.function or b"") for call in row.stack)
        for row in slow_reader.callstack_map(made[CALLSTACKS])
    }


def test_a_class_is_qualified_where_the_archive_has_one_of_its_name() -> None:
    affine = {(b"__torch__.models.Affine", b"first", b"forward")}
    assert affine & {stack[0] for stack in led_to({}) if stack}
    two = {"data.pkl": lambda data: data.replace(b"models\nGate\n", b"others\nAffine\n")}
    found = {call for stack in led_to(two) for call in stack}
    assert (b"Affine", b"first", b"forward") in found
    assert not affine & found
    assert {kind for kind, _, _ in found} == {b"Affine", b"Gate", b"__torch__.models.Stack"}


def test_functions_of_no_module_are_no_calls_and_of_two_in_a_row_the_first_is_the_module_s() -> None:
    before = led_to({})
    gate = (b"__torch__.models.Gate", b"gate", b"forward")
    inner = (b"__torch__.models.Affine", b"inner", b"forward")
    assert {(gate,), (gate, inner)} <= before
    plain = {PATHS: lambda data: data.replace(b".gate(Gate).forward", b".gate_gate_.forward")}
    assert led_to(plain) == (before - {(gate,), (gate, inner)}) | {(), (inner,)}
    twice = {PATHS: lambda data: data.replace(b".first(Affine).forward", b".first(Affine).one.two")}
    first = (b"__torch__.models.Affine", b"first")
    assert led_to(twice) == (before - {((*first, b"forward"),)}) | {((*first, b"one"),)}


@pytest.mark.parametrize(
    "changes", [{"bytecode.pkl": None}, {RANGES: None}, {HANDLES: b"\x80\x02K\x05\x85."}], ids=str
)
def test_paths_are_lost_without_bytecode_or_null_range_and_beside_handles(
    changes: Mapping[str, Change],
) -> None:
    count = sum(len(listed) for _, listed in slow_reader.methods(original(PATHED)[PATHS])[1])
    data = tampered(PATHED, changes)
    assert [str(step) for step in archive.migrate(data, to="2.13", dry_run=True).plan.losses] == [
        f"module paths of operators: {count}"
    ]
    made = records(archive.migrate(data, to="2.13", lossy=True).data)
    assert not {PATHS, CALLSTACKS} & made.keys()
    assert (HANDLES in made) == (HANDLES in changes)


def test_an_instruction_of_an_unknown_handle_is_the_top_module_s() -> None:
    def other(table: MethodTable) -> MethodTable:
        return edited(table, value=dict.fromkeys(range(len(table.value)), 987_654))

    data = tampered(NESTED, methods(NESTED, other))
    made = records(archive.migrate(data, to="1.8", lossy=True).data)
    assert {path for _, listed in slow_reader.methods(made[PATHS])[1] for path in listed} == {
        b"top(Stack).forward"
    }
    called = operators(original(NESTED)["bytecode.pkl"])
    counts = {name: len(listed) for name, listed in slow_reader.methods(made[PATHS])[1]}
    assert counts == {name: sum(map(bool, listed)) for name, listed in called.items()}
