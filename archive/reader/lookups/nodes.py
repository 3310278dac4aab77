"""Names of nodes → the model source that they were exported from, in PyTorch's words.

A name is a key (``linear_3``, ``cond.true_graph_0/linear``), with the program first if there are several
(``decoder:linear_3``), or the debug handle of a lowered node (``17``). A lowered partition stands for its
nodes. A name without a path that the program's own graph does not have is sought in inner graphs, which may
have it several times. Names that PyTorch gives when it loads the program, and nodes that it makes then
(``getitem``), have the source of the node that they come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line, shown
from archive.base.quick_dataclass import dataclass
from archive.base.strings import scoped
from archive.debuginfo.profiles.places import NO_MODULES, ModuleLevel, OperationPlace
from archive.debuginfo.source_lines import SourceLine, model_line
from archive.formats.exported.loaded import OPERATORS, held_graphs
from archive.formats.exported.sites import named_values
from archive.formats.record_kinds import label_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from archive.formats.exported.modules import Instance
    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite

    ModelT = TypeVar("ModelT")
    FoundT = TypeVar("FoundT")

DELEGATE = f"{OPERATORS}higher_order.debug_archive_delegate"
"""The operator that runs a lowered partition: see :mod:`archive.backend.programs`."""
EXAMPLES = 3
"""Names that a message lists."""
TOP = "top"
"""The top module's name in a module hierarchy, which has no attribute that holds it."""
EDGE_OPERATORS = "executorch.exir.dialects.edge.ops."
WRAPPERS = ("torch.export.", "torch.fx.")
"""Begin the classes of modules that PyTorch puts around a model while it exports: they aren't part of it."""


@dataclass(frozen=True)
class ProgramNode:
    """A node that a name stands for.

    Attributes:
        program: that it is part of, or one of its forms.
    """

    program: Program
    site: NodeSite

    @property
    def label(self) -> str:
        """The node's key, after its program's name unless PyTorch chose that."""
        return label_in(self.program.name, self.site.key)

    @property
    def is_traced(self) -> bool:
        """Whether its stack trace is recorded."""
        return self.site.trace is not None

    @property
    def op(self) -> str:
        """The operator that it calls: ``aten.linear.default``."""
        return self.site.target.removeprefix(OPERATORS).removeprefix(EDGE_OPERATORS)

    @property
    def modules(self) -> tuple[Instance, ...]:
        """The module instances in which the node was made, outermost first.

        Non-strict export records no modules in inner graphs; there it is those of the node holding the graph.
        """
        holder = self.site
        while not holder.modules and holder.scopes:
            holder = self.program.sites[holder.holder]
        return holder.modules

    @property
    def hierarchy(self) -> str:
        """The module hierarchy as PyTorch writes it, the inner graphs, and the operator."""
        names, outer = list[str](), ""
        for module in self.modules:  # each by its path from the module before, and its class
            path = module.path.removeprefix(f"{outer}.") if outer else module.path
            names.append(f"{path or TOP}({module.class_name.rpartition('.')[2]})")
            outer = module.path
        names += [f"<{scope}>" for scope in self.site.scopes]
        return ".".join([*names, self.op])

    @property
    def text(self) -> str:
        """The source that the node comes from, as PyTorch prints it; ``None`` where none is recorded."""
        return f"Module hierarchy:{self.hierarchy}\nOriginal traceback:\n{self.site.trace}"


def found_nodes(programs: Mapping[str, Program], name: str) -> list[ProgramNode]:
    """The nodes that a name stands for."""
    return found_in(programs, name, _in_program)


def loaded_nodes(programs: Mapping[str, Program]) -> Iterator[ProgramNode]:
    """All nodes of some programs, in every form, as PyTorch runs them and in the order of code."""
    forms = (form for program in programs.values() for form in program.forms)
    return (ProgramNode(form, site) for form in forms for site in form.sites.values())


