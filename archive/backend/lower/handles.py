"""Debug handles: numbers by which a backend names the operations of the model.

A backend keeps only the number of each operation; when the operation fails or is timed, the number leads back
to the model's source. Numbers come from a :class:`DebugHandles` with a start value, never from a counter of
the process, so that a model lowered twice gives the same archive.

TorchScript's archives have one range for a place in the code, and none for the calls on the way. So
TorchScript shows the innermost range on the way to an operation that is not in PyTorch's own source:
:func:`shown_range`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from itertools import chain, count
from typing import TYPE_CHECKING

from archive.backend.lower.carried import write_table
from archive.base.source_files import is_pytorchs
from archive.base.strings import decoded
from archive.debuginfo.sites import Site, Span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from archive.backend.graph.graphs import Graph, Operation

MODULE_BITS = 16
"""Bits below a start that is chosen by the content of a module: 65,536 handles until the next start."""


class DebugHandles:
    """Gives each operation its debug handle, and remembers the operation.

    Modules that are lowered for one archive may share one object, as ``recorder`` of
    :func:`~archive.backend.lower`; their handles then follow each other.

    Args:
        start: the first handle.

    Attributes:
        operations: the operations by handle.
    """

    def __init__(self, start: int = 0) -> None:
        self.operations: dict[int, Operation] = {}
        self._numbers = count(start)

    @classmethod
    def of(cls, graphs: Iterable[Graph]) -> DebugHandles:
        """An object whose start is a hash of graphs, so that handles of different modules do not collide.

        Names, source ranges and call stacks of the operations are hashed.
        """
        operations = chain.from_iterable(graph.operations() for graph in graphs)
        table = write_table(dict(enumerate(operations)))
        digest = hashlib.blake2b(table.encode(), digest_size=4)
        return cls(int.from_bytes(digest.digest()) + 1 << MODULE_BITS)

    def record(self, operation: Operation) -> int:
        """Give an operation its handle."""
        handle = next(self._numbers)
        self.operations[handle] = operation
        return handle


def generate_debug_handles(recorder: DebugHandles, graph: Graph) -> dict[Operation, int]:
    """Give each operation of a graph its handle, in PyTorch's order.

    All operations of a block come first, then those of its inner blocks, the last inner block first.
    """
    return {operation: recorder.record(operation) for operation in graph.operations()}


# --- the range that is shown

NULL_SPAN = Span(b"", b"", 0, 0, 0)
"""The range for handles without one. PyTorch writes ``NO_TAG`` for these, and then refuses to load it."""


def has_source(site: Site) -> bool:
    """Whether an operation, or a call on the way to it, has a range."""
    return any(span is not NULL_SPAN for span in _spans(site))


def placed(site: Site) -> Site:
    """The site of an operation; without a range, that of the innermost call that has one."""
    while site.span is None and has_source(site):
        *steps, last = site.steps
        site = Site(site.op, last.span, tuple(steps))
    return site


def shown_range(site: Site) -> Span:
    """The range that TorchScript shows; PyTorch's own if all are."""
    return _spans(site)[_shown_place(site)]


def with_owners(sites: Mapping[int, Site], shown: Collection[int]) -> dict[int, Site]:
    """The sites, in which operations that are statements do not share the tag of the range that is shown.

    So a reader of the archive knows which row belongs to which; see :mod:`archive.backend.lower.reloading`.
    """
    users = Counter(shown_range(site) for site in sites.values())
    owned = dict(sites)
    for handle, site in sites.items():
        if handle not in shown or users[shown_range(site)] == 1:
            continue
        place = _shown_place(site)
        if place == len(site.steps):
            owned[handle] = replace(site, span=site.span and replace(site.span, owner=handle))
        else:
            steps = list(site.steps)
            span = steps[place].span
            steps[place] = replace(steps[place], span=span and replace(span, owner=handle))
            owned[handle] = replace(site, steps=tuple(steps))
    return owned


def _spans(site: Site) -> list[Span]:
    """The ranges of the calls on the way to an operation, and its own."""
    return [span or NULL_SPAN for span in (*(step.span for step in site.steps), site.span)]


def _shown_place(site: Site) -> int:
    """The place in ``_spans`` of the range that :func:`shown_range` gives."""
    return innermost(None if span is NULL_SPAN else span.filename for span in _spans(site))


def innermost(filenames: Iterable[bytes | None]) -> int:
    """The place of the innermost source file that is not PyTorch's own; the last place if all are.

    Args:
        filenames: those of the calls on the way to an operation, and its own; None for unknown ranges.
    """
    last, found = -1, -1
    for last, filename in enumerate(filenames):
        if filename is not None and not is_pytorchs(decoded(filename)):
            found = last
    return last if found < 0 else found
