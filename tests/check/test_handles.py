"""``verify`` of debug handles and their users: each fault is reported once, with its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive.rewrite.migrate.migrate import migrate
from tests.support.corpus import CALLSTACKS, HANDLES, PATHS, RELEASES
from tests.support.tampering import (
    LOWERED,
    NESTED_1_8,
    NESTED_1_9,
    STACK,
    edited,
    handles,
    methods,
    said,
    tampered,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from archive.debuginfo.handle_tables import HandleTable, MethodTable

FROZEN = RELEASES / "torch-1.9.0" / "frozen.ptl"
FORWARD = "method '__torch__.models.Stack.forward'"
NAMES = "method '__torch__.models.Stack.names'"
STACK_FORWARD = "method '__torch__.plain.Stack.forward'"


def handle_of(path: Path, row: int) -> int:
    with archive.open(path) as opened:
        assert opened.handle_table is not None
        return int(opened.handle_table.handle[row])


@pytest.mark.parametrize(
    ("path", "cells", "expected"),
    [
        (STACK, {"tag": {4: 17}}, ["row 4, field tag: expected the tag of a source range, found 17"]),
        (STACK, {"tag": {4: -1}}, ["row 4, field tag: expected the tag of a source range, found -1"]),
        (NESTED_1_9, {"tag": {0: 99}}, ["row 0, field tag: expected the tag of a source range, found 99"]),
        (FROZEN, {"call_tag": {0: -1}}, []),
        (
            LOWERED,
            {"tag": {226: 54, 0: 400}},
            [
                "row 0, field tag: expected the tag of a source range, found 400",
                "row 226, field tag: expected the tag of a source range, found 54",
            ],
        ),
    ],
)
def test_tags_in_the_map_are_those_of_source_ranges(
    path: Path, cells: Mapping[str, Mapping[int, int]], expected: list[str]
) -> None:
    changed = tampered(path, handles(path, lambda table: edited(table, **cells)))
    assert said(changed) == [f"error: {CALLSTACKS}, {line}" for line in expected]


@pytest.mark.parametrize("frame", range(8))
def test_tags_in_call_stacks_are_those_of_source_ranges(frame: int) -> None:
    with archive.open(STACK) as opened:
        table = opened.handle_table
        assert table is not None
        chains = {
            (row, depth): one for row in range(len(table)) for depth, one in enumerate(table.frames(row))
        }
    changed = tampered(STACK, handles(STACK, lambda table: edited(table, call_tag={frame: 17})))
    (line,) = said(changed)
    head, _, problem = line.partition(", field tag: ")
    assert problem == "expected the tag of a source range or -1, found 17"
    assert head in {
        f"error: {CALLSTACKS}, row {r}, frame {d}" for (r, d), one in chains.items() if one == frame
    }


def test_handles_are_unique() -> None:
    first, third = handle_of(STACK, 0), handle_of(STACK, 3)
    changed = tampered(STACK, handles(STACK, lambda table: edited(table, handle={3: first})))
    found = said(changed)
    assert found[0].startswith(f"error: {HANDLES}, row 0, {STACK_FORWARD}, handle ")
    assert found[0].endswith(f": expected a handle of {CALLSTACKS}, found {third}")
    assert found[1:] == [
        f"error: {CALLSTACKS}, row 3, field handle: expected a new handle, found {first} again"
    ]


def nameless(table: HandleTable, rows: slice) -> HandleTable:
    """Remove the names of some operators by emptying a function's name."""
    empty = replace(table.strings, length=np.append(table.strings.length, 0))
    strings = replace(empty, buffer=np.append(empty.buffer, 0), start=np.append(empty.start, empty.start[-1]))
    op = table.op.copy()
    op[rows] = len(table.strings)
    return replace(table, strings=strings, op=op)


def test_operators_have_names() -> None:
    assert said(tampered(STACK, handles(STACK, lambda table: nameless(table, slice(2, 3))))) == [
        f"warning: {CALLSTACKS}, row 2, field op: expected the operator's name, found ''"
    ]
    assert said(tampered(STACK, handles(STACK, lambda table: nameless(table, slice(None))))) == [
        f"note: {CALLSTACKS}: no operator has a name, as after a conversion from PyTorch 1.9.0"
    ]
    for path, operators in ((NESTED_1_8, "1 operator"), (NESTED_1_9, "156 operators")):
        problem = f"no name for {operators}: the archive is migrated, and there was none before"
        assert f"note: {CALLSTACKS}: {problem}" in said(migrate(path, to="2.13", lossy=True).data)


