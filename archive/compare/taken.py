"""Nodes that take the value of a new node in place of what that one takes: they are told with the new node.

So a layer that is put between two others is one difference. The same for a node that is gone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from archive.compare.changes import several
from archive.compare.nodes import Nodes, are_same, bare, graphs_of, values_of
from archive.formats.exported.sites import named_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.formats.exported.sites import NodeSite, Scope

    Value = tuple[tuple[Scope, ...], str]
    Told = tuple[NodeSite, Mapping[str, Any]]

FAR = 64
"""Nodes that are followed from a value back."""


class Taken:
    """Who takes the values of nodes that one program alone has.

    Args:
        nodes: the nodes of both programs.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._added = _by_value(nodes.added, nodes)
        self._gone = _by_value(nodes.gone, Nodes())
        self._takers = defaultdict[int, list[str]](list)

    def explains(self, old: Told, new: Told) -> bool:
        """Whether two nodes differ in nothing else, which is told from now on.

        Args:
            old: a node of the old program, and its JSON.
            new: the one of the new program, and its JSON in old terms.
        """
        (one, was), (other, now) = old, new
        given = [named_values(each.get("inputs", [])) for each in (was, now)]
        if not are_same(_call(was), _call(now)) or len(given[0]) != len(given[1]) or any(graphs_of(one)):
            return False
        takers: list[tuple[NodeSite, str]] = []
        for before, after in zip(*given, strict=True):
            if before == after:
                continue
            if _leads(self._added, (other.scopes, after), before):
                takers.append((self._added[other.scopes, after][0], f"{other.name} in place of {before}"))
            elif _leads(self._gone, (one.scopes, before), after):
                takers.append((self._gone[one.scopes, before][0], f"{one.name}, which takes {after} now"))
            else:
                return False
        for site, words in takers:
            self._takers[id(site)].append(words)
        return True

    def told(self, site: NodeSite) -> str:
        """Who takes a node's value, in words; "" if nobody does that another node is not told for."""
        takers = self._takers.get(id(site))
        return f"; taken by {several(takers)}" if takers else ""


def _by_value(sites: Iterable[NodeSite], nodes: Nodes) -> dict[Value, tuple[NodeSite, tuple[str, ...]]]:
    """The node that makes each value, and the values that the node takes; in old terms."""
    found = {}
    for site in sites:
        names = nodes.names.get(site.scopes, {})
        taken = tuple(names.get(name, name) for name in site.arguments or ())
        for value in values_of(site):
            found[site.scopes, names.get(value, value)] = site, taken
    return found


def _leads(made: Mapping[Value, tuple[NodeSite, tuple[str, ...]]], start: Value, end: str) -> bool:
    """Whether a value is made of another one by such nodes alone."""
    waiting, seen = [start], {start}
    while waiting and len(seen) <= FAR:
        _, taken = made.get(waiting.pop(), (None, ()))
        if end in taken:
            return True
        further = {(start[0], name) for name in taken} - seen
        seen |= further
        waiting += sorted(further)
    return False


def _call(record: Mapping[str, Any]) -> dict[str, Any]:
    """A node without the names of the values that it takes."""
    return {**record, "inputs": bare(record.get("inputs", []), {})}
