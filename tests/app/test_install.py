"""What is installed: each of Python's hooks, taken and given back, and passed on to whoever had it."""

from __future__ import annotations

import asyncio
import io
import logging
import subprocess
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.app.errors import MARK
from archive.base.errors import ArchiveError
from archive.failures.traceback_failures import UNCHECKED
from tests.failures.models.test_three_models import FAILURES, FLEET
from tests.support.halves import halves
from tests.support.reports import case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MODELS = [FLEET, case("plain_free_functions.jit").path]
TRACEBACK = case("plain_free_functions.jit")
TEXT, FULL = TRACEBACK.stripped.decode(), TRACEBACK.full.decode()
UNKNOWN = "Debug info for handle(s): debug_handles:{1}, was not found."
SOURCE = "Traceback of TorchScript, original code (most recent call last):\n"


def places() -> list[object]:
    """What stands in each place now."""
    return [
        sys.excepthook,
        sys.unraisablehook,
        threading.excepthook,
        asyncio.BaseEventLoop.call_exception_handler,
        logging.getLogRecordFactory(),
    ]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException | None]]:
    """The errors that what had the hooks gets, as they are then."""
    told: list[BaseException | None] = []
    monkeypatch.setattr(sys, "excepthook", lambda _, error, __: told.append(error))
    monkeypatch.setattr(sys, "unraisablehook", lambda given: told.append(given.exc_value))
    monkeypatch.setattr(threading, "excepthook", lambda given: told.append(given.exc_value))
    yield told
    factory = logging.getLogRecordFactory()
    assert factory is logging.LogRecord


@pytest.fixture
def hooks(told: list[BaseException | None]) -> Iterator[archive.Hooks]:  # noqa: ARG001 (before it)
    with archive.install(MODELS) as hooks:
        yield hooks


def fail(text: str = TEXT) -> None:
    raise RuntimeError(text)


def noted(error: BaseException | None) -> bool:
    """Whether an error has one note, which shows source."""
    (note,) = getattr(error, "__notes__", [""])
    return MARK in note and SOURCE in note


def test_errors_that_nobody_catches_are_noted_before_others_see_them(
    hooks: archive.Hooks, told: list[BaseException | None]
) -> None:
    try:
        fail()
    except RuntimeError:
        sys.excepthook(*sys.exc_info())
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert [noted(error) for error in told] == [True, True]
    assert hooks.explainer.stats.explained == 2


class Leaving:
    def __del__(self) -> None:
        fail()


@pytest.mark.usefixtures("hooks")
def test_errors_that_nobody_can_catch_are_noted(told: list[BaseException | None]) -> None:
    for _ in range(2):
        Leaving()
    assert [noted(error) for error in told] == [True, True]


@pytest.mark.parametrize("when", ["installed before the loop", "installed while it runs"])
def test_errors_of_tasks_are_noted_for_the_loops_own_handler(
    when: str, told: list[BaseException | None]
) -> None:
    async def service() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        hooks = archive.install(MODELS) if when.endswith("runs") else None
        loop.call_soon(fail)
        await asyncio.sleep(0.01)
        if hooks:
            hooks.uninstall()

    if when.endswith("runs"):
        asyncio.run(service())
    else:
        with archive.install(MODELS):
            asyncio.run(service())
    assert [noted(error) for error in told] == [True]


