"""Models that threads share: each gets the answers that it would get alone."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

import pytest

import archive
from archive.failures.models.explaining import explainer_of
from archive.failures.models.sources import models_in
from tests.failures.models.test_three_models import FAILURES, FLEET, of_one, open_models
from tests.support.corpus import ORACLES

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS, CALLS = 12, 30
SOME = FAILURES[::5]


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads that take turns a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 1000)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.usefixtures("impatient")
def test_threads_share_models_of_which_few_stay_open(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.failures.models.models.MOST_OPEN", most)
    models = models_in([FLEET])

    def explained(thread: int) -> list[str]:
        explainer = explainer_of(models)
        turned = SOME[thread:] + SOME[:thread]
        return [of_one(explainer, one.unique) for one in islice(turned, CALLS)]

    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(explained, range(THREADS)))
    assert found == [
        [one.explained for one in islice(SOME[thread:] + SOME[:thread], CALLS)] for thread in range(THREADS)
    ]
    assert models.unread == {}
    assert len(open_models(models)) <= most


@pytest.mark.usefixtures("impatient")
def test_threads_share_an_explainer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.failures.models.models.MOST_OPEN", 2)
    logs = ["".join(f"{one.unique}\n" for one in FAILURES[at::27]) for at in range(0, 9, 3)] * 4
    alone = {log: archive.explain(log, FLEET) for log in dict.fromkeys(logs)}
    with archive.Explainer(FLEET) as explainer, ThreadPoolExecutor(9) as threads:
        assert list(threads.map(explainer.explain, logs)) == [alone[log] for log in logs]
        assert len(open_models(explainer._models)) <= 2


def test_models_that_are_closed_while_one_is_used_wait_for_its_user() -> None:
    models = models_in([FLEET])
    with models.using(models.all[0], models, lambda opened: opened) as opened:
        models.close()
        assert opened.archive_id
        assert open_models(models) == []
        with models.using(models.all[0], models, lambda again: again) as other:
            assert other is not opened
    with pytest.raises(ValueError, match="released"):
        _ = opened.handle_table


def test_a_model_that_cannot_be_opened_is_not_kept_as_open(monkeypatch: pytest.MonkeyPatch) -> None:
    models = models_in([ORACLES / "plain_stack.ptl"])
    (model,) = models.all
    with monkeypatch.context() as patched:
        patched.setattr(type(model), "open", lambda _: (_ for _ in ()).throw(OSError("no")))
        with pytest.raises(OSError, match="no"), models.using(model, models, lambda opened: opened):
            pass
    assert open_models(models) == []
    with models.using(model, models, lambda opened: opened) as opened:
        assert opened.handle_table is not None
