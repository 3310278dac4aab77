"""``models/NAME.json``: an exported program, whose nodes say what they were made of.

    Program  = {"graph_module": {"graph": Graph, …}, "torch_version", "schema_version", …}
    Graph    = {"nodes": [Node], "inputs", "outputs", …}
    Node     = {"target", "inputs": [{"arg": Argument, …}], "outputs", "metadata": {KEY: TEXT}, …, "name"}
    Argument = {"as_tensor": …} | … | {"as_graph": {"name": NAME, "graph": Graph}}

A graph that stands in an argument is a *scope*: the branch of a ``cond``, the body of a ``while_loop`` or
``scan``. Names of nodes are unique in their scope alone. A *site* is a node of a scope; its key is the path
of scopes and the name: ``linear``, ``cond.true_graph_0/linear``.

``metadata`` is debug information: PyTorch loads and runs the program without it; ``torch.export.unflatten``
alone needs ``nn_module_stack``. Source: ``torch/_export/serde/schema.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, LimitError
from archive.formats.exported.functions import Function, parse_function, parse_functions
from archive.formats.exported.json_text import MAX_DEPTH, words
from archive.formats.exported.kinds import (
    FUNCTION,
    FUNCTIONS,
    MODULES,
    ORIGINS,
    STACK_TRACE,
    metadata_kind,
)
from archive.formats.exported.modules import Instance, parse_modules
from archive.formats.exported.origins import Origin, parse_origins
from archive.formats.exported.traces import Trace, parse_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from enum import StrEnum
    from typing import Self


MAX_SCOPES = MAX_DEPTH // 8
"""Graphs inside of graphs."""
OVERLOAD = re.compile(r"torch\.ops\.(?!higher_order\.)\w+\.(?=\w+\.\w+$)")
"""What stands before the name of an operator and its overload."""


class Scope(NamedTuple):
    """A graph inside of another.

    Attributes:
        holder: name of the node that holds the graph.
        name: of the graph: ``true_graph_0``.
    """

    holder: str
    name: str

    def __str__(self) -> str:
        return f"{self.holder}.{self.name}"


@dataclass(frozen=True, eq=False)
class NodeSite:
    """A node of a program.

    Attributes:
        name: unique in its scope.
        target: what it calls: ``torch.ops.aten.linear.default``.
        scopes: the graphs that it is in, outermost first; empty in the program's own graph.
        arguments: the names of the values that it takes, in the order of the file; None where they are not
            known.
        metadata: the texts that say where it comes from, as recorded.
        inputs: the names of the values that its graph takes, in order; empty where they are not known.
        record: the node's JSON; None where it is not known.
    """

    name: str
    target: str
    scopes: tuple[Scope, ...]
    arguments: tuple[str, ...] | None
    metadata: Mapping[str, str] = field(repr=False)
    inputs: tuple[str, ...] = field(default=(), repr=False)
    record: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """The path of scopes and the name: ``cond.true_graph_0/linear``."""
        return "/".join([*map(str, self.scopes), self.name])

    @property
    def holder(self) -> str:
        """The key of the node that holds the graph; "" in the program's own graph."""
        if not self.scopes:
            return ""
        return "/".join([*map(str, self.scopes[:-1]), self.scopes[-1].holder])

    def may_be_called(self, name: str) -> bool:
        """Whether PyTorch may call the node so once it has loaded the program.

        PyTorch renames a node that gives nothing after what it calls: ``_vmap_increment_nesting_unused``;
        a second one of the same graph has a number behind that name.
        """
        return name == self.name or (self._gives_none and re.fullmatch(self._renamed, name) is not None)

    @property
    def _gives_none(self) -> bool:
        outputs = (self.record or {}).get("outputs")
        return isinstance(outputs, list) and len(outputs) == 1 and outputs[0] == {"as_none": True}

    @property
    def _renamed(self) -> str:
        called, is_operator = OVERLOAD.subn("", self.target)
        called = called if is_operator else called.rpartition(".")[2]
        snake = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", called).lower().replace(".", "_")
        return rf"{re.escape(snake)}_unused(?:_\d+)?"

    def metadata_of(self, kinds: Collection[StrEnum]) -> dict[str, str]:
        """The metadata of some kinds."""
        return {key: text for key, text in self.metadata.items() if metadata_kind(key) in kinds}

    @property
    def trace(self) -> str | None:
        """The stack trace as PyTorch prints it; None where none is recorded."""
        return self.metadata.get(STACK_TRACE)

    @cached_property
    def frames(self) -> Trace | None:
        """The frames of the stack trace; None where none is recorded, or it is no stack trace."""
        return None if self.trace is None else parse_trace(self.trace)

    @cached_property
    def modules(self) -> tuple[Instance, ...]:
        """The module instances in which the node was made, outermost first; empty where none are recorded."""
        return parse_modules(self.metadata[MODULES]) or () if MODULES in self.metadata else ()

    @cached_property
    def function(self) -> Function | None:
        """The function that made the node; None where none is recorded."""
        return parse_function(self.metadata[FUNCTION]) if FUNCTION in self.metadata else None

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """The functions and modules that made the node, outermost first; strict export alone records them."""
        return parse_functions(self.metadata[FUNCTIONS]) or () if FUNCTIONS in self.metadata else ()

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """The nodes that the node was made from; empty where none are recorded."""
        return parse_origins(self.metadata[ORIGINS]) or () if ORIGINS in self.metadata else ()


