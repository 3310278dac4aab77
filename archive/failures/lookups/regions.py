"""Nodes of an ETRecord that came out of a region, with the source of the exported program's node.

PyTorch exports a region under ``torch.no_grad`` or ``torch.autocast`` as one node that holds a graph.
ExecuTorch runs the graph's generated code to lower it, so that nodes have this code for their stack trace:

    File "<eval_with_key>.43", line 6, in forward
      embedding_1 = torch.ops.aten.embedding.default(p_words_weight, second);  second = None

The record has the exported program, too. ``from_node`` leads to the node that holds the graph, if the graph
that it names is the one whose ``id`` is in ``export_graph_id``; the code shows name, operator and arguments
of the node in the held graph, whose own trace is that of the model.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.json_text import read_json
from archive.failures.lookups.nodes import Node
from archive.formats.exported.node_metadata import MODULES, STACK_TRACE
from archive.formats.record_kinds import EXPORTED, GRAPH_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.formats.exported.origins import Origin
    from archive.formats.exported.sites import NodeSite
    from archive.formats.exported.traces import Frame
    from archive.reader.archive import Archive

GENERATED = "<eval_with_key>"
STATEMENT = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?: *:[^=]*)? = (?P<target>[\w.]+)\((?P<arguments>.*)", re.DOTALL
)
NAME = re.compile(r"[A-Za-z_]\w*")
MOST_GRAPHS = 16
"""Graphs of one node in which a node is sought by its name; PyTorch's have at most two."""


class Regions:
    """The regions of an ETRecord's exported program.

    Args:
        archive: the ETRecord.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def sourced(self, node: Node) -> Node:
        """A node with the model's own trace and modules, where it has generated code's and these are known.

        Raises:
            ArchiveError: a record that is needed is broken.
        """
        frames = node.site.frames.frames if node.site.frames else ()
        if not frames or not all(frame.file.startswith(GENERATED) for frame in frames):
            return node
        found = self._inner(node.site.origins, frames)
        if found is None:
            return node
        known = {key: text for key, text in found.metadata.items() if key in (STACK_TRACE, MODULES)}
        return Node(node.program, replace(node.site, metadata={**node.site.metadata, **known}))

    def _inner(self, origins: Sequence[Origin], frames: Sequence[Frame]) -> NodeSite | None:
        """The exported program's node whose statement is that of the innermost frame."""
        holder = self._holder(origins)
        found: NodeSite | None = None
        for frame in frames:
            found = None if holder is None else self._of_statement(holder, frame.code or "")
            holder = None if found is None else found.key
        return found

    def _holder(self, origins: Sequence[Origin]) -> str | None:
        """The name of the exported program's node that a node was made from; None where it is not known."""
        while origins:
            if origins[-1].graph == self._graph_id:
                return origins[-1].name
            origins = origins[-1].origins
        return None

    def _of_statement(self, holder: str, code: str) -> NodeSite | None:
        """The only node in the graphs of another one that a statement may be of."""
        statement = STATEMENT.fullmatch(code)
        if statement is None:
            return None
        held = self._held.get((holder, statement["name"]), [])
        if len(held) > MOST_GRAPHS:
            return None
        there = set(NAME.findall(statement["arguments"]))
        found = [
            site
            for site in held
            if site.target == statement["target"] and there.issuperset(site.arguments or ())
        ]
        return found[0] if len(found) == 1 else None

    @cached_property
    def _graph_id(self) -> int | None:
        """The ``id`` of the exported program's graph in the process that exported it; None if unknown."""
        record = self._archive.records.get(GRAPH_ID)
        if record is None:
            return None
        try:
            found: object = read_json(record.view(), self._archive.allowance)
        except ArchiveError as error:
            raise error.within(file=self._archive.file, record=GRAPH_ID) from error.__cause__
        return found if isinstance(found, int) else None

    @cached_property
    def _held(self) -> dict[tuple[str, str], list[NodeSite]]:
        """The exported program's nodes by the key of what holds their graph, and by their names."""
        found = defaultdict[tuple[str, str], list["NodeSite"]](list)
        if EXPORTED in self._archive.programs:
            for site in self._archive.programs[EXPORTED].sites.values():
                found[site.holder, site.name].append(site)
        return found
