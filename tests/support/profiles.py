"""Recordings of a fixture's operations, written by hand, and the profiles made of them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.debuginfo.profiles.places import place_of
from archive.debuginfo.profiles.profile import Profile
from archive.debuginfo.profiles.timeline import Recording
from tests.support.corpus import ORACLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.debuginfo.profiles.places import OperationPlace
    from archive.debuginfo.symbolicate import Symbolication

# --- a model with lists


class Listed(nn.Module):
    """Modules of the same names in several lists, and one that is called as a whole, too."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.up = nn.ModuleList([nn.Linear(4, 4)])
        self.by_name = nn.ModuleDict({"inner": nn.Sequential(nn.Linear(4, 4))})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.down:
            x = layer(x)
        for layer in self.up:
            x = layer(x)
        return self.by_name["inner"](x)


class InTurns(nn.Module):
    """Two lists of equal modules, called on one line."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.b = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for a, b in zip(self.a, self.b):  # noqa: B905 (TorchScript knows no strict)
            x = a(x) + b(x)
        return x


class Deciding(nn.Module):
    """A loop with two branches of the same operators, and a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = nn.Linear(4, 4)

    def doubled(self, x: torch.Tensor) -> torch.Tensor:
        return self.right(x) * 2

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        for number in range(times):
            x = self.left(x) - 3 if number % 2 == 0 else self.doubled(x)
        return torch.relu(x)


def counts(profile: Profile) -> Counter[tuple[str, str, str]]:
    """How often each operator of PyTorch's dispatcher ran, by module and line."""
    return Counter((one.place.module, str(one.place.source), one.name) for one in profile.events)


pytestmark = pytest.mark.torch


START = 10**15 + 7


UNKNOWN = -1


@cache
def known(name: str) -> dict[int, Symbolication]:
    with archive.open(ORACLES / f"{name}.ptl") as opened:
        return {handle: opened.symbolicate(handle) for handle in sorted([*opened.handles, UNKNOWN])}


def placing(name: str) -> Callable[[int], OperationPlace]:
    return lambda handle: place_of(known(name)[handle])


def handle(name: str, hierarchy: str) -> int:
    return next(one for one, meaning in known(name).items() if meaning.module_hierarchy.endswith(hierarchy))


FC_0 = handle("plain_stack", "0(Block)::forward.SELF(Block)::_inner.fc(Linear)::forward.aten::linear")


ADD_0 = handle("plain_stack", "0(Block)::forward.aten::add")


ADD_1 = handle("plain_stack", "1(Block)::forward.aten::add")


HEAD = handle("plain_stack", "head(Linear)::forward.aten::linear")


LOOP = handle("plain_stack", "<unknown>.prim::Loop")


HANDLES = [FC_0, ADD_0, ADD_1, HEAD, LOOP, UNKNOWN]


def recording(*operations: tuple[int, int, int, str]) -> Recording:
    return Recording("demo", [(START + start, START + end, at, op) for start, end, at, op in operations])


def profiled(made: Recording) -> Profile:
    return Profile(made, placing("plain_stack"))


def one_run() -> Profile:
    made = recording(
        (0, 4000, FC_0, "aten::linear"),
        (4500, 5000, ADD_0, "aten::add"),
        (5000, 6000, ADD_1, "aten::add"),
        (7000, 9000, HEAD, "aten::linear"),
        (9000, 9500, UNKNOWN, "aten::mul"),
    )
    made.memory = [
        (START + 100, FC_0, 4096, 4096, 0xF00),
        (START + 4600, ADD_0, 1024, 5120, 0xBA0),
        (START + 4700, ADD_0, -4096, 1024, 0xF00),
        (START + 9100, UNKNOWN, 10, 1034, 0),
    ]
    return profiled(made)


def traced(profile: Profile, phase: str, category: str | None = None) -> list[dict[str, Any]]:
    events = profile.chrome_trace()["traceEvents"]
    return [event for event in events if event["ph"] == phase and event.get("cat") == category]
