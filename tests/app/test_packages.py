"""The lines of the page for each package that shows or sends errors, with the package itself."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import textwrap
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.app.errors import MARK
from archive.app.opentelemetry import ExplainingProcessor
from tests.support.reports import case
from tools.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TRACEBACK = case("plain_free_functions.jit")
TEXT, FULL = TRACEBACK.stripped.decode(), TRACEBACK.full.decode()
SOURCE = "Traceback of TorchScript, original code (most recent call last):\n"
PAGE = (ROOT / "docs/how-to/hooks.md").read_text("utf-8")


def lines_for(title: str) -> str:
    """The code of a part of the page."""
    part = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    lines = [line for line in code.splitlines() if line and not line.startswith(("import ", "from "))]
    assert 0 < len(lines) <= 4
    return str(code)


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., archive.Explainer]]:
    """Runs the code of a part of the page beside a folder of models; gives the explainer that it makes."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model.pt").write_bytes(TRACEBACK.path.read_bytes())
    monkeypatch.chdir(tmp_path)
    made: list[archive.Explainer] = []

    class Noted(archive.Explainer):
        def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 (whatever it takes)
            super().__init__(*arguments, **named)
            made.append(self)

    monkeypatch.setattr(archive, "Explainer", Noted)

    def run(title: str, then: str = "", **names: object) -> archive.Explainer:
        exec(f"{lines_for(title)}{then}", {"archive": archive, **names})  # noqa: S102 (our own page)
        return made[-1]

    yield run
    for explainer in made:
        explainer.close()


def raised() -> RuntimeError:
    """An error that was raised."""
    with pytest.raises(RuntimeError) as caught:
        fail()
    return caught.value


def fail() -> None:
    raise RuntimeError(TEXT)


# --- structlog


def test_structlog(typed: Callable[..., archive.Explainer], capsys: pytest.CaptureFixture[str]) -> None:
    structlog = pytest.importorskip("structlog")
    explainer = typed("structlog", structlog=structlog)
    try:
        fail()
    except RuntimeError as error:
        structlog.get_logger().exception("predict", text=str(error))
    finally:
        structlog.reset_defaults()
    event = json.loads(capsys.readouterr().out)
    assert event["text"] == FULL
    (note,) = event["exception"][0]["exc_notes"]
    assert MARK in note
    assert note.count(SOURCE) == 1
    assert explainer.stats == archive.ExplainerStats(explained=2)


# --- Sentry


@pytest.fixture
def sentry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sentry, with a list of the events that it sends, ``sent``."""
    sentry = pytest.importorskip("sentry_sdk")
    transport = pytest.importorskip("sentry_sdk.transport")
    sent: list[dict[str, Any]] = []
    init = sentry.init

    class Kept(transport.Transport):  # type: ignore[name-defined]
        def capture_envelope(self, envelope: Any) -> None:  # noqa: ANN401 (Sentry's)
            sent.extend(item.payload.json for item in envelope.items if item.type == "event")

    def init_here(**given: Any) -> None:  # noqa: ANN401 (the same)
        # What its integrations patch would stay so for the rest of the process.
        init(dsn="http://key@localhost/1", transport=Kept, default_integrations=False, **given)

    monkeypatch.setattr(sentry, "init", init_here)
    monkeypatch.setattr(sentry, "sent", sent, raising=False)
    yield sentry
    sentry.get_client().close()


def value_of(event: dict[str, Any]) -> str:
    """What the event says of its last error."""
    value: str = event["exception"]["values"][-1]["value"]
    return value


def test_sentry(typed: Callable[..., archive.Explainer], sentry: Any) -> None:  # noqa: ANN401 (a module)
    explainer = typed("Sentry", sentry_sdk=sentry)
    sentry.capture_exception(raised())
    error = raised()
    explainer.explain_error(error)
    sentry.capture_exception(error)
    sentry.capture_message("quiet")
    first, noted, quiet = sentry.sent
    assert value_of(first) == FULL
    assert value_of(noted).count(SOURCE) == 1
    assert MARK in value_of(noted)
    assert quiet["message"] == "quiet"
    assert explainer.stats.failed == 0


def test_sentry_sends_what_cannot_be_explained(
    typed: Callable[..., archive.Explainer],
    sentry: Any,  # noqa: ANN401 (a module)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise OSError("gone")

    explainer = typed("Sentry", sentry_sdk=sentry)
    monkeypatch.setattr("archive.failures.models.candidates.FleetAnswers.answer", broken)
    sentry.capture_exception(raised())
    (event,) = sentry.sent
    assert value_of(event) == TEXT
    assert explainer.stats.failed == 1


# --- OpenTelemetry


def test_opentelemetry(typed: Callable[..., archive.Explainer], monkeypatch: pytest.MonkeyPatch) -> None:
    export = pytest.importorskip("opentelemetry.sdk._logs.export")
    out, root = io.StringIO(), logging.getLogger()
    exporter = export.ConsoleLogRecordExporter(
        out=out, formatter=lambda record: record.to_json(indent=None) + "\n"
    )
    monkeypatch.setattr(export, "ConsoleLogRecordExporter", lambda: exporter)
    handlers = [*root.handlers]
    logger = logging.getLogger("service.telemetry")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the handler is about to move to another package
            explainer = typed("OpenTelemetry")
        logger.error("predict", exc_info=raised())
        logger.error(TEXT)
        logger.error("quiet")
    finally:
        (handler,) = [one for one in root.handlers if one not in handlers]
        root.removeHandler(handler)
        handler.flush()
        handler._logger_provider.shutdown()  # type: ignore[attr-defined]
    error, text, quiet = map(json.loads, out.getvalue().splitlines())
    assert error["attributes"]["exception.message"] == FULL
    assert error["attributes"]["exception.stacktrace"].count(SOURCE) == 1
    assert (text["body"], quiet["body"]) == (FULL, "quiet")
    assert explainer.stats == archive.ExplainerStats(explained=3)


def test_a_record_of_another_form_is_passed_on() -> None:
    with archive.Explainer(TRACEBACK.path) as explainer:
        processor = ExplainingProcessor(explainer)
        processor.on_emit(object())
        assert explainer.stats.last_problem.startswith("AttributeError")
        assert processor.force_flush()
        processor.shutdown()


# --- IPython and pytest, in processes of their own

FAILING = f"raise RuntimeError(open({str(TRACEBACK.path.with_suffix('.jit.stripped.txt'))!r}).read())"


def printed(*words: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.usefixtures("typed")
@pytest.mark.parametrize("line", [FAILING, "import asyncio; await asyncio.sleep(0); " + FAILING])
def test_ipython(line: str, tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    script = tmp_path / "cells.ipy"
    script.write_text(f"{lines_for('IPython and notebooks')}{line}\n")
    words = ("IPython", "--no-banner", "--colors=NoColor", f"--ipython-dir={tmp_path}", str(script))
    text = printed(*words, folder=tmp_path)
    assert text.count(MARK) == 1
    assert text.count(SOURCE) == 1


@pytest.mark.usefixtures("typed")
def test_pytest(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(f"import archive\n{lines_for('pytest')}")
    (tmp_path / "test_model.py").write_text(f"def test_model():\n{textwrap.indent(FAILING, '    ')}\n")
    text = printed("pytest", "-p", "no:cacheprovider", "--rootdir=.", folder=tmp_path)
    assert "1 failed" in text
    assert text.count(MARK) == 1
    assert text.count("Traceback of TorchScript, original code") == 1
