"""Parts -> children: the values that each container or call holds, side by side, and the states of objects.

A container that is filled in several steps (APPENDS, APPENDS …) has one stretch of children for each step,
until these are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.columns import gathered, joined
from archive.pickles.ops import BUILD, FILLS, KIND, ValueKind

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.pickles.assemble import Assembly
    from archive.pickles.scan import Tokens

STATE_BYTES = 128
"""Bytes of memory that an object's state costs."""
STEP_BYTES = 24
"""Bytes of memory that an opcode costs while its values are merged with those of others."""


@dataclass(frozen=True, slots=True)
class Children:
    """The children of all values.

    Attributes:
        first: where a node's children begin in ``items`` (n).
        count: how many children it has (n).
        items: the children of all nodes.
        states: the state that an object was built with, by node.
    """

    first: np.ndarray
    count: np.ndarray
    items: np.ndarray
    states: dict[int, int]


class Steps(NamedTuple):
    """Opcodes and the stretches of values that they take.

    Attributes:
        owner: the node that each makes or fills (m).
        maker: the opcodes (m).
        start: where its values begin among all (m).
        size: how many they are (m).
    """

    owner: np.ndarray
    maker: np.ndarray
    start: np.ndarray
    size: np.ndarray

    def only(self, which: np.ndarray) -> Steps:
        """Those of some opcodes."""
        return Steps(*(column[which] for column in self))


def children_of(tokens: Tokens, assembly: Assembly, allowance: Allowance) -> Children:
    """The children of all values; takes the runs out of the assembly.

    Raises:
        ArchiveError: an opcode fills a value of another kind.
        LimitError: there are more states than allowed, or more values that are filled in several steps.
    """
    steps, items = _side_by_side(assembly)
    states: dict[int, int] = {}
    built = tokens.op[steps.maker] == BUILD  # a state is no child
    if built.any():
        states = _states(tokens, steps.only(built), items, allowance)
        steps = steps.only(~built)
    _check_targets(tokens, steps)
    first, count = (np.zeros(len(tokens.op), items.dtype) for _ in range(2))
    first[steps.owner], count[steps.owner] = steps.start, steps.size
    again = (first[steps.owner] != steps.start) | (count[steps.owner] != steps.size)
    if again.any():
        name, at = tokens.place(int(steps.maker[again.argmax()]))
        merging = STEP_BYTES * len(steps.owner)
        with allowance.lent(merging, "values of one container", record=name, place=f"byte {at}"):
            split = np.isin(steps.owner, steps.owner[again])
            items = _merged(steps, np.flatnonzero(split), items, first, count)
    return Children(first, count, items, states)


def _side_by_side(assembly: Assembly) -> tuple[Steps, np.ndarray]:
    """The opcodes of all runs, and the nodes that they take."""
    index = assembly.stands_for.dtype
    columns = [list(column) for column in zip(*assembly.runs, strict=True)]
    assembly.runs.clear()
    maker, size, parts = (joined(column, index) for column in columns)
    start = (np.cumsum(size) - size).astype(index)
    owner, items = (gathered(assembly.stands_for, column) for column in (maker, parts))
    return Steps(owner, maker, start, size), items


def _states(tokens: Tokens, steps: Steps, items: np.ndarray, allowance: Allowance) -> dict[int, int]:
    """The states by node: of several, the last one stays."""
    wrong = steps.maker[~np.isin(KIND[tokens.op[steps.owner]], (ValueKind.OBJECT, ValueKind.REDUCE))]
    if len(wrong):
        raise tokens.fault(int(wrong.min()), "expected an object to give a state")
    order = np.argsort(steps.maker)
    last = np.full(len(tokens.op), -1, items.dtype)
    last[steps.owner[order]] = items[steps.start[order]]
    nodes = np.flatnonzero(last >= 0)
    name, at = tokens.place(int(nodes[0]))
    allowance.take(STATE_BYTES * len(nodes), "states of objects", record=name, place=f"byte {at}")
    return dict(zip(nodes.tolist(), last[nodes].tolist(), strict=True))


def _check_targets(tokens: Tokens, steps: Steps) -> None:
    """Refuse an APPEND to anything but a list, and a SETITEM to anything but a dict."""
    filling = np.flatnonzero(FILLS[tokens.op[steps.maker]])
    kinds = KIND[tokens.op[steps.maker[filling]]]
    wrong = np.flatnonzero(KIND[tokens.op[steps.owner[filling]]] != kinds)
    if len(wrong):
        kind = ValueKind(int(kinds[wrong[0]])).name.lower()
        raise tokens.fault(int(steps.maker[filling[wrong[0]]]), f"expected a {kind} to fill")


def _merged(
    steps: Steps, mine: np.ndarray, items: np.ndarray, first: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """All children, and behind them those of containers that were filled in several steps, in their order.

    Args:
        steps: all opcodes.
        mine: the numbers of those that make or fill such a container.
        items: all children.
        first: as above; changed here.
        count: as above; changed here.
    """
    mine = mine[np.lexsort((steps.maker[mine], steps.owner[mine]))]
    size, owner = steps.size[mine], steps.owner[mine]
    behind = (steps.start[mine] - (np.cumsum(size) - size)).astype(items.dtype)
    places = np.repeat(behind, size)
    places += np.arange(len(places), dtype=items.dtype)
    new = np.flatnonzero(np.diff(owner, prepend=-1))
    total = np.add.reduceat(size, new)
    first[owner[new]], count[owner[new]] = len(items) + np.cumsum(total) - total, total
    return np.concatenate((items, gathered(items, places)))
