"""Errors and events that an application hands to an explainer: explained, and never lost."""

from __future__ import annotations

import copy
import logging
import pickle
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

import archive
from archive.app.errors import DEEPEST, MARK, MOST_ERRORS
from archive.base.deadline import LateError, check_time, ending_in, seconds_left
from archive.failures.models.candidates import FleetAnswers
from tests.failures.models.test_three_models import FAILURES, FLEET
from tests.support.corpus import ORACLES
from tests.support.reports import case

if TYPE_CHECKING:
    from collections.abc import Iterator

LITE = FAILURES[0]
TRACEBACK = case("plain_free_functions.jit")
MODELS = [FLEET, TRACEBACK.path]
SOURCE = "Traceback of TorchScript, original code (most recent call last):\n"


@pytest.fixture
def explainer() -> Iterator[archive.Explainer]:
    with archive.Explainer(MODELS) as explainer:
        yield explainer


def failed(text: str = TRACEBACK.stripped.decode()) -> RuntimeError:
    return RuntimeError(text)


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


def test_an_error_gets_the_source_that_pytorch_would_have_printed(explainer: archive.Explainer) -> None:
    error = failed()
    explainer.explain_error(error)
    (note,) = notes(error)
    heading, _, source = note.partition("\n")
    assert heading == f"Explained by {TRACEBACK.path.name}{MARK}"
    assert source.startswith(SOURCE)
    assert source in TRACEBACK.full.decode()
    assert note in "".join(traceback.format_exception(error))
    assert explainer.stats == archive.ExplainerStats(explained=1)


def test_failures_of_the_lite_interpreter_are_noted_by_their_own_model(explainer: archive.Explainer) -> None:
    for failure in FAILURES[::40]:
        error = failed(failure.unique)
        explainer.explain_error(error)
        (note,) = notes(error)
        assert note.startswith(f"Explained by {failure.model}.ptdbg{MARK}\nModule hierarchy:top(")
        assert note.partition("\n")[2] in failure.explained


