"""Captures a method of a module: the graph of what it computes, and the table of what it changes.

The method is called with proxies of everything that it can change. The call is repeated until it shows no
new change: numbers that calls write are then inputs of the graph, and mutated lists have symbolic length.
Then the method is captured once more, from the state that the first call leaves; a model whose second call
differs is refused, since one table cannot describe both.

Reads of anything but tensors' elements and values that calls write become guards: shapes, types, arguments,
attributes, globals. Each guard names the model's statement that relies on it. Sizes, and numbers that are
arguments, are numbers of the graph as long as they only flow into other numbers.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.capture.attempt import Attempt, attempt
from archive.effects.capture.call import Found
from archive.effects.capture.inputs import copied
from archive.effects.capture.next_snapshot import snapshot_after
from archive.effects.capture.snapshot import Snapshot
from archive.effects.errors import CaptureError

if TYPE_CHECKING:
    from archive.debuginfo.sites import Site
    from archive.effects.capture.side_effects import SideEffects

AGAIN = "a second call, from where the first one ends, does something else"


class Captured(NamedTuple):
    """A captured method.

    Attributes:
        graph: what the method computes: a ``torch.fx.GraphModule`` that changes nothing.
        side_effects: what the method changes: a table.
    """

    graph: Any
    side_effects: SideEffects


def capture(module: Any, *example_inputs: Any, method: str = "forward") -> Captured:  # noqa: ANN401
    """Capture what a method of a module computes, and what it changes.

    The module, its arguments, globals and everything else stay as they are.

    Args:
        module: the module.
        example_inputs: arguments of the method. Guards are taken from them; an argument that is left out
            must be left out by later calls too, or be given its default.
        method: name of the method.

    Raises:
        CaptureError: the method cannot be captured; the error names the model's line.
    """
    found = Found()
    while True:
        first = _settled(module, method, example_inputs, found)
        size = found.size()
        second = _again(first, module, method, example_inputs, found)
        if found.size() == size:
            break
    _compare(first, second)
    return Captured(first.graph, first.call.side_effects)


def _settled(module: Any, method: str, arguments: tuple[Any, ...], found: Found) -> Attempt:  # noqa: ANN401
    """The first attempt that finds no new change."""
    while True:
        size = found.size()
        one = attempt(module, method, arguments, Snapshot(), found)
        if found.size() == size:
            return one


def _again(first: Attempt, module: Any, method: str, arguments: tuple[Any, ...], found: Found) -> Attempt:  # noqa: ANN401
    try:
        return attempt(module, method, _fresh(arguments, {}), snapshot_after(first.call), found)
    except CaptureError as error:
        message = f"{AGAIN}: {error.message}"
        raise CaptureError(message, error.filename, error.line) from error


def _fresh(value: Any, known: dict[int, Any]) -> Any:  # noqa: ANN401
    """A copy with tensors of its own; equal identities stay equal."""
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


def _compare(first: Attempt, second: Attempt) -> None:
    """Refuse a model whose second call differs from the first."""
    one, other = first.flat, second.flat
    nodes, others = list(first.graph.graph.nodes), list(second.graph.graph.nodes)
    for number, (mine, its) in enumerate(zip_longest(nodes, others)):
        if mine is None or its is None or _shown(mine) != _shown(its):
            behind = [*nodes[number:], *others[number:]]
            sites = [node.meta["site"] for node in behind if "site" in node.meta]
            _refuse([*sites, *one.sites, *other.sites])
    for before, after in zip_longest(one.effects.effects, other.effects.effects):
        if before != after:
            places = ((one, before), (other, after))
            _refuse([side.sites[effect.handle] for side, effect in places if effect and effect.handle >= 0])
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
    raise CaptureError(AGAIN, span.filename.decode("utf-8", "surrogateescape"), span.first_line)
