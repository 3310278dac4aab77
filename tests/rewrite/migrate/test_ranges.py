"""Source ranges in other layouts: what PyTorch writes for the same model; and code that loses a method."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.base.errors import ArchiveError
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges
from archive.formats.stale_methods import stale_methods, without
from archive.normalform.builder import pack_ranges
from archive.normalform.pool import Pool
from archive.rewrite.migrate.ranges import cut_out, relaid
from tests.support import slow_reader
from tests.support.commands import well
from tests.support.corpus import RELEASES
from tests.support.migrations import STALE, migrated, original, places, records
from tests.support.sampling import sampled
from tests.support.strategies import Range, patient, range_tables
from tests.support.tampering import MODELS, NESTED_1_8, edited, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from archive.normalform.columns import Columns


TWINS = sorted(RELEASES.glob("*/*-nostringtable.pt*"))
LOWERED = sorted(path for path in RELEASES.glob("torch-1.[678]*/lowered*.pt"))
PREPROCESS = b"  def __preprocess("


def twin(path: Path) -> Path:
    """The same model with string tables."""
    return path.with_name(path.name.replace("-nostringtable", ""))


@pytest.mark.parametrize("inline", sampled(TWINS, most=7), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_record_is_that_of_the_model_s_twin_to_the_byte(inline: Path) -> None:
    for source, target, to in ((inline, twin(inline), "string-table"), (twin(inline), inline, "inline-rows")):
        made, expected = records(archive.migrate(source, to=to).data), original(target)
        names = [name for name in expected if name.endswith(".debug_pkl")]
        assert names
        for name in names:
            assert made[name] == expected[name], (source, name)


def test_tags_are_numbered_by_first_appearance_over_the_whole_archive() -> None:
    made = records(migrated(RELEASES / "torch-1.8.0" / "lowered-host.pt", "1.9").data)
    rows = [
        row
        for name, data in made.items()
        if name.endswith(".debug_pkl")
        for row in slow_reader.source_ranges(data)
    ]
    tags = [row.tag for row in rows]
    said = {(row.tag, row.text, row.filename, row.line, row.start, row.end) for row in rows}
    assert len(said) == len(set(tags))
    assert list(dict.fromkeys(tags)) == list(range(max(tags) + 1))
    assert max(tags) > 10


def test_filename_none_is_index_0_and_the_null_source_has_no_pieces() -> None:
    source = RELEASES / "torch-1.11.0" / "traced.pt"
    made = records(archive.migrate(source, to="string-table").data)
    kinds = set()
    for name, data in made.items():
        if name.endswith(".debug_pkl"):
            _, table, rows = slow_reader.load(data)
            assert table[0] == b""
            for _, ((pieces, filename, line), _, _), _ in rows:
                kinds.add((tuple(pieces.arguments[0]), filename, line) if not filename else "named")
    assert kinds >= {((), 0, 0), "named"} or kinds >= {((), 0, 0), ((0,), 0, 0)}


def test_tags_beyond_all_numbers_are_refused() -> None:
    pool = Pool()
    with archive.open(NESTED_1_8) as opened:
        columns = pack_ranges(opened.range_table, pool)
    columns["range.tag"][3] = 1 << 62 | 1
    with pytest.raises(ArchiveError, match="tags: expected up to"):
        relaid(columns, RangeLayout.INLINE)


@patient
@given(range_tables(RangeLayout.INLINE), st.data())
def test_code_that_loses_bytes_keeps_the_place_of_every_other_byte(
    table: object, data: st.DataObject
) -> None:
    columns = pack_ranges(table, Pool())  # type: ignore[arg-type]
    rows = len(columns["row.offset"])
    step = st.integers(0, 6)
    columns["row.offset"] = np.cumsum([data.draw(step) for _ in range(rows)] or [0])[:rows]
    begin = data.draw(st.integers(0, 30))
    end = begin + data.draw(st.integers(1, 12))
    cut = cut_out(columns, 0, begin, end)

    def at(which: Columns, position: int) -> int:
        found = int(np.searchsorted(which["row.offset"], position, "right")) - 1
        return int(which["row.range"][found]) if found >= 0 else -1

    for position in range(50):
        assert at(cut, position) == at(columns, position if position < begin else position + end - begin)
    assert cut["record.rows"].tolist() == [len(cut["row.offset"])]


@pytest.mark.parametrize(
    ("ranges", "cut", "left"),
    [
        ([7, 8, 7], (2, 4), ([0, 1, 2], [7, 8, 7])),  # the row before has another range
        ([7, 8, 8], (2, 4), ([0, 1], [7, 8])),  # the row before has the same one
        ([7, 8, 7], (0, 4), ([0], [7])),  # there is no row before
        ([7, 8, 7], (0, 2), ([0], [7])),  # a row begins behind the bytes that go
    ],
)
def test_of_rows_that_begin_in_lost_bytes_the_last_stays_where_its_range_goes_on(
    ranges: list[int], cut: tuple[int, int], left: tuple[list[int], list[int]]
) -> None:
    rows = len(ranges)
    columns: Columns = {
        "record.rows": np.array([rows]),
        "row.offset": np.arange(rows),
        "row.range": np.array(ranges),
    }
    after = cut_out(columns, 0, *cut)
    assert (after["row.offset"].tolist(), after["row.range"].tolist()) == left
    assert after["record.rows"].tolist() == [len(left[0])]


@pytest.mark.parametrize("path", LOWERED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_rescued_code_is_the_code_without_one_method(path: Path) -> None:
    before, after = original(path)[STALE], records(migrated(path, "2.13").data)[STALE]
    begin = before.index(PREPROCESS)
    end = before.index(b"\n  def forward(", begin) + 1
    assert after == before[:begin] + before[end:]
    assert PREPROCESS not in after
    with archive.open(path) as old, archive.open(migrated(path, "2.13").data) as new:
        for position in range(len(after)):
            was = old.locate(STALE, position if position < begin else position + end - begin)
            now = new.locate(STALE, position)
            assert was is not None
            assert now is not None
            assert (was.text, was.line, was.start) == (now.text, now.line, now.start), position


@pytest.mark.parametrize("to", ["1.6", "1.8", "string-table"])
def test_code_is_left_alone_where_the_target_takes_it(to: str) -> None:
    assert records(migrated(LOWERED[-1], to).data)[STALE] == original(LOWERED[-1])[STALE]


def test_code_without_source_ranges_is_rescued_too() -> None:
    stripped = tampered(LOWERED[-1], {f"{STALE}.debug_pkl": None})
    assert PREPROCESS not in records(archive.migrate(stripped, to="latest").data)[STALE]


@pytest.mark.parametrize(
    ("class_name", "method", "result"),
    [
        ("Mine", "__preprocess", "None"),
        ("aLoweredModule", "preprocess", "None"),
        ("aLoweredModule", "__preprocess", "x"),
    ],
)
def test_other_code_is_not_taken_for_the_stale_method(class_name: str, method: str, result: str) -> None:
    head = (
        f"class {class_name}(Module):\n  def {method}(self: torch.jit.aLoweredModule,\n    x: Any) -> Any:\n"
    )
    assert stale_methods(f"{head}    return {result}\n".encode()) == []


def test_the_stale_method_ends_where_the_next_one_begins() -> None:
    head, rest = b"class aLoweredModule(Module):\n", b"  def forward(self) -> None:\n    return None\n"
    stale = b"  def __preprocess(self: torch.jit.aLoweredModule,\n    x: Any) -> None:\n    return None\n"
    assert stale_methods(head + stale + rest) == [(len(head), len(head + stale))]
    assert stale_methods(head + rest + stale) == [(len(head + rest), len(head + rest + stale))]
    several = head + stale + rest + head + stale + rest
    assert without(several, stale_methods(several)) == 2 * (head + rest)


def test_each_class_of_a_record_is_rescued() -> None:
    """As where a model was lowered to two backends."""
    path = LOWERED[-1]
    code = original(path)[STALE]
    twice = code + code.replace(b"backend_with_compiler_demo", b"other")
    rows = slow_reader.source_ranges(original(path)[f"{STALE}.debug_pkl"])
    data = archive.migrate(tampered(path, {STALE: twice}), to="latest").data
    assert records(data)[STALE].count(PREPROCESS) == 0
    assert len(records(data)[STALE]) < len(twice) - 2 * 200
    assert len(places(records(data)[f"{STALE}.debug_pkl"])) < len(rows)
    assert archive.migrate(data, to="latest", aside=False).plan.rescues == []


# --- Source ranges of no file: PyTorch prints a line more of them in a string table, and a migration says so


ERAS = {"1.4": False, "1.6": False, "1.8": False, "1.9": False, "1.11": False, "2.0": True, "2.13": True}
"""A release of each era, and whether it writes string tables."""
FOLDERS = {path.name.removeprefix("torch-").rpartition(".")[0]: path for path in RELEASES.glob("torch-*")}


@cache
def nameless(release: str) -> tuple[bytes, int]:
    """An archive of a release with a source of no file, and the number of its rows."""
    path = FOLDERS[release] / "nested.pt"
    with archive.open(path) as opened:
        table = opened.range_table
        number = table.numbers[f"{MODELS}.debug_pkl"]
        rows = np.array(table.rows(number))
        source = int(table.source[rows[1]])
        none = int(table.table[table.table_first[number]]) if ERAS[release] else -1
        sources = edited(table.sources, filename={source: none})
        made = build_source_ranges(replace(table, sources=sources), number)
        return tampered(path, {f"{MODELS}.debug_pkl": made}), int((table.source[rows] == source).sum())


@pytest.mark.parametrize(("start", "to"), [pair for pair in product(ERAS, ERAS) if pair[0] != pair[1]])
def test_rows_of_no_file_that_print_otherwise_are_told(start: str, to: str) -> None:
    data, rows = nameless(start)
    plan = archive.migrate(data, to=to, dry_run=True).plan
    told = [remark for remark in plan.remarks if "of no file" in remark]
    words = 'source ranges of no file {} a line `File "", line …` in what PyTorch prints, rows: {}'
    change = {(False, True): "gain", (True, False): "lose"}.get((ERAS[start], ERAS[to]))
    assert told == ([words.format(change, rows)] if change and plan.is_needed else [])
    assert plan.is_needed or not change or to == "2.0"  # which writes inline rows as well


def test_the_command_tells_it(tmp_path: Path) -> None:
    data, rows = nameless("1.8")
    (tmp_path / "in.pt").write_bytes(data)
    for more in (["--dry-run"], []):
        said = well("migrate", tmp_path / "in.pt", "-o", tmp_path / "out.pt", "--to", "latest", *more)
        told = f'source ranges of no file gain a line `File "", line …` in what PyTorch prints, rows: {rows}'
        assert f"\nto know\n  {told}\n" in said


@pytest.mark.torch
def test_only_rows_that_pytorch_prints_otherwise_are_counted() -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.torch_oracles import Bench  # noqa: PLC0415 (imports PyTorch)

    spans = [
        (b"", 0, 0),
        (b"", 0, 1),
        (b"ab\ncd\n", 0, 2),
        (b"ab\ncd\n", 0, 6),
        (b"a\n", 2, 3),
        (b"a\n", 3, 9),
    ]
    rows = [Range(*span, None, line) for line, span in enumerate(spans)]
    bench = Bench(8)
    inline, opened = bench.show(rows, RangeLayout.INLINE)
    in_table, _ = bench.show(rows, RangeLayout.STRING_TABLE)
    others = [one for one, other in zip(inline, in_table, strict=True) if one != other]
    plan = archive.migrate(bytes(opened.container.data), to="string-table", dry_run=True).plan
    assert len(others) == 3
    assert [remark.rpartition(" ")[2] for remark in plan.remarks] == ["3"]
