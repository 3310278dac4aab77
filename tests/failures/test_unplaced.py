"""What the lite interpreter throws without a handle has a note where Python's traceback shows its frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.unplaced import WHY
from tests.failures.log_forms import FORMS
from tests.failures.test_log_forms import lines
from tests.support.reports import case, explained

if TYPE_CHECKING:
    from archive.failures.explainer import LogExplainer

LITE = case("plain_unicode")
FRAME = '  File "{path}", line {line}, in {function}\n    return self._c.{call}\n           ^^^^^^^^^^^^^^\n'
PATHS = (
    "/opt/py/lib/python3.11/site-packages/torch/jit/mobile/__init__.py",
    "C:\\py\\Lib\\site-packages\\torch\\jit\\mobile\\__init__.py",
)
CALLS = (
    ("__call__", "forward(input)"),
    ("forward", "forward(input)"),
    ("run_method", "run_method(name, input)"),
)
SAID = (
    "RuntimeError: division by 0",
    "IndexError: list index out of range",
    "ValueError: stoll",
    "torch.jit.Error: k is 7, which is too large",
    "torch.jit.Error: AssertionError: ",
)
HEADING = "Traceback (most recent call last):\n"
FORM_NAMES = ("plain", "crlf", "framed cri", "framed journal", "json in json", "repr", "python log")


def failing(said: str, path: str = PATHS[0], call: tuple[str, str] = CALLS[0]) -> str:
    outer = '  File "app.py", line 3, in main\n    net(x)\n'
    return f"{HEADING}{outer}{FRAME.format(path=path, line=63, function=call[0], call=call[1])}{said}\n"


def explained_by_all(log: str) -> LogExplainer:
    explainer = explainer_of(models_in([LITE.path, case("plain_stack").path]))
    assert b"".join(explainer.explain([log.encode()])) == log.encode()
    return explainer


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("path", PATHS)
def test_a_failure_without_a_handle_is_noted(path: str, call: tuple[str, str], said: str) -> None:
    log = failing(said, path, call)
    text, *counts, (note,) = explained(log.encode(), LITE.path)
    assert (text, counts) == (log.encode(), [0, 1])
    assert note == f"line 4: failure {said!r}: {WHY}"
    explainer = explained_by_all(f"{log}going on\n")
    assert (explainer.unknown, explainer.lineless, explainer.notes) == (1, 1, [note])


@pytest.mark.parametrize("name", FORM_NAMES)
def test_it_is_noted_in_the_form_of_its_log(name: str) -> None:
    for said in SAID:
        log = FORMS[name].written(lines(failing(said).encode()))
        text, done, unknown, (note,) = explained(log, LITE.path)
        assert (text, done, unknown) == (log, 0, 1)
        assert WHY in note


@pytest.mark.parametrize("text", [LITE.stripped, LITE.full])
def test_a_failure_that_shows_its_place_is_none(text: bytes) -> None:
    log = failing(f"RuntimeError: {text.decode()}").encode()
    outcome = explained(log, LITE.path)
    assert (outcome.explained + (text == LITE.full), outcome.unknown, outcome.notes) == (1, 0, [])
    twice = log + failing(SAID[0]).encode()
    assert explained(twice, LITE.path).unknown == 1
    assert explained(failing(SAID[0]).encode() + log, LITE.path).unknown == 1


@pytest.mark.parametrize(
    "other",
    [
        FRAME.format(path=PATHS[0], line=44, function="_load_for_lite_interpreter", call="f(x)")
        + "ValueError: x\n",
        '  File "/opt/mine/mobile/__init__.py", line 63, in __call__\n    f(x)\nValueError: x\n',
        FRAME.format(path=PATHS[0], line=63, function="__call__", call="f(x)")
        + '  File "callback.py", line 3, in called\n    raise\nValueError: x\n',
    ],
)
def test_other_frames_are_none(other: str) -> None:
    log = f"{HEADING}{other}".encode()
    assert explained(log, LITE.path) == (log, 0, 0, [])
