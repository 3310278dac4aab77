"""Effects: doing them again against the eager model's own changes, capturing, and what they take in archives.

Printed as Markdown. Ratios are of one run, in which the ways take turns; each time is the fastest one. What
is done again is measured alone, without the graph that computes the values: the eager side changes the same
attributes, lists and dicts, and computes next to nothing.
"""

from __future__ import annotations

import copy
import warnings
import zlib
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn

import archive
from archive.backend import Effectful, lower, lowered_archive
from archive.effects import State, capture
from archive.effects.replay.replay import prepared
from archive.formats.effects import EFFECTS
from archive.formats.effects.model import EffectTable
from tools.bench_backend import fastest, ms, row
from tools.models import traced

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS = 12
WIDTH = 16
X = torch.ones(1, WIDTH)
GOAL = 3


class Changing(nn.Module):
    """Something to change, and what changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.a = self.b = self.c = self.d = 0
        self.average = 0.5
        self.first: list[torch.Tensor] = []
        self.second: list[torch.Tensor] = []
        self.table = {"a": X, "b": X, "c": X, "d": X}
        self.register_buffer("total", torch.zeros(1, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Change it."""
        self.change(x)
        return x

    def change(self, x: torch.Tensor) -> None:
        """Change nothing."""


class Counter(Changing):
    """An int attribute."""

    def change(self, _: torch.Tensor) -> None:
        """One effect."""
        self.a += 1


class Counters(Changing):
    """Int attributes."""

    def change(self, _: torch.Tensor) -> None:
        """Four effects."""
        self.a += 1
        self.b += 1
        self.c += 1
        self.d += 1


class Append(Changing):
    """A list."""

    def change(self, x: torch.Tensor) -> None:
        """One effect."""
        self.first.append(x)


class Appends(Changing):
    """Two lists."""

    def change(self, x: torch.Tensor) -> None:
        """Four effects."""
        self.first.append(x)
        self.second.append(x)
        self.first.append(x)
        self.second.append(x)


class Item(Changing):
    """A dict."""

    def change(self, x: torch.Tensor) -> None:
        """One effect."""
        self.table["a"] = x


class Items(Changing):
    """Several items of a dict."""

    def change(self, x: torch.Tensor) -> None:
        """Four effects."""
        self.table["a"] = x
        self.table["b"] = x
        self.table["c"] = x
        self.table["d"] = x


class Mixed(Changing):
    """All of these."""

    def change(self, x: torch.Tensor) -> None:
        """Four effects."""
        self.a += 1
        self.average = 0.9 * self.average + 0.1
        self.first.append(x)
        self.table["a"] = x


class InPlace(Changing):
    """A buffer, whose contents are computed by the graph and copied."""

    def change(self, x: torch.Tensor) -> None:
        """One effect."""
        self.total.add_(x)


KINDS = {
    "attribute counter": (Counter, 1),
    "four counters": (Counters, 4),
    "list append": (Append, 1),
    "four appends to two lists": (Appends, 4),
    "dict item": (Item, 1),
    "four dict items": (Items, 4),
    "mixed: int, float, list, dict": (Mixed, 4),
    "buffer in place": (InPlace, 1),
}


class Layer(nn.Module):
    """A layer that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Count, and compute."""
        self.calls += 1
        return torch.relu(self.linear(x)) + x