class Program:
    """An exported program. :meth:`of` makes it of its record.

    Args:
        name: of the program: ``model``.
        release: the PyTorch release that exported it; "" where it is not known.
        make: gives the sites when they are first asked for.
        lifted: how many parameters, buffers and constants its graph takes; None where that is not known.

    Attributes:
        name: as given.
        release: as given.
        lifted: as given.
    """

    def __init__(
        self,
        name: str,
        release: str,
        make: Callable[[], Mapping[str, NodeSite]],
        lifted: int | None = None,
    ) -> None:
        self.name = name
        self.release = release
        self.lifted = lifted
        self._make = make

    @classmethod
    def of(cls, name: str, tree: object, metadata: Sequence[Mapping[str, str]] | None = None) -> Self:
        """A program of its record's value.

        Args:
            name: of the program.
            tree: the value.
            metadata: of each node, where the record's own was taken out.

        Raises:
            ArchiveError: the value is no program; the place is its JSON path.
        """
        graph = graph_of(tree)
        release = str(tree.get("torch_version") or "")  # type: ignore[attr-defined]
        return cls(name, release, partial(_sites, graph, metadata), _lifted(tree))

    @cached_property
    def sites(self) -> Mapping[str, NodeSite]:
        """The nodes by key, in the order of the file.

        Raises:
            ArchiveError: a node is not one, or two of a scope have one name.
            LimitError: graphs are nested too deeply.
        """
        return self._make()

    @cached_property
    def scopes(self) -> tuple[tuple[Scope, ...], ...]:
        """The graphs inside of the program's own, each as the path to it, in the order of the file."""
        return tuple(path for path in self.graphs if path)

    @cached_property
    def graphs(self) -> Mapping[tuple[Scope, ...], Sequence[NodeSite]]:
        """The nodes of each graph in their order, by the path to it; ``()`` is the program's own."""
        found = defaultdict[tuple[Scope, ...], list[NodeSite]](list)
        for site in self.sites.values():
            found[site.scopes].append(site)
        return dict(found)


def graph_of(tree: object) -> dict[str, Any]:
    """The graph in a program's record.

    Raises:
        ArchiveError: the value is no program; the place is its JSON path.
    """
    return _object(_object(_object(tree, "").get("graph_module"), "graph_module").get("graph"), GRAPH)


def _lifted(tree: Any) -> int | None:  # noqa: ANN401 (JSON with a graph)
    """How many inputs of a program's graph are not its user's; None where that is not recorded."""
    signature = tree["graph_module"].get("signature")
    specs = signature.get("input_specs") if isinstance(signature, dict) else None
    if not isinstance(specs, list):
        return None
    return sum(isinstance(one, dict) and not one.keys() & {"user_input", "constant_input"} for one in specs)


