"""Tag-first rows: only builds between PyTorch 1.8 and 1.9 wrote them, and PyTorch 2.13 does not read them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import archive
from archive.container.write import new_member
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges
from tests.support.commands import well
from tests.support.corpus import FIXTURES
from tests.support.tampering import packed

pytest.importorskip("torch", exc_type=ImportError)

import torch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch


def failure(path: Path) -> str:
    with pytest.raises(RuntimeError) as caught:
        torch.jit.load(path)(torch.ones(2, 3), torch.ones(4, 5))
    return str(caught.value)


@pytest.fixture(scope="module")
def tag_first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with archive.open(FIXTURES / "releases" / "torch-1.9.0" / "unicode.pt") as opened:
        read = opened.range_table
        table = replace(read, layouts=(RangeLayout.TAG_FIRST,) * len(read.names))
        rows = {name: build_source_ranges(table, at) for at, name in enumerate(table.names)}
        members = [
            new_member(name, rows.get(name) or bytes(one.view())) for name, one in opened.records.items()
        ]
    path = tmp_path_factory.mktemp("made") / "tag_first.pt"
    path.write_bytes(packed(members))
    return path


def test_verify_notes_that_pytorch_prints_no_error_of_them(tag_first: Path) -> None:
    assert "Expected Tuple but got Int" in failure(tag_first)
    assert "tag-first rows, for which PyTorch 2.13 prints" in well("verify", tag_first)


def test_shrink_does_not_say_that_pytorch_shows_source(tag_first: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.pt"
    said = well("shrink", tag_first, "-o", small)
    assert "reads the source ranges of neither: tag-first rows" in said
    assert "shows the same model source" not in said
    assert "Expected Tuple but got Int" in failure(small)


def test_migrate_mends_them(tag_first: Path, tmp_path: Path) -> None:
    latest = tmp_path / "latest.pt"
    well("migrate", tag_first, "-o", latest, "--to", "latest")
    assert "d = x - y" in failure(latest)
