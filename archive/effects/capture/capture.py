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

import inspect
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.capture.entries import AGAIN, Entries, TooManyError
from archive.effects.capture.graph.guards import Copies
from archive.effects.capture.graph.variables import ABSENT
from archive.effects.capture.initial import initial_state
from archive.effects.capture.table.call import Found
from archive.effects.capture.table.snapshot import Snapshot
from archive.effects.errors import CaptureError
from archive.effects.places import base_of
from archive.formats.effects.model import Attribute, ClosureCell, GlobalName, Item, Local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.effects.capture.attempt import Attempt
    from archive.effects.capture.table.call import CapturedCall
    from archive.effects.capture.table.side_effects import SideEffects
    from archive.formats.effects.model import Source


# --- original values


def originals_of(
    module: object, calls: Sequence[CapturedCall]
) -> tuple[dict[Source, object], dict[Source, Source]]:
    """The values before the first of some captured calls, by source; and further sources of equal objects.

    Args:
        module: the model.
        calls: the first one starts from the real objects, the others from what earlier ones leave.
    """
    originals, aliases = dict(calls[0].originals), dict(calls[0].aliases)
    for call in calls[1:]:
        real = _Real(module, call)
        for source in call.originals:
            value = originals.get(source, real.at(source))
            if value is not ABSENT:
                originals[source] = value
        for source, first in call.aliases.items():
            value = real.at(source)
            if value is not ABSENT and value is real.at(first):
                aliases.setdefault(source, first)
    return originals, aliases


class _Real:
    """Reads real values of a call's sources."""

    def __init__(self, module: object, call: CapturedCall) -> None:
        self._module = module
        self._call = call
        self._snapshot = Snapshot()

    def at(self, source: Source) -> Any:  # noqa: ANN401
        """The real value at a source; ``ABSENT`` if there is none."""
        match source:
            case Local("self"):
                return self._module
            case Attribute(base, name):
                return self._attribute(self.at(base), name)
            case Item(base, key):
                return _item(self.at(base), key)
            case GlobalName() | ClosureCell():
                return self._call.functions.real(source)
        return ABSENT

    def _attribute(self, owner: Any, name: str) -> Any:  # noqa: ANN401
        if owner is ABSENT:
            return ABSENT
        value = self._snapshot.attribute(owner, name)
        return inspect.getattr_static(owner, name, ABSENT) if value is ABSENT else value


def _item(container: Any, key: Any) -> Any:  # noqa: ANN401
    if isinstance(container, dict):
        return dict.get(container, key, ABSENT)
    base: Any = tuple if isinstance(container, tuple) else base_of(type(container))
    if base not in (list, tuple, deque):
        return ABSENT
    try:
        return base.__getitem__(container, key)
    except LookupError:
        return ABSENT


# --- capture

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
    (one,) = Entries(module, method, [example_inputs], 1, Found()).find()
    return Captured(one.graph, one.call.side_effects)


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
    copies = Copies()
    try:
        found = Entries(module, method, calls, 1, Found(copies=copies)).find()
    except CaptureError as error:
        found = []
        reason = CaptureError(error.message, error.filename, error.line)  # without the frames of its calls
    if not found:
        deciding = Found(copies=copies, deciding=True)
        found = _deciding(module, Entries(module, method, calls, most, deciding), most, reason)
    return tuple(Captured(one.graph, one.call.side_effects) for one in found)


def _deciding(
    module: Any,  # noqa: ANN401
    entries: Entries,
    most: int,
    before: CaptureError,
) -> list[Attempt]:
    """The entries of a method that one table cannot describe, for the reason given last."""
    try:
        found = entries.find()
    except TooManyError as error:
        elsewhere = error.line and (error.filename, error.line) != (before.filename, before.line)
        if elsewhere or before.message.startswith(AGAIN):
            raise
        message = f"{before.message}; {most} tables are not enough"
        raise CaptureError(message, before.filename, before.line) from error
    originals, aliases = originals_of(module, [one.call for one in found])
    state = initial_state(originals, aliases, [one.flat.effects for one in found])
    for one in found:
        one.call.side_effects.state = state
    return found
