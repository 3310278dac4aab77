"""Captures a method of a module: the graph of what it computes, and the table of what it changes.

The method is called with proxies of everything that it can change. The call is repeated until it shows no
new change: numbers that calls write are then inputs of the graph, and mutated lists have symbolic length.
Then the method is captured once more, from the state that the first call leaves. If this call differs, one
table cannot describe both: several *entries* can, each a graph and a table with guards on the state. The
first call and the steady state are such entries, and each arm of a branch on a counter.

Reads of anything but tensors' elements and values that calls write become guards: shapes, types, arguments,
attributes, globals. Each guard names the model's statement that relies on it. Sizes, and numbers that are
arguments, are numbers of the graph as long as they only flow into other numbers.

Values before the first call are read from the real objects, whatever calls have put in their places since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.capture.entries import Entries
from archive.effects.capture.initial import initial_state, originals_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.effects.capture.table.side_effects import SideEffects


MOST_ENTRIES = 8
"""Entries of a method, unless more are allowed."""


class Captured(NamedTuple):
    """A captured method, or one of its entries.

    Attributes:
        graph: what the method computes: a ``torch.fx.GraphModule`` that changes nothing.
        side_effects: what the method changes: a table.
    """

    graph: Any
    side_effects: SideEffects


def capture(module: Any, *example_inputs: Any, method: str = "forward") -> Captured:  # noqa: ANN401
    """Capture what a method of a module computes, and what it changes, as one table.

    The module, its arguments, globals and everything else stay as they are.

    Args:
        module: the module.
        example_inputs: arguments of the method. Guards are taken from them; an argument that is left out
            must be left out by later calls too, or be given its default.
        method: name of the method.

    Raises:
        CaptureError: the method cannot be captured, or needs several tables; the error names the model's
            line.
    """
    (one,) = _captured(Entries(module, method, [example_inputs], 1, lasting=True), module)
    return one


def capture_entries(
    module: Any,  # noqa: ANN401
    calls: Sequence[tuple[Any, ...]],
    *,
    method: str = "forward",
    most: int = MOST_ENTRIES,
) -> tuple[Captured, ...]:
    """Capture a method as several tables, each with guards on what tells it from the others.

    Args:
        module: the module.
        calls: arguments of example calls, which are made one after the other. More entries are looked for
            with the same arguments: later calls, and other arms of branches on numbers and lengths.
        method: name of the method.
        most: entries. Further arms are left out, and a call that takes one fits no entry; but calls like the
            examples must come to an end of new entries.

    Returns:
        The entries, in the order in which they were found; a method that needs no more has one. They share
        one state at first.

    Raises:
        CaptureError: the method cannot be captured, or not with so many entries; the error names the model's
            line.
        ValueError: there is no call, or no entry is allowed.
    """
    if not calls or most < 1:
        raise ValueError(f"expected calls and at least one entry, found {len(calls)} and {most}")
    return _captured(Entries(module, method, calls, most), module)


def _captured(entries: Entries, module: Any) -> tuple[Captured, ...]:  # noqa: ANN401
    attempts = entries.find()
    originals, aliases = originals_of(module, [one.call for one in attempts])
    state = initial_state(originals, aliases, [one.flat.effects for one in attempts])
    for one in attempts:
        one.call.side_effects.state = state
    return tuple(Captured(one.graph, one.call.side_effects) for one in attempts)