def _sites(graph: dict[str, Any], metadata: Sequence[Mapping[str, str]] | None) -> dict[str, NodeSite]:
    found: dict[str, NodeSite] = {}
    for number, (path, node, scopes, inputs) in enumerate(nodes(graph)):
        texts = None
        if metadata is not None:
            if number >= len(metadata):
                raise ArchiveError(place=path, expected=f"{len(metadata)} nodes", found="more")
            texts = metadata[number]
        name, target = _text(node.get("name"), f"{path}.name"), _text(node.get("target"), f"{path}.target")
        given = _list(node.get("inputs"), f"{path}.inputs")
        site = NodeSite(name, target, scopes, named_values(given), _metadata(path, node, texts), inputs, node)
        if found.setdefault(site.key, site) is not site:
            raise ArchiveError(place=path, expected="a name of its own", found=repr(site.key))
    return found


GRAPH = "graph_module.graph"
PlacedNode = tuple[str, dict[str, Any], tuple[Scope, ...], tuple[str, ...]]
"""JSON path, node, the scopes that the node is in, and the names of the values that its graph takes."""


def nodes(graph: dict[str, Any]) -> Iterator[PlacedNode]:
    """All nodes of a graph and of those inside of it, in the order of the file.

    Args:
        graph: the JSON object.

    Yields:
        Each with its place.

    Raises:
        ArchiveError: something else stands where a node should.
        LimitError: graphs are nested too deeply.
    """
    yield from _nodes(graph, GRAPH, ())


def _nodes(graph: dict[str, Any], path: str, scopes: tuple[Scope, ...]) -> Iterator[PlacedNode]:
    if len(scopes) > MAX_SCOPES:
        raise LimitError("nested graphs", MAX_SCOPES, len(scopes), place=path)
    inputs = tuple(
        next(iter(named_values(one)), "") for one in _list(graph.get("inputs", []), f"{path}.inputs")
    )
    for number, value in enumerate(_list(graph.get("nodes"), f"{path}.nodes")):
        at = f"{path}.nodes[{number}]"
        node = _object(value, at)
        yield at, node, scopes, inputs
        for i, argument in enumerate(_list(node.get("inputs"), f"{at}.inputs")):
            inner = argument.get("arg") if isinstance(argument, dict) else None
            if isinstance(inner, dict) and isinstance(held := inner.get("as_graph"), dict):
                there = f"{at}.inputs[{i}].arg.as_graph"
                scope = Scope(_text(node.get("name"), f"{at}.name"), _text(held.get("name"), f"{there}.name"))
                graph_path = f"{there}.graph"
                yield from _nodes(_object(held.get("graph"), graph_path), graph_path, (*scopes, scope))


def _metadata(path: str, node: dict[str, Any], texts: Mapping[str, str] | None) -> Mapping[str, str]:
    """The metadata of a node: its own, unless other texts are given."""
    metadata = _object(node.get("metadata"), f"{path}.metadata") if texts is None else texts
    for key, value in metadata.items():
        _text(value, f"{path}.metadata.{key}")
    return metadata


def named_values(arguments: object) -> tuple[str, ...]:
    """The names of values in arguments; those in a graph that is an argument are not among them."""
    found: list[str] = []
    _add_named(arguments, found)
    return tuple(found)


def _add_named(arguments: object, found: list[str]) -> None:
    if isinstance(arguments, list):
        for one in arguments:
            _add_named(one, found)
    elif isinstance(arguments, dict):
        for key, value in arguments.items():
            if key in ("as_name", "as_graph") or (key == "name" and "arg" not in arguments):
                if isinstance(value, str):
                    found.append(value)
            elif isinstance(value, (dict, list)):
                _add_named(value, found)


def _object(value: object, path: str) -> dict[str, Any]:
    return value if isinstance(value, dict) else _refuse(path, "an object", value)


def _list(value: object, path: str) -> list[Any]:
    return value if isinstance(value, list) else _refuse(path, "a list", value)


def _text(value: object, path: str) -> str:
    return value if isinstance(value, str) else _refuse(path, "a text", value)


def _refuse(path: str, expected: str, value: object) -> Any:  # noqa: ANN401 (never returns)
    raise ArchiveError(place=path, expected=expected, found=words(value))
