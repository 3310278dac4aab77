"""After PyTorch dynamo's tests of side effects: each case ends equal, or is refused as it says."""

from __future__ import annotations

import copy
from operator import itemgetter

import pytest

pytest.importorskip("torch", exc_type=ImportError)

from typing import TYPE_CHECKING

import torch

from archive.backend import lower, save_lowered
from tests.effects.effect_cases import KINDS, cases_of, fresh
from tests.effects.outcome import Outcome, outcome
from tests.support.processes import run_fresh
from tests.support.sampling import sampled
from tools import effect_table

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),  # as eager modules warn
]

CASES = [(kind, name) for kind in KINDS for name in cases_of(kind)]


EVERY = 6
"""Of so many cases one is lowered, saved and loaded, too."""
KINDS_LOWERED = ("numeric", "tensors")
"""Kinds whose cases all are: TorchScript computes numbers in ways of its own."""
SAMPLE = sampled(
    [one for number, one in enumerate(CASES) if one[0] in KINDS_LOWERED or number % EVERY == 0],
    most=20,
    by=[itemgetter(0)],
)
RUN = sampled(CASES, most=24, by=[itemgetter(0)])


def ids(cases: list[tuple[str, str]]) -> list[str]:
    return [f"{kind}-{name}" for kind, name in cases]


@pytest.mark.parametrize(("kind", "name"), RUN, ids=ids(RUN))
def test_calls_and_state_are_the_eager_ones_or_it_is_refused(kind: str, name: str) -> None:
    case = cases_of(kind)[name]
    line = 0 if case.says.startswith("call ") else case.line  # only an archive leads guards to lines
    assert outcome(kind, name, lowered=False) == Outcome(case.says, line)


@pytest.mark.parametrize(("kind", "name"), SAMPLE, ids=ids(SAMPLE))
def test_loaded_archives_do_the_same(kind: str, name: str) -> None:
    case = cases_of(kind)[name]
    found = outcome(kind, name, lowered=True, stock=kind in KINDS_LOWERED)
    assert found == Outcome(case.says, case.line)


def test_at_least_150_are_after_upstream_tests_each_once() -> None:
    upstream = [cases_of(kind)[name].upstream for kind, name in CASES]
    named = [one for one in upstream if one]
    assert len(set(named)) == len(named) >= 150


def test_the_table_of_cases_is_current() -> None:
    page = effect_table.PAGE.read_text(encoding="utf-8")
    assert effect_table.rewritten(page) == page


ELSEWHERE = (
    ("first_calls", "key_value_cache"),
    ("branches", "bounded_history"),
    ("numeric", "cosine_schedule"),
    ("dicts", "numbers_in_a_dict"),
    ("cells", "closure_out_of_scope_cell_with_mutation"),
    ("attributes", "register_buffer_in_forward"),
)
PROGRAM = """
import sys, torch
from archive.backend import Effectful
given = torch.load(sys.argv[1])
models = [(Effectful.load(path), calls) for path, calls in given]
torch.save([[model(*args) for args in calls] for model, calls in models], sys.argv[2])
assert not any(name.startswith("tests") for name in sys.modules)
"""


def test_a_process_without_the_models_gives_the_same(tmp_path: Path) -> None:
    given, wanted = [], []
    for kind, name in ELSEWHERE:
        case = fresh(kind)[0].CASES[name]
        calls = [case.arguments(number) for number in range(case.calls)]
        path = str(tmp_path / f"{name}.pt")
        save_lowered(lower(case.make(), "aten", effects=True, example_inputs=calls[0]), path)
        given.append((path, calls))
        model = fresh(kind)[0].CASES[name].make()
        wanted.append([model(*one) for one in copy.deepcopy(calls)])
    torch.save(given, tmp_path / "given")
    run_fresh(PROGRAM, tmp_path / "given", tmp_path / "found", folder=tmp_path)
    found = torch.load(tmp_path / "found")
    assert str(found) == str(wanted)
