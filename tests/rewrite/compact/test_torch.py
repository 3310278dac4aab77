"""PyTorch 2.13, live: it reads compacted archives, and prints the same from them as from those of before."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest

import archive
import archive.rewrite.compact.ranges
from archive.debuginfo.model import RangeLayout
from archive.rewrite.compact import compact_records
from archive.rewrite.compact.instructions import LIST, MARK, Composer, Instructions
from archive.rewrite.compact.ranges import range_ways, record_of
from archive.rewrite.compact.texts import shared_pieces
from tests.support.corpus import ORACLES, RELEASES
from tests.support.sampling import sampled
from tests.support.strategies import Range, table_of

pytest.importorskip("torch", exc_type=ImportError)

from tests.support.torch_oracles import (
    Bench,
    Call,
    answers,
    argument,
    cases,
    failure,
    have_backends,
    printed,
    replaced,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

STACK = ORACLES / "plain_stack.pt"
NO_ROWS = b"\x80\x02)."
KNOWN = json.loads((RELEASES / "oracle-2.13.0.json").read_text("utf-8"))
"""What 2.13 said of each archive of each release."""
CALLS = [*cases(), *answers()[::2]]
LOADED = [RELEASES / name for name, said in KNOWN.items() if said.get("loaded")]
SYMBOLICATED = [
    Call(RELEASES / name, one["method"], tuple(map(argument, one["args"])), "")
    for name, said in KNOWN.items()
    for one in said.get("lite_errors", [])
]


@cache
def compacted(path: Path) -> bytes:
    with archive.open(path) as opened:
        records = compact_records(opened)
        assert any(data != opened.records[name].view() for name, data in records.items())
        return replaced(opened, records)


def failure_of(data: bytes, call: Call, folder: Path) -> str:
    """What a call fails with, of another archive than its own."""
    path = folder / call.path.name
    path.write_bytes(data)
    return failure(path, call.method, call.arguments)


@pytest.mark.parametrize(
    "path",
    sampled(sorted({call.path for call in CALLS}), most=16, by=[lambda path: path.suffix]),
    ids=lambda path: path.name,
)
def test_failures_read_as_when_the_fixtures_were_made(path: Path, tmp_path: Path) -> None:
    have_backends()
    for call in CALLS:
        if call.path == path:
            assert failure_of(compacted(path), call, tmp_path) == call.error


@pytest.mark.parametrize("third", range(3))
def test_failures_of_older_releases_archives_read_the_same(third: int, tmp_path: Path) -> None:
    have_backends()
    for call in SYMBOLICATED[third::18]:
        said = failure(call.path, call.method, call.arguments)
        assert failure_of(compacted(call.path), call, tmp_path) == said, call.path


@pytest.mark.parametrize(
    "path", sampled(LOADED[::12], most=10), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_every_node_is_located_the_same(path: Path) -> None:
    have_backends()
    assert printed(compacted(path)) == printed(path.read_bytes())


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(40)


def test_texts_may_be_in_any_pieces(bench: Bench) -> None:
    ranges = [traced(line) for line in range(95, 135)]
    opened = bench.show(ranges, RangeLayout.STRING_TABLE)[1]
    said = printed(bytes(opened.container.data))
    record = record_of(opened.range_table, 0)
    assert {b"m.py(", b"10", b"3"} < {*shared_pieces(record.texts).strings}
    for data in range_ways(record, [RangeLayout.STRING_TABLE]):
        assert printed(replaced(opened, {bench.name: data})) == said


def traced(line: int) -> Range:
    text = b"m.py(%d): forward\nn.py(7): call\n" % line
    return Range(text, 0, len(text) - line % 3, b"m.py", line)


def test_lists_must_be_typed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def plain_lists(items: Instructions, _: int) -> Instructions:
        lists = Composer(len(items))
        lists.add(MARK)
        lists.insert(items)
        lists.add(LIST)
        return lists.code()

    opened = bench.show([traced(1)], RangeLayout.STRING_TABLE)[1]
    monkeypatch.setattr(archive.rewrite.compact.ranges, "integer_lists", plain_lists)
    for data in range_ways(record_of(opened.range_table, 0), [RangeLayout.STRING_TABLE]):
        with pytest.raises(RuntimeError, match="Expected IntList but got GenericList"):
            printed(replaced(opened, {bench.name: data}))


def test_no_filename_is_not_an_empty_one(bench: Bench) -> None:
    ranges = [Range(b"one\ntwo\n", 0, 3, filename) for filename in (None, b"")]
    none, empty = bench.show(ranges, RangeLayout.INLINE)[0]
    assert empty == '  File "", line 1\n' + none


def test_code_records_without_rows_keep_their_string_table() -> None:
    with archive.open(STACK) as opened:
        table = table_of([], [], RangeLayout.STRING_TABLE)
        (empty,) = range_ways(record_of(table, 0), [RangeLayout.STRING_TABLE])
        printed(replaced(opened, dict.fromkeys(opened.range_table.names, empty)))
        with pytest.raises(RuntimeError, match="empty ivalues tuple"):
            printed(replaced(opened, dict.fromkeys(opened.range_table.names, NO_ROWS)))