class Model(nn.Module):
    """Layers that count their calls.

    Args:
        layers: how many.
    """

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(layers)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One after the other."""
        for layer in self.layers:
            x = layer(x)
        return x


def us(seconds: float) -> str:
    """Microseconds."""
    return f"{seconds * 1e6:.2f} µs"


def replaying() -> None:
    """The effects alone against the same statements."""
    print(f"\nGoal: at most {GOAL}x.\n")
    print(
        "| changes | eager | replayed on the live module | on a loaded state | reading the graph's inputs |"
    )
    print("|---|---|---|---|---|")
    for name, (make, count) in KINDS.items():
        eager, live = make(), make()
        graph, effects = capture(eager, X)
        method = effects.flat().effects
        assert len(method.effects) == count
        table = EffectTable((method,), effects.state.entries)
        ready, arguments = prepared(method), {"x": X}
        states = State.of(live), State.fresh(table, [one.clone() for one in effects.state.tensors])
        made = graph(*ready.inputs(states[0], arguments))
        ways: list[Callable[[], object]] = [partial(eager.change, X)]
        ways += [partial(ready.replay, state, made, arguments) for state in states]
        ways.append(partial(ready.inputs, states[1], arguments))
        plain, on_live, on_loaded, read = fastest(*ways, rounds=30, calls=2_000)
        row(
            name,
            us(plain),
            f"{us(on_live)} (**{on_live / plain:.2f}x**)",
            f"{us(on_loaded)} ({on_loaded / plain:.2f}x)",
            us(read),
        )


def capturing() -> None:
    """Capturing against tracing and against a call."""
    model = Model().eval()
    ways: list[Callable[[], object]] = [
        partial(copy.deepcopy(model), X),
        lambda: traced(copy.deepcopy(model), X),
        lambda: capture(model, X),
        lambda: lower(model, "aten", effects=True, example_inputs=(X,)),
        lambda: lowered_archive(lower(model, "aten", effects=True, example_inputs=(X,))),
    ]
    call, trace, captured, lowered, lowered_saved = fastest(*ways, rounds=5, calls=1)
    print(f"\n| {LAYERS} layers, a counter in each | time | against `torch.jit.trace` | against a call |")
    print("|---|---|---|---|")
    for name, time in (
        ("a call, eager", call),
        ("`torch.jit.trace`", trace),
        ("`capture`", captured),
        ("`lower(..., effects=True)`", lowered),
        ("`lower(..., effects=True)` + `lowered_archive`", lowered_saved),
    ):
        row(name, ms(time), f"{time / trace:.2f}x", f"{time / call:.0f}x")


def running() -> None:
    """Whole calls: the graph, the effects, and what is between them."""
    model = Model().eval()
    data = lowered_archive(lower(model, "aten", effects=True, example_inputs=(X,)))
    loaded = [partial(Effectful.load(data, stock=stock), X) for stock in (False, True)]
    with torch.no_grad():
        eager, machine, stock = fastest(partial(model, X), *loaded)
    print(f"\n| a call, {LAYERS} layers, a counter in each | time | against eager |\n|---|---|---|")
    row("eager", ms(eager), "1.00x")
    row("loaded, the backend's own machine", ms(machine), f"{machine / eager:.2f}x")
    row("loaded, TorchScript", ms(stock), f"{stock / eager:.2f}x")


def size(model: nn.Module) -> tuple[int, int, int]:
    """Bytes: of the record, of the same deflated, of the archive."""
    data = lowered_archive(lower(model.eval(), "aten", effects=True, example_inputs=(X,)))
    with archive.open(data) as opened:
        record = bytes(opened.records[EFFECTS].view())
    return len(record), len(zlib.compress(record, 9, -15)), len(data)


def sizes() -> None:
    """The record, and what one more effect adds to it."""
    few, many = 12, 112
    made: list[tuple[str, nn.Module, int]] = [
        (name, make(), count) for name, (make, count) in KINDS.items() if count > 1
    ]
    made += [(f"a counter in each of {layers} layers", Model(layers), layers) for layers in (few, many)]
    print("\n| model | effects | record | deflated | an effect | deflated |\n|---|---|---|---|---|---|")
    for name, model, count in made:
        whole, small, _ = size(model)
        row(name, count, whole, small, f"{whole / count:.1f}", f"{small / count:.1f}")
    record, deflated, file = (
        (long - short) / (many - few) for short, long in zip(size(Model(few)), size(Model(many)), strict=True)
    )
    print(
        f"\nOne more counter in one more layer: {record:.1f} bytes, {deflated:.1f} deflated; "
        f"the archive grows by {file:.0f} bytes a layer."
    )


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("\n## Effects")
    replaying()
    capturing()
    running()
    sizes()


if __name__ == "__main__":
    main()