def test_a_map_without_any_source_ranges_is_one_error() -> None:
    assert said(without(STACK, lambda name: name.endswith(".debug_pkl"))) == [
        "note: no source ranges for any of 6 code records",
        f"error: {CALLSTACKS}: no source range has a tag, so nothing says where the handles lead",
    ]


def test_a_map_that_another_pickler_wrote_is_noted() -> None:
    with archive.open(STACK) as opened:
        old = bytes(opened.records[CALLSTACKS].view())
    at = old.index(b"q\0")
    (line,) = said(tampered(STACK, {CALLSTACKS: old[:at] + b"r\0\0\0\0" + old[at + 2 :]}))
    assert line.startswith(f"note: {CALLSTACKS}, byte {at}: from here on not as PyTorch writes it")


def test_every_instruction_has_a_handle_that_is_known() -> None:
    changed = tampered(NESTED_1_9, methods(NESTED_1_9, lambda table: edited(table, value={2: 900, 114: -1})))
    assert said(changed) == [
        f"error: {HANDLES}, row 0, {FORWARD}, handle 2: expected a handle of {CALLSTACKS}, found 900",
        f"error: {HANDLES}, row 1, {NAMES}, handle 1: expected a handle of {CALLSTACKS}, found -1",
    ]


def shorter(table: MethodTable) -> MethodTable:
    """Make the first method one value shorter."""
    return replace(table, first=np.maximum(table.first - 1, 0), value=table.value[1:])


def longer(table: MethodTable) -> MethodTable:
    """Give the first method all values twice."""
    return replace(
        table,
        first=np.append(0, table.first[1:] + len(table.value)),
        value=np.concatenate((table.value, table.value)),
    )


@pytest.mark.parametrize(
    ("path", "record", "change", "expected"),
    [
        (NESTED_1_9, HANDLES, shorter, "expected as many handles as instructions, 113, found 112"),
        (NESTED_1_9, HANDLES, longer, "expected as many handles as instructions, 113, found 315"),
        (NESTED_1_8, PATHS, shorter, None),
        (NESTED_1_8, PATHS, longer, None),
        (
            NESTED_1_8,
            PATHS,
            lambda t: longer(longer(t)),
            "expected at most as many paths as instructions, 113, found 164",
        ),
    ],
)
def test_there_are_as_many_handles_as_instructions(
    path: Path, record: str, change: Callable[[MethodTable], MethodTable], expected: str | None
) -> None:
    lines = [f"error: {record}, row 0, {FORWARD}: {expected}"] if expected else []
    assert said(tampered(path, methods(path, change))) == lines


def test_the_methods_with_handles_are_those_of_the_bytecode() -> None:
    step = "expected '__torch__.models.Stack.step', as in bytecode.pkl, found '__torch__.models.Stack.steP'"
    renamed = tampered(NESTED_1_9, {HANDLES: lambda data: data.replace(b"Stack.step", b"Stack.steP")})
    assert said(renamed) == [f"error: {HANDLES}, row 3, field method: {step}"]
    fewer = methods(NESTED_1_9, lambda t: replace(t, name=t.name[:2], first=t.first[:3]))
    missing = "'__torch__.models.Stack.pair', '__torch__.models.Stack.step'"
    assert said(tampered(NESTED_1_9, fewer)) == [
        f"error: {HANDLES}: expected 4 methods, as in bytecode.pkl, found 2, without {missing}"
    ]


def test_the_methods_with_module_paths_are_those_of_the_bytecode() -> None:
    pair, step = "'__torch__.models.Stack.pair'", "'__torch__.models.Stack.steP'"
    renamed = tampered(NESTED_1_8, {PATHS: lambda data: data.replace(b"Stack.step", b"Stack.steP")})
    assert said(renamed) == [
        f"error: {PATHS}: expected the method '__torch__.models.Stack.step' of bytecode.pkl, found none",
        f"error: {PATHS}, row 3, field method: expected a method of bytecode.pkl, found {step}",
    ]
    fewer = tampered(
        NESTED_1_8, methods(NESTED_1_8, lambda t: replace(t, name=t.name[:2], first=t.first[:3]))
    )
    assert said(fewer)[0] == f"error: {PATHS}: expected the method {pair} of bytecode.pkl, found none"
    assert len(said(fewer)) == 2


