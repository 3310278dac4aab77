"""Causes of failures → how many failures are at each node of a model's graph."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from archive.app.model_explorer.drawing import graphs_of
from archive.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.app.model_explorer.graph import GraphNode
    from archive.failures.explainer import CauseGroup
    from archive.reader.archive import Archive


class FailureCounts(NamedTuple):
    """How many failures are at each node, by its id, and how many at none."""

    at_node: Mapping[str, int]
    elsewhere: int


def failures_at_nodes(opened: Archive, causes: Iterable[CauseGroup]) -> FailureCounts:
    """Count failures at the operators of their modules and lines; at all of the line if these are not known.

    Raises:
        ArchiveError: the file has no graph.
    """
    nodes = [node for graph in graphs_of(opened) for node in graph.nodes.values() if node.place is not None]
    counts, others = Counter[str](), 0
    for group in causes:
        cause = group.cause
        at_line = [node for node in nodes if (cause.file, cause.line) in _lines(node)]
        where = one_line(cause.where)
        found = [node for node in at_line if node.place and node.place.hierarchy == where] or at_line
        counts.update({node.id: group.count for node in found})
        others += 0 if found else group.count
    return FailureCounts(counts, others)


def _lines(node: GraphNode) -> set[tuple[str, int]]:
    """The lines of a node's operator."""
    source = node.place and node.place.source
    return {(line.file, line.number) for line in (source, *source.more)} if source else set()
