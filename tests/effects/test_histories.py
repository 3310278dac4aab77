"""Lists of any length in a graph: hundreds of calls, lists unlike those of the example, failures."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import BackendError, Effectful, lower, lowered_archive
from archive.effects import CaptureError, GuardError, capture_entries
from tests.support.entry_running import check_entries
from tests.support.made_histories import histories
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.made_effects import Made

pytestmark = pytest.mark.torch

HUNDREDS = 300


def argument(number: int) -> torch.Tensor:
    return torch.randn(2, 3, generator=torch.Generator().manual_seed(number))


class Averaging(nn.Module):
    """The mean of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any] = []
        self.seen = torch.zeros(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.history.append(x * 2)
        return torch.stack(self.history).mean(0)


class Noting(Averaging):
    """A tensor that changes in place, beside a history that it may get into."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        self.history.append(x * 2)
        return torch.stack(self.history).mean(0) + self.seen


class Adding(Averaging):
    """Tensors, added by Python."""

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        self.history.append(x)
        return sum(self.history)


class Summing(Averaging):
    """Numbers, added by Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.history.append(float(x.sum()))
        return x * sum(self.history) + max(self.history)


class Caching(nn.Module):
    """Keys of each layer, in a dict, and a preallocated buffer with a position."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.cache: dict[int, torch.Tensor] = {}
        self.register_buffer("keys", torch.zeros(2 * HUNDREDS, 3))
        self.position = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            keys = layer(x)
            self.cache[number] = torch.cat([self.cache[number], keys]) if number in self.cache else keys
            x = torch.softmax(x @ self.cache[number].T, -1) @ self.cache[number]
        count = x.size(0)
        self.keys[self.position : self.position + count] = x
        self.position += count
        return x @ self.keys[: self.position].T


def loaded_of(model: nn.Module, *, stock: bool = False) -> Effectful:
    data = lowered_archive(lower(model, "aten", effects=True, example_inputs=(argument(0),)))
    return Effectful.load(data, stock=stock)


@given(model=histories())
@settings(patient, max_examples=examples(12))
def test_lists_that_calls_change_and_read_in_every_way(model: Made) -> None:
    check_entries(model, argument, 10)


@pytest.mark.parametrize("stock", [False, True])
@pytest.mark.parametrize("cls", [Averaging, Summing, Caching])
def test_hundreds_of_calls(cls: type[nn.Module], stock: bool) -> None:  # noqa: FBT001
    eager = cls()
    loaded = loaded_of(copy.deepcopy(eager), stock=stock)
    with torch.no_grad():
        for number in range(HUNDREDS):
            x = argument(number)
            assert torch.equal(loaded(x), eager(x))


def test_a_list_is_emptied_shortened_and_filled_from_outside() -> None:
    eager = Averaging()
    loaded = loaded_of(copy.deepcopy(eager))
    changes: list[Callable[[list[Any]], object]] = [
        list.copy,
        list.clear,
        list.pop,
        lambda one: one.extend(one),
    ]
    for number, change in enumerate(changes):
        for model in (eager, loaded.state.module):
            change(model.history)
        assert torch.equal(loaded(argument(number)), eager(argument(number)))


def test_an_item_of_another_kind_is_refused() -> None:
    loaded = loaded_of(Averaging())
    loaded(argument(0))
    loaded.state.module.history.append(0.5)
    with pytest.raises(GuardError, match=r"found float\n(.|\n)*torch.stack\(self.history\).mean\(0\)"):
        loaded(argument(1))
    assert len(loaded.state.module.history) == 2


def test_a_tensor_that_changes_in_place_is_in_no_list_of_the_graph() -> None:
    eager = Noting()
    loaded = loaded_of(copy.deepcopy(eager))
    for number in range(3):
        assert torch.equal(loaded(argument(number)), eager(argument(number)))
    loaded.state.module.history[1] = loaded.state.module.seen
    with pytest.raises(GuardError, match=r"all\(apart\(item, self.seen\) for item in self.history\)"):
        loaded(argument(3))
    eager.history = [eager.seen]
    with pytest.raises(CaptureError, match="changed in place shares its memory"):
        capture_entries(eager, [(argument(0),)])


@pytest.mark.parametrize("stock", [False, True])
def test_a_call_that_fails_in_between_leaves_the_list_as_it_was(stock: bool) -> None:  # noqa: FBT001
    loaded = loaded_of(Averaging(), stock=stock)
    loaded(argument(0))
    with pytest.raises((BackendError, RuntimeError), match="stack expects each tensor to be equal size"):
        loaded(torch.ones(5, 3))
    assert len(loaded.state.module.history) == 1
    loaded(argument(1))
    assert len(loaded.state.module.history) == 2


def test_builtins_show_the_model_s_line_alone() -> None:
    data = lowered_archive(lower(Adding(), "aten", effects=True, example_inputs=(argument(0),)))
    loaded = Effectful.load(data)
    loaded(argument(0))
    with pytest.raises(BackendError, match="return sum") as caught:
        loaded(torch.ones(5, 7))
    assert "list_functions" not in str(caught.value)
    assert b"list_functions" not in data
