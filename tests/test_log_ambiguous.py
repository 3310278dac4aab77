"""Handles of a model whose failures have several readings: each as PyTorch of today reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import archive
from archive.logs import resolve_handles
from tests.corpus import FIXTURES
from tests.reports import explained

pytest.importorskip("torch", exc_type=ImportError)

from tests.ambiguous_models import LIBRARY

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Archive

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model and its failures are, and its companion."""
    if not LIBRARY.exists():
        pytest.skip("this build of PyTorch does not bring the demo backend")
    made = tmp_path_factory.mktemp("ambiguous")
    command = [sys.executable, "-W", "ignore", "-m", "tests.ambiguous_models", str(made)]
    subprocess.run(command, cwd=FIXTURES.parent, check=True, capture_output=True)  # noqa: S603
    archive.split(made / "ambiguous.ptl", made / "device.ptl", made / "ambiguous.ptdbg")
    return made


def failures(folder: Path) -> list[tuple[str, str]]:
    """What PyTorch prints of each failure, without debug info and with it."""
    return [(stripped, full) for stripped, full in json.loads((folder / "failures.json").read_text("utf-8"))]


def readings(folder: Path, opened: Archive) -> list[tuple[int, int]]:
    """For each failure, the place of the true reading among all, and their number."""
    found = []
    for stripped, full in failures(folder):
        known = resolve_handles(opened, stripped.partition("{")[2].partition("}")[0])
        true = [place for place, handles in enumerate(known) if str(opened.symbolicate(handles)) in full]
        found.append((true[0] if true else -1, len(known)))
    return found


@pytest.mark.parametrize(("file", "count"), [("ambiguous.ptl", 0), ("ambiguous.ptdbg", 0)])
def test_the_true_reading_comes_first_and_few_others_fit(folder: Path, file: str, count: int) -> None:
    with archive.open(folder / file) as opened:
        found = readings(folder, opened)
    assert {place for place, _ in found} == {0}
    assert sum(number for _, number in found) == count


def test_all_are_explained_as_pytorch_explains_them(folder: Path) -> None:
    with archive.open(folder / "ambiguous.ptl") as opened:
        for stripped, full in failures(folder):
            assert explained(stripped.encode(), opened)[:3] == (full.encode(), 1, 0)