def test_a_loop_without_a_handler_logs_the_explanation(
    hooks: archive.Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    async def service() -> None:
        asyncio.get_running_loop().call_soon(fail)
        asyncio.get_running_loop().call_exception_handler({"message": "no error at all"})
        await asyncio.sleep(0.01)

    asyncio.run(service())
    assert "no error at all" in caplog.text
    assert caplog.text.count(SOURCE) == 1
    assert hooks.explainer.stats.failed == 0


# --- logging


def logged(log: Callable[[logging.Logger], None]) -> str:
    """What a handler of a parent logger writes of records of a child, with a format as services have it."""
    text = io.StringIO()
    parent, child = logging.getLogger("service"), logging.getLogger("service.models")
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    parent.addHandler(handler)
    parent.propagate = False
    try:
        log(child)
    finally:
        parent.removeHandler(handler)
        parent.propagate = True
    return text.getvalue()


def caught(log: Callable[[logging.Logger, Exception], None]) -> Callable[[logging.Logger], None]:
    def run(logger: logging.Logger) -> None:
        try:
            fail()
        except RuntimeError as error:
            log(logger, error)

    return run


@pytest.mark.parametrize(
    "log",
    [
        caught(lambda logger, _: logger.exception("predict")),  # noqa: LOG004 (where it is called, one is)
        caught(lambda logger, error: logger.error("predict", exc_info=error)),
        caught(lambda logger, error: logger.warning("predict: %s", error)),
        caught(lambda logger, error: logger.error("predict: %(error)s", {"error": error})),
        caught(lambda logger, error: logger.error("predict: %r", str(error))),
        caught(lambda logger, error: logger.error(f"predict: {error}")),  # noqa: G004 (as many do)
        caught(lambda logger, error: logger.error(error)),
    ],
    ids=["exception", "exc_info", "argument", "mapping", "repr", "text", "message"],
)
@pytest.mark.usefixtures("hooks")
def test_records_are_explained_for_the_handlers_of_parents(log: Callable[[logging.Logger], None]) -> None:
    text = logged(log)
    assert text.count("Traceback of TorchScript, original code (most recent call last):") == 1
    assert "models/plain.py" in text


@pytest.mark.usefixtures("hooks")
def test_a_failure_in_an_argument_leaves_the_template_by_which_records_are_grouped() -> None:
    record = logging.getLogRecordFactory()(
        "service", 40, "app.py", 1, "%s of %d: %s", ("predict", 3, RuntimeError(TEXT)), None
    )
    assert (record.msg, record.args) == ("%s of %d: %s", ("predict", 3, FULL))


@pytest.mark.usefixtures("hooks")
def test_an_error_among_the_arguments_keeps_its_class() -> None:
    error = ValueError(TEXT)
    record = logging.getLogRecordFactory()("service", 40, "app.py", 1, "failed: %r", (error,), None)
    assert record.getMessage().startswith("failed: ValueError(")
    assert SOURCE.strip() in record.getMessage()


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("failed: %s", (RuntimeError(UNKNOWN),)),
        ("failed: %s", (UNKNOWN,)),
        (UNKNOWN.replace("1", "%d"), (1,)),
    ],
)
def test_records_that_are_not_explained_are_as_they_were(
    message: str, arguments: tuple[object, ...], hooks: archive.Hooks
) -> None:
    record = logging.getLogRecordFactory()("service", 40, "app.py", 1, message, arguments, None)
    assert record.msg == message
    assert record.args is not None
    assert [item is own for item, own in zip(record.args, arguments, strict=True)] == [True]
    assert hooks.explainer.stats.left == 1


def test_records_of_nothing_are_as_they_were(hooks: archive.Hooks) -> None:
    factory = logging.LogRecord
    arguments: list[tuple[Any, ...]] = [
        ("service", 20, "app.py", 1, "%s took %d ms", ("predict", 3), None, "f", None),
        ("service", 20, "app.py", 1, "%d", ({"a": 1},), None),
        ("service", 20, "app.py", 1, "no %s %s", ("fits",), None),
        ("service", 20, "app.py", 1, object, (), (None, None, None)),
    ]
    for given in arguments:
        made, own = logging.getLogRecordFactory()(*given), factory(*given)
        assert (made.msg, made.args, made.exc_info) == (own.msg, own.args, own.exc_info)
    assert hooks.explainer.stats.explained == 0


