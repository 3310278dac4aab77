"""What is captured is tried before it is returned: what differs from the module is refused at its line."""

from __future__ import annotations

import dataclasses
import inspect
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, LoweringError, lower
from archive.backend.lower import lowering
from archive.effects import CaptureError, UntriedWarning, capture, capturing
from archive.effects.capture.entries import MOST_ENTRIES, Found, found_entries
from archive.effects.errors import ModelFailedError
from archive.effects.trial import child, trial
from archive.effects.trial.child import UntriedError, in_child
from archive.effects.trial.lines import NOWHERE
from archive.effects.trial.parts import Step
from archive.effects.trial.trial import NOT_THE_SAME, Capture, starts_of, try_out
from archive.formats.effects.model import Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.effects.capture.attempt import Attempt

pytestmark = pytest.mark.torch

Value: TypeAlias = Any
SHOWN = 0


class Model(nn.Module):
    """It changes a number, a list, a buffer and a global, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.seen = 0, [1]
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global SHOWN  # noqa: PLW0603 (the model does)
        self.count += 1
        self.seen.append(self.count)
        self.total.add_(x)
        SHOWN = self.count
        print("call", self.count)  # noqa: T201 (the model does)
        y = x * 2
        return y + self.total


X = torch.ones(3)


def lines(text: str) -> int:
    """The line of the model that has a text."""
    source, first = inspect.getsourcelines(Model)
    return first + next(number for number, line in enumerate(source) if text in line)


def tampered(change: Callable[[Attempt], Attempt]) -> Capture:
    """A capture whose entries are changed."""
    module = Model()
    found = found_entries(module, "forward", [(X,)], MOST_ENTRIES)
    attempts = [change(made) for made in found.attempts]
    starts = tuple(starts_of([(X,)], found.others))
    return Capture(module, "forward", attempts, found.initial, found.aliases, starts)


def without_effect(attribute: str) -> Callable[[Attempt], Attempt]:
    """Leave out the effects on a place."""

    def change(made: Attempt) -> Attempt:
        effects = made.flat.effects
        left = tuple(one for one in effects.effects if attribute not in f"{one.source} {one.key} {one.op}")
        assert len(left) < len(effects.effects)
        return with_table(made, effects=left)

    return change


def with_table(made: Attempt, **changes: Value) -> Attempt:
    table = dataclasses.replace(made.flat.effects, **changes)
    return dataclasses.replace(made, flat=made.flat._replace(effects=table))


def with_a_constant(made: Attempt) -> Attempt:
    """Let the number be what it was in the captured call: it is right once."""
    effects = tuple(
        dataclasses.replace(one, value=Constant(1)) if one.key == Constant("count") else one
        for one in made.flat.effects.effects
    )
    return with_table(made, effects=effects)


def with_another_factor(made: Attempt) -> Attempt:
    """Let the graph compute something else."""
    (node,) = (one for one in made.graph.graph.nodes if 2 in one.args)
    node.args = tuple(3 if one == 2 else one for one in node.args)
    made.graph.recompile()
    return made


def with_another_guard(made: Attempt) -> Attempt:
    """Let a guard refuse the example."""
    guards = tuple(
        dataclasses.replace(one, value=Constant("str")) if one.value == Constant("int") else one
        for one in made.flat.effects.guards
    )
    assert guards != made.flat.effects.guards
    return with_table(made, guards=guards)


TAMPERED = [
    (without_effect("'count'"), "self.count", "self.count += 1"),
    (without_effect("append"), "self.seen", "self.seen.append"),
    (without_effect("'total'"), "self.total has other elements", "self.total.add_(x)"),
    (without_effect("SHOWN"), "SHOWN", "SHOWN = "),
    (without_effect("'print'"), "prints, logs or warns", ""),
    (with_a_constant, "self.count is 1; in the module it is 2", "self.count += 1"),
    (with_another_factor, "result has other elements", "y = x * 2"),
    (with_another_guard, "the example call is refused: forward:", "self.count += 1"),
]


@pytest.fixture
def _global_as_at_first() -> Iterator[None]:
    """The model changes a global."""
    global SHOWN  # noqa: PLW0603 (as at first)
    yield
    SHOWN = 0


@pytest.mark.parametrize(("change", "says", "line"), TAMPERED)
def test_what_differs_is_refused_at_the_first_line_that_differs(change: Value, says: str, line: str) -> None:
    with pytest.raises(CaptureError) as caught:
        try_out(tampered(change), 0)
    assert caught.value.message.startswith(f"{NOT_THE_SAME}: ")
    assert says in caught.value.message
    assert caught.value.line == lines(line or "def forward")


@pytest.mark.parametrize(("change", "says", "line"), TAMPERED)
@pytest.mark.usefixtures("_global_as_at_first")
def test_the_child_finds_the_difference_and_another_one_its_line(change: Value, says: str, line: str) -> None:
    """In this process, as a child does it: the modules are not needed any more."""
    one, other = tampered(change), tampered(change)
    found = trial._difference(one, one.starts[0])
    assert found is not None
    number, path, said, place = found
    assert says in said
    globals()["SHOWN"] = 0
    if tuple(place) == NOWHERE and line:
        place = trial._line(other, other.starts[0], number, tuple(Step(*step) for step in path))
    assert place[1] == (lines(line) if line else 0)


def test_zeros_of_another_sign_are_refused() -> None:
    class Zeros(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 0.0

    calls = [(torch.ones(2),)]
    found = found_entries(Zeros(), "forward", calls, MOST_ENTRIES)
    (made,) = found.attempts
    (node,) = (one for one in made.graph.graph.nodes if 0.0 in one.args)
    node.args = (node.args[0], -0.0)
    made.graph.recompile()
    starts = tuple(starts_of(calls, found.others))
    with pytest.raises(CaptureError, match="result has other elements"):
        try_out(Capture(Zeros(), "forward", [made], found.initial, found.aliases, starts), 0)


def test_a_complex_result_that_is_nan_is_right() -> None:
    class Root(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.complex(x, x.sqrt())

    assert capture(Root(), -torch.ones(2)).graph


def test_what_is_right_is_not_refused_and_leaves_no_traces(capfd: pytest.CaptureFixture[str]) -> None:
    made = tampered(lambda made: made)
    try_out(made, 0)
    assert (made.module.count, made.module.seen, made.module.total.tolist(), SHOWN) == (0, [1], [0, 0, 0], 0)
    assert capfd.readouterr() == ("", "")


class Threshold(nn.Module):
    """After some calls it does something else; no example comes so far."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        if self.count > 20:
            return x - 1
        return x + 1


