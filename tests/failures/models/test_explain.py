"""The public explainer of many models, in one thread or in several."""

from __future__ import annotations

import gc
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.models.models import Model
from tests.failures.models.test_three_models import FAILURES, FLEET, NAMES, of_one, open_models
from tests.support.commands import called
from tests.support.corpus import ORACLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_a_log_is_explained_by_files_or_a_folder() -> None:
    log = [one.unique.encode() + b"\n" for one in FAILURES[::5]]
    expected = "".join(one.explained + "\n" for one in FAILURES[::5]).encode()
    for models in (FLEET, str(FLEET), [FLEET / f"{name}.ptdbg" for name in NAMES]):
        assert b"".join(archive.explain(log, models)) == expected


def test_models_are_closed_where_the_log_ends_or_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[archive.Archive] = []
    closed: list[archive.Archive] = []
    open_model, close = Model.open, archive.Archive.close

    def noted(model: Model) -> archive.Archive:
        opened.append(open_model(model))
        return opened[-1]

    def noting(one: archive.Archive) -> None:
        closed.append(one)
        close(one)

    monkeypatch.setattr(Model, "open", noted)
    monkeypatch.setattr(archive.Archive, "close", noting)
    log = [one.plain.encode() + b"\n" for one in FAILURES[:3]]
    list(archive.explain(log, FLEET))
    left = archive.explain(log, FLEET)
    next(iter(left))
    left.close()  # type: ignore[attr-defined]
    assert opened
    assert {id(one) for one in opened} == {id(one) for one in closed}


def test_a_pattern_that_is_none_is_an_error() -> None:
    with pytest.raises(ArchiveError, match="isn't a regular expression"):
        list(archive.explain([b""], FLEET, names="("))
    with pytest.raises(ArchiveError, match="isn't a regular expression"):
        archive.Explainer(FLEET, ids="(")


def test_a_log_comes_back_as_it_was_given() -> None:
    one = FAILURES[0]
    log, told = f"{one.unique}\n{one.unique}", f"{one.explained}\n{one.explained}"
    broken, kept = "é\udcff\0\n" + log, "é\udcff\0\n" + told
    with archive.Explainer(FLEET) as explainer:
        for explain in (explainer.explain, partial(archive.explain, models=FLEET)):
            assert explain(log) == told
            assert explain(broken) == kept
            data = broken.encode("utf-8", "surrogateescape")
            assert explain(data) == kept.encode("utf-8", "surrogateescape")
            pieces = (data[at : at + 7] for at in range(0, len(data), 7))
            assert b"".join(explain(pieces)) == explain(data)  # type: ignore[arg-type]
            assert (explain(""), explain(b""), list(explain([]))) == ("", b"", [])
            with pytest.raises(ValueError, match="surrogates not allowed"):
                explain("\ud800")


@pytest.mark.parametrize("kind", ["folder", "file", "files", "store"])
def test_one_explainer_answers_every_log_as_one_of_its_own_would(kind: str, tmp_path: Path) -> None:
    """What a log names, and what stays unexplained in it, tells nothing of the next one."""
    models: object = FLEET
    if kind == "file":
        models = FLEET / "Ranker.ptdbg"
    elif kind == "files":
        models = [FLEET / f"{name}.ptdbg" for name in NAMES]
    elif kind == "store":
        models = tmp_path / "store"
        assert called("store", "add", *FLEET.glob("*.ptdbg"), "--store", models).exit_code == 0
    named = [f"running {one.model}\n{one.plain}\n" for one in FAILURES[:6]]
    logs = [part for one, text in zip(FAILURES, named, strict=False) for part in (text, f"{one.plain}\n")]
    pattern = r"running (\w+)"
    alone = [archive.explain(log, models, names=pattern) for log in logs]  # type: ignore[call-overload]
    with archive.Explainer(models, names=pattern) as explainer:  # type: ignore[arg-type]
        assert [explainer.explain(log) for log in logs] == alone
    assert any(log != text for log, text in zip(logs, alone, strict=True))


def test_an_explainer_keeps_nothing_of_a_log() -> None:
    log = "".join(f"{one.unique}\n" for one in FAILURES[:20])
    with archive.Explainer(FLEET) as explainer:
        for _ in range(3):
            explainer.explain(log)
            gc.collect()
            assert [len(one.made) for one in explainer._models.opened.by_model.values()] == [0] * len(NAMES)
        models = explainer._models
        assert len(open_models(models)) == len(NAMES)
    assert open_models(models) == []
    with pytest.raises(ValueError, match="closed"):
        explainer.explain(log)


@pytest.mark.parametrize("file", ["lowered_shape.ptl", "plain_unicode.ptl"])
def test_an_explanation_can_be_pickled_and_needs_no_file_then(file: str) -> None:
    with archive.open(ORACLES / file) as opened:
        for handle in opened.handles:
            found = opened.symbolicate(handle)
            data, text = pickle.dumps(found), bytes(found)
            again = pickle.loads(data)  # noqa: S301 (made here)
            assert bytes(again) == text
            assert (again.handles, again.module_hierarchy) == (found.handles, found.module_hierarchy)
            assert [entry.op for entry in again.entries] == [entry.op for entry in found.entries]
            assert [frame.range and frame.range.line for frame in again.frames] == [
                frame.range and frame.range.line for frame in found.frames
            ]


THREADS, CALLS = 12, 15
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
