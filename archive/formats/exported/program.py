"""``models/NAME.json``: an exported program, whose nodes say what they were made from.

    Program  = {"graph_module": {"graph": Graph, …}, "torch_version", "schema_version", …}
    Graph    = {"nodes": [Node], "inputs", "outputs", …}
    Node     = {"target", "inputs": [{"arg": Argument, …}], "outputs", "metadata": {KEY: TEXT}, …, "name"}
    Argument = {"as_tensor": …} | … | {"as_graph": {"name": NAME, "graph": Graph}}

A graph in an argument is a *scope*: the branch of a ``cond``, the body of a ``while_loop`` or ``scan``. Names
of nodes are unique only in their scope. A *site* is a node of a scope; its key is the path of scopes and the
name: ``linear``, ``cond.true_graph_0/linear``.

``metadata`` is debug information: PyTorch loads and runs the program without it. Only
``torch.export.unflatten`` needs ``nn_module_stack``. Source: ``torch/_export/serde/schema.py`` of PyTorch
2.13.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.json_text import MAX_DEPTH, is_exact, read_json, words
from archive.formats.exported.changes import ProgramOutputs, outputs_of
from archive.formats.exported.inputs import inputs_of, weights_of
from archive.formats.exported.sites import NodeSite, Scope, named_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from archive.formats.exported.inputs import ProgramInput


MAX_SCOPES = MAX_DEPTH // 8
"""Most scopes inside one another, in the program's own graph."""


@memory.kept
class Program:
    """An exported program. :meth:`of` makes it from its record.

    Args:
        name: of the program: ``model``.
        release: the PyTorch release that exported it; "" if unknown.
        make: returns the sites when they are first asked for.
        lifted: how many parameters, buffers and constants its graph takes; None if unknown.
        is_pruned: whether its module has no tokens, and no nodes for unused results: the program is in a
            dialect other than training. False if that is not recorded.
        is_loaded: whether its nodes are those of the program as it is loaded, rather than of its module; None
            if both have the same.
        schema: the version of the JSON's schema, ``8.20``; "" if unknown.
        inputs: what its caller provides; None if unknown.
        guards: the conditions on them that tracing found.
        weights: the model's name of each tensor that its graph takes of it, by the value's name; empty if
            unknown.
        outputs: what its graph gives; nothing if unknown.
    """

    def __init__(
        self,
        name: str,
        release: str,
        make: Callable[[], Mapping[str, NodeSite]],
        lifted: int | None = None,
        *,
        is_pruned: bool = False,
        is_loaded: bool | None = False,
        schema: str = "",
        inputs: tuple[ProgramInput, ...] | None = None,
        guards: tuple[str, ...] = (),
        weights: Mapping[str, str] | None = None,
        outputs: ProgramOutputs = ProgramOutputs((), ()),  # noqa: B008 (a constant)
    ) -> None:
        self.name = name
        self.outputs = outputs
        self.weights = weights or {}
        self.inputs = inputs
        self.guards = guards
        self.release = release
        self.schema = schema
        self.lifted = lifted
        self.is_pruned = is_pruned
        self.is_loaded = is_loaded
        self._make = make
        self.allowance = memory.current()

    @classmethod
    def of(cls, name: str, tree: object, metadata: Sequence[Mapping[str, str]] | None = None) -> Self:
        """A program from its record's value.

        Args:
            name: of the program.
            tree: the value.
            metadata: of each node, if it was taken out of the record.
        """
        graph = graph_of(tree)
        release = str(tree.get("torch_version") or "")  # type: ignore[attr-defined]
        sites = partial(_sites, graph, metadata)
        verifiers = tree.get("verifiers")  # type: ignore[attr-defined]
        is_pruned = isinstance(verifiers, list) and bool(verifiers) and verifiers[0] != TRAINING
        return cls(
            name,
            release,
            sites,
            _lifted(tree),
            is_pruned=is_pruned,
            schema=_schema(tree),
            inputs=inputs_of(tree),
            guards=_guards(tree),
            weights=weights_of(tree),
            outputs=outputs_of(tree),
        )

    @cached_property
    def sites(self) -> Mapping[str, NodeSite]:
        """The nodes by key, in the order of the file."""
        return self._make()

    @cached_property
    def scopes(self) -> tuple[tuple[Scope, ...], ...]:
        """The inner graphs, each as the path to it, in the order of the file."""
        return tuple(path for path in self.graphs if path)

    @cached_property
    def graphs(self) -> Mapping[tuple[Scope, ...], Sequence[NodeSite]]:
        """The nodes of each graph in their order, by the path to it; ``()`` is the program's own."""
        graphs = defaultdict[tuple[Scope, ...], list[NodeSite]](list)
        for site in self.sites.values():
            graphs[site.scopes].append(site)
        return dict(graphs)

    @cached_property
    def forms(self) -> tuple[Program, ...]:
        """The program as its module, then as it is loaded: with PyTorch's names, in the order of code.

        Only one if both have the same nodes; the program itself if records of nodes are unknown.
        """
        from archive.formats.exported.loaded import LoadedGraphs  # noqa: PLC0415 (only failures need it)

        if any(site.record is None for site in self.sites.values()):
            return (self,)
        loaded = LoadedGraphs(self.graphs)
        nodes, own = list(loaded.nodes()), list(loaded.module_nodes(is_pruned=self.is_pruned))
        forms = ((own, None),) if nodes == own else ((own, False), (nodes, True))
        return tuple(
            Program(self.name, self.release, partial(_by_key, sites), self.lifted, is_loaded=is_loaded)
            for sites, is_loaded in forms
        )

    @cached_property
    def lines(self) -> Mapping[str, int]:
        """How many nodes precede each in its graph, by the node's key."""
        return {site.key: at for sites in self.graphs.values() for at, site in enumerate(sites)}