def test_the_methods_stand_in_the_bytecodes_order() -> None:
    def last_first(table: MethodTable) -> MethodTable:
        at = int(table.first[-2])
        return replace(
            table,
            name=np.roll(table.name, 1),
            first=np.concatenate(([0], table.first[1:] - table.first[:-1]))[[0, -1, 1, 2, 3]].cumsum(),
            value=np.concatenate((table.value[at:], table.value[:at])),
        )

    lines = said(tampered(NESTED_1_9, methods(NESTED_1_9, last_first)))
    assert len(lines) == 4
    assert all("as in bytecode.pkl, found '__torch__.models.Stack." in line for line in lines)


def test_the_bytecodes_version_is_the_same() -> None:
    changed = tampered(NESTED_1_9, methods(NESTED_1_9, lambda table: replace(table, version=7)))
    assert said(changed) == [f"warning: {HANDLES}: expected version 5, as in bytecode.pkl, found 7"]


@pytest.mark.parametrize(("path", "record"), [(NESTED_1_9, HANDLES), (NESTED_1_8, PATHS)])
def test_without_bytecode_there_is_nothing_to_compare_with(path: Path, record: str) -> None:
    expected = [f"warning: {record}: no bytecode.pkl with the methods that this is about"]
    assert said(tampered(path, {"bytecode.pkl": None})) == expected


@pytest.mark.parametrize(("path", "record"), [(NESTED_1_9, HANDLES), (NESTED_1_8, PATHS)])
def test_methods_that_another_pickler_wrote_are_noted(path: Path, record: str) -> None:
    with archive.open(path) as opened:
        old = bytes(opened.records[record].view())
    at = old.index(b"q\0")
    (line,) = said(tampered(path, {record: old[:at] + b"r\0\0\0\0" + old[at + 2 :]}))
    assert line.startswith(f"note: {record}, byte {at}: from here on not as PyTorch writes it")


def test_a_name_that_is_not_utf8_is_warned_of() -> None:
    with archive.open(STACK) as opened:
        at = bytes(opened.records[CALLSTACKS].view()).index(b"aten::relu")
    changed = {CALLSTACKS: lambda data: data.replace(b"aten::relu", b"aten\xff:relu", 1)}
    assert said(tampered(STACK, changed)) == [
        f"warning: {CALLSTACKS}, byte {at + 4}: expected UTF-8, found 0xff (invalid start byte)"
    ]


def test_handles_of_lowered_modules_are_known() -> None:
    with archive.open(LOWERED) as opened:
        assert opened.method_table is not None
        used = set(opened.method_table.value.tolist())
        delegated = {path: set(state.handles) - used for path, state in opened.lowered.items()}
        gone = min(min(own) for own in delegated.values())

    def fewer(table: HandleTable) -> HandleTable:
        kept = table.handle != gone
        return replace(
            table, **{name: getattr(table, name)[kept] for name in ("handle", "tag", "op", "stack")}
        )

    found = said(tampered(LOWERED, handles(LOWERED, fewer)))
    assert found == [
        f"error: data.pkl, lowered module '{path}': expected a handle of {CALLSTACKS}, found {gone}; "
        "PyTorch loads it, and nothing says what the operation is: "
        "`debug-archive migrate --to latest` gives it a row without source"
        for path, own in delegated.items()
        if gone in own
    ]
    assert found


def test_a_migration_gives_lost_handles_of_lowered_modules_rows_without_source() -> None:
    with archive.open(LOWERED) as opened:
        assert opened.method_table is not None
        used = opened.method_table.value
        lost = {handle for state in opened.lowered.values() for handle in state.handles} - set(used.tolist())

    def fewer(table: HandleTable) -> HandleTable:
        kept = ~np.isin(table.handle, list(lost))
        return replace(
            table, **{name: getattr(table, name)[kept] for name in ("handle", "tag", "op", "stack")}
        )

    migration = migrate(tampered(LOWERED, handles(LOWERED, fewer)), to="latest", aside=False)
    what = "handles of lowered modules put into the call-stack map, of no source"
    assert [str(step) for step in migration.plan.rescues] == [f"{what}: {len(lost)}"]
    nameless = [line.partition(", row ")[2].partition(", ")[2] for line in said(migration.data)]
    assert nameless == ["field op: expected the operator's name, found ''"] * len(lost)
    with archive.open(migration.data) as mended:
        assert lost <= set(mended.handles)
        assert "HERE" not in str(mended.symbolicate(min(lost)))
    assert migrate(migration.data, to="latest", aside=False).nothing_to_do
