"""Names of nodes → the model source that they were exported from, in PyTorch's words.

A name is a key (``linear_3``, ``cond.true_graph_0/linear``), of several programs with the program before it
(``decoder:linear_3``). A name without a path that the program's own graph does not have is sought in the
graphs inside of it; there it may be found several times. Names that PyTorch gives when it loads the program,
and nodes that it makes then (``getitem``), have the source of the node that they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.failures.lookups.named import found_in, why_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.exported.modules import Instance
    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite

ONLY = "model"
"""The name that ``torch.export.save`` gives the only program."""
TOP = "top"
"""The top module's name in a module hierarchy, which has no attribute that holds it."""
OPERATORS = "torch.ops."
EDGE_OPERATORS = "executorch.exir.dialects.edge.ops."


@dataclass(frozen=True)
class Node:
    """A node that a name stands for.

    Attributes:
        program: that it is part of, or one of its forms.
        site: the node.
    """

    program: Program
    site: NodeSite

    @property
    def label(self) -> str:
        """The node's key, behind its program's name unless PyTorch chose that."""
        return self.site.key if self.program.name == ONLY else f"{self.program.name}:{self.site.key}"

    @property
    def is_traced(self) -> bool:
        """Whether its stack trace is recorded."""
        return self.site.trace is not None

    @property
    def op(self) -> str:
        """The operator that it calls: ``aten.linear.default``."""
        return self.site.target.removeprefix(OPERATORS).removeprefix(EDGE_OPERATORS)

    @property
    def hierarchy(self) -> str:
        """The module hierarchy as PyTorch writes it, the graphs inside of it, and the operator.

        Non-strict export records no modules in inner graphs; then those of the node that holds the graph.
        """
        site = self.site
        names = list(_names(self._modules()))
        names += [f"<{scope}>" for scope in site.scopes]
        return ".".join([*names, self.op])

    def _modules(self) -> tuple[Instance, ...]:
        site = self.site
        while not site.modules and site.scopes:
            site = self.program.sites[site.holder]
        return site.modules

    @property
    def text(self) -> str:
        """The source that the node comes from, as PyTorch prints it; ``None`` where none is recorded."""
        return f"Module hierarchy:{self.hierarchy}\nOriginal traceback:\n{self.site.trace}"


def found_nodes(programs: Mapping[str, Program], name: str) -> list[Node]:
    """The nodes that a name stands for.

    Args:
        programs: of the archive.
        name: of the node.

    Returns:
        One, or several that cannot be told apart by the name; none where nothing has it.

    Raises:
        ArchiveError: a program that is needed is broken.
    """
    return found_in(programs, name, _in_program)


def loaded_nodes(programs: Mapping[str, Program]) -> Iterator[Node]:
    """All nodes of some programs as PyTorch runs them, in the order of code; those of each form."""
    forms = (form for program in programs.values() for form in program.forms)
    return (Node(form, site) for form in forms for site in form.sites.values())


def _in_program(program: Program, key: str) -> list[Node]:
    forms = (program, *program.forms)
    found = [Node(form, form.sites[key]) for form in forms if key in form.sites]
    if not found and "/" not in key:
        found = [Node(form, site) for form in forms for site in form.sites.values() if site.name == key]
    return list({(one.site.key, one.site.trace, one.site.target): one for one in reversed(found)}.values())[
        ::-1
    ]


def why_unknown(programs: Mapping[str, Program], name: str) -> str:
    """Words for a name that no node has: the nodes that there are, those alike first."""
    keys = list(dict.fromkeys(key for program in programs.values() for key in program.sites))
    return why_none("node", name, keys)


def _names(modules: tuple[Instance, ...]) -> Iterator[str]:
    """The part of a hierarchy that each module is: the attributes below the module before, and the class."""
    outer = ""
    for one in modules:
        path = one.path.removeprefix(f"{outer}.") if outer else one.path
        yield f"{path or TOP}({one.class_name.rpartition('.')[2]})"
        outer = one.path
