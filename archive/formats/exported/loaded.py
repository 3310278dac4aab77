"""The nodes of a program's graphs as PyTorch loads them: more than the file has, some with other names.

A file has the nodes that call something. Loading adds those that fetch a graph (``true_graph_0``) and those
that fetch one of several results (``getitem``, ``NODE_unused_1``; ``as_none`` for a result that is None), and
renames nodes without results (``OPERATOR_unused``). All have the metadata of the node that they come from.

``ExportedProgram.module()`` then copies the graph. Unless the program is in the training dialect, each
``with_effects(token, OPERATOR, …)`` becomes the call itself, named after its operator, and nodes that fetch
unused results are dropped.

Source: ``GraphModuleDeserializer`` in ``torch/_export/serde/serialize.py``, ``_Namespace`` in
``torch/fx/graph.py`` and ``torch/export/_remove_effect_tokens_pass.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.formats.exported.printed import LISTS, POSITIONAL, TAKEN
from archive.formats.exported.sites import NodeSite, Scope, named_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

OVERLOAD = re.compile(r"torch\.ops\.(?!higher_order\.)\w+\.(?=\w+\.\w+$)")
"""What precedes the name of an operator and its overload."""
NUMBERED = re.compile(r"([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d{1,18}))?")
FETCH, FETCHED = "_operator.getitem", "getitem"
"""What fetches one of several results, and the name of a node that fetches a list of them."""
NOTHING, UNUSED = "as_none", "_unused_"
"""What fetches a result that is None, and what is in the name of one that nothing uses."""
OPERATORS = "torch.ops."
"""Begins the targets of nodes that call operators."""
HIGHER_ORDER = f"{OPERATORS}higher_order."
WITH_EFFECTS = f"{HIGHER_ORDER}with_effects"
SUBGRAPH = f"{HIGHER_ORDER}invoke_subgraph"

Path = tuple[Scope, ...]
Record = Mapping[str, Any]


class Names:
    """The names of one graph's nodes, made unique as ``torch.fx`` does it."""

    def __init__(self) -> None:
        self._used = set[str]()
        self._last = dict[str, int]()
        self._free = dict[tuple[str, int], int]()

    def made(self, wanted: str) -> str:
        """A name that no node has: the wanted one, or the same with a number."""
        match = NUMBERED.fullmatch(wanted)
        if match is None:
            wanted = re.sub("[^0-9a-zA-Z_]+", "_", wanted) or "_unnamed"
            wanted = f"_{wanted}" if wanted[0].isdigit() else wanted
            match = NUMBERED.fullmatch(wanted)
        base, number = (match[1], match[2]) if match else (wanted, None)
        if number is None or wanted in self._used:
            last = self._last.get(base, 0)
            if wanted in TAKEN:
                last += 1
                wanted = f"{base}_{last}"
        else:
            last = int(number)
        if wanted in self._used:
            last = self._next(base, last + 1)
            wanted = f"{base}_{last}"
        self._used.add(wanted)
        self._last[base] = last
        return wanted

    def _next(self, base: str, number: int) -> int:
        """The least number from one on that makes a free name; numbers passed before are not tried again."""
        passed = []
        while f"{base}_{number}" in self._used:
            passed.append((base, number))
            number = self._free.get((base, number), number + 1)
        self._free.update(dict.fromkeys(passed, number))
        return number


def name_of(target: str) -> str:
    """The name that a node gets from the operator that it calls: ``_linalg_check_errors.default``."""
    called, is_operator = OVERLOAD.subn("", target)
    called = called if is_operator else called.rpartition(".")[2]
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", called).lower()


class _LoadedNode(NamedTuple):
    """What loading makes of a node in the file.

    Attributes:
        graphs: nodes that fetch the graphs that it takes.
        node: the node itself.
        fetches: nodes that fetch its results.
    """

    graphs: tuple[NodeSite, ...]
    node: NodeSite
    fetches: tuple[NodeSite, ...]