def _in_program(program: Program, key: str) -> list[ProgramNode]:
    forms = (program, *program.forms)
    if key.isdecimal():
        return [ProgramNode(program, site) for site in program.sites.values() if site.handle == key]
    key = _in_partitions(program).get(key, key)
    if key in program.sites and program.sites[key].target == DELEGATE:  # the nodes that the backend runs
        inside = (site for site in program.sites.values() if site.handle is not None and site.holder == key)
        if nodes := [ProgramNode(program, site) for site in inside]:
            return nodes
    nodes = [ProgramNode(form, form.sites[key]) for form in forms if key in form.sites]
    if not nodes and "/" not in key:
        nodes = [
            ProgramNode(form, site) for form in forms for site in form.sites.values() if site.name == key
        ]
    return list(
        {(node.site.key, node.site.trace, node.site.target): node for node in reversed(nodes)}.values()
    )[::-1]


def sites_by_key(program: Program) -> dict[str, NodeSite]:
    """The nodes of a program and its forms by key; a result of a partition is the node that makes it."""
    sites = {key: site for form in (*program.forms[::-1], program) for key, site in form.sites.items()}
    return sites | {result: sites[key] for result, key in _in_partitions(program).items() if key in sites}


def _in_partitions(program: Program) -> dict[str, str]:
    """The key of the node that makes each result of a lowered partition, by the result's name."""
    found = dict[str, str]()
    for site in program.sites.values():
        if site.target == DELEGATE and site.record is not None:
            results = named_values(site.record.get("outputs"))
            for name, graph in held_graphs(site):
                made = named_values(graph.get("outputs") if isinstance(graph, dict) else None)
                pairs = zip(results, made, strict=False)
                found |= {result: f"{site.key}.{name}/{inner}" for result, inner in pairs}
    return found


def why_unknown(programs: Mapping[str, Program], name: str) -> str:
    """Words for a name that no node has: the existing nodes, similar ones first."""
    keys = list(dict.fromkeys(key for program in programs.values() for key in program.sites))
    return why_none("node", name, keys)


def place_of_node(node: ProgramNode) -> OperationPlace:
    """The place in the model that a node comes from."""
    levels, outer = list[ModuleLevel](), ""
    for module in node.modules:
        if module.class_name.startswith(WRAPPERS):
            continue
        kind = one_line(module.class_name.rpartition(".")[2])
        step = module.path.removeprefix(f"{outer}.") if outer else module.path
        top = ModuleLevel(f"{TOP}({kind})", "")
        levels.append(ModuleLevel(one_line(module.path), kind, one_line(step)) if module.path else top)
        outer = module.path
    frames = node.site.frames.frames if node.site.frames else ()
    lines = [
        SourceLine(one_line(frame.file), frame.line, one_line(frame.code or ""))
        for frame in reversed(frames)
        if not frame.file.startswith("<")  # generated code
    ]
    return OperationPlace(
        tuple(levels) or (ModuleLevel(NO_MODULES, ""),),
        one_line(node.hierarchy),
        model_line(lines),
        lines[0] if lines else None,
        one_line(node.op),
    )


# --- names of nodes, and of kernels


def found_in(
    models: Mapping[str, ModelT], name: str, in_model: Callable[[ModelT, str], Iterable[FoundT]]
) -> list[FoundT]:
    """What a name stands for: in the model named before it, else in all models.

    Args:
        name: with its model's before it (``decoder:linear_3``), or without.
        in_model: finds what has a name in a model.

    Returns:
        One, or several that the name doesn't distinguish; none where nothing has it.
    """
    chosen = [item for model, key in scoped(name, models) for item in in_model(models[model], key)]
    return chosen or [item for model in models.values() for item in in_model(model, name)]


def why_none(kind: str, name: str, names: Sequence[str]) -> str:
    """Words for a name that nothing has: the existing names, similar ones first."""
    from difflib import get_close_matches  # noqa: PLC0415 (only then needed)

    some = get_close_matches(name, names, EXAMPLES) or names[:EXAMPLES]
    more = ", …" if len(names) > len(some) else ""
    return f"no {kind} {shown(name)}; there are {', '.join(map(one_line, some)) or 'none'}{more}"
