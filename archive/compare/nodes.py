"""The nodes of two programs, paired by what they call, what they take and where they stand.

PyTorch numbers nodes of one operator, ``add``, ``add_1``, so a node that is new gives all later ones of its
operator other names. Here nodes are aligned by operator and arguments without the names of values, then by
operator and weights, then by operator. Each value of the new graph then has the name of the old one's, or a
mark if that has none. Names of two values never become one, so nodes that are equal in old terms are equal,
however they were aligned.
"""

from __future__ import annotations

import json
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING, Any

from archive.base.quick_dataclass import dataclass
from archive.compare.alignment import paired
from archive.compare.unkept import OFFSET
from archive.formats.exported.sites import Scope, named_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite

    Path = tuple[Scope, ...]

NEW = " (new)"
"""What follows the name of a value that the old graph doesn't have."""
LEFT_OUT = ("metadata", "nodes", OFFSET)
"""Keys that are compared on their own: where a node comes from, the nodes of graphs inside, and offsets."""
VALUES = ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values")
"""Tables of a graph, by names of values."""


@dataclass(frozen=True, slots=True)
class PairedNodes:
    """The nodes of two programs, paired.

    Attributes:
        pairs: the nodes that both have, in the old program's order.
        gone: those that only the old program has; without those in a graph that such a node holds.
        added: those that only the new program has, in the same way.
        names: for each graph of the new program, by its path, the old names of its values.
        taken: the old names, likewise. Only those that values of the new graph have.
    """

    pairs: list[tuple[NodeSite, NodeSite]] = field(default_factory=list)
    gone: list[NodeSite] = field(default_factory=list)
    added: list[NodeSite] = field(default_factory=list)
    names: dict[Path, Mapping[str, str]] = field(default_factory=dict)
    taken: dict[Path, AbstractSet[str]] = field(default_factory=dict)

    def in_old_terms(self, value: Any, path: Path = (), holder: str = "") -> Any:  # noqa: ANN401 (JSON)
        """JSON of the new program with the old names of values, without what is compared on its own.

        ``path`` is that of its graph, ``holder`` the node that it belongs to.
        """
        if isinstance(value, list):
            return [self.in_old_terms(part, path, holder) for part in value]
        if not isinstance(value, dict):
            return value
        renamed: dict[str, Any] = {}
        for key, part in value.items():
            if key == "as_graph" and isinstance(part, dict):
                inside = (*path, Scope(holder, str(part.get("name"))))
                renamed[key] = {**part, "graph": self.in_old_terms(part.get("graph"), inside)}
            elif isinstance(part, str) and _is_name(key, value):
                renamed[key] = self.old_name(part, path)
            elif key in VALUES and isinstance(part, dict):
                renamed[key] = {
                    self.old_name(name, path): self.in_old_terms(kind, path) for name, kind in part.items()
                }
            elif key not in LEFT_OUT:
                renamed[key] = self.in_old_terms(part, path, holder)
        return renamed

    def old_name(self, name: str, path: Path = ()) -> str:
        """The old name of a value of the new program, in the graph at a path."""
        known = self.names.get(path, {})
        return known.get(name) or (name + NEW if name in self.taken.get(path, ()) else name)


def pair_nodes(
    old: Program, new: Program, inputs: Mapping[str, str], weights: AbstractSet[str]
) -> PairedNodes:
    """Pair the nodes of two programs whose JSON is known.

    Args:
        inputs: the old names of inputs of the new program.
        weights: the old names of inputs that are tensors of the file.
    """
    nodes = PairedNodes()
    waiting: list[tuple[Path, Path]] = [((), ())]
    while waiting:
        was, now = waiting.pop()
        left, right = old.graphs.get(was, ()), new.graphs.get(now, ())
        given = inputs if not now else dict(zip(_inputs(right), _inputs(left), strict=False))
        own = {name: name for name in _inputs(left)}
        keys = [_keys(site, own, weights) for site in left], [_keys(site, given, weights) for site in right]
        pairs = [(left[old_at], right[new_at]) for old_at, new_at in sorted(paired(*keys))]
        nodes.names[now] = _names(left, right, pairs, given)
        nodes.taken[now] = {*nodes.names[now].values()}
        nodes.pairs.extend(pairs)
        both = {id(site) for site in chain.from_iterable(pairs)}
        nodes.gone.extend(site for site in left if id(site) not in both)
        nodes.added.extend(site for site in right if id(site) not in both)
        for old_site, new_site in pairs:
            graphs = zip(graphs_of(old_site), graphs_of(new_site), strict=False)
            waiting += [((*was, inner), (*now, of_other)) for inner, of_other in graphs]
    return nodes


def _keys(site: NodeSite, inputs: Mapping[str, str], weights: AbstractSet[str]) -> tuple[str, ...]:
    """A node's call without the names of values but those of inputs; its operator with weights; without."""
    given = (site.record or {}).get("inputs", ())
    argument_names = [inputs.get(name, "") for name in site.arguments or ()]
    fine = json.dumps([site.target, bare(given, inputs)])
    return fine, " ".join([site.target, *(name for name in argument_names if name in weights)]), site.target


def are_same(was: object, now: object) -> bool:
    """Whether two values of JSON are the same; 1 is not true, and 0.0 not -0.0."""
    return was == now and json.dumps(was, sort_keys=True) == json.dumps(now, sort_keys=True)


def bare(value: Any, inputs: Mapping[str, str]) -> Any:  # noqa: ANN401 (JSON)
    """JSON without the names of values, except for some, and without graphs that it holds."""
    if isinstance(value, list):
        return [bare(part, inputs) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: inputs.get(part) if isinstance(part, str) and _is_name(key, value) else bare(part, inputs)
        for key, part in value.items()
        if key != "as_graph"
    }


def _is_name(key: str, holder: Mapping[str, Any]) -> bool:
    """Whether a key's text is the name of a value or node; that of an argument is not."""
    return key == "as_name" or (key == "name" and "arg" not in holder)


def _names(
    left: Sequence[NodeSite],
    right: Sequence[NodeSite],
    pairs: Sequence[tuple[NodeSite, NodeSite]],
    given: Mapping[str, str],
) -> dict[str, str]:
    """The old names of the values of a new graph: no two the same."""
    known = {*_inputs(left), *chain.from_iterable(map(values_of, left))}
    made = (zip(values_of(new), values_of(old), strict=False) for old, new in pairs)
    names: dict[str, str] = {}
    used = set[str]()
    for name, old in chain(given.items(), *made):
        if name not in names and old in known and old not in used:
            names[name] = old
            used.add(old)
    for name in chain(_inputs(right), *map(values_of, right)):
        names.setdefault(name, name + NEW)
    return names


def values_of(site: NodeSite) -> list[str]:
    """The name of a node, and those of the values that it makes."""
    return list(dict.fromkeys((site.name, *named_values((site.record or {}).get("outputs", [])))))


def _inputs(sites: Sequence[NodeSite]) -> tuple[str, ...]:
    return sites[0].inputs if sites else ()


def graphs_of(site: NodeSite) -> Iterator[Scope]:
    """The graphs that a node holds."""
    for given in (site.record or {}).get("inputs", ()):
        held = given.get("arg") if isinstance(given, dict) else None
        if isinstance(held, dict) and isinstance(held.get("as_graph"), dict):
            yield Scope(site.name, str(held["as_graph"].get("name")))
