"""Hypothesis strategies: modules whose ``forward`` changes things, and their entries run beside them."""

from __future__ import annotations

import hashlib
import linecache
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import reject
from hypothesis import strategies as st

from archive.effects import CaptureError, GuardError, State, capture_entries
from archive.effects.replay.replay import prepared
from archive.formats.effects.model import EffectTable
from archive.formats.effects.record import build_effects
from tests.effects.comparison import CODE, Comparing, named, picture, shown, state_in, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch


class Statement(NamedTuple):
    """Of a model's ``forward``.

    Attributes:
        text: lines.
        start: lines of ``__init__`` that it needs.
        around: lines of the module that it needs, before the class.
    """

    text: str
    start: str = ""
    around: str = ""


COUNT = "self.count# = # - 1"
AVERAGE = "self.average# = 0.5 + #"
FLAG = "self.flag# = bool(#)"
ITEMS = "self.items# = [torch.zeros(2, 3), torch.ones(2, 3), torch.ones(2, 3) * 2]"
TABLE = 'self.table# = {"n": #, "x": torch.ones(2, 3), "gone": 0.5}'
TREE = 'self.tree# = {"list": [#, torch.ones(3)], "deep": {"n": 0.5, "pair": ([1], {})}}'
BUFFER = 'self.register_buffer("buffer#", torch.full((2, 3), #.5))'
NOTE = """
class Note:
    def __init__(self, value, number):
        self.value = value
        self.number = number

    def doubled(self):
        return self.value * 2
"""
NOTES = "self.notes# = [Note(torch.ones(2, 3), #)]"
INNER = """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.calls = 0
        self.seen = []
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        self.seen.append(self.calls)
        x = self.linear(x) * self.calls
        self.total.add_(x.detach().sum(0))
        return x + self.total
"""
GLOBALS = """
CALLS# = #
SEEN# = [0]
KNOWN# = {"n": 1}

def called#(x):
    global CALLS#
    CALLS# += 1
    return x * CALLS#
"""
CELLS = """
def stepped#():
    steps = #
    kept = []

    def step(x):
        nonlocal steps
        steps += 1
        kept.append(x)
        return x + steps

    return step
""".replace("step(x)", "step#(x)").replace("return step\n", "return step#\n")
HOOK = """
def doubled(grad):
    return grad * 2

def raised(grad):
    return grad + 1
"""
COUNT0 = COUNT.replace("#", "0")
BOTH = [ITEMS.replace("#", number) for number in "01"]
PLAINS = [f"self.plain{number} = torch.full((2, 3), {number}.5)" for number in "01"]
LINEAR = "self.linear# = nn.Linear(3, 3)"

