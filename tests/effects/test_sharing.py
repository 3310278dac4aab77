"""Tensors of the state that become one: later calls are the eager ones or refused, however they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import Effectful, lower, lowered_archive
from archive.effects import CaptureError, GuardError, StateError
from tests.effects.made_modules import Made, written
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from torch import nn

pytestmark = pytest.mark.torch

STATEMENTS = (
    "self.a.add_(x)",
    "self.b.mul_(2)",
    "self.c.data.sub_(1)",
    "self.items[0].add_(1)",
    "if self.n % 2: self.a.add_(x)",
    "self.b = x * 3",
    "self.c = self.c + x",
    "self.items.append(x * self.n)",
    "total = total + self.a",
    "total = total * 2 + self.b",
    "total = total + self.a * self.c",
    "total = total + self.items[0]",
    "total = total + torch.stack(self.items).sum(0)",
)
JOINING = (
    "self.b = self.a",
    "self.a = self.c",
    "self.b = self.a.detach()",
    "self.c = self.a[:]",
    "self.b = self.a.view(3)",
    "self.b.data = self.a.data",
    "self.items[0] = self.b",
    "self.a = self.items[0]",
)
MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.a, self.b = torch.zeros(3), torch.ones(3)
        self.register_buffer("c", torch.arange(3.0))
        self.items = [torch.full((3,), 5.0)]

    def forward(self, x):
        self.n += 1
        total = x
        {body}
        return total
"""


def argument(number: int) -> torch.Tensor:
    return torch.full((3,), number + 1.0)


def state(held: Any, names: list[str]) -> list[Any]:  # noqa: ANN401
    values = [getattr(held, name) for name in names]
    return [
        [*map(torch.Tensor.tolist, one)] if isinstance(one, list) else torch.as_tensor(one).tolist()
        for one in values
    ]


def check_calls(eager: nn.Module, loaded: Effectful, joined: str, at: int) -> None:
    """Compare calls up to one that is refused; before one of them, both have a statement made outside."""
    held = loaded.state.module
    names = [name for name in ("n", "a", "b", "c", "items") if hasattr(held, name)]
    for number in range(6):
        if number == at and joined:
            exec(joined, {"self": eager})  # noqa: S102 (a statement from above)
            try:
                exec(joined, {"self": held})  # noqa: S102
            except (AttributeError, StateError):  # the graph holds it
                return
        before = state(held, names)
        try:
            found = loaded(argument(number))
        except GuardError:
            assert state(held, names) == before
            return
        assert found.tolist() == eager(argument(number)).tolist()
        assert state(held, names) == state(eager, names)


@given(
    st.lists(st.sampled_from(STATEMENTS), min_size=2, max_size=5),
    st.sampled_from(JOINING),
    st.integers(0, 5),
    st.integers(2, 4),
)
@settings(patient, max_examples=examples(40))
def test_later_calls_are_the_eager_ones_or_refused(body: list[str], joined: str, where: int, at: int) -> None:
    inside = body.copy()
    inside.insert(where, f"if self.n == {at}: {joined}")
    for lines, outside in ((body, joined), (inside, "")):
        text = MODEL.format(body="\n        ".join(lines))
        with written(Made("sharing_made", text)) as module:
            try:
                lowered = lower(module.Model(), "aten", effects=True, example_inputs=(argument(0),))
            except CaptureError:
                continue
            check_calls(module.Model(), Effectful.load(lowered_archive(lowered)), outside, at)


class EveryOther(torch.nn.Module):
    """Changes a buffer in every other call, and reads it in all."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.register_buffer("a", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        if self.n % 2:
            self.a.add_(x)
        return x + self.a


class Joining(torch.nn.Module):
    """Makes two buffers one in its third call."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        self.a.add_(x)
        if self.n == 3:
            self.b = self.a
        return x + self.b


