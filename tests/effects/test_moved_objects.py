"""Objects that a call moves to other places: the state has what later calls read of them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, lower, lowered_archive
from archive.effects import CaptureError, capture
from archive.effects.capture import initial, moved

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

Value: TypeAlias = Any
X = torch.ones(2)


@dataclass
class Node:
    """A value, and a link."""

    value: Value
    link: Value = None


class Holding(nn.Module):
    """Nodes in attributes, a list, a dict, a tuple, a ring and a chain, which functions move and read."""

    def __init__(self, *moves: Callable[[Value], Value]) -> None:
        super().__init__()
        self.one, self.other, self.third = Node(1.0, [Node(1.5)]), Node(2.0, [Node(2.5)]), Node(3.0)
        self.items = [Node(4.0), Node(5.0), Node(6.0)]
        self.named = {"a": Node(7.0), "b": Node(8.0), None: Node(9.0)}
        self.rows = [[Node(12.0), Node(13.0)], [Node(14.0), Node(15.0)]]
        self.pair = (Node(10.0), Node(11.0))
        self.ring = Node(torch.zeros(2))
        self.ring.link = Node(torch.ones(2), Node(torch.full((2,), 2.0), self.ring))
        self.chain = Node(0.0, Node(1.0, Node(2.0)))
        self._moves = moves

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for move in self._moves:
            x = x + move(self)
        return x


def swaps(self: Value) -> Value:
    self.one, self.other = self.other, self.one
    return self.one.value


def rotates_and_counts(self: Value) -> Value:
    self.one, self.other, self.third = self.other, self.third, self.one
    self.one.value += 1
    return self.one.value


def swaps_and_reads_deeper(self: Value) -> Value:
    self.one, self.other = self.other, self.one
    return self.one.link[0].value


def swaps_across(self: Value) -> Value:
    self.third, self.items[0] = self.items[0], self.third
    return self.third.value


def swaps_items(self: Value) -> Value:
    self.items[0], self.items[1] = self.items[1], self.items[0]
    return self.items[0].value


def swaps_keys(self: Value) -> Value:
    self.named["a"], self.named["b"] = self.named["b"], self.named["a"]
    return self.named["a"].value


def takes_turns(self: Value) -> Value:
    self.items.append(self.items.pop(0))
    return self.items[0].value


def makes_a_list(self: Value) -> Value:
    self.items = [self.items[2], self.items[0], self.items[1]]
    return self.items[0].value


def makes_a_tuple(self: Value) -> Value:
    self.pair = (self.pair[1], self.pair[0])
    return self.pair[0].value


def goes_round(self: Value) -> Value:
    self.ring = self.ring.link
    self.ring.value.add_(1)
    return self.ring.value


def puts_before(self: Value) -> Value:
    self.chain = Node(5.0, self.chain)
    return self.chain.value + self.chain.link.value


def swaps_lists(self: Value) -> Value:
    self.rows[0], self.rows[1] = self.rows[1], self.rows[0]
    self.rows[0][0].value += 1
    return self.rows[0][0].value + self.rows[1][1].value


def makes_a_list_of_new_ones(self: Value) -> Value:
    self.items = [Node(1.0, self.third), Node(2.0, self.one)]
    self.third = self.items[0].link
    self.one = self.items[1].link
    return self.one.value + self.third.value


def swaps_with_none(self: Value) -> Value:
    self.named[None], self.named["a"] = self.named["a"], self.named[None]
    return self.named["a"].value


MOVES = (
    (swaps, takes_turns, swaps_keys, goes_round),
    (rotates_and_counts, makes_a_list, swaps_with_none),
    (swaps_across, swaps_and_reads_deeper, puts_before),
    (makes_a_list_of_new_ones, swaps_lists),
    (swaps_items, makes_a_tuple),
)
"""Those that move the same objects or containers are apart."""


@pytest.mark.parametrize("moves", MOVES)
def test_each_call_finds_the_objects_where_the_ones_before_left_them(
    moves: tuple[Callable[[Value], Value], ...],
) -> None:
    eager = Holding(*moves)
    lowered = lower(copy.deepcopy(eager), "aten", effects=True, example_inputs=(X,))
    loaded = Effectful.load(lowered_archive(lowered), allow=[f"{__name__}:Node"])
    for _ in range(5):
        assert torch.equal(loaded(X), eager(X))


def steps_on(self: Value) -> Value:
    if self.chain.link is not None:
        self.chain = self.chain.link
    return self.chain.value


def test_the_end_of_a_chain_is_another_arm() -> None:
    eager = Holding(steps_on)
    lowered = lower(copy.deepcopy(eager), "aten", effects=True, calls=[(X,)] * 4)
    loaded = Effectful.load(lowered_archive(lowered))
    for _ in range(6):
        assert torch.equal(loaded(X), eager(X))


def test_a_state_that_lacks_what_a_later_call_reads_is_refused_at_the_line() -> None:
    with (
        mock.patch.object(initial, "add_moved", return_value=[]),
        pytest.raises(
            CaptureError, match=r"example call 2 is refused: .*expected .*self\.other\.value"
        ) as caught,
    ):
        capture(Holding(swaps), X)
    assert caught.value.line == swaps.__code__.co_firstlineno + 2


def test_a_chain_that_no_state_holds_is_refused() -> None:
    model = Holding(steps_on)
    for _ in range(moved.MOST_LINKS + 2):
        model.chain = Node(0.0, model.chain)
    with pytest.raises(CaptureError, match="calls move objects that are linked too deeply"):
        capture(model, X)