KINDS: dict[str, tuple[Statement, ...]] = {
    "ints": (
        Statement("self.count# += @", COUNT),
        Statement("self.count# = self.count# * 3 % 7 - @", COUNT),
        Statement("self.count# = -self.count# // 2", COUNT),
        Statement("self.count# = abs(self.count#) * 2 % 11", COUNT),
        Statement("self.count# = (self.count# & 5 | @) ^ 1", COUNT),
        Statement("self.count# = max(self.count#, @) + 1", COUNT),
        Statement("self.count# -= 1; x = x * self.count#", COUNT),
        Statement("x = x + self.count# / 4; self.count# += 1", COUNT),
        Statement("results.append((self.count#, self.count# * 2)); self.count# += 1", COUNT),
    ),
    "floats": (
        Statement("self.average# = 0.9 * self.average# + 0.1 * @", AVERAGE),
        Statement("self.average# = 0.5 * (self.average# + float(x.detach().mean()))", AVERAGE),
        Statement("self.average# = min(self.average#, x.detach().sum().item())", AVERAGE),
        Statement("self.average# = abs(self.average#) / 3 + self.average# // 2", AVERAGE),
        Statement("self.average# *= 0.5; x = x * self.average#", AVERAGE),
        Statement("results.append({'average': self.average#}); self.average# -= 1.5", AVERAGE),
    ),
    "bools": (
        Statement("self.flag# = self.flag# ^ True", FLAG),
        Statement("self.flag# = self.flag# == False", FLAG),
        Statement("self.flag# = self.count# > @; self.count# += 1", f"{FLAG}\n{COUNT}"),
        Statement("results.append([self.flag#]); self.flag# = self.flag# != True", FLAG),
    ),
    "lists": (
        Statement("self.items#.append(x)", ITEMS),
        Statement("self.items#.append(@)", ITEMS),
        Statement("self.items#.extend([x * @, x + 1])", ITEMS),
        Statement("self.items# += [x]; x = x + self.items#[-1]", ITEMS),
        Statement("self.items#.insert(0, x); x = x + self.items#[0]", ITEMS),
        Statement("self.items#.append(x); x = self.items#.pop() * 2", ITEMS),
        Statement("self.items#.append(x); self.items#.pop(0)", ITEMS),
        Statement("self.items#.clear(); self.items#.append(x)", ITEMS),
        Statement("self.items#[-1] = x", ITEMS),
        Statement("self.items#[:] = [x, @]; results.append(len(self.items#))", ITEMS),
        Statement("del self.items#[-1]; self.items#.append((x, [@]))", ITEMS),
        Statement("self.items# = [x]; self.items#.append(@)", ITEMS),
    ),
    "dicts": (
        Statement("self.table#['n'] = @", TABLE),
        Statement("self.table#['n'] += @", TABLE),
        Statement("self.table#['x'] = x; x = self.table#['x'] * 2", TABLE),
        Statement("self.table#['new'] = x", TABLE),
        Statement("self.table#['new'] = x; del self.table#['new']", TABLE),
        Statement("self.table#.update(x=x, more=@)", TABLE),
        Statement("self.table#['t'] = (x, {'n': @})", TABLE),
        Statement("self.table#[@] = x; results.append(self.table#.pop(@))", TABLE),
        Statement("self.table#.clear(); self.table#.update(n=@, x=x, gone=0.5)", TABLE),
        Statement("self.table#.setdefault('x', 0); self.table#['n'] = self.table#['n'] * 2", TABLE),
        Statement("x = x + self.table#.get('x', 1) + ('x' in self.table#)", TABLE),
    ),
    "nested": (
        Statement("self.tree#['list'].append(x)", TREE),
        Statement("self.tree#['list'][0] += @", TREE),
        Statement("self.tree#['deep']['n'] *= 0.5; x = x * self.tree#['deep']['n']", TREE),
        Statement("self.tree#['deep']['pair'][0].append(@)", TREE),
        Statement("self.tree#['deep']['pair'][1]['x'] = x", TREE),
        Statement("self.tree#['deep'] = {'n': 1.5, 'pair': ([x], {'y': x})}", TREE),
        Statement("self.tree#['same'] = self.tree#['list']", TREE),
    ),
    "buffers": (
        Statement("self.buffer# = self.buffer# * 0.5 + x.detach()", BUFFER),
        Statement("self.buffer#.add_(x.detach()).mul_(0.5); x = x + self.buffer#", BUFFER),
        Statement("self.buffer# += @; results.append(self.buffer# * 1)", BUFFER),
        Statement("self.buffer#[0] = x.detach()[1]", BUFFER),
        Statement("self.buffer#[:, 1:].copy_(x.detach()[:, :2])", BUFFER),
        Statement("self.buffer#.data.sub_(@)", BUFFER),
        Statement("x = x * 1; self.kept# = x; x.add_(@)"),
        Statement("x = self.norm#(x)", "self.norm# = nn.BatchNorm1d(3)"),
        Statement("x = self.norm#(self.norm#(x) + 1)", "self.norm# = nn.BatchNorm1d(3, momentum=0.25)"),
    ),
    "modules": (
        Statement("x = self.inner#(x)", "self.inner# = Inner()", INNER),
        Statement("x = self.inner#(self.inner#(x))", "self.inner# = Inner()", INNER),
        Statement("x = self.also#(x)", "self.inner# = Inner()\nself.also# = self.inner#", INNER),
        Statement("self.inner#.calls += @", "self.inner# = Inner()", INNER),
        Statement("for one in self.layers#: x = one(x)", "self.layers# = nn.ModuleList([Inner()])", INNER),
        Statement("x = self.linear#(x)", LINEAR),
    ),
    "globals": (
        Statement("x = called#(x)", "", GLOBALS),
        Statement("x = called#(called#(x))", "", GLOBALS),
        Statement("SEEN#.append(x)", "", GLOBALS),
        Statement("SEEN#[0] += @; x = x + SEEN#[0]", "", GLOBALS),
        Statement("KNOWN#['x'] = x; KNOWN#['n'] *= 2", "", GLOBALS),
    ),
    "cells": (Statement("x = self.step#(x)", "self.step# = stepped#()", CELLS),),
    "attributes": (
        Statement("self.passing# = x; x = self.passing# + @; del self.passing#"),
        Statement("last# = self.last#; del self.last#; self.last# = last# * 2", "self.last# = 1.5"),
        Statement("self.other# = self.shared# = [x]; self.shared#.append(@)"),
        Statement("x = x + self.plain#; self.plain# = x", "self.plain# = torch.ones(3)"),
        Statement("self.maker# = (@, 'text', None, x)"),
    ),
    "objects": (
        Statement("self.notes#.append(Note(x, @))", NOTES, NOTE),
        Statement("self.notes#[0].number += @; x = x * self.notes#[0].number", NOTES, NOTE),
        Statement("self.note# = Note([x], @); self.note#.value.append(x)", "", NOTE),
        Statement("x = Note(x, @).doubled()", "", NOTE),
        Statement("note = Note(x, @); note.value = note.doubled(); results.append(note.value)", "", NOTE),
        Statement("note = Note(x, @); self.one# = note; self.two# = {'note': note}", "", NOTE),
    ),
    "swapped": (
        Statement("self.items0, self.items1 = self.items1, self.items0", "\n".join(BOTH)),
        Statement("self.items# = self.items1; self.items#.append(@)", "\n".join(BOTH)),
        Statement("self.items#.append(self.items#[0]); self.items#.append(self.items1)", "\n".join(BOTH)),
        Statement("self.count0, self.average# = self.average#, self.count0", f"{COUNT0}\n{AVERAGE}"),
        Statement("self.table#['n'], self.table#['gone'] = self.table#['gone'], self.table#['n']", TABLE),
        Statement("self.table#['me'] = self.table#; self.table#['model'] = self", TABLE),
        Statement("self.tree#['list'], self.items# = self.items#, self.tree#['list']", f"{TREE}\n{ITEMS}"),
        Statement("self.notes#.append(self.notes#[0]); self.notes#[0].number += 1", NOTES, NOTE),
        Statement("self.plain0, self.plain1 = self.plain1, self.plain0 + x", "\n".join(PLAINS)),
    ),
    "shared memory": (
        Statement("self.plain# = x.detach().clone(); self.plain#.mul_(0.5)"),
        Statement("self.plain# = x.detach() + 1; self.view# = self.plain#[0]; self.view#.mul_(0.5)"),
        Statement("self.items#.append(x.detach() * 1); self.items#[-1].add_(@)", ITEMS),
        Statement("self.table#['x'] = x.detach() * 1; self.table#['x'].add_(@)", TABLE),
        Statement("self.buffer#.add_(@); self.items#.append(self.buffer#)", f"{ITEMS}\n{BUFFER}"),
        Statement("results.append(self.buffer#); self.buffer#.mul_(@)", BUFFER),
    ),
    "hooks": (
        Statement("given.register_hook(doubled)", "", HOOK),
        Statement("given.register_hook(raised).remove()", "", HOOK),
        Statement("x = self.linear#(x); x.register_hook(doubled)", LINEAR, HOOK),
    ),
}
"""Statements by what they change."""

