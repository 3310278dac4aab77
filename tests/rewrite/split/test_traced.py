"""A traced model: many rows, whose sources are call stacks that share lines. It deflates well, and its
companion is a thousandth of it. No command refuses it, nor what is made of it, under the default bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive import LimitError, Limits
from archive.base.columns import firsts, table_with
from archive.base.strings import StringTable
from archive.check.verify import NOT_PARSED, verify
from archive.container.write import new_member
from archive.debuginfo.model import RangeLayout
from archive.debuginfo.tables import RangeTable, SourceTable
from archive.formats.record_kinds import RANGES_SUFFIX
from archive.normalform.builder import FormBuilder
from archive.normalform.records import DebugRecords
from tests.support import hostile_companions as bombs
from tests.support.commands import well
from tests.support.hostile_companions import packed_of
from tests.support.sampling import crossed
from tests.support.tampering import packed

if TYPE_CHECKING:
    from pathlib import Path

ROWS, ROWS_OF_A_SOURCE, FRAMES, STACKS = 8_000, 7, 60, 20
CODE, LINE = "code/__torch__.py", b"x = torch.add(x, x)\n"


def traced() -> bytes:
    """An archive whose 8,000 rows have 1,143 sources: each one of 20 stacks of 60 frames, which share 59."""
    count = -(-ROWS // ROWS_OF_A_SOURCE)
    lines = [b"model.py(%d): forward\n" % frame for frame in range(FRAMES - 1 + STACKS)]
    none = np.zeros(0, np.int64)
    strings = table_with(StringTable([], [], none, none, none), [b"", *lines])
    stacks = np.tile(np.arange(1, FRAMES + 1), (count, 1))
    stacks[:, 0] = np.arange(count) % STACKS + FRAMES
    zeros = np.zeros(count, np.int64)
    sources = SourceTable(
        strings, firsts(np.full(count, FRAMES)), stacks.ravel(), zeros, zeros, zeros.astype(np.bool_)
    )
    row = np.arange(ROWS)
    start = np.zeros(ROWS, np.int64)
    table = RangeTable(
        (CODE + RANGES_SUFFIX,),
        (RangeLayout.STRING_TABLE,),
        np.array([0, ROWS]),
        row * len(LINE),
        row // ROWS_OF_A_SOURCE,
        start,
        start + 10,
        row,
        sources,
        np.zeros(2, np.int64),
        none,
    )
    records = DebugRecords(FormBuilder.of(table).form())
    return packed(
        [
            new_member("data.pkl", b"\x80\x02)."),
            new_member("constants.pkl", b"\x80\x02)."),
            new_member("version", b"3\n"),
            new_member(CODE, LINE * ROWS, compress=True),
            new_member(CODE + RANGES_SUFFIX, records[CODE + RANGES_SUFFIX], compress=True),
        ]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, migrated to PyTorch 1.9, and each with its companion in it and beside it."""
    made = tmp_path_factory.mktemp("traced")
    (made / "new.pt").write_bytes(traced())
    archive.migrate(made / "new.pt", made / "old.pt", to="1.9")
    for name in ("new", "old"):
        path = made / f"{name}.pt"
        archive.shrink(path, made / f"{name}_embedded.pt", level="embed")
        archive.split(path, made / f"{name}_split.pt", made / f"{name}.ptdbg")
    return made


FORMS = ["new.pt", "old.pt", "new_embedded.pt", "old_embedded.pt", "new.ptdbg", "old.ptdbg"]


@pytest.mark.parametrize(
    ("form", "words"),
    crossed(FORMS, ["inspect", "sizes", "verify", f"symbolicate --at {CODE}:5"]),
)
def test_no_form_is_refused(folder: Path, form: str, words: str) -> None:
    assert well(*words.split(), folder / form)


@pytest.mark.parametrize("name", ["new", "old"])
def test_what_was_taken_out_comes_back(folder: Path, tmp_path: Path, name: str) -> None:
    assert archive.join(folder / f"{name}_split.pt", folder / f"{name}.ptdbg", tmp_path / "joined.pt").exact
    assert (tmp_path / "joined.pt").read_bytes() == (folder / f"{name}.pt").read_bytes()
    archive.restore(folder / f"{name}_embedded.pt", tmp_path / "restored.pt")
    assert (tmp_path / "restored.pt").read_bytes() == (folder / f"{name}.pt").read_bytes()


@pytest.mark.parametrize("form", ["new.pt", "old.pt", "new_embedded.pt", "old_embedded.pt", "new.ptdbg"])
def test_it_takes_less_than_half_of_its_allowance(folder: Path, form: str) -> None:
    with archive.open(folder / form) as opened:
        _ = opened.range_table
        assert 0 < opened.allowance.peak < opened.allowance.memory // 2


def test_texts_that_sources_share_are_taken_once(folder: Path) -> None:
    """In the layout of PyTorch 1.9 each text is one string, which all sources of the text refer to."""
    with archive.open(folder / "old.ptdbg") as opened:
        table = opened.range_table
        assert opened.allowance.peak < table.sources.lengths.sum()


def test_an_embedded_one_is_verified_by_columns_where_its_records_are_too_large(folder: Path) -> None:
    path = folder / "new_embedded.pt"
    with archive.open(path) as opened:
        _ = opened.range_table
        needed = opened.allowance.peak
    note, *others = verify(path, limits=Limits(memory=3 * needed))
    assert (note.severity, note.message.partition(":")[0]) == ("note", NOT_PARSED)
    assert others == verify(path)
    assert [one.severity for one in verify(path, limits=Limits(memory=needed // 8))] == ["error"]


def test_a_companion_of_many_more_rows_is_shown_whole_within_its_own_allowance() -> None:
    """60,000 rows, each of a source of its own, which share one text: 500 bytes as a companion."""
    data = packed_of(bombs.traced(60_000), compress=True)
    with archive.open(data) as opened:
        (record, *_) = opened.range_summary.names
        assert opened.range_summary.sources == 60_000
        assert opened.records[record].size > 100 * len(data)
        assert opened.allowance.memory < (64 << 20) + 256 * 1_000
    with archive.open(data, limits=Limits(memory=8 << 20)) as opened:
        with pytest.raises(LimitError, match="memory is limited to 8,388,608"):
            _ = opened.records
        assert opened.allowance.peak <= 8 << 20
