"""Calls that a table keeps: what a record may ask for, their order, and what is left when one fails."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, lower, lowered_archive
from archive.base.errors import ArchiveError
from archive.effects import ReplayError
from archive.effects.replay.replay import replay
from archive.formats.effects.known_calls import LOG, PRINT, WARN
from archive.formats.effects.model import (
    Constant,
    Effect,
    EffectTable,
    GlobalName,
    Local,
    Made,
    MethodEffects,
    Op,
    Output,
)
from archive.formats.effects.record import build_effects
from archive.formats.effects.source_text import effect_text
from tests.support.corpus import FIXTURES
from tests.support.live_state import live_state

pytestmark = pytest.mark.torch

SELF = Local("self")
STEP = Effect(Op.SET_ATTRIBUTE, SELF, Constant("step"), Output(0))


class Thing:
    """An object with a step."""

    def __init__(self) -> None:
        self.step = 0


def call(function: GlobalName, settings: tuple[Any, ...], *values: Any) -> Effect:  # noqa: ANN401
    return Effect(Op.CALL, function, Constant(settings), Made("tuple", values))


def template(text: str, count: int = 1) -> Made:
    return Made("format", (Constant(text), *map(Output, range(count))))


SAID = [
    (call(PRINT, (" ", "\n"), Constant("a"), Output(0)), "print('a', out[0])"),
    (call(PRINT, ("-", ""), Constant("a")), "print('a', sep='-', end='')"),
    (
        call(LOG, ("model", 20, "m.py", 3, "forward"), Constant("%d"), Output(0)),
        "logging.getLogger('model').info('%d', out[0])",
    ),
    (call(LOG, ("", 30, "m.py", 3, "f"), Constant("a")), "logging.warning('a')"),
    (call(LOG, ("model", 25, "m.py", 3, "f"), Constant("a")), "logging.getLogger('model').log(25, 'a')"),
    (
        call(WARN, ("UserWarning", "m.py", 3, "m"), template("{0:d}!")),
        "warnings.warn('{0:d}!'.format(out[0]), UserWarning)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("effect", "text"), SAID)
def test_a_call_is_shown_as_python(effect: Effect, text: str) -> None:
    assert effect_text(effect) == text
    build_effects(EffectTable((MethodEffects("forward", (), Constant(None), (effect,)),), ()))


TEMPLATES = (
    "{0.__class__}",
    "{0[k]}",
    "{0!r}",
    "{1}",
    "{}",
    "{0:{0}}",
    "{0:9999}",
    "{0:.9999f}",
    "{0",
    "{0}{0}",
)
REFUSED = [
    (call(GlobalName("os", "system"), ("", ""), Constant("ls")), "a function that no record may call"),
    (call(PRINT, (" ",)), "its settings aren't str, str"),
    (call(PRINT, (" ", 1)), "its settings aren't str, str"),
    (Effect(Op.CALL, PRINT, Output(0), Made("tuple", ())), "its settings aren't"),
    (Effect(Op.CALL, PRINT, Constant((" ", "")), Output(0)), "what it prints is missing"),
    (call(LOG, ("model", 20, "m.py", 3, "f")), "what it prints is missing"),
    (call(WARN, ("SystemExit", "m.py", 3, "m"), Constant("a")), "'SystemExit' isn't one of Python's own"),
    (Effect(Op.CALL, SELF, Constant((" ", "")), Made("tuple", ())), "call of what isn't a global"),
    *(
        (call(PRINT, (" ", "\n"), template(text)), "no template of its values")
        for text in TEMPLATES
    ),
    (call(PRINT, (" ", "\n"), template("{0:٩٩٩٩٩٩٩٩٩٩}")), "no template of its values"),
    (call(PRINT, (" ", "\n"), Made("format", ())), "no template of its values"),
]  # fmt: skip


@pytest.mark.parametrize(("effect", "message"), REFUSED)
def test_no_record_asks_for_another_call(effect: Effect, message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        build_effects(EffectTable((MethodEffects("forward", (), Constant(None), (effect,)),), ()))


def made(*effects: Effect) -> Thing:
    """An object after some effects of a method whose graph gives 7."""
    thing = Thing()
    method = MethodEffects("forward", (), Output(0), effects)
    replay(method, live_state(thing), [7], arguments={})
    return thing


def test_a_text_is_made_of_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    made(call(PRINT, (" ", "!\n"), template("{{{0:>3d}}}"), Constant("b")))
    assert capsys.readouterr().out == "{  7} b!\n"


def test_a_warning_that_is_an_error_leaves_the_state_as_it_was() -> None:
    thing, warning = Thing(), call(WARN, ("UserWarning", "m.py", 3, "m"), Constant("careful"))
    method = MethodEffects("forward", (), Output(0), (STEP, warning))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ReplayError, match="UserWarning: careful"):
            replay(method, live_state(thing), [7], arguments={})
    assert thing.step == 0


def test_a_format_that_does_not_fit_changes_nothing() -> None:
    thing = Thing()
    method = MethodEffects("forward", (), Output(0), (STEP, call(PRINT, (" ", "\n"), template("{0:d}"))))
    with pytest.raises(ReplayError, match="Unknown format code 'd'"):
        replay(method, live_state(thing), ["text"], arguments={})
    assert thing.step == 0


class Reporting(nn.Module):
    """A model that logs and warns."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        logging.getLogger("model").debug("step %d", self.step)
        warnings.warn("careful", stacklevel=1)
        if self.step > 2:
            print("late", self.step)  # noqa: T201
        return x


def test_capture_says_nothing_and_replay_as_much_as_its_process_asks_for(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.ones(2)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default", UserWarning)
        with caplog.at_level(logging.DEBUG, "model"):
            data = lowered_archive(lower(Reporting(), "aten", effects=True, example_inputs=(x,)))
        loaded = Effectful.load(data)
        assert not [one for one in shown if "careful" in str(one.message)]
        assert not caplog.records
        loaded(x)
        assert not caplog.records  # the logger's level says no
        with caplog.at_level(logging.DEBUG, "model"):
            loaded(x)
            loaded(x)
        assert [one.getMessage() for one in caplog.records] == ["step 2", "step 3"]
        assert len([one for one in shown if "careful" in str(one.message)]) == 1  # a place warns once
    assert capsys.readouterr().out == "late 3\n"


def test_a_process_without_the_model_prints_the_model_s_own_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loaded = Effectful.load(FIXTURES / "effects" / "reporting.pt")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(pathname)s:%(lineno)d %(funcName)s %(message)s"))
    logger = logging.getLogger("reporting")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        loaded(torch.full((3, 3), 0.5))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    found = capsys.readouterr()
    assert found.err == "models/reporting.py:17 forward step 1: 0.500\n"
    assert found.out == "1 of 3\n"
