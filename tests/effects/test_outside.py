"""Beyond a table: settings of the process, states of random numbers, which of its values are one object."""

from __future__ import annotations

import copy
import gc
import inspect
import json
import os
import subprocess
import sys
from os import makedirs
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import Effectful, lower, lowered_archive
from archive.effects import CaptureError, GuardError
from archive.effects.capture.following.interception import REPLACEMENTS, intercepted
from archive.effects.capture.following.outside import watched_calls

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

Value: TypeAlias = Any
SETS_A_NAME = "json.effects_outside that is set: what it does outside the model would be lost"
OF_THIS_PROCESS = "what it does or returns belongs to this process, and no table has it"


class Model(torch.nn.Module):
    """A module around a function of itself and a tensor."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.last, self.count = None, 0
        self.results: list[Any] = []
        self.generator = torch.Generator()
        self.path = Path("effects_outside")
        self._function = function

    def forward(self, x: torch.Tensor) -> Value:
        return self._function(self, x)


def seeded(_: Value, x: Value) -> Value:
    torch.manual_seed(0)
    return x + torch.rand(3)


def forked(_: Value, x: Value) -> Value:
    with torch.random.fork_rng():
        return x + torch.rand(3)


def asks_for_the_state(_: Value, x: Value) -> Value:
    return x, torch.get_rng_state()


def in_doubles(_: Value, x: Value) -> Value:
    torch.set_default_dtype(torch.float64)
    return x + torch.zeros(3)


def own_generator(_: Value, x: Value) -> Value:
    generator = torch.Generator().manual_seed(0)
    return x + torch.rand(3, generator=generator)


def kept_generator(self: Value, x: Value) -> Value:
    return x + torch.rand(3, generator=self.generator)


def in_the_environment(_: Value, x: Value) -> Value:
    os.environ["EFFECTS_OUTSIDE"] = "1"
    return x


def makes_a_folder(_: Value, x: Value) -> Value:
    makedirs("effects_outside", exist_ok=True)  # noqa: PTH103 (what is refused)
    return x


def runs_a_program(_: Value, x: Value) -> Value:
    subprocess.run(["true"], check=True)
    return x


def by_the_environment(_: Value, x: Value) -> Value:
    return x + 1 if os.environ.get("EFFECTS_OUTSIDE") else x


def in_the_environment_or_not(_: Value, x: Value) -> Value:
    return x + 1 if "EFFECTS_OUTSIDE" in os.environ else x


def by_getenv(_: Value, x: Value) -> Value:
    return x + 1 if os.getenv("EFFECTS_OUTSIDE") else x


def by_default_generator(_: Value, x: Value) -> Value:
    torch.default_generator.manual_seed(0)
    return x + torch.rand(3)


def joins_a_path(self: Value, x: Value) -> Value:
    return x if (self.path / "a") else x + 1


def writes_a_text(_: Value, x: Value) -> Value:
    Path("effects_outside").write_text("x", "utf-8")
    return x


def reads_a_text(_: Value, x: Value) -> Value:
    return x + len(Path(__file__).read_text("utf-8"))


def looks_into_a_folder(_: Value, x: Value) -> Value:
    return x + len(list(Path("/").iterdir()))


def sets_a_setting(_: Value, x: Value) -> Value:
    torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark
    return x


def sets_a_name(_: Value, x: Value) -> Value:
    setattr(json, "effects_outside", 1)  # noqa: B010 (what is refused)
    return x


def sets_a_name_later(self: Value, x: Value) -> Value:
    self.count += 1
    if self.count > 1:
        setattr(json, "effects_outside", 1)  # noqa: B010
    return x + self.count


def by_address(self: Value, x: Value) -> Value:
    self.count = id(self.results)
    return x


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (seeded, "torch.manual_seed: what it does outside the model would be lost"),
        (forked, "torch.fork_rng: what it does outside the model would be lost"),
        (asks_for_the_state, "torch.get_rng_state, which no guard looks at"),
        (in_doubles, "torch.set_default_dtype: what it does outside the model would be lost"),
        (own_generator, "a generator of random numbers of the model's own"),
        (kept_generator, "a generator of random numbers of the model's own"),
        (in_the_environment, f"os.environ: {OF_THIS_PROCESS}"),
        (makes_a_folder, f"os.mkdir: {OF_THIS_PROCESS}"),
        (runs_a_program, "subprocess.Popen: what it does outside the model would be lost"),
        (by_the_environment, f"os.environ: {OF_THIS_PROCESS}"),
        (in_the_environment_or_not, f"os.environ: {OF_THIS_PROCESS}"),
        (by_getenv, f"os.environ: {OF_THIS_PROCESS}"),
        (by_default_generator, f"torch.default_generator.manual_seed: {OF_THIS_PROCESS}"),
        (joins_a_path, f"what is done to a {type(Path()).__name__} cannot be followed"),
        (writes_a_text, "open: what it does outside the model would be lost"),
        (reads_a_text, "open: what it does outside the model would be lost"),
        (looks_into_a_folder, f"os.listdir: {OF_THIS_PROCESS}"),
        (
            sets_a_setting,
            "torch.backends.cudnn.benchmark that is set: what it does outside the model would be lost",
        ),
        (sets_a_name, SETS_A_NAME),
        (
            sets_a_name_later,
            f"a second call, from where the first one ends, does something else: {SETS_A_NAME}",
        ),
        (by_address, "id: a number that differs from process to process"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_replay_would_not_do_is_refused_at_its_line(function: Value, says: str) -> None:
    before = torch.get_rng_state(), torch.get_default_dtype()
    kinds = {name: type(module) for name, module in sys.modules.items()}
    with pytest.raises(CaptureError) as caught:
        lower(Model(function), "aten", effects=True, example_inputs=(torch.ones(3),))
    lines, first = inspect.getsourcelines(function)
    assert (caught.value.message, caught.value.filename) == (says, __file__)
    assert first < caught.value.line < first + len(lines)
    assert {name: type(sys.modules[name]) for name in kinds} == kinds
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == torch.get_default_dtype()
    assert "EFFECTS_OUTSIDE" not in os.environ
    assert not Path("effects_outside").exists()
    assert not hasattr(json, "effects_outside")


def test_nothing_is_saved_while_a_call_is_captured(tmp_path: Path) -> None:
    path = str(tmp_path / "count.pt")

    def saving(_: Value, x: Value) -> Value:
        torch.save({"count": 1}, path)
        return x

    with pytest.raises(CaptureError, match=r"torch\.save: what it does outside the model would be lost"):
        lower(Model(saving), "aten", effects=True, example_inputs=(torch.ones(3),))
    assert not list(tmp_path.iterdir())


def test_functions_of_pytorch_are_as_before_after_a_capture() -> None:
    before = torch.manual_seed, torch.random.fork_rng, torch.save, torch.default_generator
    kinds = type(torch), type(torch.backends.cudnn), type(json)
    lower(Model(unless_the_last), "aten", effects=True, example_inputs=(torch.ones(3),))
    assert before == (torch.manual_seed, torch.random.fork_rng, torch.save, torch.default_generator)
    assert kinds == (type(torch), type(torch.backends.cudnn), type(json))


def test_what_stands_in_the_place_of_a_function_of_pytorch_is_refused_too_and_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def standing(seed: int) -> Value:  # as dynamo puts one there when it is first imported
        return torch.random.manual_seed(seed)

    def seeding(_: Value, x: Value) -> Value:
        standing(3)
        return x

    monkeypatch.setattr(torch, "manual_seed", standing)
    with pytest.raises(
        CaptureError, match=r"torch\.manual_seed: what it does outside the model would be lost"
    ):
        lower(Model(seeding), "aten", effects=True, example_inputs=(torch.ones(3),))
    assert torch.manual_seed is standing


def test_other_threads_have_pytorch_s_own_generator_while_a_call_is_captured() -> None:
    """No function in C takes what stands in its place; so only functions and classes are replaced."""
    found: list[Value] = []

    def draws() -> None:
        found.append(torch.randperm(3, generator=torch.default_generator).sort()[0].tolist())
        found.append(torch.default_generator.initial_seed())

    with intercepted(mock.MagicMock()):
        thread = Thread(target=draws)
        thread.start()
        thread.join()
    assert found == [[0, 1, 2], torch.initial_seed()]
    assert all(callable(one.real) or isinstance(one.real, classmethod) for one in REPLACEMENTS)


def by_the_generator_of_the_process(_: Value, x: Value) -> Value:
    return x + torch.rand(3, generator=torch.default_generator)


def test_the_default_generator_is_what_draws_without_one() -> None:
    loaded = Effectful.of(
        lower(Model(by_the_generator_of_the_process), "aten", effects=True, example_inputs=(torch.ones(3),))
    )
    torch.manual_seed(3)
    wanted = by_the_generator_of_the_process(None, torch.ones(3))
    torch.manual_seed(3)
    assert loaded(torch.ones(3)).tolist() == wanted.tolist()


def unless_the_last(self: Value, x: Value) -> Value:
    y = x * 2 if self.last is x else x + 1
    self.last = x
    return y


def among_the_last(self: Value, x: Value) -> Value:
    y = x * 2 if any(one is x for one in self.results) else x + 1
    self.results = [*self.results, x][-2:]
    return y


@pytest.mark.parametrize("function", [unless_the_last, among_the_last])
def test_the_same_tensor_as_in_the_last_call_is_another_case(function: Value) -> None:
    model = Model(function)
    loaded = Effectful.load(
        lowered_archive(lower(model, "aten", effects=True, example_inputs=(torch.ones(3),)))
    )
    given = torch.arange(3.0)
    for one in (torch.ones(3), torch.zeros(3), given):
        assert torch.equal(model(one), loaded(one))
    with pytest.raises(GuardError, match="which is not so") as caught:
        loaded(given)
    assert " is x" in str(caught.value)
    assert loaded(torch.zeros(3)).tolist() == [1, 1, 1]


def test_a_loaded_module_says_how_to_get_another_one() -> None:
    data = lowered_archive(
        lower(Model(unless_the_last), "aten", effects=True, example_inputs=(torch.ones(3),))
    )
    with pytest.raises(TypeError, match="has no deep copy: load its archive again"):
        copy.deepcopy(Effectful.load(data))


ENDING = """
import sys
from archive.effects.capture.following import outside

class Opening:
    def __del__(self, audit=sys.audit):
        audit("open", "a_file", "r", 0)

outside.audit(lambda: None)
outside.opening = Opening()
"""
"""The finalizer runs while the names of the module that watches are None already."""


def test_files_that_are_opened_while_the_interpreter_ends_are_not_looked_at() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_the_garbage_collector_waits_while_a_call_is_captured() -> None:
    """What it calls, finalizers of others say, would be taken for the model's."""
    assert gc.isenabled()
    with watched_calls(mock.Mock()):
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with watched_calls(mock.Mock()):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
