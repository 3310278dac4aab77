"""A module with side effects, made ready for lowering: its captured graph and its table of effects.

The ranges of a captured graph are in generated code; those of the model's source replace them.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.graph.graphs import Operation
from archive.backend.graph.placing import Placing
from archive.backend.members import members_of
from archive.debuginfo.sites import torchscript_name
from archive.effects.capture.graph.sites import line_of
from archive.effects.capture.proxies import list_functions
from archive.effects.capture.proxies.hooks import has_hooks
from archive.effects.errors import CaptureError
from archive.effects.trial.twin import value_at
from archive.formats.effects.model import EffectTable, Stored
from archive.formats.effects.record import build_effects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from archive.backend.graph.graphs import Graph
    from archive.backend.lower.handles import DebugHandles
    from archive.backend.members import ModuleMember
    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.sites import Site
    from archive.effects.capture.entries import Captured
    from archive.effects.capture.table.side_effects import SideEffects
    from archive.formats.effects.model import MethodEffects

# --- source ranges

ASSIGNED = re.compile(rb"\s*(\w+)(?: : [^=]+)? = ")
"""Matches a line that assigns what its node makes."""
IN_PLACE = re.compile(rb";  (\w+)(?: : [^=]+)? = ")
"""Matches in a line that changes a value, as ``x[k] = y`` and ``x += y`` do, and then assigns the value."""


class Relocating:
    """Gives operations of a captured graph the source ranges and call stacks of the model.

    Args:
        sites: the model's site of each node of the captured graph, by the node's name.
    """

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = sites
        self._placing = Placing()

    def effect(self, site: Site) -> Operation:
        """An operation that stands for an effect, so that the effect can have a debug handle."""
        made = Operation(site.op, [], [])
        self._put(made, site)
        return made

    def graph(self, graph: Graph) -> None:
        """Give all operations of a graph their sites in the model.

        A line of generated code that has no site, because it reads a parameter, takes the site of the next
        line that has one, or else of the last one.
        """
        operations = list(graph.operations())
        sites = [
            self._site(operation.stack[0].range if operation.stack else operation.range)
            for operation in operations
        ]
        sites.reverse()
        sites = _filled(sites)  # with the next site
        sites.reverse()
        sites = _filled(sites)  # with the last one
        for operation, site in zip(operations, sites, strict=True):
            if site is not None:
                self._put(operation, site)

    def _site(self, span: SourceRange | None) -> Site | None:
        """The site of the node that a line of generated code assigns; None if it assigns none."""
        if span is None:
            return None
        text = bytes(span.source.text)
        start, end = text.rfind(b"\n", 0, span.start) + 1, text.find(b"\n", span.start)
        line = text[start : end if end >= 0 else None]
        node = ASSIGNED.match(line) or IN_PLACE.search(line)
        return self._sites.get(node[1].decode()) if node else None

    def _put(self, operation: Operation, site: Site) -> None:
        """Give an operation a site.

        An operation that was inlined from a function of PyTorch keeps its own range and the calls inside that
        function; the site becomes the call of the function. Functions that do what Python's builtins do have
        no source.
        """
        own = operation.range
        if operation.stack and own and str(own.source.filename or "") == list_functions.__file__:
            operation.stack = ()
        if not operation.stack:
            self._placing.put(operation, site)
            return
        span = None if site.span is None else self._placing.range_of(site.span)
        first, *others = operation.stack
        operation.stack = (*self._placing.stack_of(site.steps), replace(first, range=span), *others)


def _filled(sites: list[Site | None]) -> list[Site | None]:
    """Sites in which each None is replaced by the last site before it, if there is one."""
    filled: list[Site | None] = []
    last: Site | None = None
    for site in sites:
        last = site or last
        filled.append(last)
    return filled


# --- effects

VARIANTS = "The following variants are available"
"""What TorchScript says before listing all signatures of an operator."""
CONSTANT = "constant_"
"""Start of the names that graphs give to tensors without a place."""
ABOUT_GRAPHS = "The TorchScript type system doesn't support instance-level annotations"
"""PyTorch warns so about the source of ``torch.fx.GraphModule`` itself."""


GRAPH_CODE = 'File "<eval_with_key>'
MARKED_NODE = re.compile(r"^ *(?P<node>\w+)(?: : [^=\n]*)? = .*\n *~+ <--- HERE", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WithEffects:
    """A module whose ``forward`` was captured.

    Attributes:
        scripted: its graphs, which have no side effects: a method for each entry.
        relocating: leads the operations of each method to the model's source.
        arguments: the parameters of ``forward`` as Python writes them, without types: a default is
            ``Ellipsis``, since the table of effects has its value if it can hold it.
    """

    module: torch.nn.Module
    scripted: torch.jit.ScriptModule
    type_name: str
    relocating: dict[str, Relocating]
    side_effects: tuple[SideEffects, ...]
    arguments: str

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of the state, by their numbers; one unused tensor if there are none.

        TorchScript has no type for a list without items, hence the unused one.
        A parameter of the state shares its storage with the graph's parameter, by which the two are
        recognised as the same.
        """
        state = self.side_effects[0].state
        tensors = list(state.tensors)
        for source, value in state.entries:
            if isinstance(value, Stored) and isinstance(
                parameter := value_at(self.module, source), torch.nn.Parameter
            ):
                tensors[value.number] = parameter.detach().requires_grad_(parameter.requires_grad)
        return tensors or [torch.empty(0)]

    @property
    def members(self) -> tuple[list[ModuleMember], list[torch.Tensor]]:
        """The members of the module, and their tensors; one unused tensor if there are none."""
        state = {source for source, _ in self.side_effects[0].state.entries}
        rows, tensors = members_of(self.module, state, self.scripted)
        return rows, tensors or [torch.empty(0)]

    def record(self, recorder: DebugHandles) -> bytes:
        """The archive record of the effects; each effect and each guard is given a debug handle now."""
        state = tuple(self.side_effects[0].state.entries)
        pairs = zip(self.side_effects, self.relocating.values(), strict=True)
        return build_effects(EffectTable(tuple(_with_handles(*pair, recorder) for pair in pairs), state))