def test_no_entry_holds_a_buffer_that_another_one_changes_in_place() -> None:
    lowered = lower(EveryOther(), "aten", effects=True, example_inputs=(argument(0),))
    eager, loaded = EveryOther(), Effectful.load(lowered_archive(lowered))
    for number in range(6):
        assert torch.equal(loaded(argument(number)), eager(argument(number)))
    assert torch.equal(loaded.state.module.a, eager.a)


def test_what_shares_memory_is_refused_at_the_line_that_changes_it() -> None:
    lowered = lower(Joining(), "aten", effects=True, example_inputs=(argument(0),))
    eager, loaded = Joining(), Effectful.load(lowered_archive(lowered))
    for number in range(3):
        assert torch.equal(loaded(argument(number)), eager(argument(number)))
    said = r"expected apart\(self.a, self.b\), which is not so(.|\n)*self.a.add_\(x\)\n *~+ <--- HERE"
    with pytest.raises(GuardError, match=said):
        loaded(argument(3))
    assert (loaded.state.module.n, loaded.state.module.a.tolist()) == (3, eager.a.tolist())


HOLDING = """
import torch
from collections import deque
from torch import nn


class Part:
    def __init__(self, number):
        self.number = number


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = [1, 2], [3, 4]
        self.d, self.e = {"k": 1}, {"k": 2}
        self.q, self.r = deque([1, 2], maxlen=9), deque([5, 6], maxlen=9)
        self.s, self.t = {1}, {2}
        self.parts = [Part(1), Part(2)]
        self.nested = [[1, 2], [3, 4]]
        self.register_buffer("u", torch.zeros(3))
        self.register_buffer("v", torch.ones(3))

    def forward(self, x):
        total = x
        {body}
        return total
"""


HELD = (
    {
        "self.a[0] += 1; total = total * self.b[0]": "self.b = self.a",
        "self.d['k'] += 1; self.e['k'] += 2; total = total * self.d['k']": "self.e = self.d",
        "self.q.append(1); self.r.append(2); total = total * self.r[0]": "self.r = self.q",
        "self.s.add(9); total = total * (9 in self.t)": "self.t = self.s",
        "self.parts[0].number += 1; total *= self.parts[1].number": "self.parts[1] = self.parts[0]",
        "self.nested[0][0] += 5; total = total * self.nested[1][0]": "self.nested[1] = self.nested[0]",
        "total = total * (2 if self.u is self.v else 3)": "self.v = self.u",
    },
    {
        "self.a.append(7); total = total + sum(self.b)": "self.a = self.b",
        "self.u.add_(1); total = total * (2 if self.u is self.v else 3)": "self.v = self.u",
    },
    {"self.a.append(7); self.b.append(8); total = total * self.a[-1]": "self.a = self.b"},
)
"""Statements of a model, each with one that makes its containers one."""


@pytest.mark.parametrize("statements", HELD)
def test_containers_that_become_one_are_the_eager_ones_or_refused(statements: dict[str, str]) -> None:
    body = "\n        ".join(statements)
    with written(Made("sharing_held", HOLDING.replace("{body}", body))) as module:
        lowered = lower(module.Model(), "aten", effects=True, example_inputs=(argument(0),))
        for joined in statements.values():
            loaded = Effectful.of(lowered, allow=["sharing_held:Part"])
            check_join(module.Model(), loaded, joined)


def check_join(eager: nn.Module, loaded: Effectful, joined: str) -> None:
    """Compare calls up to one that is refused; before the third, both have a statement made outside."""
    for number in range(4):
        if number == 2:
            exec(joined, {"self": eager})  # noqa: S102 (a statement from above)
            try:
                exec(joined, {"self": loaded.state.module})  # noqa: S102
            except (AttributeError, StateError):  # the graph holds it
                return
        try:
            found = loaded(argument(number))
        except (GuardError, StateError):
            assert number == 2, "only what has become one is refused"
            return
        assert found.tolist() == eager(argument(number)).tolist()
