"""Compact debug records: they say the same, in fewer bytes."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.base.columns import firsts
from archive.container import deflate as deflating
from archive.container.write import new_member
from archive.debuginfo.handle_tables import HandleTable
from archive.debuginfo.model import Generation, RangeLayout
from archive.formats.source_ranges import build_source_ranges
from archive.rewrite import compact
from archive.rewrite.compact import compact_records, ranges, stacks
from archive.rewrite.compact.check import same_facts
from archive.rewrite.compact.ranges import range_ways, record_of
from archive.rewrite.compact.stacks import stack_ways
from archive.rewrite.compact.texts import PiecedTexts, shared_pieces
from tests.support import slow_reader
from tests.support.corpus import ARCHIVES, CALLSTACKS, DELEGATED, HANDLES, ORACLES, PATHS
from tests.support.sampling import Suite, examples, sampled
from tests.support.strategies import Range, Strings, archives, column, patient, table_of
from tests.support.tampering import PLAIN, STACK, packed, tampered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive import Archive
    from tests.support.strategies import Made

SUFFIX = ".debug_pkl"
NO_ROWS = b"\x80\x02)."


class Compacted(NamedTuple):
    """An archive, and its debug records made compact."""

    path: Path
    before: Archive
    records: dict[str, bytes]


def with_string_tables(path: Path) -> Path:
    """The file of the same model with string tables, which may be the file itself."""
    return path.with_stem(path.stem.removesuffix("-nostringtable"))


@pytest.fixture(scope="module")
def compacted() -> Iterator[list[Compacted]]:
    some = sampled(ARCHIVES, most=60, by=[lambda path: path.parent.name])
    some += [twin for path in some if (twin := with_string_tables(path)) not in some]
    opened = [archive.open(path) for path in some]
    yield [Compacted(path, one, compact_records(one)) for path, one in zip(some, opened, strict=True)]
    for one in opened:
        one.close()


def size(data: bytes) -> int:
    return min(len(data), len(deflating.deflate(data)))


def said_by_rows(data: bytes) -> list[tuple[object, ...]]:
    """What the slow reader finds in a record of source ranges, but for what rows share."""
    return [
        (row.offset, row.text, row.filename, row.line, row.start, row.end, row.tag)
        for row in slow_reader.source_ranges(data)
    ]


def said_by_handles(data: bytes) -> list[tuple[object, ...]]:
    return sorted((row.handle, row.tag, row.op, row.stack) for row in slow_reader.callstack_map(data))


def test_every_record_says_the_same_to_the_slow_reader(compacted: list[Compacted]) -> None:
    seen = 0
    for path, before, records in compacted:
        for name, data in records.items():
            old = bytes(before.records[name].view())
            if name in (HANDLES, PATHS):
                same = slow_reader.methods(data) == slow_reader.methods(old)
            elif name == CALLSTACKS:
                same = said_by_handles(data) == said_by_handles(old)
            else:
                same = said_by_rows(data) == said_by_rows(old)
            assert same, f"{path}: {name}"
            seen += 1
    assert seen == 772 + 90 + 90 + 7 if Suite.whole else seen > 200


def test_archives_say_the_same_in_layouts_that_their_releases_read(compacted: list[Compacted]) -> None:
    old = 0
    for path, before, records in compacted[::2]:
        with archive.open(tampered(path, records)) as after:
            same_facts(before, after)
            if RangeLayout.STRING_TABLE not in before.range_table.layouts:
                assert after.range_table.layouts == before.range_table.layouts, path
                old += 1
            assert after.generations.get(CALLSTACKS) == before.generations.get(CALLSTACKS), path
    assert old > 15


def test_no_record_takes_more_than_before(compacted: list[Compacted]) -> None:
    before = after = 0
    for path, opened, records in compacted:
        for name, data in records.items():
            stored = opened.records[name].stored_size
            assert size(data) <= stored or data == opened.records[name].view(), f"{path}: {name}"
            before, after = before + stored, after + size(data)
    assert after < 0.88 * before  # small models, mostly: their texts are most of what there is


def test_the_shortest_way_is_taken() -> None:
    with archive.open(STACK) as opened:
        records = compact_records(opened)
        for name, ways in compact._ways(opened):
            assert size(records[name]) <= min(map(size, ways())), name


def test_no_record_takes_more_than_either_of_pytorchs_layouts(compacted: list[Compacted]) -> None:
    by_path = {one.path: one for one in compacted}
    seen = 0
    for path, twin in by_path.items():
        if (whole := with_string_tables(path)) != path:
            other = by_path[whole]
            table = other.before.range_table
            for name in (name for number, name in enumerate(table.names) if table.rows(number)):
                data = other.records[name]
                layouts = [bytes(one.before.records[name].view()) for one in (twin, other)]
                assert size(data) <= min(map(size, layouts)), f"{path}: {name}"
                seen += 1
    assert seen == 102 if Suite.whole else seen > 10


def test_records_of_1_2_are_left_alone(compacted: list[Compacted]) -> None:
    legacy = [one for one in compacted if "torch-1.2.0" in one.path.parts]
    assert legacy
    for one in legacy:
        assert not one.records
        same_facts(one.before, one.before)


def test_the_memo_holds_only_what_is_read_again(compacted: list[Compacted]) -> None:
    entries = 0
    for path, before, records in compacted:
        for name, data in records.items():
            if data != before.records[name].view():
                open_entries: set[int] = set()
                moves = [
                    (name, entry)
                    for name, entry, _ in slow_reader.instructions(data)
                    if name.endswith(("PUT", "GET"))
                ]
                for at, (move, entry) in enumerate(moves):
                    later = next((one for one, same in moves[at + 1 :] if same == entry), "BINPUT")
                    if move.endswith("PUT"):
                        assert later.endswith("GET"), f"{path}: {name}: entry {entry} is never read"
                        assert entry == min({*range(len(open_entries) + 1)} - open_entries)
                    open_entries = open_entries | {entry} if later.endswith("GET") else open_entries - {entry}
                entries += len(moves)
    assert entries > (10_000 if Suite.whole else 2_000)


@pytest.mark.parametrize("many", [False, True])
@settings(patient, max_examples=examples(40))
@given(made=archives())
def test_all_ways_to_write_any_record_say_the_same(*, made: Made, many: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "INLINE_UP_TO", -1)
        if many:
            patch.setattr(ranges, "MANY_ROWS", -1)
            patch.setattr(stacks, "MANY_HANDLES", -1)
        with archive.open(made.data) as before:
            written = {name: list(ways()) for name, ways in compact._ways(before)}
            others = {name: ways[0] for name, ways in written.items()}  # a map that is to be mended is
            for name, ways in written.items():
                for data in ways:
                    with archive.open(tampered(made.data, others | {name: data})) as after:
                        same_facts(before, after)


def test_rows_of_a_map_may_stand_in_any_order() -> None:
    with archive.open(STACK) as opened:
        table = opened.handle_table
        assert table is not None
        order = np.random.default_rng(7).permutation(len(table))
        columns = {name: getattr(table, name)[order] for name in ("handle", "tag", "op", "stack")}
        turned = replace(table, **columns)
        assert (turned.handle != table.handle).any()
        first, again = (list(stack_ways(one, Generation.CALLSTACK_4)) for one in (table, turned))
        assert first == again


def test_equal_layers_follow_one_another() -> None:
    """Rows that differ in handle and module alone are neighbours, however far apart their handles are."""
    strings = Strings()
    add, mul, forward, block, *instances = map(
        strings.add, (b"aten::add", b"aten::mul", b"forward", b"Block", b"0", b"1")
    )
    table = HandleTable(
        strings.table(),
        handle=column(range(12)),
        tag=column([5, 6, 5, 6] * 3),
        op=column([add, mul] * 6),
        stack=column([0] * 4 + [1] * 4 + [2] * 4),
        next=column([-1, -1, -1]),
        module=column([0, -1, 1]),
        call_tag=column([3, 4, 3]),
        function=column([forward] * 3),
        module_type=column([block, block]),
        module_instance=column(instances),
    )
    data = next(iter(stack_ways(table, Generation.CALLSTACK_4)))
    handles = [row.handle for row in slow_reader.callstack_map(data)]
    assert handles == [0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7]


@given(
    st.lists(
        st.lists(
            st.sampled_from([b"a", b"b\n", b"\n", b"c\nd", b"f(17): g\n", b"f(1", b"8): g\n"]), max_size=6
        )
    )
)
def test_texts_in_other_pieces_are_the_same(texts: list[list[bytes]]) -> None:
    pieces = pieces_of(texts)
    shared = shared_pieces(pieces)
    assert [*shared.joined()] == [*pieces.joined()] == [b"".join(text) for text in texts]


def pieces_of(texts: list[list[bytes]]) -> PiecedTexts:
    known: dict[bytes, int] = {}
    piece = column(known.setdefault(one, len(known)) for text in texts for one in text)
    return PiecedTexts(list(known), firsts(column(map(len, texts))), piece)


def test_line_numbers_are_cut_out_and_what_stands_together_is_one_piece() -> None:
    texts = [[b"m.py(%d): f\n" % line, b"n.py(3): g\n", b"<module>\n"] for line in range(95, 104)]
    pieces = shared_pieces(pieces_of(texts))
    assert {*pieces.strings} == {b"m.py(", b"): f\nn.py(3): g\n<module>\n", *b"9 10 0 1 2 3 5 6 7 8".split()}
    few = shared_pieces(pieces_of(texts[:7]))
    assert {*few.strings} == {*(text[0] for text in texts[:7]), b"n.py(3): g\n<module>\n"}


def test_strings_used_most_have_numbers_of_one_byte() -> None:
    rows = [Range(b"line %d\nshared\n" % number, 0, 4, b"common.py", number) for number in range(300)]
    table = table_of(range(300), rows, RangeLayout.STRING_TABLE)
    with archive.open(packed([new_member("code/m.py.debug_pkl", build_source_ranges(table, 0))])) as before:
        for data in range_ways(record_of(table, 0), [RangeLayout.STRING_TABLE]):
            strings = slow_reader.load(data)[1]
            assert len(strings) == 303
            assert {b"", b"shared\n", b"common.py"} < {*strings[:256]}
            with archive.open(packed([new_member("code/m.py.debug_pkl", data)])) as after:
                same_facts(before, after)


def test_a_record_without_rows() -> None:
    path = ORACLES / "plain_stack.ptl"
    with archive.open(path) as opened:
        assert opened.generations[DELEGATED] == RangeLayout.STRING_TABLE
        assert compact_records(opened)[DELEGATED] == NO_ROWS
    empty = build_source_ranges(table_of([], [], RangeLayout.STRING_TABLE), 0)
    with archive.open(tampered(path, {f"{PLAIN}{SUFFIX}": empty})) as opened:
        assert compact_records(opened)[f"{PLAIN}{SUFFIX}"] not in (empty, NO_ROWS)


def test_no_filename_stays_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an archive with string tables, too, which have no place for it."""
    monkeypatch.setattr(ranges, "INLINE_UP_TO", -1)
    rows = [Range(b"y = x\n", 0, 1, None), Range(b"z = y\n", 0, 1, b"")]
    record = build_source_ranges(table_of([0, 9], rows, RangeLayout.INLINE), 0)
    with archive.open(tampered(STACK, {"code/new.py.debug_pkl": record})) as before:
        for name, ways in compact._ways(before):
            for data in ways() if name == "code/new.py.debug_pkl" else ():
                with archive.open(tampered(STACK, {name: data})) as after:
                    assert [row.range.source.filename for row in after.ranges(name)] == [None, ""]


@pytest.mark.parametrize("long", [0, 1 << 20])
def test_deflate_streams_are_deflate_streams(long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deflating, "LONG_DATA", long)
    for data in (b"", b"x", b"handle" * 1000, bytes(range(256))):
        stream = deflating.deflate(data)
        assert zlib.decompress(stream, -15) == data
        assert min(len(data), len(stream)) <= deflating.deflated_size(data) <= len(data)
