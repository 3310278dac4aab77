"""Lists of any length in a graph: hundreds of calls, lists unlike those of the example, failures."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import BackendError, Effectful, lower, lowered_archive
from archive.effects import CaptureError, GuardError, capture_entries
from tests.effects.made_modules import Statement, check_entries, made
from tests.support.sampling import crossed, examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from tests.effects.made_modules import Made


pytestmark = pytest.mark.torch

# --- Hypothesis strategies: modules with lists that calls change in every way, and read whole or in parts


START = """\
self.n = 0
self.t = torch.zeros(2, 3)
self.a = []
self.b = [torch.full((2, 3), 0.5)]
self.c = self.a
self.f = []
self.d = {'a': []}"""
CHANGES = (
    "self.#.append(x)",
    "self.#.append(x * self.n)",
    "self.#.insert(0, x)",
    "self.#.extend([x, x + 1])",
    "self.# += [x]",
    "self.# = self.# + [x]",
    "self.# = [x] + self.#",
    "self.# = self.#[-@:]",
    "self.# = self.#[@:]",
    "self.# = self.#[:-1]",
    "self.#[:] = self.#[-@:]",
    "self.#[:] = self.# + [x]",
    "del self.#[:-@]",
    "del self.#[@:]",
    "self.#.insert(-1, x)",
    "if len(self.#) > @: self.#.pop(0)",
    "if len(self.#) > @: del self.#[0]",
    "if self.#: self.#.pop()",
    "if len(self.#) >= 4: self.#.clear()",
    "if self.#: self.#[-1] = x",
    "if self.#: self.#[0] = x * 2",
    "if self.#: self.t = self.#[-1]",
    "if self.#: self.#[-1].add_(1)",
    "self.t = self.t + x",
    "self.t.add_(x)",
    "self.#.append(self.t)",
    "self.b = self.#",
    "self.b = list(self.#)",
    "self.b = self.#[1:]",
    "self.a = self.b.copy()",
    "self.a = self.a + self.b[-2:]",
    "self.d['a'].append(x)",
    "self.d['a'] = self.d['a'][-2:] + [x]",
    "self.d['b'] = self.#[-2:]",
    "self.f.append(float(x.sum()))",
    "self.f.append(x.size(0))",
    "self.f = self.f[-@:]",
    "self.n += 1",
    "self.n = len(self.#)",
)
READS = (
    "x = torch.stack(self.#).sum(0) if self.# else x",
    "x = x + torch.cat(self.#[-@:]).mean() if self.# else x",
    "x = x + torch.stack(self.# + [x]).mean(0)",
    "x = torch.cat([x] + self.#[1:]).mean() + x",
    "x = x + torch.stack(list(self.#) + self.b + [x]).sum(0)",
    "x = x * len(self.#)",
    "x = x * len(self.#[@:]) - len(self.#[-@:-1])",
    "x = x + sum(self.#)",
    "x = sum(self.#[-@:], x)",
    "x = x + self.#[-1] if self.# else x",
    "x = x - self.#[0] if len(self.#) > 1 else x",
    "x = x + sum(self.f)",
    "x = x * max(self.f) - min(self.f[-2:]) if self.f else x",
    "x = x + torch.tensor(self.f[-@:]).sum()",
    "x = x + torch.stack(self.d['a']).mean(0) if self.d['a'] else x",
    "part = self.#[-@:]; part.append(x); x = torch.stack(part).sum(0)",
    "x = x if self.#[@:] else x + 1",
    "x = x + 1 if self.n > @ else x * 2",
    "for one in self.#[-@:]: x = x + one",
)
CONDITIONS = ("self.n % 3 == @", "self.n > @", "len(self.#) > @", "self.#", "len(self.#[1:]) == @")
RESULTS = ("x", "[x, self.a[-2:]]", "(x, self.b)", "self.a + [x]")
MOST = 3
"""Entries that loops over parts may take are few, so numbers are small."""


def _filled(text: str) -> SearchStrategy[str]:
    drawn = st.tuples(st.sampled_from("aabc"), st.integers(1, MOST))
    return drawn.map(lambda one: text.replace("#", one[0]).replace("@", str(one[1])))


changes = st.sampled_from(CHANGES).flatmap(_filled)
reads = st.sampled_from(READS).flatmap(_filled)
branches = st.tuples(st.sampled_from(CONDITIONS).flatmap(_filled), changes | reads).map(
    lambda arm: "; ".join([f"if {arm[0]}:", *(f"    {line}" for line in arm[1].split("; "))])
)


def _model(change: str, body: list[str], read: str, result: str) -> Made:
    lines = ["same = self.a, self.b, self.c", change, *body, read]
    return made([Statement("; ".join(lines), START, "")], result)


def histories() -> SearchStrategy[Made]:
    """Modules with lists that grow."""
    bodies = st.lists(changes | reads | branches, min_size=1, max_size=5)
    return st.builds(_model, changes, bodies, reads, st.sampled_from(RESULTS))


# --- what is tested


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


@pytest.mark.parametrize(("cls", "stock"), crossed([Averaging, Summing, Caching], [False, True], most=3))
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
