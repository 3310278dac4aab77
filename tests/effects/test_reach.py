"""What replay reaches beyond the state: code by permission alone, no file, no name of Python's own."""

from __future__ import annotations

import io
import logging
import os
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

import archive
from archive.backend import Effectful
from archive.base.errors import ArchiveError
from archive.effects import ReplayError, State
from archive.effects.replay.compiling import WIDE
from archive.effects.replay.hooks import StateGlobals, allowed_code
from archive.effects.replay.replay import prepared, replay
from archive.formats.effects import EFFECTS
from archive.formats.effects.known_calls import LOG, WARN
from archive.formats.effects.model import (
    At,
    Constant,
    Effect,
    GlobalName,
    Local,
    Made,
    MethodEffects,
    Op,
    Output,
    Temporary,
)
from archive.formats.effects.record import build_effects
from tests.support.corpus import FIXTURES
from tests.support.forged import SELF, path_of, watched
from tests.support.live_state import live_state
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

COUNTING = FIXTURES / "effects" / "counting.pt"


class Inner:
    """A class with code of several kinds."""

    limit = 3

    def method(self, gradient: object) -> object:
        return gradient

    @staticmethod
    def static(gradient: object) -> object:
        return gradient


class Outer(Inner):
    """A class that inherits code, and has a class in it."""

    held = os

    class Nested:
        def method(self, gradient: object) -> object:
            return gradient


HERE = __name__


def done(*effects: Effect, **fields: Any) -> object:  # noqa: ANN401
    method = MethodEffects("forward", (), Constant(None), tuple(effects))
    return replay(method, fields.get("state", State({})), [], arguments={})


@pytest.mark.parametrize("allow", [["{}:Outer", "{}:Inner"], {"{}:Outer": Outer, "{}:Inner": Inner}])
def test_permission_for_a_class_covers_what_it_defines(allow: Any) -> None:  # noqa: ANN401
    names = {name.format(HERE): Outer if "Outer" in name else Inner for name in allow}
    given = names if isinstance(allow, dict) else list(names)
    assert allowed_code(f"{HERE}:Inner.method", given) is Inner.method
    assert allowed_code(f"{HERE}:Inner.static", given) is Inner.static
    assert allowed_code(f"{HERE}:Outer.Nested.method", given) is Outer.Nested.method
    for name in (
        "Outer.method",
        "Outer.held",
        "Outer.held.system",
        "Inner.limit",
        "Inner.mro",
        "Inner.method.x",
    ):
        with pytest.raises(LookupError, match="is not allowed"):
            allowed_code(f"{HERE}:{name}", given)


def test_a_hook_s_globals_hide_neither_code_nor_builtins() -> None:
    real = {"COUNT": 1, "helper": len, "os": os}
    held = {"COUNT": 2, "helper": 0, "os": 0, "sorted": 0, "more": 3}
    seen = StateGlobals(held, real)
    assert (seen["COUNT"], seen["more"], seen["helper"], seen["os"]) == (2, 3, len, os)
    with pytest.raises(KeyError):
        _ = seen["sorted"]


def test_no_global_hides_a_builtin() -> None:
    state = State({}, {"m": {"COUNT": 1}})
    done(Effect(Op.SET_GLOBAL, GlobalName("m", "COUNT"), None, Constant(2)), state=state)
    with pytest.raises(ReplayError, match="is not allowed"):
        done(Effect(Op.SET_GLOBAL, GlobalName("m", "sorted"), None, Constant(2)), state=state)
    assert state.globals == {"m": {"COUNT": 2}}