def _by_key(sites: Iterable[NodeSite]) -> dict[str, NodeSite]:
    by_key: dict[str, NodeSite] = {}
    for site in sites:
        by_key.setdefault(site.key, site)
    return by_key


def graph_of(tree: object) -> dict[str, Any]:
    """The graph in a program's record."""
    return _object(_object(_object(tree, "").get("graph_module"), "graph_module").get("graph"), GRAPH)


def _schema(tree: object) -> str:
    """The version of a program's schema; "" if it has none."""
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    numbers = [version.get(part) for part in ("major", "minor")] if isinstance(version, dict) else []
    return ".".join(map(str, numbers)) if numbers and all(type(part) is int for part in numbers) else ""


def _guards(tree: object) -> tuple[str, ...]:
    """The conditions in a program's record, which older ones lack."""
    recorded = tree.get("guards_code") if isinstance(tree, dict) else None
    return tuple(guard for guard in recorded if isinstance(guard, str)) if isinstance(recorded, list) else ()


def _lifted(tree: Any) -> int | None:  # noqa: ANN401 (JSON with a graph)
    """How many inputs of a program's graph are not its user's; None if unknown."""
    signature = tree["graph_module"].get("signature")
    specs = signature.get("input_specs") if isinstance(signature, dict) else None
    if not isinstance(specs, list):
        return None
    given = {"user_input", "constant_input", "token"}
    return sum(isinstance(spec, dict) and not spec.keys() & given for spec in specs)


def _sites(graph: dict[str, Any], metadata: Sequence[Mapping[str, str]] | None) -> dict[str, NodeSite]:
    sites: dict[str, NodeSite] = {}
    for number, (path, node, scopes, inputs, tensors) in enumerate(nodes(graph)):
        texts: Mapping[str, str] | None = None
        if metadata is not None:
            if number >= len(metadata):
                raise ArchiveError(place=path, expected=f"{len(metadata)} nodes", found="more")
            texts = metadata[number]
        name, target = _text(node.get("name"), f"{path}.name"), _text(node.get("target"), f"{path}.target")
        arguments = named_values(_list(node.get("inputs"), f"{path}.inputs"))
        if texts is None:
            texts = _object(node.get("metadata"), f"{path}.metadata")
        for key, value in texts.items():
            _text(value, f"{path}.metadata.{key}")
        site = NodeSite(name, target, scopes, arguments, texts, inputs, node, tensors)
        if sites.setdefault(site.key, site) is not site:
            raise ArchiveError(place=path, expected="a name of its own", found=repr(site.key))
    return sites


GRAPH, TENSORS = "graph_module.graph", "tensor_values"
TRAINING = "TRAINING"
"""The dialect of programs as they are exported, in ``verifiers``."""
PlacedNode = tuple[str, dict[str, Any], tuple[Scope, ...], tuple[str, ...], "Mapping[str, Any]"]
"""JSON path, node, the scopes that the node is in, the names of the values that its graph takes, and what is
recorded of the graph's tensors."""