class LoadedGraphs:
    """All graphs of a program as PyTorch loads them.

    Args:
        graphs: the nodes of each graph in the order of the file, by the path to it, outer graphs first. Their
            records are known.
    """

    def __init__(self, graphs: Mapping[Path, Sequence[NodeSite]]) -> None:
        self._groups = dict[Path, list[_LoadedNode]]()
        self._names = dict[Path, Names]()
        paths = dict[Path, Path]()  # of inner graphs: in the file -> after renaming holders
        for file_path, sites in graphs.items():
            path = paths.get(file_path, file_path)
            names = self._names[path] = Names()
            groups = self._groups[path] = []
            for given in sites[0].inputs:
                names.made(given)
            for site in sites:
                held = [(name, names.made(name)) for name, _ in held_graphs(site)]
                node = replace(site, scopes=path, name=_name(site, names))
                heads = (_derived(node, name, graph, (), {}) for graph, name in held)
                groups.append(_LoadedNode(tuple(heads), node, tuple(_fetches(node, names))))
                for graph, _ in held:
                    paths[*site.scopes, Scope(site.name, graph)] = (*path, Scope(node.name, graph))

    def nodes(self) -> Iterator[NodeSite]:
        """All nodes, each graph's in the order in which its code has them."""
        for groups in self._groups.values():
            yield from _nodes(groups)

    def module_nodes(self, *, is_pruned: bool) -> Iterator[NodeSite]:
        """The same nodes in ``ExportedProgram.module()``.

        Args:
            is_pruned: whether the program is in a dialect other than training.
        """
        with_tokens = {
            path
            for path, groups in self._groups.items()
            for group in groups
            if group.node.target == WITH_EFFECTS
        }
        outer = dict[str, str]()
        for path, groups in self._groups.items():
            names, called = self._names[path], dict[str, str]()
            if not path:  # only this graph is copied
                names = Names()
                for given in groups[0].node.inputs:
                    names.made(given)
                called = {node.name: names.made(node.name) for node in _nodes(groups)}
            if is_pruned:
                groups = [_without_token(_used(group), names, called, with_tokens) for group in groups]  # noqa: PLW2901
            called = {name: new for name, new in called.items() if name != new}
            outer = outer or called
            for node in _nodes(groups):
                yield _moved(_renamed(node, called), outer)


def _nodes(groups: Iterable[_LoadedNode]) -> Iterator[NodeSite]:
    return chain.from_iterable((*group.graphs, group.node, *group.fetches) for group in groups)


def _derived(node: NodeSite, name: str, target: str, arguments: tuple[str, ...], record: Record) -> NodeSite:
    """A node that loading makes from another one, with its metadata."""
    return NodeSite(name, target, node.scopes, arguments, node.metadata, node.inputs, record, node.tensors)


def held_graphs(site: NodeSite) -> Iterator[tuple[str, object]]:
    """The names of the graphs that a node takes, each with its JSON."""
    for given in _parts(site, "inputs"):
        graph = given.get("arg", {}).get("as_graph") if isinstance(given.get("arg"), dict) else None
        if isinstance(graph, dict):
            yield str(graph.get("name")), graph.get("graph")


def given_text(site: NodeSite, name: str) -> str:
    """The text that a node takes under a name; "" if it takes none, or its record is not there."""
    given = [part.get("arg") for part in _parts(site, "inputs") if part.get("name") == name]
    text = given[0].get("as_string") if given and isinstance(given[0], dict) else None
    return text if isinstance(text, str) else ""


def _parts(site: NodeSite, key: str) -> list[dict[str, Any]]:
    """The objects in a list of a node's record."""
    parts = (site.record or {}).get(key)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _name(site: NodeSite, names: Names) -> str:
    """The name of a node itself; the name that it is created with is used up in any case."""
    name = names.made(site.name)
    outputs = _parts(site, "outputs")
    if len(outputs) != 1 or _is_in_tuple(site):
        return name
    if NOTHING in outputs[0]:
        wanted = f"{name_of(site.target)}_unused"
        return name if wanted == name else names.made(wanted)
    return next(iter(named_values(outputs[0])), name) if not outputs[0].keys() & LISTS else name


def _is_in_tuple(site: NodeSite) -> bool:
    """Whether the only result of a node is in a tuple."""
    is_tuple = (site.record or {}).get("is_hop_single_tensor_return") is False
    return is_tuple and site.target.startswith(HIGHER_ORDER) and NOTHING not in _parts(site, "outputs")[0]


def _fetches(node: NodeSite, names: Names) -> Iterator[NodeSite]:
    """The nodes that fetch the results of a node."""
    outputs = _parts(node, "outputs")
    if len(outputs) > 1 or (outputs and _is_in_tuple(node)):
        yield from _fetched(node, node.name, outputs, names)
    elif outputs and (kinds := outputs[0].keys() & LISTS):
        yield from _fetched(node, node.name, outputs[0][min(kinds)], names)


def _fetched(node: NodeSite, holder: str, results: object, names: Names) -> Iterator[NodeSite]:
    """The nodes that fetch some results of a value.

    Args:
        holder: the name of the value.
        results: in its order: values by name, lists of such, or None.
    """
    for at, result in enumerate(results if isinstance(results, list) else ()):
        if not isinstance(result, dict):
            continue
        inputs = [
            {"name": "", "arg": {"as_tensor": {"name": holder}}, "kind": POSITIONAL},
            {"name": "", "arg": {"as_int": at}, "kind": POSITIONAL},
        ]
        record = {"inputs": inputs, "outputs": [result]}
        if lists := result.keys() & LISTS:
            name = names.made(FETCHED)
            yield _derived(node, name, FETCH, (holder,), record)
            yield from _fetched(node, name, result[min(lists)], names)
        elif NOTHING in result:
            yield _derived(node, names.made(NOTHING), FETCH, (holder,), record)
        else:
            for name in named_values(result):
                names.made(name)
                yield _derived(node, name, FETCH, (holder,), record)