TEXT = """
import torch
from torch import nn
{around}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {start}

    def forward(self, x):
        given, results = x, []
        {text}
        return {result}
"""
RESULTS = ("x * 1", "(x * 1, results)", "{'x': x * 1, 'more': (results, given)}", "[results, x * 1, x.sum()]")


class Made(NamedTuple):
    """The source of a Python module with a class ``Model``; its name in ``sys.modules``."""

    name: str
    text: str


@st.composite
def models(draw: st.DrawFn, kinds: tuple[str, ...]) -> Made:
    """A model that changes what one kind of statement changes, or several."""
    known = st.sampled_from([one for kind in kinds for one in KINDS[kind]])
    drawn = st.lists(st.tuples(known, st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=6)
    chosen = [
        tuple(part.replace("#", str(number)).replace("@", str(small)) for part in statement)
        for statement, number, small in draw(drawn)
    ]
    return made([Statement(*parts) for parts in chosen], draw(st.sampled_from(RESULTS)))


def made(statements: list[Statement], result: str = RESULTS[0]) -> Made:
    """A model of some statements."""
    lines = [line for one in statements for line in one.text.split("; ")]
    start = dict.fromkeys(line for one in statements for line in one.start.split("\n"))
    around = dict.fromkeys(one.around for one in statements)
    text = TEXT.format(
        around="\n".join(around),
        start="\n        ".join(start),
        text="\n        ".join(lines),
        result=result,
    )
    return Made(f"made_effects_{hashlib.sha256(text.encode()).hexdigest()[:12]}", text)


@contextmanager
def written(model: Made) -> Iterator[Any]:
    """The Python module of a made model, where ``import`` and ``inspect`` find it."""
    filename = f"<{model.name}>"
    linecache.cache[filename] = len(model.text), None, model.text.splitlines(keepends=True), filename
    module = ModuleType(model.name)
    sys.modules[model.name] = module
    try:
        exec(compile(model.text, filename, "exec"), vars(module))  # noqa: S102 (the text above)
        yield module
    finally:
        del sys.modules[model.name], linecache.cache[filename]


# --- Made modules and their entries, run beside one another without lowering, and compared


class Entries:
    """The entries of a made model on a state of their own, run as they are loaded, without lowering."""

    def __init__(self, model: Made, module: Any, eager: Any, example: torch.Tensor) -> None:  # noqa: ANN401
        captured = capture_entries(eager, [(example,)])
        state = captured[0].side_effects.state
        methods = tuple(one.side_effects.table() for one in captured)
        table = EffectTable(methods, state.entries)
        build_effects(table)
        code = {f"{model.name}:{name}": one for name, one in vars(module).items() if isinstance(one, CODE)}
        self._entries = [
            (one.graph, prepared(method, code)) for one, method in zip(captured, methods, strict=True)
        ]
        self.state = State.fresh(table, [one.clone() for one in state.tensors])

    def __call__(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        """Run the entry that fits.

        Raises:
            GuardError: none does.
        """
        refusals = []
        for graph, effects in self._entries:
            try:
                outputs = graph(*effects.inputs(self.state, {"x": x}))
                return effects.replay(self.state, outputs, {"x": x})
            except GuardError as error:
                refusals.append(error)
        raise refusals[0]


def check_entries(model: Made, argument: Callable[[int], torch.Tensor], calls: int) -> int:
    """Compare calls of a made model with those of its entries, up to one that is refused.

    Args:
        model: the made model.
        argument: of a call, by its number.
        calls: how many.

    Returns:
        The number of calls that were equal.
    """
    with written(model) as module:
        eager = module.Model()
        before = {path: shown(one) for path, one in named(state_of(eager, module))}
        try:
            entries = Entries(model, module, eager, argument(0))
        except CaptureError:
            reject()
        assert {path: shown(one) for path, one in named(state_of(eager, module))} == before
        for number in range(calls):
            mine, its = argument(number), argument(number)
            kept = picture(state_in(entries))
            try:
                found = entries(its)
            except GuardError:
                assert picture(state_in(entries)) == kept
                return number
            comparing = Comparing(before)
            comparing.same([eager(mine), mine], [found, its], "result")
            comparing.same(state_of(eager, module), state_in(entries), "")
    return calls
