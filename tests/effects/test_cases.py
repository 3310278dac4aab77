"""After PyTorch dynamo's tests of side effects: each case ends equal, or is refused as it says."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", exc_type=ImportError)

from tests.support.effect_cases import KINDS, cases_of
from tests.support.effect_outcome import Outcome, outcome
from tools import effect_table

pytestmark = pytest.mark.torch

CASES = [(kind, name) for kind in KINDS for name in cases_of(kind)]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind}-{name}" for kind, name in CASES])
def test_calls_and_state_are_the_eager_ones_or_it_is_refused(kind: str, name: str) -> None:
    case = cases_of(kind)[name]
    assert outcome(kind, name) == Outcome(case.says, case.line)


def test_at_least_150_are_after_upstream_tests_each_once() -> None:
    upstream = [cases_of(kind)[name].upstream for kind, name in CASES]
    named = [one for one in upstream if one]
    assert len(set(named)) == len(named) >= 150


def test_the_table_of_cases_is_current() -> None:
    page = effect_table.PAGE.read_text(encoding="utf-8")
    assert effect_table.rewritten(page) == page
