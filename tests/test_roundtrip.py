"""Made-up tables and made-up pickles: what is built reads the same, and what is read builds the same."""

from __future__ import annotations

import pickletools
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.formats.callstack_map import build_callstack_map, parse_callstack_map
from archive.formats.methods import build_methods, parse_methods
from archive.formats.source_ranges import build_source_ranges, parse_source_ranges
from archive.limits import DEFAULT_LIMITS
from archive.model import Generation, Layout
from archive.pickles import scan as scanning
from archive.pickles import walk
from archive.pickles.ops import Kind
from archive.pickles.scan import Pickle, scan
from archive.pickles.tree import read_trees
from archive.tables import RangeTable, SourceTable
from tests import slow_reader
from tests.plain import plain_handles, plain_methods, plain_ranges
from tests.programs import OPCODES, PROTO, STOP, program, put, text
from tests.strategies import Strings, column, firsts, handle_tables, method_tables, patient, range_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.pickles.tree import Tree

LAYOUTS = [layout for layout in Layout if layout is not Layout.EMPTY]
quick = settings(patient, max_examples=60)


def tree_of(*records: bytes) -> Tree:
    pickles = [Pickle(f"record {number}", memoryview(data)) for number, data in enumerate(records)]
    return read_trees(pickles, [False] * len(pickles), DEFAULT_LIMITS)


# --- tables


@pytest.mark.parametrize("layout", LAYOUTS)
@quick
@given(st.data())
def test_source_ranges(layout: Layout, data: st.DataObject) -> None:
    table = data.draw(range_tables(layout))
    record = build_source_ranges(table, 0)
    again = parse_source_ranges(tree_of(record), DEFAULT_LIMITS)
    assert build_source_ranges(again, 0) == record
    assert plain_ranges(again, 0) == plain_ranges(table, 0) == slow_reader.source_ranges(record)
    assert again.layouts == ((layout,) if len(table) or layout is Layout.STRING_TABLE else (Layout.EMPTY,))


@quick
@given(st.lists(st.sampled_from(LAYOUTS).flatmap(range_tables), min_size=2, max_size=6))
def test_records_of_all_layouts_are_read_together(tables: list[RangeTable]) -> None:
    records = [build_source_ranges(table, 0) for table in tables]
    together = parse_source_ranges(tree_of(*records), DEFAULT_LIMITS)
    for number, (table, record) in enumerate(zip(tables, records, strict=True)):
        own = together.numbers[f"record {number}"]
        assert plain_ranges(together, own) == plain_ranges(table, 0)
        assert build_source_ranges(together, own) == record


@pytest.mark.parametrize("generation", [Generation.CALLSTACK_3, Generation.CALLSTACK_4])
@quick
@given(st.data())
def test_call_stack_maps(generation: Generation, data: st.DataObject) -> None:
    table = data.draw(handle_tables(functions=generation is Generation.CALLSTACK_4))
    record = build_callstack_map(table, generation)
    again = parse_callstack_map(tree_of(record), 0, DEFAULT_LIMITS)
    assert build_callstack_map(again, generation) == record
    assert plain_handles(again) == plain_handles(table) == slow_reader.callstack_map(record)