def _used(group: _LoadedNode) -> _LoadedNode:
    """A group without nodes that fetch unused results: exporting named such results itself."""
    used, holders = list[NodeSite](), set[str]()
    for fetch in reversed(group.fetches):
        (output,) = _parts(fetch, "outputs")
        is_list = bool(output.keys() & LISTS)
        if fetch.name in holders if is_list else not (NOTHING in output or UNUSED in fetch.name):
            used.append(fetch)
            holders.update(fetch.arguments or ())
    return group._replace(fetches=tuple(reversed(used)))


def _without_token(
    group: _LoadedNode, names: Names, called: dict[str, str], with_tokens: set[Path]
) -> _LoadedNode:
    """A group whose node takes and gives no token.

    Args:
        group: the group.
        called: gets the name of the call under the token, by the name of the node that fetched its result.
        with_tokens: the paths of graphs with tokens.
    """
    node = group.node
    inputs, outputs = _parts(node, "inputs"), _parts(node, "outputs")
    at = 0 if node.target == WITH_EFFECTS else 2
    if at and not (
        node.target == SUBGRAPH
        and any((*node.scopes, Scope(node.name, name)) in with_tokens for name, _ in held_graphs(node))
    ):
        return group
    if len(inputs) < (at or 1) + 1 or not outputs:
        return group
    fetches = [_shifted(fetch, node.name) for fetch in group.fetches if _index(fetch, node.name) != 0]
    del inputs[at], outputs[0]
    target = node.target
    if not at:
        operator = inputs.pop(0).get("arg")
        target = str(operator.get("as_operator")) if isinstance(operator, dict) else ""
        called[node.name] = names.made(name_of(target))
        if outputs == [{NOTHING: True}]:
            outputs = []
        elif len(outputs) == 1:  # the call is its own result
            for fetch in fetches:
                if _index(fetch, node.name) == 0:
                    called[fetch.name] = called[node.name]
            fetches = [fetch for fetch in fetches if _index(fetch, node.name) is None]
    record = {**(node.record or {}), "inputs": inputs, "outputs": outputs}
    bare = replace(node, target=target, arguments=named_values(inputs), record=record)
    return group._replace(node=bare, fetches=tuple(fetches))


def _index(fetch: NodeSite, holder: str) -> int | None:
    """Which result of a value a node fetches; None if it belongs to another value."""
    value, index = _parts(fetch, "inputs")
    return int(index["arg"]["as_int"]) if value["arg"]["as_tensor"]["name"] == holder else None


def _shifted(fetch: NodeSite, holder: str) -> NodeSite:
    """A node that fetches the previous result, if it fetches one of this value."""
    if (at := _index(fetch, holder)) is None:
        return fetch
    value, index = _parts(fetch, "inputs")
    inputs = [value, {**index, "arg": {"as_int": at - 1}}]
    return replace(fetch, record={**(fetch.record or {}), "inputs": inputs})


def _renamed(node: NodeSite, called: Mapping[str, str]) -> NodeSite:
    """A node with renamed values, its own included."""
    if node.name not in called and called.keys().isdisjoint(node.arguments or ()):
        return node
    arguments = tuple(called.get(name, name) for name in node.arguments or ())
    record = {key: _with_names(value, called) for key, value in (node.record or {}).items()}
    return replace(node, name=called.get(node.name, node.name), arguments=arguments, record=record)


def _moved(node: NodeSite, called: Mapping[str, str]) -> NodeSite:
    """A node of an inner graph whose outermost holder may have another name."""
    if not node.scopes or node.scopes[0].holder not in called:
        return node
    first, *others = node.scopes
    return replace(node, scopes=(Scope(called[first.holder], first.name), *others))


def _with_names(value: object, called: Mapping[str, str]) -> Any:  # noqa: ANN401 (JSON)
    """Arguments with renamed values."""
    if isinstance(value, list):
        return [_with_names(inner, called) for inner in value]
    if not isinstance(value, dict):
        return value
    is_named = "arg" not in value
    return {
        key: inner
        if key == "as_graph"
        else called.get(inner, inner)
        if isinstance(inner, str) and (key == "as_name" or (key == "name" and is_named))
        else _with_names(inner, called)
        for key, inner in value.items()
    }
