"""Modules that a call moves to other places: the captured form finds each where the eager module has it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, lower, lowered_archive
from archive.effects import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

Value: TypeAlias = Any


class Moving(nn.Module):
    """Three modules in a list, a dict and attributes, which a function moves."""

    def __init__(self, move: Callable[[Value], None]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.named = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.one, self.other, self.norm = nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3)
        self._move = move

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.named["a"](self.layers[0](x)) + self.one(x)
        self._move(self)
        return x * self.layers[1](x)


def swaps_items(self: Value) -> None:
    self.layers[0], self.layers[1] = self.layers[1], self.layers[0]


def swaps_keys(self: Value) -> None:
    self.named["a"], self.named["b"] = self.named["b"], self.named["a"]


def swaps_attributes(self: Value) -> None:
    self.one, self.other = self.other, self.one


def rotates(self: Value) -> None:
    self.layers[0], self.layers[1], self.layers[2] = self.layers[1], self.layers[2], self.layers[0]


def swaps_across(self: Value) -> None:
    self.one, self.layers[0] = self.layers[0], self.one


def swaps_inside(self: Value) -> None:
    self.inner[0], self.one = self.one, self.inner[0]


MOVES = (swaps_items, swaps_keys, swaps_attributes, rotates, swaps_across, swaps_inside)


@pytest.mark.parametrize("move", MOVES)
def test_each_call_finds_the_modules_where_the_ones_before_left_them(move: Callable[[Value], None]) -> None:
    torch.manual_seed(0)
    eager, x = Moving(move), torch.randn(4, 3)
    lowered = lower(copy.deepcopy(eager), "aten", effects=True, example_inputs=(x,))
    loaded = Effectful.load(lowered_archive(lowered))
    for _ in range(4):
        torch.testing.assert_close(loaded(x), eager(x))


def copies(self: Value) -> None:
    self.layers[0] = self.layers[1]


def swaps_kinds(self: Value) -> None:
    self.one, self.norm = self.norm, self.one


def makes_a_list(self: Value) -> None:
    self.layers = nn.ModuleList([*self.layers[1:], self.layers[0]])


REFUSED: dict[Callable[[Value], None], str] = {
    copies: "something else, since this puts a module in another place: first ",
    swaps_kinds: "something else, since this puts a module in another place: first ",
    makes_a_list: "a ModuleList cannot be kept in a table",
}


@pytest.mark.parametrize("move", REFUSED)
def test_what_is_not_followed_is_refused_at_its_line_with_the_reason(move: Callable[[Value], None]) -> None:
    with pytest.raises(CaptureError, match=REFUSED[move]) as caught:
        lower(Moving(move), "aten", effects=True, example_inputs=(torch.ones(4, 3),))
    assert caught.value.line == move.__code__.co_firstlineno + 1
