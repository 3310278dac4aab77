"""Captures what a module's method computes and what it changes.

The method is called with what stands in for everything that it can change: see ``recorder``. Numbers that
calls write are inputs of the graph in the next attempt, and a list whose length changes becomes one whose
length is not known, until a call shows nothing new. Then the method is called once more, from where the
first call ends; a model that does something else by then cannot be told by one table.

What a call reads besides elements of tensors and what calls write, it relies on: shapes, types, arguments,
attributes, globals. These become guards of the table, each with the model's statement that relies on it.
Sizes, and numbers that are arguments, are numbers of the graph for as long as they only flow into others.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.capture.next_world import world_after
from archive.effects.capture.run import Found, run
from archive.effects.capture.tape import copied
from archive.effects.capture.world import World
from archive.effects.errors import CaptureError

if TYPE_CHECKING:
    from archive.debuginfo.sites import Site
    from archive.effects.capture.run import Run
    from archive.effects.capture.side_effects import SideEffects

AGAIN = "a second call, from where the first one ends, does something else"


class Captured(NamedTuple):
    """What a method computes, and what it changes.

    Attributes:
        graph: a ``torch.fx.GraphModule`` that changes nothing.
        side_effects: the table.
    """

    graph: Any
    side_effects: SideEffects


def capture(module: Any, *example_inputs: Any, method: str = "forward") -> Captured:  # noqa: ANN401
    """Capture what a module's method computes and changes.

    The module, its arguments, globals and everything else stay as they are.

    Args:
        module: the module.
        example_inputs: arguments; what the method relies on is taken from them. Those left out are relied
            on to be left out, or given as they are by default.
        method: which method.

    Raises:
        CaptureError: what it does cannot be captured, with the model's line.
    """
    found = Found(set(), set(), set())
    while True:
        first = _settled(module, method, example_inputs, found)
        size = found.size()
        second = _again(first, module, method, example_inputs, found)
        if found.size() == size:
            break
    _compare(first, second)
    return Captured(first.graph, first.recorder.side_effects)


def _settled(module: Any, method: str, arguments: tuple[Any, ...], found: Found) -> Run:  # noqa: ANN401
    """A call that shows nothing new."""
    while True:
        size = found.size()
        one = run(module, method, arguments, World(), found)
        if found.size() == size:
            return one


def _again(first: Run, module: Any, method: str, arguments: tuple[Any, ...], found: Found) -> Run:  # noqa: ANN401
    try:
        return run(module, method, _fresh(arguments, {}), world_after(first.recorder), found)
    except CaptureError as error:
        message = f"{AGAIN}: {error.message}"
        raise CaptureError(message, error.filename, error.line) from error


def _fresh(value: Any, known: dict[int, Any]) -> Any:  # noqa: ANN401
    """Other tensors with the same contents; what was the same is the same."""
    if id(value) not in known:
        made = value
        if isinstance(value, torch.Tensor):
            made = copied(value)
        elif type(value) in (tuple, list):
            made = type(value)(_fresh(one, known) for one in value)
        elif type(value) is dict:
            made = {key: _fresh(one, known) for key, one in value.items()}
        known[id(value)] = made
    return known[id(value)]


def _compare(first: Run, second: Run) -> None:
    """Refuse a model whose second call is another one."""
    one, other = first.recorder.side_effects.flat(), second.recorder.side_effects.flat()
    nodes, others = list(first.graph.graph.nodes), list(second.graph.graph.nodes)
    for number, (mine, its) in enumerate(zip_longest(nodes, others)):
        if mine is None or its is None or _shown(mine) != _shown(its):
            behind = [*nodes[number:], *others[number:]]
            sites = [node.meta["site"] for node in behind if "site" in node.meta]
            _refuse([*sites, *one.sites, *other.sites])
    for before, after in zip_longest(one.effects.effects, other.effects.effects):
        if before != after:
            places = ((one, before), (other, after))
            _refuse([run.sites[effect.handle] for run, effect in places if effect and effect.handle >= 0])
    for mine, its in zip_longest(one.effects.guards, other.effects.guards):
        if mine != its:
            sides = ((one, mine), (other, its))
            _refuse([side.guard_sites[guard.handle] for side, guard in sides if guard and guard.handle >= 0])
    if one.effects != other.effects:
        _refuse([])


def _shown(node: Any) -> tuple[str, ...]:  # noqa: ANN401
    return node.op, str(node.target), str(node.args), str(node.kwargs), str(node.type)


def _refuse(sites: list[Site]) -> None:
    """Refuse, naming the line of the first site that has one."""
    span = next((site.span for site in sites if site.span is not None), None)
    if span is None:
        raise CaptureError(AGAIN)
    line = span.line + span.text.count(b"\n", 0, span.start)
    raise CaptureError(AGAIN, span.filename.decode("utf-8", "surrogateescape"), line)