def test_an_error_is_noted_once(explainer: archive.Explainer) -> None:
    error = failed()
    error.add_note("of its own")
    for _ in range(3):
        explainer.explain_error(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 (made here)
    explainer.explain_error(again)
    assert [MARK in note for note in notes(again)] == [False, True]
    assert notes(error) == notes(again)
    assert explainer.stats.explained == 1


def test_two_failures_of_one_error_are_in_one_note(explainer: archive.Explainer) -> None:
    error = failed(f"{LITE.unique}\n{TRACEBACK.stripped.decode()}")
    explainer.explain_error(error)
    (note,) = notes(error)
    assert note.index("Module hierarchy:") < note.index(SOURCE)


def test_errors_that_are_shown_with_one_are_noted(explainer: archive.Explainer) -> None:
    first, second, third = (failed(one.unique) for one in FAILURES[:3])
    group = ExceptionGroup("several", [ValueError("x"), ExceptionGroup("inner", [second])])
    group.__cause__ = first
    second.__context__ = third
    explainer.explain_error(group)
    assert [len(notes(one)) for one in (group, first, second, third)] == [0, 1, 1, 1]


def test_what_python_does_not_show_is_left(explainer: archive.Explainer) -> None:
    error, hidden = ValueError(), failed()
    error.__context__, error.__suppress_context__ = hidden, True
    explainer.explain_error(error)
    assert notes(hidden) == []


def test_an_error_around_another_that_repeats_its_text_is_explained_once(
    explainer: archive.Explainer,
) -> None:
    inner = failed()
    explainer.explain_error(inner)
    outer = ValueError(f"predict: {inner}")
    outer.__cause__ = inner
    explainer.explain_error(outer)
    assert (len(notes(inner)), len(notes(outer))) == (1, 0)


def test_circles_of_errors_end(explainer: archive.Explainer) -> None:
    first, second = failed(LITE.unique), failed()
    first.__cause__, second.__context__ = second, first
    explainer.explain_error(first)
    assert (len(notes(first)), len(notes(second))) == (1, 1)


def test_chains_have_an_end(explainer: archive.Explainer) -> None:
    chain = [failed() for _ in range(MOST_ERRORS + 1)]
    for outer, inner in pairwise(chain):
        outer.__cause__ = inner
    chain[-1].args = (LITE.unique,)
    explainer.explain_error(chain[0])
    assert [len(notes(one)) for one in (chain[0], chain[1], chain[-1])] == [1, 0, 0]


# --- events


class Pair(NamedTuple):
    text: str
    other: int


def test_the_texts_of_an_event_are_explained_and_its_owner_keeps_its_own(
    explainer: archive.Explainer,
) -> None:
    text = TRACEBACK.stripped.decode()
    error = failed(LITE.unique)
    event = {
        "event": text,
        "values": [{"value": text, "count": 3}, "quiet"],
        "both": (1, text),
        "exc_info": (RuntimeError, error, None),
        "pair": Pair(text, 1),
    }
    before = copy.deepcopy({**event, "exc_info": None})
    told = explainer.explain_event(event)
    full = TRACEBACK.full.decode()
    assert told["event"] == full
    assert told["values"] == [{"value": full, "count": 3}, "quiet"]
    assert told["both"] == (1, full)
    assert told["pair"] is event["pair"]
    assert told["exc_info"] is event["exc_info"]
    assert len(notes(error)) == 1
    assert {**event, "exc_info": None} == before


@pytest.mark.parametrize(
    "event", ["", "x", b"Traceback of TorchScript", {"a": ["b", ("c", 1, None)]}, 3, None]
)
def test_an_event_without_failures_is_the_same_object(event: object, explainer: archive.Explainer) -> None:
    assert explainer.explain_event(event) is event


def test_the_error_that_is_handled_is_meant_by_exc_info(explainer: archive.Explainer) -> None:
    error = failed()
    try:
        raise error
    except RuntimeError:
        explainer.explain_event({"exc_info": True})
    assert len(notes(error)) == 1
    explainer.explain_event({"exc_info": True})
    assert explainer.stats.failed == 0


def test_a_text_that_has_the_note_is_not_explained_twice(explainer: archive.Explainer) -> None:
    error = failed()
    explainer.explain_error(error)
    text = "".join(traceback.format_exception(error))
    assert explainer.explain_event(text) is text


def test_events_inside_themselves_end(explainer: archive.Explainer) -> None:
    event: list[object] = [TRACEBACK.stripped.decode()]
    event += [event, event]
    told = explainer.explain_event(event)
    assert told[0] == TRACEBACK.full.decode()
    deep: list[object] = [TRACEBACK.stripped.decode()]
    for _ in range(DEEPEST):
        deep = [deep]
    assert explainer.explain_event(deep) is deep


def test_a_text_may_have_any_character(explainer: archive.Explainer) -> None:
    text = f"\ud800 \udcff \0 {'é' * 3}\n{TRACEBACK.stripped.decode()}"
    assert explainer.explain_event(text) == text.replace(TRACEBACK.stripped.decode(), TRACEBACK.full.decode())


def test_a_failure_that_several_models_may_have_stays_and_is_counted(explainer: archive.Explainer) -> None:
    for one in FAILURES:
        text = one.plain
        assert explainer.explain_event(text) in {one.plain, one.explained}
    stats = explainer.stats
    assert (stats.explained, stats.left, stats.last_problem) == (149, 51, "")
    assert "ambiguous: fits" in stats.last_left


# --- nothing is raised


class UnprintableError(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("no text")


@dataclass(frozen=True)
class Frozen(Exception):  # noqa: N818 (a name is enough)
    text: str

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize("error", [UnprintableError(), Frozen(TRACEBACK.stripped.decode())])
def test_errors_that_cannot_be_noted_are_counted(error: Exception, explainer: archive.Explainer) -> None:
    explainer.explain_error(error)
    assert explainer.stats.failed == 1
    assert explainer.stats.last_problem.partition(":")[0] in {"ValueError", "FrozenInstanceError"}


@pytest.mark.parametrize("error", [UnprintableError(), Frozen(TRACEBACK.stripped.decode())])
def test_errors_around_one_that_cannot_be_noted_are(error: Exception, explainer: archive.Explainer) -> None:
    first, second = (failed(one.unique) for one in FAILURES[:2])
    first.__cause__ = ExceptionGroup("several", [error, second])
    explainer.explain_error(first)
    assert [len(notes(one)) for one in (first, second)] == [1, 1]
    assert explainer.stats.failed == 1


class Problem(Exception):  # noqa: N818 (a name is enough)
    def __str__(self) -> str:
        raise KeyError


@pytest.mark.parametrize("problem", [OSError("gone"), MemoryError(), RecursionError(), Problem()])
def test_whatever_goes_wrong_is_counted(
    problem: Exception, explainer: archive.Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(FleetAnswers, "answer", fail)
    error = failed()
    explainer.explain_error(error)
    assert explainer.explain_event(event := {"event": str(error)}) is event
    assert notes(error) == []
    assert explainer.stats.failed == 2
    assert explainer.stats.last_problem


def test_what_is_to_stop_the_program_does(
    explainer: archive.Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FleetAnswers, "answer", stop)
    with pytest.raises(KeyboardInterrupt):
        explainer.explain_error(failed())


def test_a_closed_explainer_leaves_all_as_it_is(explainer: archive.Explainer) -> None:
    explainer.close()
    error = failed()
    explainer.explain_error(error)
    assert explainer.explain_event(str(error)) == str(error)
    assert (notes(error), explainer.stats) == ([], archive.ExplainerStats())


def test_what_takes_too_long_is_left_and_counted() -> None:
    with archive.Explainer(MODELS, seconds=0) as explainer:
        error = failed()
        explainer.explain_error(error)
        assert explainer.explain_event([str(error)]) == [str(error)]
        assert explainer.explain_event("quiet") == "quiet"
        assert (notes(error), explainer.stats) == ([], archive.ExplainerStats(late=2))
        assert explainer.unread == {}
        assert explainer.explain(str(error)) == TRACEBACK.full.decode()  # it has no deadline


def test_a_text_that_is_too_long_is_left(
    explainer: archive.Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TRACEBACK.stripped.decode()
    monkeypatch.setattr("archive.app.explaining.MOST_OF_TEXT", len(text.encode()) - 1)
    assert explainer.explain_event(text) is text
    quiet = "x" * len(text) * 2
    assert explainer.explain_event(quiet) is quiet
    assert explainer.stats.late == 1


def test_an_explanation_that_is_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    text = LITE.unique
    monkeypatch.setattr("archive.app.explaining.MOST_OF_TEXT", len(text.encode()))
    with archive.Explainer(MODELS) as explainer:
        error = failed(text)
        explainer.explain_error(error)
        assert notes(error) == []
        assert explainer.explain_event(text) is text
        assert (explainer.stats.explained, explainer.stats.left, explainer.stats.failed) == (0, 2, 0)


def test_a_thread_that_holds_a_model_delays_no_other_beyond_the_deadline(
    explainer: archive.Explainer,
) -> None:
    explainer._seconds = 0.05
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with explainer._models.using(explainer._models.all[-1], done, lambda opened: opened):
            held.set()
            done.wait()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(hold)
        held.wait()
        error = failed()
        explainer.explain_error(error)
        assert (notes(error), explainer.stats.late) == ([], 1)
        done.set()
    explainer._seconds = 60
    explainer.explain_error(error)
    assert len(notes(error)) == 1


def test_what_comes_while_a_model_is_used_is_left(explainer: archive.Explainer) -> None:
    """A signal's handler may log, and so may what the garbage collector calls."""
    error = failed()
    with explainer._models.using(explainer._models.all[-1], explainer, lambda opened: opened):
        explainer.explain_error(error)
    assert notes(error) == []
    explainer.explain_error(error)
    assert len(notes(error)) == 1


def test_what_explaining_tells_is_not_explained(explainer: archive.Explainer) -> None:
    class ChattyError(RuntimeError):
        def __str__(self) -> str:
            inner = failed()
            explainer.explain_error(inner)
            assert notes(inner) == []
            return TRACEBACK.stripped.decode()

    error = ChattyError()
    explainer.explain_error(error)
    assert (len(notes(error)), explainer.stats) == (1, archive.ExplainerStats(explained=1))


def test_a_deadline_is_of_its_block() -> None:
    check_time()
    assert seconds_left(5) == 5
    with ending_in(60):
        assert 50 < seconds_left(100) <= 60
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(seconds_left, 100).result() == 100
    with ending_in(-1), pytest.raises(LateError):
        check_time()
    assert seconds_left(5) == 5


# --- at start


def memory_of(explainer: archive.Explainer) -> dict[str, int]:
    """The memory that each open model takes."""
    opened = explainer._models.opened.by_model.items()
    return {model.file: one.archive.allowance.taken for model, one in opened if one.archive}


def test_what_failures_need_is_read_at_start() -> None:
    with archive.Explainer(MODELS) as explainer:
        assert memory_of(explainer) == {}
        assert explainer.warm() is explainer
        before = memory_of(explainer)
        for text in (TRACEBACK.stripped.decode(), LITE.unique):
            explainer.explain_event(text)
        assert explainer.stats == archive.ExplainerStats(explained=2)
        assert len(before) == 4
        assert max(after / before[file] for file, after in memory_of(explainer).items()) < 1.1


def test_models_that_cannot_be_read_are_told_at_start(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("models")
    (folder / "whole.pt").write_bytes(TRACEBACK.path.read_bytes())
    data = TRACEBACK.path.read_bytes()
    (folder / "torn.pt").write_bytes(data[: len(data) // 2])
    with archive.Explainer(folder).warm() as explainer:
        assert list(explainer.unread) == [str(folder / "torn.pt")]


@pytest.mark.parametrize(("bound", "most", "kept"), [("MOST_OPEN", 2, 2), ("BYTES_OPEN", 150_000, 2)])
def test_as_many_models_are_opened_at_start_as_have_room(
    bound: str, most: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones: if more were opened, these would be closed again."""
    monkeypatch.setattr(f"archive.failures.models.models.{bound}", most)
    monkeypatch.setattr("archive.app.explaining.SAMPLES", ())
    with archive.Explainer(ORACLES).warm() as explainer:
        models = explainer._models
        assert list(models.opened.by_model) == models.all[:kept]


def test_nothing_of_an_explainer_is_logged(
    explainer: archive.Explainer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        explainer.warm().explain_error(failed())
    assert caplog.records == []
