"""A module with side effects, made ready for lowering: its captured graph and its table of effects."""

from __future__ import annotations

import inspect
import re
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.lower.relocating import Relocating
from archive.effects.capture.capture import capture
from archive.effects.errors import CaptureError
from archive.formats.effects.model import Attribute, EffectTable, Local, Stored
from archive.formats.effects.record import build_effects

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from archive.backend.lower.handles import DebugHandles
    from archive.debuginfo.sites import Site
    from archive.effects.capture.side_effects import SideEffects
    from archive.formats.effects.model import Source

ABOUT_GRAPHS = "The TorchScript type system doesn't support instance-level annotations"
"""PyTorch warns so about the source of ``torch.fx.GraphModule`` itself."""


GRAPH_CODE = 'File "<eval_with_key>'
MARKED_NODE = re.compile(r"^ *(?P<node>\w+)(?: : [^=\n]*)? = .*\n *~+ <--- HERE", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WithEffects:
    """A module whose ``forward`` was captured.

    Attributes:
        module: the module.
        scripted: its graph, which has no side effects.
        type_name: the module's own class, as TorchScript writes it.
        relocating: leads the graph's operations to the model's source.
        side_effects: the changes that the module makes.
        arguments: the parameters of ``forward``: first those that were given, then those that took their
            defaults. ``*name`` takes all further positional arguments; after ``*`` alone, arguments are given
            by name.
    """

    module: torch.nn.Module
    scripted: torch.jit.ScriptModule
    type_name: str
    relocating: Relocating
    side_effects: SideEffects
    arguments: list[str]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of the state, by their numbers; one unused tensor if there are none.

        TorchScript has no type for a list without items, hence the unused one.
        A parameter of the state shares its storage with the graph's parameter, by which the two are
        recognised as the same.
        """
        state = self.side_effects.state
        tensors = [tensor.detach() for tensor in state.tensors]
        for source, value in state.entries:
            if isinstance(value, Stored) and isinstance(
                parameter := _of(self.module, source), torch.nn.Parameter
            ):
                tensors[value.number] = parameter.detach()
        return tensors or [torch.empty(0)]

    def record(self, recorder: DebugHandles) -> bytes:
        """The archive record of the effects; each effect and each guard is given a debug handle now."""
        flat = self.side_effects.flat()
        handles = [recorder.record(self.relocating.effect(site)) for site in flat.sites]
        effects = tuple(
            replace(effect, handle=handles[effect.handle]) if effect.handle >= 0 else effect
            for effect in flat.effects.effects
        )
        places = [recorder.record(self.relocating.effect(site)) for site in flat.guard_sites]
        guards = tuple(
            replace(guard, handle=places[guard.handle]) if guard.handle >= 0 else guard
            for guard in flat.effects.guards
        )
        method = replace(flat.effects, effects=effects, guards=guards)
        return build_effects(EffectTable((method,), tuple(self.side_effects.state.entries)))


def with_effects(module: torch.nn.Module, example_inputs: Sequence[Any]) -> WithEffects:
    """Capture the graph and the side effects of a module's ``forward``.

    Args:
        module: an eager module.
        example_inputs: arguments of ``forward``.

    Raises:
        CaptureError: ``forward`` cannot be captured, or TorchScript does not take its graph.
    """
    graph, side_effects = capture(module, *example_inputs)
    sites = {node.name: node.meta["site"] for node in graph.graph.nodes if node.meta.get("site")}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ABOUT_GRAPHS)
            scripted = torch.jit.script(graph)
    except RuntimeError as error:
        raise _refused(str(error), sites) from error
    kind = type(module)
    name = f"__torch__.{kind.__module__}.{kind.__qualname__}".replace("<locals>.", "")
    names = _arguments(module, example_inputs, side_effects.defaults)
    return WithEffects(module, scripted, name, Relocating(sites), side_effects, names)


def _refused(said: str, sites: Mapping[str, Site]) -> CaptureError:
    """What TorchScript says of a captured graph, at the model's line in the place of the graph's own.

    Args:
        said: TorchScript's words, and the line of the graph's code with its mark, ``<--- HERE``.
        sites: the model's source of each node, by its name: the graph's code is one assignment a node.
    """
    reason = " ".join(said.partition(GRAPH_CODE)[0].split()).removesuffix(":").strip()
    marked = MARKED_NODE.search(said)
    span = sites[marked["node"]].span if marked and marked["node"] in sites else None
    message = f"TorchScript does not take what it computes: {reason}"
    if span is None:
        return CaptureError(message)
    return CaptureError(message, span.filename.decode("utf-8", "surrogateescape"), span.first_line)


def _of(module: torch.nn.Module, source: Source) -> object:
    """The value of an attribute of a module or of its parts; None for other sources."""
    if isinstance(source, Attribute):
        return getattr(_of(module, source.base), source.name, None)
    return module if source == Local("self") else None


def _arguments(
    module: torch.nn.Module, example_inputs: Sequence[Any], defaults: Collection[str]
) -> list[str]:
    """The parameters of ``forward``; see :class:`WithEffects`."""
    names: list[str] = []
    starred = False
    for one in inspect.signature(module.forward).parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            starred = True
            names.append(f"*{one.name}")
        elif len(names) < len(example_inputs) and not starred:
            names.append(one.name)
        elif one.name in defaults:
            if one.kind is one.KEYWORD_ONLY and not starred:
                starred = True
                names.append("*")
            names.append(one.name)
    return names