def _with_handles(side_effects: SideEffects, relocating: Relocating, recorder: DebugHandles) -> MethodEffects:
    """The effects of an entry; each effect and each guard is given a debug handle now."""
    flat = side_effects.flat()
    handles = [recorder.record(relocating.effect(site)) for site in flat.sites]
    effects = tuple(
        replace(effect, handle=handles[effect.handle]) if effect.handle >= 0 else effect
        for effect in flat.effects.effects
    )
    places = [recorder.record(relocating.effect(site)) for site in flat.guard_sites]
    guards = tuple(
        replace(guard, handle=places[guard.handle]) if guard.handle >= 0 else guard
        for guard in flat.effects.guards
    )
    return replace(flat.effects, effects=effects, guards=guards)


def with_effects(module: torch.nn.Module, captured: Sequence[Captured]) -> WithEffects:
    """The captured graphs and side effects of a module's ``forward``, ready for lowering."""
    side_effects = tuple(method.side_effects for method in captured)
    names = entry_names(table.method for table in side_effects)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ABOUT_GRAPHS)
            scripted = torch.jit.script(_compiled_fast(_joined(names, [method.graph for method in captured])))
    except RuntimeError as error:
        sites = {key: site for method in captured for key, site in _sites(method).items()}
        raise _refused(str(error), sites) from error
    relocating = {name: Relocating(_sites(method)) for name, method in zip(names, captured, strict=True)}
    type_name = torchscript_name(type(module))
    return WithEffects(module, scripted, type_name, relocating, side_effects, _arguments(module))


def _compiled_fast(joined: Any) -> Any:  # noqa: ANN401 (a GraphModule)
    """A graph in which TorchScript passes over the attributes that only ``torch.fx`` needs.

    It would try to compile their classes, which takes longer than the graph. A graph has a class of its own.
    """
    type(joined).__jit_ignored_attributes__ = _attributes_of_fx()
    return joined


@cache
def _attributes_of_fx() -> list[str]:
    """The attributes that only a ``GraphModule`` has."""
    empty = torch.fx.GraphModule({}, torch.fx.Graph())
    return [*(vars(empty).keys() - vars(torch.nn.Module()).keys())]


def _sites(captured: Captured) -> dict[str, Site]:
    """The model's source of each node of a graph, by the node's name."""
    nodes = captured.graph.graph.nodes
    return {node.name: node.meta["site"] for node in nodes if node.meta.get("site")}


def entry_names(methods: Iterable[str]) -> list[str]:
    """The lowered methods of entries, given the method of each; a first entry has the method's own name."""
    names: list[str] = []
    counts: Counter[str] = Counter()
    for method in methods:
        names.append(f"{method}__entry_{counts[method]}" if counts[method] else method)
        counts[method] += 1
    return names


def _joined(names: Sequence[str], graphs: Sequence[Any]) -> Any:  # noqa: ANN401 (a GraphModule)
    """One module with a method for each graph; tensors that several graphs hold are held once.

    The graphs get the joined names, and still run on their own.
    """
    if len(graphs) == 1:
        return graphs[0]
    held: dict[str, Any] = {}
    constants: dict[int, str] = {}
    for graph in graphs:
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                tensor = attrgetter(node.target)(graph)
                if node.target.startswith(CONSTANT):
                    node.target = constants.setdefault(id(tensor), f"{CONSTANT}{len(constants)}")
                held[node.target] = tensor
    for graph in graphs:
        for node in graph.graph.nodes:
            if node.op == "get_attr" and node.target.startswith(CONSTANT):
                setattr(graph, node.target, held[node.target])
        graph.recompile()
    joined = torch.fx.GraphModule(held, graphs[0].graph, type(graphs[0]).__name__)
    for path, tensor in held.items():
        torch.fx.graph_module._assign_attr(tensor, joined, path)
    for name, graph in zip(names[1:], graphs[1:], strict=True):
        setattr(type(joined), name, torch.jit.export(type(graph).forward))
    return joined


def _refused(said: str, sites: Mapping[str, Site]) -> CaptureError:
    """What TorchScript says of a captured graph, at the model's line instead of the graph's own.

    Args:
        said: TorchScript's words, and the line of the graph's code with its mark, ``<--- HERE``.
        sites: the model's source of each node, by its name: the graph's code is one assignment a node.
    """
    reason = " ".join(said.partition(GRAPH_CODE)[0].split()).partition(VARIANTS)[0].removesuffix(":").strip()
    marked = MARKED_NODE.search(said)
    line = line_of(sites[marked["node"]]) if marked and marked["node"] in sites else None
    return CaptureError(f"TorchScript does not take what it computes: {reason}", *(line or ("", 0)))


def _arguments(module: torch.nn.Module) -> str:
    """The parameters of ``forward``; see :class:`WithEffects`.

    Hooks of the module see which arguments are given by name. Captured calls pass all arguments by position,
    so later calls must too.
    """
    parameters = []
    for parameter in inspect.signature(module.forward).parameters.values():
        by_place = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and has_hooks(module)
        kind = parameter.POSITIONAL_ONLY if by_place else parameter.kind
        default = parameter.empty if parameter.default is parameter.empty else ...
        parameters.append(inspect.Parameter(parameter.name, kind, default=default))
    return str(inspect.Signature(parameters))[1:-1]