def test_a_record_whose_arguments_do_not_fit_is_told_as_it_was(
    hooks: archive.Hooks, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(lambda logger: logger.error("%d", "no number"))
    assert "--- Logging error ---" in capsys.readouterr().err
    assert hooks.explainer.stats.last_problem.startswith("TypeError")


def _chained(failure: str) -> None:
    try:
        fail(failure)
    except RuntimeError as error:
        raise ValueError("model Ranker failed") from error


def _logged_error(failure: str, *given: object) -> None:
    try:
        fail(failure)
    except RuntimeError:
        logged(lambda logger: logger.exception(*given))


REPORTED: dict[str, Callable[[str, archive.Explainer], object]] = {
    "an argument": lambda text, _: logged(lambda logger: logger.error("model Ranker failed: %s", text)),
    "two arguments": lambda text, _: logged(lambda logger: logger.error("model %s: %s", "Ranker", text)),
    "an error as argument": lambda text, _: logged(
        lambda logger: logger.error("model Ranker failed: %s", RuntimeError(text))
    ),
    "a message": lambda text, _: logged(
        lambda logger: logger.error(f"model Ranker failed: {text}")  # noqa: G004 (as many write it)
    ),
    "an error": lambda text, _: _logged_error(text, "model Ranker failed"),
    "an error and an argument": lambda text, _: _logged_error(text, "model %s failed", "Ranker"),
    "a cause": lambda text, explainer: explainer.explain_error(_raised_by(lambda: _chained(text))),
    "an event": lambda text, explainer: explainer.explain_event({"event": "model Ranker", "x": [text]}),
    "an event's error": lambda text, explainer: explainer.explain_event(
        {"event": "model Ranker", "exc_info": RuntimeError(text)}
    ),
}


def _raised_by(failing: Callable[[], object]) -> Exception:
    try:
        failing()
    except Exception as error:  # noqa: BLE001 (whatever it is)
        return error
    raise AssertionError


AMBIGUOUS = next(
    one.plain for one in FAILURES if one.model == "Ranker" and archive.explain(one.plain, FLEET) == one.plain
)


@pytest.mark.parametrize("way", REPORTED)
@pytest.mark.parametrize("named", ["names", "name", ""])
@pytest.mark.usefixtures("told")
def test_what_names_a_model_may_stand_in_any_part_of_what_is_reported(way: str, named: str) -> None:
    pattern, name = r"model (\w+)" if named == "names" else None, "Ranker" if named == "name" else ""
    with archive.Explainer(FLEET, names=pattern, name=name) as explainer, archive.install(explainer):
        REPORTED[way](AMBIGUOUS, explainer)
        assert (explainer.stats.explained, explainer.stats.left) == ((1, 0) if named else (0, 1))


@pytest.mark.usefixtures("told")
def test_a_model_of_another_name_explains_nothing() -> None:
    pattern = archive.Explainer(FLEET, names=r"model (\w+)")
    pattern.explain_event({"event": "model Detectors", "x": AMBIGUOUS})
    assert (pattern.stats.explained, pattern.stats.left) == (0, 1)
    assert "none of 3 models has that id or name" in pattern.stats.last_left
    with pytest.raises(archive.ArchiveError, match="none of 3 models has the name 'Detectors'"):
        archive.Explainer(FLEET, name="Detectors")


def test_what_nothing_proves_is_said_where_it_is_explained(tmp_path: Path) -> None:
    companion = tmp_path / "model.ptdbg"
    companion.write_bytes(halves(TRACEBACK.path).companion)
    for models, unchecked in ((companion, 1), (TRACEBACK.path, 0)):
        error = RuntimeError(TEXT)
        with archive.Explainer(models) as explainer:
            explainer.explain_error(error)
            assert (explainer.stats.explained, explainer.stats.unchecked) == (1, unchecked)
        (note,) = error.__notes__
        assert (UNCHECKED in note.splitlines()[1]) == (unchecked == 1)


# --- what had the hooks


def test_all_places_are_given_back() -> None:
    before = places()
    hooks = archive.install(MODELS)
    assert all(now is not then for now, then in zip(places(), before, strict=True))
    hooks.uninstall()
    hooks.uninstall()
    assert places() == before


def test_what_took_a_place_since_keeps_it(told: list[BaseException | None]) -> None:
    explainer = archive.Explainer(MODELS)
    hooks = archive.install(explainer)
    factory = logging.getLogRecordFactory()
    ours = sys.excepthook

    def later(*given: Any) -> None:  # noqa: ANN401 (whatever comes)
        ours(*given)

    sys.excepthook = later
    hooks.uninstall()
    assert sys.excepthook is later
    sys.excepthook(RuntimeError, RuntimeError(TEXT), None)
    (error,) = told
    assert not getattr(error, "__notes__", [])
    assert factory("service", 40, "app.py", 1, TEXT, (), None).msg == TEXT
    explainer.close()


def test_two_that_are_installed_note_an_error_once(told: list[BaseException | None]) -> None:
    with archive.install(MODELS) as first, archive.install(MODELS) as second:
        sys.excepthook(RuntimeError, RuntimeError(TEXT), None)
        assert [noted(error) for error in told] == [True]
        assert first.explainer.stats.explained + second.explainer.stats.explained == 1


def test_an_explainer_of_ones_own_stays_open() -> None:
    with archive.Explainer(MODELS, names=r"running (\w+)") as explainer:
        with archive.install(explainer) as hooks:
            assert hooks.explainer is explainer
        assert explainer.explain(TEXT) == FULL
    with archive.install(MODELS) as hooks:
        pass
    with pytest.raises(ValueError, match="closed"):
        hooks.explainer.explain(TEXT)


def test_models_that_are_none_are_told_at_start(tmp_path: Path) -> None:
    before = places()
    with pytest.raises(archive.ArchiveError):
        archive.install(tmp_path)
    with pytest.raises(ArchiveError, match="no such file or folder"):
        archive.install(tmp_path / "none.pt")
    assert places() == before


@pytest.mark.parametrize("given", [(), (1,), (RuntimeError, None, None)])
def test_calls_of_another_form_are_passed_on(
    given: tuple[object, ...], hooks: archive.Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.uninstall()
    got: list[tuple[object, ...]] = []
    monkeypatch.setattr(sys, "excepthook", lambda *given: got.append(given))
    with archive.install(MODELS) as again:
        sys.excepthook(*given)  # type: ignore[arg-type]
        assert got == [given]
        assert again.explainer.stats.failed == (len(given) < 3)


SCRIPT = """
import sys, threading
import archive
archive.install({models!r})
def fail():
    raise RuntimeError(open({text!r}).read())
thread = threading.Thread(target=fail)
thread.start()
thread.join()
class Leaving:
    def __del__(self):
        fail()
Leaving()
fail()
"""


def test_a_program_that_ends_so_prints_the_source(tmp_path: Path) -> None:
    text = tmp_path / "failure.txt"
    text.write_text(TEXT)
    script = SCRIPT.format(models=str(TRACEBACK.path), text=str(text))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    # Python before 3.13 prints no notes of errors in __del__.
    assert done.stderr.count(SOURCE) == 2 + (sys.version_info >= (3, 13))


def test_failures_of_three_models_in_threads_are_each_explained_by_its_own(hooks: archive.Hooks) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("service.threads")
    logger.addHandler(handler)

    def serve(start: int) -> None:
        for one in FAILURES[start::8]:
            logger.error("%s", RuntimeError(one.unique))

    threads = [threading.Thread(target=serve, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logger.removeHandler(handler)
    assert sorted(lines) == sorted(one.explained for one in FAILURES)
    assert hooks.explainer.stats == archive.ExplainerStats(explained=200)


def test_tracebacks_show_notes(hooks: archive.Hooks) -> None:
    error = RuntimeError(TEXT)
    hooks.explainer.explain_error(error)
    assert SOURCE in "".join(traceback.format_exception(error))
