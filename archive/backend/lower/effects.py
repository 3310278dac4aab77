"""A module with effects as a backend takes it: its captured graph, at the model's source, and its table."""

from __future__ import annotations

import inspect
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
    from collections.abc import Collection, Sequence

    from archive.backend.lower.handles import DebugHandles
    from archive.effects.capture.side_effects import SideEffects
    from archive.formats.effects.model import Source

ABOUT_GRAPHS = "The TorchScript type system doesn't support instance-level annotations"
"""What PyTorch says of the source of ``torch.fx.GraphModule`` itself."""


@dataclass(frozen=True, slots=True)
class WithEffects:
    """A captured module.

    Attributes:
        module: it.
        scripted: its graph, which changes nothing.
        type_name: the module's own class, as TorchScript writes it.
        relocating: leads the graph's operations to the model's source.
        side_effects: what the module changes.
        arguments: names of the arguments that were given, then of those that were left out; one behind a
            star takes all that follow, a star alone separates those that are given by name.
    """

    module: torch.nn.Module
    scripted: torch.jit.ScriptModule
    type_name: str
    relocating: Relocating
    side_effects: SideEffects
    arguments: list[str]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of the state, by their numbers; one of no use where there are none, for its type.

        Parameters share their elements with the graph's, which tells that they are the same.
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
        """The archive record of the effects, each of which is given a debug handle now."""
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
    """Capture what a module's ``forward`` computes and changes.

    Raises:
        CaptureError: that cannot be captured, or TorchScript does not take what it computes.
    """
    graph, side_effects = capture(module, *example_inputs)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ABOUT_GRAPHS)
            scripted = torch.jit.script(graph)
    except RuntimeError as error:
        raise CaptureError(f"TorchScript does not take what it computes: {error}") from error
    sites = {node.name: node.meta["site"] for node in graph.graph.nodes if node.meta.get("site")}
    kind = type(module)
    name = f"__torch__.{kind.__module__}.{kind.__qualname__}".replace("<locals>.", "")
    names = _arguments(module, example_inputs, side_effects.defaults)
    return WithEffects(module, scripted, name, Relocating(sites), side_effects, names)


def _of(module: torch.nn.Module, source: Source) -> object:
    """What is at an attribute of a module or its parts; None at other places."""
    if isinstance(source, Attribute):
        return getattr(_of(module, source.base), source.name, None)
    return module if source == Local("self") else None


def _arguments(
    module: torch.nn.Module, example_inputs: Sequence[Any], defaults: Collection[str]
) -> list[str]:
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
