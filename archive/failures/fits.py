"""Whether a statement of generated code is that of a node, with what proves it.

PyTorch gives the nodes of a graph new names where it traces the graph anew: a loop whose gradient is asked
for, what ``torch.compile`` compiles. A name may then be another node's of the file. So a statement counts as
a node's only if

* it has the node's name, operator and arguments, and names an input of the graph, whose name no tracing makes
  up, or stands in the line that the node has in code of this graph; or
* its arguments are inputs of a graph traced anew, told by their numbers, and no other node takes them so.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

from archive.formats.exported.printed import (
    FIRST_LINE,
    LIFTED,
    TAKEN,
    Style,
    behind,
    own_name,
    pieces,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.failures.lookups.nodes import Node
    from archive.formats.exported.sites import NodeSite

NAME = re.compile(r"[A-Za-z_]\w*")
HIGHER_ORDER = "torch.ops.higher_order."
TRACED_ANEW = re.compile(r"\b(?:(?:arg|primals_|tangents_)\d{1,9}(?:_\d+)?|l_\w+_)\b")
"""An input of a graph that PyTorch traced anew."""
MADE_UP = re.compile(r"(?:arg|primals_|tangents_)\d+(_\d+)?|l_\w+_|[a-z]{1,2}\d*(_\d+)?")
"""A name that tracing may make up."""
DELETED = re.compile(r"(?:;  [\w =]+)?")
"""The values that a statement is the last one to use."""
GUARDS = (0, 1)
"""Lines of a module's code for its guards."""
VALUE = re.compile(r"(?<![\w.'])(?!(?:True|False|None|inf|nan)\b)[A-Za-z_]\w*(?![\w.('])(?! = )")
"""A value among the arguments of a statement."""
NUMBER = re.compile(r"_\d+$")
NEVER = r"(?!)"


class Fit(IntEnum):
    """Whether a statement is a node's."""

    NO = 0
    MAYBE = 1
    YES = 2


def may_have(arguments: str, site: NodeSite) -> bool:
    """Whether printed arguments have all the names of a node's."""
    there = set(NAME.findall(arguments))
    return all(name in there or LIFTED.sub("", name, count=1) in there for name in site.arguments or ())


def is_message(arguments: str, site: NodeSite) -> bool:
    """Whether arguments in a message of the interpreter are a node's."""
    parts = pieces((site.record or {}).get("inputs", ()), Style.MESSAGE)
    if parts is None:
        return may_have(arguments, site)
    return behind(arguments, parts, lambda name: f"%{own_name(name, site.inputs)}") == ""


def fit(code: str, line: int, node: Node, *, is_traced: bool) -> Fit:
    """Whether a statement that has a node's name, and calls its operator, is the node's.

    The statements of graphs around the node's must be known: inputs keep their order in graphs of a graph
    that is, in others they do not.

    Args:
        code: of the statement, from the operator on.
        line: of the generated code in which it stands, from 1.
        node: the node.
        is_traced: whether the code is known to be of a graph that was traced anew.
    """
    site = node.site
    is_anew = is_traced or TRACED_ANEW.search(code) is not None
    if site.record is None:
        return Fit.MAYBE if is_anew else Fit.YES
    if not is_traced and _is_call(code, site):
        return Fit.YES if _names_input(site) or is_line(line, node) else Fit.MAYBE
    if site.scopes and _is_only_call(code, node):
        return Fit.YES
    return Fit.MAYBE if is_anew or (site.scopes and _may_be_traced(code, node)) else Fit.NO


def _is_call(code: str, site: NodeSite, name: Callable[[str], str] | None = None) -> bool:
    """Whether a statement has a node's operator and arguments.

    Args:
        code: of the statement.
        site: the node.
        name: gives the expression of a value's name; by default that of the value's own one.
    """
    parts = pieces((site.record or {}).get("inputs", ()), Style.CODE)
    if parts is None:
        return name is None and may_have(code, site)
    named = name or (lambda one: own_name(one, site.inputs))
    rest = behind(code, [f"{site.target}(", *parts, ")"], named)
    return rest is not None and DELETED.fullmatch(rest) is not None


def _names_input(site: NodeSite) -> bool:
    """Whether an argument is an input of the graph, with a name that no tracing makes up."""
    return any(one in site.inputs and not MADE_UP.fullmatch(one) for one in site.arguments or ())


def is_line(line: int, node: Node) -> bool:
    """Whether a node of a form of its program has this line in the code of its graph."""
    site, program = node.site, node.program
    if site.record is None:
        return False
    before = line - FIRST_LINE - program.lines[site.key]
    if site.scopes:
        return before == 0
    # An input that is renamed has a line of its own. In a module, inputs are unpacked in one line, and
    # parameters, buffers and constants are fetched in one each.
    before -= sum(one in TAKEN for one in site.inputs)
    if program.is_loaded:
        return before == 0
    return program.lifted is not None and before - 1 - program.lifted in GUARDS


def _is_only_call(code: str, node: Node) -> bool:
    """Whether a statement of an inner graph that was traced anew can be of this node alone."""
    others = [one for one in _graph_of(node) if one.target == node.site.target]
    if node.site.target.startswith(HIGHER_ORDER):
        return len(others) == 1
    # Graphs are known that count their inputs from 0, and others that count from 1.
    taken = {one.name for one in others for first in (0, 1) if _is_call(code, one, _numbered(one, first))}
    return taken == {node.site.name} and _is_call(code, node.site, _numbered(node.site, 0))


def _may_be_traced(code: str, node: Node) -> bool:
    """Whether all values of a statement may be of a node's graph, if it was traced anew."""
    known = {*node.site.inputs, *map(_base, node.site.inputs)}
    known.update(_base(one.name) for one in _graph_of(node))
    return all(name in known or _base(name) in known for name in VALUE.findall(code.partition(";")[0]))


def _base(name: str) -> str:
    """A name without the number that tells it from others."""
    return NUMBER.sub("", name)


def _graph_of(node: Node) -> Sequence[NodeSite]:
    """The nodes of a node's graph."""
    return node.program.graphs[node.site.scopes]


def _numbered(site: NodeSite, first: int) -> Callable[[str], str]:
    """What an input of a graph traced anew is called, by its name in the program."""
    numbers = {name: at for at, name in enumerate(site.inputs, first)}

    def called(name: str) -> str:
        return rf"(?:arg|primals_){numbers[name]}(?:_\d+)?" if name in numbers else NEVER

    return called