@pytest.mark.parametrize("generation", [Generation.METHOD_HANDLES, Generation.MODULE_PATHS])
@quick
@given(st.data())
def test_methods(generation: Generation, data: st.DataObject) -> None:
    paths = generation is Generation.MODULE_PATHS
    table = data.draw(method_tables(paths=paths))
    record = build_methods(table, generation)
    again = parse_methods(tree_of(record), 0, generation, DEFAULT_LIMITS)
    assert build_methods(again, generation) == record
    assert plain_methods(again, texts=paths) == plain_methods(table, texts=paths)
    assert plain_methods(again, texts=paths) == slow_reader.methods(record)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memo_entries_above_255_take_the_long_forms(layout: Layout) -> None:
    sources, rows = 300, 700
    strings = Strings()
    table = [strings.add(b""), *(strings.add(b"line %d\n" % number) for number in range(sources))]
    made = RangeTable(
        ("many",),
        (layout,),
        firsts([rows]),
        column(range(rows)),
        column(row % sources for row in range(rows)),
        column(range(rows)),
        column(range(rows)),
        column([-1] * rows if layout is Layout.PAIR else range(rows)),
        SourceTable(
            strings.table(),
            column(range(sources + 1)),
            column(table[1:]),
            column(
                table[0] if number % 2 or layout is Layout.STRING_TABLE else -1 for number in range(sources)
            ),
            column(range(sources)),
            np.zeros(sources, np.bool_),
        ),
        firsts([len(table) if layout is Layout.STRING_TABLE else 0]),
        column(table if layout is Layout.STRING_TABLE else []),
    )
    record = build_source_ranges(made, 0)
    used = {name for name, _, _ in slow_reader.instructions(record)}
    assert {"BINPUT", "LONG_BINPUT", "LONG_BINGET"} <= used
    again = parse_source_ranges(tree_of(record), DEFAULT_LIMITS)
    assert build_source_ranges(again, 0) == record
    assert plain_ranges(again, 0) == plain_ranges(made, 0) == slow_reader.source_ranges(record)


# --- pickles


def positions(records: Sequence[bytes]) -> list[list[int]]:
    """Where the library sees instructions, by record."""
    found = scan([Pickle("", memoryview(data)) for data in records], DEFAULT_LIMITS)
    return [
        (found.at[found.first[number] : found.first[number + 1]] - found.base[number]).tolist()
        for number in range(len(records))
    ]


def slow_positions(records: Sequence[bytes]) -> list[list[int]]:
    return [[at for _, _, at in slow_reader.instructions(data)] for data in records]


def assert_same(tree: Tree, root: int, value: slow_reader.Value) -> None:
    """A node and the stack machine's value: equal all the way down, with the same sharing."""
    seen: dict[int, int] = {}
    pairs = [(root, value)]
    while pairs:
        node, slow = pairs.pop()
        kind, items = tree.kind(node), tree.items(node)
        if kind in (Kind.INT, Kind.BOOL, Kind.NONE, Kind.FLOAT, Kind.TEXT, Kind.GLOBAL):
            assert leaf(tree, node, kind) == (struct.pack("<d", slow) if type(slow) is float else slow)
            assert kind is not Kind.INT or type(slow) is int
            continue
        if node in seen:
            assert seen[node] == id(slow)
            continue
        if slow != ():  # of which Python has only one
            seen[node] = id(slow)
        parts = children(slow, kind)
        if node in tree.states:
            items.append(tree.states[node])
        assert len(items) == len(parts)
        pairs += zip(items, parts, strict=True)
    assert len(set(seen.values())) == len(seen)


def leaf(tree: Tree, node: int, kind: Kind) -> object:
    if kind is Kind.TEXT:
        return bytes(tree.strings[int(tree.value[node])])
    if kind is Kind.GLOBAL:
        return slow_reader.Name(*tree.names(node))
    if kind is Kind.FLOAT:
        return struct.pack("<q", int(tree.value[node]))
    if kind is Kind.NONE:
        return None
    return int(tree.value[node]) if kind is Kind.INT else bool(tree.tokens.op[node] == 0x88)


def children(slow: slow_reader.Value, kind: Kind) -> list[slow_reader.Value]:
    if isinstance(slow, slow_reader.Made):
        assert kind is {"REDUCE": Kind.REDUCE, "NEWOBJ": Kind.OBJECT}[slow.how]
        state = [] if slow.state is slow_reader.NOTHING else [slow.state]
        return [slow.what, slow.arguments, *state]
    if isinstance(slow, slow_reader.Persistent):
        assert kind is Kind.PERSISTENT
        return [slow.identity]
    if isinstance(slow, slow_reader.Dict):
        assert kind is Kind.DICT
        return slow.items
    assert kind is (Kind.TUPLE if isinstance(slow, tuple) else Kind.LIST)
    return list(slow)


