"""Joined handles that have several readings: the one that is taken is PyTorch 2.13's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.limits import Steps
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.failures.answers import ArchiveAnswers
from archive.failures.explainer import LogExplainer
from archive.failures.handles import HandleSplits
from archive.failures.lite import lite_answers
from tests.support.corpus import FIXTURES

pytest.importorskip("torch", exc_type=ImportError)

from tests.failures.ambiguous_models import LIBRARY, LOWERED
from tests.support.processes import run_fresh
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

NAMES = sampled(LOWERED, most=1)
MAKING = """
import sys
from pathlib import Path
from tests.failures.ambiguous_models import main
main(Path(sys.argv[1]), sys.argv[2])
"""
HONEST_STEPS = 2_000
"""Steps that are enough for the real failures here; ``Limits.work`` allows a hundred times as many."""


def of_names(*rows: tuple[str, str, tuple[int, int]]) -> list[tuple[str, str, tuple[int, int]]]:
    return [row for row in rows if row[0] in NAMES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, its failures and its companion, as files."""
    if not LIBRARY.exists():
        pytest.skip("this build of PyTorch does not bring the demo backend")
    made = tmp_path_factory.mktemp("ambiguous")
    for name in NAMES:
        run_fresh(MAKING, made, name, folder=made, paths=[FIXTURES.parent])
        archive.split(made / f"{name}.ptl", made / f"{name}.device.ptl", made / f"{name}.ptdbg")
    return made


def failures(folder: Path, name: str) -> list[tuple[str, str]]:
    """PyTorch's text of each failure, without debug info and with it."""
    return [(stripped, full) for stripped, full in json.loads((folder / f"{name}.json").read_text("utf-8"))]


@pytest.mark.parametrize(
    ("name", "ending", "counts"),
    of_names(
        ("flat", "ptl", (62, 0)),
        ("flat", "ptdbg", (67, 1)),
        ("nested", "ptl", (73, 0)),
        ("nested", "ptdbg", (233, 3)),
    ),
)
def test_the_true_reading_comes_first_and_few_others_fit(
    folder: Path, name: str, ending: str, counts: tuple[int, int]
) -> None:
    """Count all readings, and the failures of which a wrong one comes first; a companion has no bytecode."""
    readings = wrong = 0
    with archive.open(folder / f"{name}.{ending}") as opened:
        splits = HandleSplits(opened)
        for stripped, full in failures(folder, name):
            known = splits.fitting(stripped.partition("{")[2].partition("}")[0], Steps(HONEST_STEPS))
            true = [handles for handles in known if str(opened.symbolicate(handles)) in full]
            assert len(true) >= 1
            readings += len(known)
            wrong += known[0] != true[0]
    assert (readings, wrong) == counts


@pytest.mark.parametrize(
    ("name", "ending", "counts"),
    of_names(
        ("flat", "ptl", (56, 2)),
        ("flat", "ptdbg", (55, 3)),
        ("nested", "ptl", (63, 1)),
        ("nested", "ptdbg", (58, 6)),
    ),
)
def test_each_is_explained_as_pytorch_explains_it_or_left_as_it_is(
    folder: Path, name: str, ending: str, counts: tuple[int, int]
) -> None:
    """Count the failures that are explained, and those with several equally likely readings."""
    found = [0, 0]
    with archive.open(folder / f"{name}.{ending}") as opened:
        splits = HandleSplits(opened)
        for stripped, full in failures(folder, name):
            spending = Spending(opened.limits)
            answers = ArchiveAnswers(opened, Style.CURRENT, spending)
            answers.made(lite_answers).splits = splits  # one archive: its instructions are found once
            explainer = LogExplainer(answers, spending)
            text = b"".join(explainer.explain([stripped.encode()]))
            found = [found[0] + explainer.explained, found[1] + explainer.unknown]
            assert text == (full if explainer.explained else stripped).encode()
            assert explainer.explained or explainer.notes[0].endswith(", and nothing says which")
    assert tuple(found) == counts
