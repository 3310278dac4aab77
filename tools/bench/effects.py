"""Effects: doing them again against the eager model's own changes, capturing, and what they take in archives.

What is done again is measured alone, without the graph that computes the values: the eager side changes the
same attributes, lists and dicts, and computes next to nothing.
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
from tests.support.live_state import live_state
from tools.bench.measuring import Aim, Table, in_turn, ms, us
from tools.models import traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LAYERS = 12
WIDTH = 16
X = torch.ones(1, WIDTH)
GOAL = 3
ENTRIES = (1, 2, 4, 8)
FIXED = (
    "0.35 µs for each effect and 0.6 for each call, where the change itself takes 0.1 or 0.2; only text that "
    "Python compiles would be faster, and each name from a record in it is a way out"
)


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


CALLS = (
    "a method of one entry takes 12.6: the signature is checked, the state read, the graph run, and the "
    "changes made or undone as one"
)

WHOLE = (
    "two thirds are the graph's operators, as in the eager call; reading the state, its checks, and making "
    "or undoing the changes of 12 layers take a fifth"
)


def replaying() -> Iterator[Table | Aim]:
    """The effects alone against the same statements."""
    rows = []
    for name, (make, count) in KINDS.items():
        eager, live = make(), make()
        graph, effects = capture(eager, X)
        method = effects.flat().effects
        assert len(method.effects) == count
        table = EffectTable((method,), effects.state.entries)
        ready, arguments = prepared(method), {"x": X}
        states = live_state(live), State.fresh(table, [tensor.clone() for tensor in effects.state.tensors])
        made = graph(*ready.inputs(states[0], arguments))
        ways: list[Callable[[], object]] = [partial(eager.change, X)]
        ways += [partial(ready.replay, state, made, arguments) for state in states]
        ways.append(partial(ready.inputs, states[1], arguments))
        plain, on_live, on_loaded, read = in_turn(*ways, rounds=15, calls=2_000)
        cells = (us(plain), *(f"{us(ours)} ({ours / plain:.2f}x)" for ours in (on_live, on_loaded)), us(read))
        rows.append((name, *cells))
        yield Aim(f"replay of {name}, on the live module, of eager", on_live / plain, GOAL, "x", reason=FIXED)
    headings = ("changes", "eager", "replayed on the live module", "on a loaded state", "reading the inputs")
    yield Table("Replaying effects", headings, rows)


class Phases(nn.Module):
    """Does each of so many things in turn: a call of each is an entry of its own."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.phase = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What is next."""
        phase = self.phase
        self.phase = (phase + 1) % self.count
        for number in range(self.count):
            if phase == number:
                return torch.relu(x)
        return x


def choosing() -> Iterator[Table | Aim]:
    """Whole calls of a method with several entries, of which each call takes another one."""
    ways: list[Callable[[], object]] = []
    for count in ENTRIES:
        model = Phases(count).eval()
        data = lowered_archive(lower(model, "aten", effects=True, example_inputs=(X,)))
        ways += [
            partial(model, X),
            *(partial(Effectful.load(data, stock=stock), X) for stock in (False, True)),
        ]
    with torch.no_grad():
        times = in_turn(*ways, rounds=15, calls=800)
    rows = [
        (count, *map(us, times[at : at + 3]))
        for count, at in zip(ENTRIES, range(0, len(times), 3), strict=True)
    ]
    headings = ("entries of a method", "a call, eager", "the backend's own machine", "TorchScript")
    yield Table("Choosing among entries", headings, rows)
    for name, seconds in (("TorchScript", times[-1]), ("the machine", times[-2])):
        what = f"a call of a method of {ENTRIES[-1]} entries, {name}"
        yield Aim(what, seconds * 1e6, 12, " µs", reason=CALLS)


def capturing() -> Iterator[Table | Aim]:
    """Capturing against tracing and against a call."""
    model = Model().eval()
    ways: dict[str, Callable[[], object]] = {
        "a call, eager": partial(copy.deepcopy(model), X),
        "`torch.jit.trace`": lambda: traced(copy.deepcopy(model), X),
        "`capture`": lambda: capture(model, X),
        "`lower(..., effects=True)`": lambda: lower(model, "aten", effects=True, example_inputs=(X,)),
        "`lower(..., effects=True)` + `lowered_archive`": lambda: lowered_archive(
            lower(model, "aten", effects=True, example_inputs=(X,))
        ),
    }
    call, trace, *_ = times = in_turn(*ways.values(), rounds=3)
    rows = [
        (name, ms(time), f"{time / trace:.2f}x", f"{time / call:.0f}x")
        for name, time in zip(ways, times, strict=True)
    ]
    headings = (f"{LAYERS} layers, a counter in each", "time", "of `torch.jit.trace`", "of a call")
    yield Table("Capturing effects", headings, rows)


def running() -> Iterator[Table | Aim]:
    """Whole calls: the graph, the effects, and what is between them."""
    model = Model().eval()
    data = lowered_archive(lower(model, "aten", effects=True, example_inputs=(X,)))
    loaded = [partial(Effectful.load(data, stock=stock), X) for stock in (False, True)]
    with torch.no_grad():
        eager, machine, stock = in_turn(partial(model, X), *loaded, rounds=60, calls=3, warm=3)
    rows = [
        ("eager", ms(eager), "1.00x"),
        ("loaded, the backend's own machine", ms(machine), f"{machine / eager:.2f}x"),
        ("loaded, TorchScript", ms(stock), f"{stock / eager:.2f}x"),
    ]
    yield Table(
        "Running with effects", (f"a call, {LAYERS} layers, a counter in each", "time", "of eager"), rows
    )
    yield Aim("a call with effects, the backend's machine, of eager", machine / eager, 1, "x", reason=WHOLE)


def size(model: nn.Module) -> tuple[int, int, int]:
    """Bytes: of the record, of the same deflated, of the archive."""
    data = lowered_archive(lower(model.eval(), "aten", effects=True, example_inputs=(X,)))
    with archive.open(data) as opened:
        record = bytes(opened.records[EFFECTS].view())
    return len(record), len(zlib.compress(record, 9, -15)), len(data)


def sizes() -> Iterator[Table | Aim]:
    """The record, and what one more effect adds to it."""
    few, many = 12, 112
    made: list[tuple[str, nn.Module, int]] = [
        (name, make(), count) for name, (make, count) in KINDS.items() if count > 1
    ]
    made += [(f"a counter in each of {layers} layers", Model(layers), layers) for layers in (few, many)]
    rows: list[tuple[object, ...]] = []
    taken = []
    for name, model, count in made:
        taken.append(size(model))
        whole, small, _ = taken[-1]
        rows.append((name, count, whole, small, f"{whole / count:.1f}", f"{small / count:.1f}"))
    record, deflated, file = ((long - short) / (many - few) for short, long in zip(*taken[-2:], strict=True))
    note = (
        f"One more counter in one more layer: {record:.1f} bytes, {deflated:.1f} deflated; "
        f"the archive grows by {file:.0f} bytes a layer."
    )
    yield Table(
        "Effects in archives", ("model", "effects", "record", "deflated", "an effect", "deflated"), rows, note
    )


def measure(_: Path) -> Iterator[Table | Aim]:
    """All of these."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for part in (replaying, choosing, capturing, running, sizes):
        yield from part()
