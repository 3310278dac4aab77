"""What is said of a failure does not depend on how many models there are that it is not of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.failures.models.explaining import explainer_of
from archive.failures.models.sources import models_in
from tests.failures.models.test_bounds import ambiguous
from tests.failures.models.test_three_models import NAMES, companions, of_one
from tests.support.kin import LEAST_PREFIX, kin

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = (1, 2, 3, 5)
MOST = 2
"""Models that are asked at most here."""
UNKNOWN = LEAST_PREFIX + 99
"""The prefix of a model that was never added."""
FAILURE = "Debug info for handle(s): debug_handles:{%s}, was not found.\n"


@pytest.mark.parametrize("handle", [0, 1, 12, 99_999, 123_456])
def test_a_prefix_that_no_model_has_is_of_none_of_any_number(
    handle: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digits can be split into plain handles of each, which says nothing: no model has the prefix."""
    monkeypatch.setattr("archive.failures.models.candidates.MOST_ASKED", MOST)
    text = FAILURE % f"{UNKNOWN}{handle:08}"
    for number in NUMBERS:
        (tmp_path / f"{number}.ptdbg").write_bytes(kin(number))
        explainer = explainer_of(models_in([tmp_path]))
        assert of_one(explainer, text) == text
        assert (explainer.explained, explainer.ambiguous, explainer.unknown) == (0, 0, 1)
        assert f"the archive {UNKNOWN}" in explainer.notes[0]


def test_of_very_many_models_it_is_enough_that_two_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = set()
    for most in (len(NAMES), MOST):
        monkeypatch.setattr("archive.failures.models.candidates.MOST_ASKED", most)
        explainer = companions()
        assert of_one(explainer, ambiguous()) == ambiguous()
        kinds.add((explainer.explained, explainer.ambiguous, explainer.unknown))
        assert "and nothing tells which" in explainer.notes[0]
    assert kinds == {(0, 1, 1)}