def test_calls_are_tried_from_each_state_that_guards_tell_apart() -> None:
    module = Threshold()
    found = found_entries(module, "forward", [(X,)], MOST_ENTRIES)
    ((_, snapshot),) = found.others
    count: Value = snapshot.attribute(module, "count")
    assert count >= 20

    def change(made: Attempt) -> Attempt:
        for node in made.graph.graph.nodes:
            if "sub" in str(node.target):
                node.args = (node.args[0], 2)
        made.graph.recompile()
        return made

    attempts = [change(made) for made in found.attempts]
    starts = tuple(starts_of([(X,)], found.others))
    capture_of = Capture(module, "forward", attempts, found.initial, found.aliases, starts)
    source, first = inspect.getsourcelines(Threshold)
    with pytest.raises(CaptureError, match="result has other elements") as caught:
        try_out(capture_of, 0)
    assert caught.value.line == first + source.index("            return x - 1\n")
    assert module.count == 0


# --- child processes -----------------------------------------------------------------------------------


def test_a_child_changes_nothing_here_and_its_result_comes_back() -> None:
    held = [1]

    def changes() -> list[int]:
        held.append(2)
        return held

    assert in_child(changes) == [1, 2]
    assert held == [1]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: 1 / 0, "the trial itself fails: ZeroDivisionError"),
        (lambda: os._exit(3), "the child process gave no result"),
        (lambda: os.read(os.pipe()[0], 1), "the child process gave no result within 0 s"),
    ],
)
def test_a_child_without_a_result_says_why(function: Callable[[], object], says: str) -> None:
    with pytest.raises(UntriedError, match=says):
        in_child(function, 0.2)


def test_where_nothing_can_be_tried_it_is_said() -> None:
    with mock.patch.object(child, "_impossible", return_value="there are no forks here"):
        with pytest.warns(UntriedWarning, match="what was captured was not tried: there are no forks here"):
            captured = capture(Model(), X)
        assert captured.side_effects.table().effects


# --- lowered modules -----------------------------------------------------------------------------------


def test_what_is_lowered_is_loaded_and_called_before_it_is_returned() -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such archive")

    with (
        mock.patch.object(Effectful, "load", broken),
        pytest.raises(CaptureError, match="what was lowered of a Model does not work: ValueError: no such"),
    ):
        lower(Model(), "aten", effects=True, example_inputs=(X,))


@pytest.mark.parametrize(("fails", "is_refused"), [(2, True), (3, False)])
def test_what_is_lowered_makes_all_calls_that_the_module_makes(fails: int, *, is_refused: bool) -> None:
    run, numbers = Effectful.__call__, iter(range(9))

    def fails_once(self: Effectful, /, *inputs: object) -> object:
        if next(numbers) == fails:
            raise ValueError("no such call")
        return run(self, *inputs)

    where = f" in call {fails + 1} of the examples" if fails else ""
    says = f"what was lowered of a Model does not work{where}: ValueError: no such call"
    with (
        mock.patch.object(Effectful, "__call__", fails_once),
        pytest.raises(CaptureError, match=says) if is_refused else nullcontext(),
    ):
        lower(Model(), "aten", effects=True, example_inputs=(X,))


