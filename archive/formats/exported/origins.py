"""``from_node`` of a node: the nodes that it was made from, in graphs that PyTorch had before, as JSON.

    Origins = '[' Origin* ']'
    Origin  = {"name", "target", "graph_id", "pass_name", "action", "from_node": Origins}

``graph_id`` is the ``id`` of a graph in the process that exported, and ``target`` may name the address of a
function (``<function layer_norm at 0x7f…>``): both differ from run to run. Source: ``NodeSource.to_dict`` in
``torch/fx/traceback.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from archive.base.json_text import MAX_DEPTH

KEYS = ["name", "target", "graph_id", "pass_name", "action", "from_node"]
ROW_TYPES = [str, str, int, str, str]


class NodeOrigin(NamedTuple):
    """A node that another one was made from.

    Attributes:
        name: of the node.
        target: what it calls.
        graph: ``id`` of its graph.
        made_by: the pass that made the other node.
        action: what the pass did: ``create`` or ``replace``, joined by ``+``.
        origins: the nodes that it was itself made from.
    """

    name: str
    target: str
    graph: int
    made_by: str
    action: str
    origins: tuple[NodeOrigin, ...]


def parse_origins(text: str) -> tuple[NodeOrigin, ...] | None:
    """The origins of a text; None where :func:`build_origins` would not rebuild the same text."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    origins = _origins(tree, 0)
    return origins if origins is not None and json.dumps(tree) == text else None


def build_origins(origins: tuple[NodeOrigin, ...]) -> str:
    """The text of some origins."""
    return json.dumps(_tree(origins))


def _origins(tree: object, depth: int) -> tuple[NodeOrigin, ...] | None:
    if not isinstance(tree, list) or depth > MAX_DEPTH:
        return None
    origins = [_origin(value, depth) for value in tree]
    return None if None in origins else tuple(origin for origin in origins if origin)


def _origin(value: object, depth: int) -> NodeOrigin | None:
    if not isinstance(value, dict) or list(value) != KEYS:
        return None
    *plain, inner = value.values()
    origins = _origins(inner, depth + 1)
    if origins is None or [*map(type, plain)] != ROW_TYPES:
        return None
    name, target, graph, made_by, action = plain
    return NodeOrigin(name, target, graph, made_by, action, origins)


def _tree(origins: tuple[NodeOrigin, ...]) -> list[dict[str, Any]]:
    return [dict(zip(KEYS, (*origin[:-1], _tree(origin.origins)), strict=True)) for origin in origins]