def test_a_warning_reads_no_file_of_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that a record names may be a pipe, or without end."""
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret\n", encoding="utf-8")
    with watched() as events:
        for name in (str(secret), __file__):
            settings = Constant(("UserWarning", name, 1, f"m.{name}"))
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.showwarning = lambda *args, **_: print(warnings.formatwarning(*args[:4]))  # noqa: T201
                done(Effect(Op.CALL, WARN, settings, Made("tuple", (Constant("said"),))))
    shown = capsys.readouterr().out
    assert shown.count("said") == 2
    assert "a secret" not in shown
    assert str(secret) not in [path for event, path in events if event == "open"]
    assert __doc__ is not None
    assert __doc__.partition("\n")[0] in shown  # the line of a Python module that is loaded


@pytest.mark.parametrize(
    "text", ["%1000d", "%-9999999999d", "%.1000f", "%*d", "%%%05000d", "a %s b %010000s"]
)
def test_a_message_asks_for_no_width_without_end(text: str) -> None:
    logging.getLogger("gate").setLevel(logging.INFO)
    call = Effect(
        Op.CALL,
        LOG,
        Constant(("gate", 30, "", 0, "")),
        Made("tuple", (Constant(text), Constant(1), Constant(2))),
    )
    with pytest.raises(ReplayError, match="more than 999 characters wide"):
        done(call)


def test_a_logger_s_name_has_an_end() -> None:
    settings = Constant(("a." * 500 + "a", 30, "", 0, ""))
    with pytest.raises(ReplayError, match="a logger whose name has more than 1,000 characters"):
        done(Effect(Op.CALL, LOG, settings, Made("tuple", (Constant("said"),))))


def test_objects_of_python_s_library_are_no_places() -> None:
    """The path of an open log file is an attribute of a handler."""
    handler = logging.NullHandler()
    module: Any = torch.nn.Module()
    module.handler, module.options = handler, SimpleNamespace(width=1)
    state = live_state(module)
    done(Effect(Op.SET_ATTRIBUTE, path_of("options"), Constant("width"), Constant(2)), state=state)
    assert module.options.width == 2
    before = dict(vars(handler))
    for effect in (
        Effect(Op.SET_ATTRIBUTE, path_of("handler"), Constant("baseFilename"), Constant("/etc/passwd")),
        Effect(Op.SET_ATTRIBUTE, SELF, Constant("stolen"), At(path_of("handler.level"))),
        Effect(Op.CLEAR, path_of("handler")),
    ):
        with pytest.raises(ReplayError):
            done(effect, state=state)
    assert vars(handler) == before


def test_nothing_is_put_into_the_handle_of_a_hook() -> None:
    """``remove`` calls what a handle holds."""
    made = Effect(Op.NEW, Temporary(0), Constant("torch.utils.hooks:RemovableHandle"))
    put = Effect(Op.SET_ATTRIBUTE, Temporary(0), Constant("hooks_dict_ref"), Constant(1))
    with pytest.raises(ReplayError, match="RemovableHandle can't hold"):
        done(made, put)


@pytest.mark.parametrize("text", ["%d", "%999d", "%%2024 %d", "%5.3f of 20000", "100%% %s"])
def test_usual_messages_are_not_wide(text: str) -> None:
    assert WIDE.search(text) is None


# --- methods and attributes of the TorchScript module


def with_method(name: str) -> bytes:
    with archive.open(COUNTING) as opened:
        table = opened.effects
    assert table is not None
    renamed = MethodEffects(name, (Local("x"),), Output(0), (), (), ())
    return tampered(COUNTING, {EFFECTS: build_effects(type(table)((renamed,), table.state))})


@pytest.mark.parametrize("name", ["save", "_save_for_lite_interpreter", "define", "__init__", "forward_"])
def test_an_entry_runs_methods_of_torchscript_alone(name: str, tmp_path: Path) -> None:
    target = tmp_path / "written"
    with pytest.raises(ArchiveError, match="no"):
        Effectful.load(with_method(name), stock=True)(str(target))
    with pytest.raises((ArchiveError, AttributeError)):
        Effectful.load(with_method(name))(str(target))
    assert not target.exists()


def test_a_table_of_effects_needs_what_belongs_to_it() -> None:
    plain = FIXTURES / "effects" / "counting.pt"
    with archive.open(plain) as opened:
        record = bytes(opened.records[EFFECTS].view())
    scripted = torch.jit.script(torch.nn.ReLU())
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer, _extra_files={"effects.pkl": record})
    with pytest.raises((ArchiveError, RuntimeError)):
        Effectful.load(buffer.getvalue())


def test_prepared_effects_hold_no_code_that_was_made_of_text() -> None:
    with archive.open(COUNTING) as opened:
        assert opened.effects is not None
        ready = prepared(opened.effects.methods[0])
    for function in (ready.inputs, ready.replay):
        assert function.__code__.co_filename.endswith("compiling.py")