@settings(patient, max_examples=300)
@given(st.integers(0, 1 << 40), st.integers(1, 400))
def test_any_pickle_is_read_as_by_the_stack_machine(seed: int, steps: int) -> None:
    data = program(seed, steps)
    tree = tree_of(data)
    assert_same(tree, int(tree.roots[0]), slow_reader.load(data))


@settings(patient, max_examples=10)
@given(st.integers(0, 1 << 40))
def test_large_pickles_are_read_together(seed: int) -> None:
    records = [program(seed, 6_000, (0, 3)), program(seed + 1, 300), program(seed + 2, 3_000, (1, 300))]
    tree = tree_of(*records)
    for root, data in zip(tree.roots.tolist(), records, strict=True):
        assert_same(tree, root, slow_reader.load(data))


@pytest.mark.parametrize(
    ("start", "step", "end"),
    [
        (b"N", b"\x85", b""),
        (b"N", b"K\x01\x86", b""),
        (b"N", b"K\x01K\x02", b"\x87" * 80),
        (b"", b"](K\x01", b"e" * 80),
        (b"]", b"(K\x01K\x02e", b""),
        (b"]", b"K\x01a", b""),
        (b"", b"]", b"a" * 79),
        (b"}", b"(NK\x01u", b""),
        (b"}", b"NK\x01s", b""),
        (b"", b"}N", b"Ns" + b"s" * 79),
        (b"cm\nC\n)\x81", b"K\x01b", b""),
        (b"", b"cm\nC\n", b")R" + b"\x85R" * 79),
        (b"N", b"Q", b""),
        (b"", b"(", b"t" * 80),
    ],
)
def test_values_nested_deeper_than_the_rounds_of_the_assembler(start: bytes, step: bytes, end: bytes) -> None:
    data = PROTO + b"(" + start + step * 80 + end + b"t" + STOP
    tree = tree_of(data)
    assert_same(tree, int(tree.roots[0]), slow_reader.load(data))


@settings(patient, max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 60)), min_size=1, max_size=6),
    st.sampled_from([1, 2, 5, 16, 256]),
    st.sampled_from([1, 64, 700, 1 << 16]),
    st.sampled_from([40, 512, 1 << 22]),
)
def test_bounds_of_lanes_groups_and_windows_may_fall_anywhere(
    seeds: list[tuple[int, int]], lane: int, joined: int, window: int
) -> None:
    records = [program(seed, steps) + OPCODES[: seed % 3] for seed, steps in seeds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "LANE", lane)
        patch.setattr(scanning, "JOINED", joined)
        patch.setattr(scanning, "WINDOW", window)
        assert positions(records) == slow_positions(records)


@pytest.mark.parametrize("bound", [walk.LANE, scanning.JOINED, scanning.WINDOW])
def test_every_instruction_may_straddle_a_true_bound(bound: int) -> None:
    body = program(7, 40, (0, 1, 9))
    for shift in range(1, len(body), 11):
        filler = text(b"(" * max(0, bound - len(PROTO) - 5 - shift)) + put(9)
        data = PROTO + b"(" + filler + body[len(PROTO) : -1] + b"t" + STOP
        assert positions([data, body]) == slow_positions([data, body])


def test_a_text_may_reach_across_windows() -> None:
    window = scanning.WINDOW
    data = (
        PROTO
        + b"("
        + text(STOP * window + b"X")
        + put(0)
        + text(b"(" * (2 * window), long=True)
        + b"t"
        + STOP
    )
    data = data + b"behind STOP"
    assert positions([data]) == slow_positions([data])
    tree = tree_of(data)
    assert_same(tree, int(tree.roots[0]), slow_reader.load(data))


@settings(patient, max_examples=50)
@given(st.integers(0, 1 << 40))
def test_the_slow_reader_sees_what_pickletools_sees(seed: int) -> None:
    data = program(seed, 100, ascii_only=True)  # pickletools decodes what it reads
    assert [at for _, _, at in pickletools.genops(data)] == slow_positions([data])[0] == positions([data])[0]
