"""What is said of a failure does not depend on how many models there are that it is not of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.models.candidates import MOST_LISTED
from archive.failures.models.models import MOST_OPEN
from tests.failures.models.test_bounds import ambiguous
from tests.failures.models.test_three_models import NAMES, companions, of_one
from tests.support.kin import LEAST_PREFIX, kin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NUMBERS = (1, 2, 3, 5)
MOST = 2
"""Models that are listed at most here, so that a few are very many."""
UNKNOWN = LEAST_PREFIX + 99
"""The prefix of a model that was never added."""
FAILURE = "Debug info for handle(s): debug_handles:{%s}, was not found.\n"


@pytest.mark.parametrize("handle", [0, 1, 12, 99_999, 123_456])
def test_a_prefix_that_no_model_has_is_of_none_of_any_number(
    handle: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digits can be split into plain handles of each, which says nothing: no model has the prefix."""
    monkeypatch.setattr("archive.failures.models.candidates.MOST_LISTED", MOST)
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
        monkeypatch.setattr("archive.failures.models.candidates.MOST_LISTED", most)
        explainer = companions()
        assert of_one(explainer, ambiguous()) == ambiguous()
        kinds.add((explainer.explained, explainer.ambiguous, explainer.unknown))
        assert ": ambiguous: fits " in explainer.notes[0]
    assert kinds == {(0, 1, 1)}


Outcome = tuple[str, int, int, int]


def outcome(folder: Path, text: str) -> Outcome:
    """What is written for a failure, and how it counts."""
    explainer = explainer_of(models_in([folder]))
    return of_one(explainer, text), explainer.explained, explainer.ambiguous, explainer.unknown


def check_numbers(folder: Path, numbers: Sequence[int], handle: int, last: int, expected: str) -> None:
    """Check that any number of releases of one model, the last of which is of a family, give one answer."""
    text = FAILURE % handle
    found = set()
    for number in range(numbers[-1]):
        path = folder / f"{number:04}.ptdbg"
        if number + 1 in numbers:
            path.write_bytes(kin(number, line=1, family=last))
            found.add(outcome(folder, text))
        path.write_bytes(kin(number, line=1))
    assert len(found) == 1
    ((written, explained, ambiguous, unknown),) = found
    counts = {"explained": explained, "ambiguous": ambiguous, "unknown": unknown - ambiguous}
    assert counts == {"explained": 0, "ambiguous": 0, "unknown": 0} | {expected: 1}
    assert (written != text) == (expected == "explained")


CASES = [
    (50, 0, "explained"),  # all say the same of the handle
    (50, 1, "ambiguous"),
    (150, 1, "explained"),  # the last one lacks it
    (9_999, 1, "unknown"),  # so do all
]


@pytest.fixture(params=["twins are known", "each is asked"])
def asking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether one of twins answers for all or each for itself; few can be listed."""
    if request.param == "each is asked":
        monkeypatch.setattr("archive.failures.models.candidates.handle_digest", lambda _: b"")
    monkeypatch.setattr("archive.failures.models.candidates.MOST_LISTED", 4)


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize(("handle", "last", "expected"), CASES)
def test_the_answer_for_n_models_does_not_depend_on_n(
    handle: int, last: int, expected: str, tmp_path: Path
) -> None:
    check_numbers(tmp_path, range(2, 8), handle, last, expected)


@pytest.mark.parametrize(("handle", "last", "expected"), CASES[:2])
def test_nor_does_it_where_not_all_can_be_listed_and_open(
    handle: int, last: int, expected: str, tmp_path: Path
) -> None:
    check_numbers(tmp_path, (2, max(MOST_LISTED, MOST_OPEN) + 2), handle, last, expected)
