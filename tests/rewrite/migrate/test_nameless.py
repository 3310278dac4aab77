"""Source ranges of no file: PyTorch prints a line more of them in a string table, and a migration says so."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges
from tests.support.commands import well
from tests.support.corpus import RELEASES
from tests.support.strategies import Range
from tests.support.tampering import MODELS, edited, tampered

if TYPE_CHECKING:
    from pathlib import Path

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
    from tests.support.torch_bench import Bench  # noqa: PLC0415 (imports PyTorch)

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
