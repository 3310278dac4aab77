"""The operators of a model as a graph, whose nodes have the ids that ``--format model-explorer`` writes."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, one_line
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.profiles.places import node_id, weight_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.debuginfo.profiles.places import OperationPlace

MOST_STEPS = 2_000_000
"""Nodes, edges, calls and values on the way: a few lines of hostile code may double them without end."""


@dataclass(slots=True)
class GraphNode:
    """A node.

    Attributes:
        id: see :func:`~archive.debuginfo.profiles.places.node_id`.
        label: its operator without a namespace: ``linear``; of inputs and weights, the last part of the name.
        path: the modules, and inner graphs, that it is in, outermost first.
        attributes: what is known of it, by name.
        place: of an operator in the model; None of other nodes.
        sources: the ids of the nodes whose results it takes, in order.
    """

    id: str
    label: str
    path: tuple[str, ...]
    attributes: dict[str, str] = field(default_factory=dict)
    place: OperationPlace | None = None
    sources: dict[str, None] = field(default_factory=dict)


class OperatorGraph:
    """The graph of a method or program.

    Edges lead from nodes that were added before, so that there are no circles: what a loop hands to its next
    iteration is not drawn.

    Attributes:
        name: of the method or program.
        nodes: by id, in the order of the code.
        classes: of each module, by its path.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[str, GraphNode] = {}
        self.classes: dict[tuple[str, ...], str] = {}
        self._numbers: dict[str, int] = {}
        self._steps = 0

    def step(self, many: int = 1) -> None:
        """Count steps on the way to a node.

        Raises:
            ArchiveError: there are too many.
        """
        self._steps += many
        if self._steps > MOST_STEPS:
            raise ArchiveError(expected=f"a graph of at most {MOST_STEPS:,} steps", found="more")

    def add_operator(
        self, place: OperationPlace, op: str, key: int | str | None, scopes: Iterable[str] = ()
    ) -> str:
        """Add an operator, or find the node that it shares; its id."""
        number = node_id(place, op, key)
        if number in self.nodes:
            return number
        modules = [level for level in place.levels if level.type]
        for level in modules:
            self.classes.setdefault((*scopes, *_steps(level.path)), level.type)
        path = (*scopes, *(_steps(modules[-1].path) if modules else ()))
        known = {"operator": op, "module": place.module, "handle": str(key) if isinstance(key, int) else ""}
        if place.source is not None:
            known |= {"line": str(place.source), "source": place.source.words}
        if place.innermost is not None and place.innermost != place.source:
            known["innermost line"] = str(place.innermost)
        label = op.removesuffix(".default").rpartition("::")[2]
        attributes = {name: text for name, text in known.items() if text}
        return self.add(GraphNode(number, label, path, attributes, place))

    def add_weight(self, name: str, scopes: Iterable[str] = ()) -> str:
        """Add a tensor that the model holds; its id."""
        *modules, last = name.split(".")
        path = (*scopes, *modules)
        return self.add(GraphNode(weight_id(name), one_line(last), path, {"weight": one_line(name)}))

    def add_input(self, name: str, scopes: tuple[str, ...] = ()) -> str:
        """Add an input of the graph, or of one inside of it; its id."""
        return self.add(GraphNode("/".join([*scopes, f"input {name}"]), one_line(name), scopes))

    def add(self, node: GraphNode) -> str:
        """Add a node unless there is one with its id; the id."""
        if node.id not in self.nodes:
            self.step()
            self._numbers[node.id] = len(self.nodes)
            self.nodes[node.id] = node
        return node.id

    def connect(self, target: str, sources: Iterable[str]) -> None:
        """Let a node take the results of others."""
        for source in sources:
            self.step()
            if self._numbers[source] < self._numbers[target]:
                self.nodes[target].sources[source] = None

    def groups(self) -> Iterator[tuple[str, str]]:
        """The path of each module with a class, and that class."""
        for path, kind in self.classes.items():
            yield namespace(path), kind


def namespace(path: Iterable[str]) -> str:
    """A path as Model Explorer has it: a slash within a step would be a step of its own."""
    return "/".join(one_line(step).replace("/", "%2F") for step in path)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split(".")) if path else ()