def check_scopes(scopes: int, place: str) -> None:
    """Refuse a graph that is in too many scopes."""
    if scopes > MAX_SCOPES:
        expected = f"at most {MAX_SCOPES} graphs inside one another"
        raise ArchiveError(place=place, expected=expected, found="more")


def nodes(graph: dict[str, Any], path: str = GRAPH, scopes: tuple[Scope, ...] = ()) -> Iterator[PlacedNode]:
    """All nodes of a graph and its inner graphs, in the order of the file, each with its place.

    Args:
        path: of the graph in JSON.
        scopes: that it is in.
    """
    check_scopes(len(scopes), path)
    inputs = tuple(
        next(iter(named_values(given)), "") for given in _list(graph.get("inputs", []), f"{path}.inputs")
    )
    tensors = graph.get(TENSORS)
    tensors = tensors if isinstance(tensors, dict) else {}
    for number, value in enumerate(_list(graph.get("nodes"), f"{path}.nodes")):
        at = f"{path}.nodes[{number}]"
        node = _object(value, at)
        yield at, node, scopes, inputs, tensors
        for i, argument in enumerate(_list(node.get("inputs"), f"{at}.inputs")):
            inner = argument.get("arg") if isinstance(argument, dict) else None
            if isinstance(inner, dict) and isinstance(held := inner.get("as_graph"), dict):
                there = f"{at}.inputs[{i}].arg.as_graph"
                scope = Scope(_text(node.get("name"), f"{at}.name"), _text(held.get("name"), f"{there}.name"))
                graph_path = f"{there}.graph"
                yield from nodes(_object(held.get("graph"), graph_path), graph_path, (*scopes, scope))


def _object(value: object, path: str) -> dict[str, Any]:
    return value if isinstance(value, dict) else _refuse(path, "an object", value)


def _list(value: object, path: str) -> list[Any]:
    return value if isinstance(value, list) else _refuse(path, "a list", value)


def _text(value: object, path: str) -> str:
    return value if isinstance(value, str) else _refuse(path, "a text", value)


def _refuse(path: str, expected: str, value: object) -> Any:  # noqa: ANN401 (never returns)
    raise ArchiveError(place=path, expected=expected, found=words(value))


def left_of(data: memoryview) -> bytes | None:
    """A program's record without metadata; None if it isn't a program that ``json.dumps`` wrote."""
    try:
        return without_metadata(read_json(data), data)
    except LimitError:
        raise
    except ArchiveError:  # `verify` reports it
        return None


def without_metadata(tree: object, data: memoryview) -> bytes | None:
    """The same for a record whose value is known."""
    if not is_exact(tree, data):
        return None
    all_nodes = _nodes_of(tree)
    return _rewritten(tree, all_nodes, [{}] * len(all_nodes))


def filled(data: memoryview, metadata: Iterable[Mapping[str, str]]) -> bytes:
    """A program's record with the metadata of its nodes.

    Args:
        data: the record, with any metadata.
        metadata: of each node, in the order of the file.
    """
    return with_metadata(read_json(data), list(metadata))


def with_metadata(tree: object, metadata: Sequence[Mapping[str, str]]) -> bytes:
    """The same for a record's value, which is unchanged afterwards."""
    return _rewritten(tree, _nodes_of(tree), metadata)


def _nodes_of(tree: object) -> list[dict[str, Any]]:
    return [node for _, node, *_ in nodes(graph_of(tree))]


def _rewritten(tree: object, all_nodes: list[dict[str, Any]], metadata: Sequence[Mapping[str, str]]) -> bytes:
    """The JSON of a tree with other metadata for its nodes, which get their own back afterwards."""
    before = [node.get("metadata") for node in all_nodes]
    have = sum(isinstance(own, dict) for own in before)
    if not len(all_nodes) == len(metadata) == have:
        expected = f"{len(metadata)} nodes with metadata"
        raise ArchiveError(place=GRAPH, expected=expected, found=f"{have} of {len(all_nodes)}")
    try:
        for node, texts in zip(all_nodes, metadata, strict=True):
            node["metadata"] = texts
        return json.dumps(tree).encode()
    finally:
        for node, was in zip(all_nodes, before, strict=True):
            node["metadata"] = was
