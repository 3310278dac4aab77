"""Small files that ask for much memory when they are rewritten, and honest ones that do not."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

import archive
from archive import LimitError, Limits
from archive.base.limits import MEMORY, MEMORY_PER_BYTE
from archive.check.verify import verify
from archive.container.container import new_member
from archive.formats.record_kinds import RANGES_SUFFIX
from tests.support.corpus import ARCHIVES, ORACLES
from tests.support.tampering import packed

if TYPE_CHECKING:
    from pathlib import Path

CODE = "code/m.py"
SAMPLE = [path for path in ARCHIVES[::17] if b".debug_pkl" in path.read_bytes()]
TEXT, STOP = b"X", b"."


def with_source(source: bytes) -> bytes:
    """An archive with one source range, of a source."""
    text = TEXT + len(source).to_bytes(4, "little") + source
    row = b"K\x00" + text + b"NK\x01\x87K\x00K\x01\x87K\x00\x87"
    record = b"\x80\x02" + row + b"\x85" + STOP
    return packed(
        [
            new_member("data.pkl", b"\x80\x02)."),
            new_member("constants.pkl", b"\x80\x02)."),
            new_member("version", b"3\n"),
            new_member(CODE, b"pass\n"),
            new_member(CODE + RANGES_SUFFIX, record, compress=True),
        ]
    )


def test_a_source_of_newlines_is_refused_before_it_costs_anything(tmp_path: Path) -> None:
    data = with_source(b"\n" * (2 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(LimitError, match="with lines of sources; if you trust the file: --limit memory="):
            archive.split(data, tmp_path / "out.pt", tmp_path / "out.ptdbg")
        with pytest.raises(LimitError, match="with lines of sources"):
            archive.migrate(data, to="latest")
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert list(tmp_path.iterdir()) == []
    done = archive.split(with_source(b"\n" * 1_000), tmp_path / "out.pt", tmp_path / "out.ptdbg")
    assert done.companion_size > 0


def test_tables_are_charged_as_they_cost() -> None:
    path = ORACLES / "plain_stack.ptl"
    with archive.open(path) as first:
        _ = first.range_table, first.handle_table, first.data  # what is imported is imported now
    tracemalloc.start()
    try:
        with archive.open(path) as opened:
            _ = opened.range_table, opened.handle_table, opened.data
            peak = tracemalloc.get_traced_memory()[1]
            assert opened.allowance.peak >= 0.8 * peak
            assert opened.allowance.peak < opened.allowance.memory // 2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_half_of_the_allowance_suffices_for_honest_archives(path: Path, tmp_path: Path) -> None:
    half = Limits(memory=(MEMORY + MEMORY_PER_BYTE * path.stat().st_size) // 2)
    assert verify(path, limits=half) == verify(path)
    archive.split(path, tmp_path / "out.pt", tmp_path / "out.ptdbg", limits=half)
    archive.shrink(path, tmp_path / "embedded.pt", level="embed", limits=half)
    archive.restore(tmp_path / "embedded.pt", tmp_path / "back.pt", limits=half)
    assert (tmp_path / "out.ptdbg").stat().st_size > 0