class Falling(nn.Module):
    """It raises once its list is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.left = [1.0, 2.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.left.pop()


def test_a_call_that_the_module_refuses_itself_may_fail() -> None:
    lower(Falling(), "aten", effects=True, example_inputs=(X,))


def test_one_child_tries_what_was_captured_and_what_was_lowered() -> None:
    with mock.patch.object(os, "fork", wraps=os.fork) as forks:
        lower(Model(), "aten", effects=True, example_inputs=(X,))
    assert forks.call_count == 1


def test_a_lowered_module_that_ends_its_child_leaves_the_trial_of_the_captured_one() -> None:
    def ends(*_: object, **__: object) -> None:
        os._exit(3)

    found = with_another_factor_found()
    with (
        mock.patch.object(Effectful, "load", ends),
        mock.patch.object(capturing, "found_entries", return_value=found),
        pytest.raises(CaptureError, match="result has other elements"),
    ):
        lower(Model(), "aten", effects=True, example_inputs=(X,))
    with (
        mock.patch.object(Effectful, "load", ends),
        pytest.warns(
            UntriedWarning, match="what was lowered was not tried: the child process gave"
        ) as warned,
    ):
        lower(Model(), "aten", effects=True, example_inputs=(X,))
    assert [one.filename for one in warned if one.category is UntriedWarning] == [__file__]


def test_a_wrong_graph_is_the_reason_where_it_cannot_be_lowered_either() -> None:
    refused = LoweringError("not supported")
    with (
        mock.patch.object(capturing, "found_entries", return_value=with_another_factor_found()),
        mock.patch.object(lowering, "preprocessed", side_effect=refused),
        pytest.raises(CaptureError, match="result has other elements"),
    ):
        lower(Model(), "aten", effects=True, example_inputs=(X,))


def with_another_factor_found() -> Found:
    """The entries of a model whose graph computes something else."""
    found = found_entries(Model(), "forward", [(X,)], MOST_ENTRIES)
    return found._replace(attempts=[with_another_factor(made) for made in found.attempts])


class Unbound(nn.Module):
    """It asks a number of Python for a method, which knows no numbers of the graph."""

    def __init__(self, divisor: int) -> None:
        super().__init__()
        self.count, self.divisor = 0, divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        factor = int.__add__(self.count, 1)
        return x * factor * (1 // self.divisor)


def test_only_a_module_that_fails_is_said_to_fail() -> None:
    line = Unbound.forward.__code__.co_firstlineno + 2
    with pytest.raises(CaptureError, match="the module runs, but the capture cannot follow it: ") as caught:
        capture(Unbound(1), X)
    assert (type(caught.value), caught.value.line) == (CaptureError, line)
    with pytest.raises(ModelFailedError, match=r"^ZeroDivisionError: "):
        capture(Unbound(0), X)


class Constants(nn.Module):
    """Each of its entries has tensors without a place, in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.two, self.three = [torch.full((3,), 2.0)], [torch.full((3,), 3.0)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        if self.count % 2:
            return x * self.two[0] + self.three[0] * torch.tensor([1.0, 2.0, 3.0])
        return x * self.three[0] - self.two[0] * torch.tensor([4.0, 5.0, 6.0])


def test_graphs_whose_constants_are_held_together_are_tried_as_they_run_alone() -> None:
    eager, loaded = Constants(), Effectful.of(lower(Constants(), "aten", effects=True, example_inputs=(X,)))
    for _ in range(4):
        assert torch.equal(loaded(X), eager(X))


class Draining(nn.Module):
    """How far it reads into a list depends on the list, and one arm leaves a shorter one."""

    def __init__(self) -> None:
        super().__init__()
        self.queue, self.total = [3, 2, 1], 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while (last := self.queue.pop()) < 3 and self.queue:
            self.total += last
        self.queue = [3, 2, 1, last]
        return x + self.total


class Counting(nn.Module):
    """Its class counts, under the name of whichever class that is."""

    made = 0
    names: dict[str, int] = {}  # noqa: RUF012 (all classes share it)

    @classmethod
    def count(cls) -> int:
        cls.made += 2
        cls.names[cls.__name__] = cls.made
        return cls.made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.count()


class Inheriting(Counting):
    """It inherits what it counts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + type(self).made


@pytest.fixture
def _class_as_at_first() -> Iterator[None]:
    """The model changes its class, and what that inherits."""
    yield
    Counting.names.clear()
    if "made" in vars(Inheriting):
        del Inheriting.made


@pytest.mark.parametrize("model", [Draining, Inheriting])
@pytest.mark.usefixtures("_class_as_at_first")
def test_a_trial_from_any_state_takes_it_as_the_model_does(model: Callable[[], nn.Module]) -> None:
    """The first entry may not fit a state that another one meets; a class has what it inherits."""
    eager, loaded = model(), Effectful.of(lower(model(), "aten", effects=True, example_inputs=(X,)))
    for _ in range(4):
        assert torch.equal(loaded(X), eager(X))
