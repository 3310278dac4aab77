"""An exported program → its graph: each node by its key, inputs and weights by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.app.model_explorer.graph import GraphNode, OperatorGraph
from archive.base.errors import one_line
from archive.formats.exported.loaded import FETCH, OPERATORS
from archive.reader.lookups.nodes import ProgramNode, place_of_node

if TYPE_CHECKING:
    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite


def program_graph(program: Program) -> OperatorGraph:
    """The graph of a program as its module has it; operators inside of inner graphs are groups of these."""
    graph, form = OperatorGraph(program.name), program.forms[0]
    for scopes, sites in form.graphs.items():
        within = tuple(map(str, scopes))
        ids: dict[str, str] = {}
        for name in sites[0].inputs if sites else ():
            weight = program.weights.get(name) if not scopes else None
            ids[name] = graph.add_input(name, within) if weight is None else graph.add_weight(weight)
        for site in sites:
            if site.target == site.name:  # fetches an inner graph
                continue
            number = ids[site.name] = _add(graph, form, site, within)
            taken = site.arguments or ()
            graph.connect(number, (ids[name] for name in taken if name in ids))
    return graph


def _add(graph: OperatorGraph, form: Program, site: NodeSite, within: tuple[str, ...]) -> str:
    node = ProgramNode(form, site)
    if site.target == FETCH or not site.target.startswith(OPERATORS):
        path = (
            *within,
            *(node.modules[-1].path.split(".") if node.modules and node.modules[-1].path else ()),
        )
        return graph.add(GraphNode(site.key, one_line(site.name), path, {"calls": one_line(site.target)}))
    number = graph.add_operator(place_of_node(node), one_line(node.op), site.key, within)
    made = graph.nodes[number]
    made.attributes = {"node": one_line(site.key)} | made.attributes
    made.label = one_line(site.name)
    return number
