"""Functions of lists of unknown length, in TorchScript: what Python's builtins do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.scalars import concrete
from archive.effects.looking import WITHOUT_MODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.effects.capture.graph.graph_builder import GraphBuilder
    from archive.effects.capture.proxies.open_list import OpenList
    from archive.effects.capture.proxies.open_part import OpenPart


ADDS_EXACTLY = sys.version_info >= (3, 12)
"""Whether ``sum`` of floats keeps what is lost in rounding, which the functions here do not."""


def added(start: torch.Tensor, items: list[torch.Tensor]) -> torch.Tensor:
    """The sum of a tensor and those in a list."""
    for one in items:
        start = start + one
    return start


def total_of_tensors(items: list[torch.Tensor]) -> torch.Tensor:
    """The sum of the tensors in a list and 0."""
    total = 0 + items[0]
    for one in items[1:]:
        total = total + one
    return total


def total_of_floats(items: list[float]) -> float:
    """The sum of the floats in a list."""
    total = 0.0
    for one in items:
        total = total + one
    return total


def total_of_ints(items: list[int]) -> int:
    """The sum of the ints in a list."""
    total = 0
    for one in items:
        total = total + one
    return total


def largest_float(items: list[float]) -> float:
    """The first largest float in a list; nan is never larger, as in Python."""
    best = items[0]
    for one in items[1:]:
        best = one if one > best else best  # noqa: FURB136 (TorchScript's own differs for nan)
    return best


def smallest_float(items: list[float]) -> float:
    """The first smallest float in a list; nan is never smaller, as in Python."""
    best = items[0]
    for one in items[1:]:
        best = one if one < best else best  # noqa: FURB136 (TorchScript's own differs for nan)
    return best


def largest_int(items: list[int]) -> int:
    """The largest int in a list."""
    best = items[0]
    for one in items[1:]:
        best = one if one > best else best  # noqa: FURB136 (TorchScript's own differs for nan)
    return best


def smallest_int(items: list[int]) -> int:
    """The smallest int in a list."""
    best = items[0]
    for one in items[1:]:
        best = one if one < best else best  # noqa: FURB136 (TorchScript's own differs for nan)
    return best


def detached(items: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors in a list, detached."""
    return [one.detach() for one in items]


TOTALS: dict[str, Callable[..., Any]] = {
    "tensor": total_of_tensors,
    "float": total_of_floats,
    "int": total_of_ints,
}
EXTREMES: dict[tuple[Any, str], Callable[..., Any]] = {
    (max, "float"): largest_float,
    (min, "float"): smallest_float,
    (max, "int"): largest_int,
    (min, "int"): smallest_int,
}


def total_of(builder: GraphBuilder, items: OpenList | OpenPart, *start: Any, **named: Any) -> Any:
    """``sum(items)`` or ``sum(items, start)``."""
    part = items.as_part()
    first = named.get("start", start[0] if start else 0)
    kind = _kind(part) if part else ""
    if kind == "tensor" and isinstance(first, torch.Tensor):
        return _called(builder, added, first, part)
    if type(first) is not int or first or kind not in TOTALS or (kind == "float" and ADDS_EXACTLY):
        return sum(part, *start, **named)
    return _called(builder, TOTALS[kind], part)


def extreme(builder: GraphBuilder, function: Any, items: OpenList | OpenPart) -> Any:
    """``max(items)`` or ``min(items)``."""
    part = items.as_part()
    kind = _kind(part) if part else ""
    if (function, kind) not in EXTREMES:
        return function(part)
    return _called(builder, EXTREMES[function, kind], part)


def _kind(part: list[Any]) -> str:
    """The type of a list's items; "" for a list that isn't one of the graph."""
    return getattr(part, "kind", str)() or ""


def _called(builder: GraphBuilder, function: Callable[..., Any], *args: Any) -> Any:
    """The result of one of the functions above, as a value of the graph."""
    given = [argument.in_graph() if hasattr(argument, "in_graph") else argument for argument in args]
    node = builder.emit("call_function", function, tuple(given), {})
    with WITHOUT_MODES():
        value = function(*concrete(given))
    return builder.results(value, node)


def detached_list(builder: GraphBuilder, items: list[Any]) -> list[Any]:
    """A list of the graph whose tensors are detached."""
    with WITHOUT_MODES():
        made = detached(items)
    builder.bind(made, builder.emit("call_function", detached, (items,), {}))
    return made
