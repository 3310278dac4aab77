"""The extension that Model Explorer loads: it opens archives as graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs, graph_builder

from archive.app.model_explorer.drawing import graphs_of
from archive.app.model_explorer.graph import namespace
from archive.base.bounded import bounded
from archive.reader.opening import open as open_archive
from archive.reader.recognition.kinds import COMMAND_KINDS, FileKind

if TYPE_CHECKING:
    from archive.app.model_explorer.graph import GraphNode, OperatorGraph

DRAWN_KINDS = COMMAND_KINDS["run"] - {FileKind.AOTI}


class DebugArchiveAdapter(Adapter):
    """Opens TorchScript and lite archives, lowered ones, and exported programs; nothing in them runs."""

    metadata = AdapterMetadata(
        id="debug_archive",
        name="debug-archive",
        description="Operators by module, each with its debug handle, line and source; without PyTorch.",
        fileExts=["pt", "ptl", "pt2"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:  # noqa: ARG002 (none of them is for it)
        """The graphs of an archive."""
        return {"graphs": [_graph(each) for each in _drawn(model_path)]}


@bounded
def _drawn(path: str) -> list[OperatorGraph]:
    with open_archive(path, kinds=DRAWN_KINDS) as opened:
        return graphs_of(opened)


def _graph(graph: OperatorGraph) -> graph_builder.Graph:
    return graph_builder.Graph(
        id=graph.name,
        nodes=[_node(node) for node in graph.nodes.values()],
        groupNodeAttributes={path: {"class": kind} for path, kind in graph.groups()},
    )


def _node(node: GraphNode) -> graph_builder.GraphNode:
    return graph_builder.GraphNode(
        id=node.id,
        label=node.label,
        namespace=namespace(node.path),
        attrs=[graph_builder.KeyValue(key=key, value=value) for key, value in node.attributes.items()],
        incomingEdges=[
            graph_builder.IncomingEdge(sourceNodeId=source, targetNodeInputId=str(number))
            for number, source in enumerate(node.sources)
        ],
    )
