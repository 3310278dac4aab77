"""Captured entries run without lowering: the graphs in Python, the effects on a state made from the table."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from archive.effects import GuardError, State
from archive.effects.capture.entries import capture_entries
from archive.effects.replay.replay import prepared
from archive.formats.effects.model import Attribute, EffectTable, Local, Stored

if TYPE_CHECKING:
    from archive.effects.replay.classes import Allowed
    from archive.formats.effects.model import Source


class Direct:
    """Runs a module by what was captured of it, as ``Effectful`` runs an archive.

    Args:
        module: the module; its parameters are those of the graph.
        example: arguments of a call.
        allow: classes and functions that effects may name.
    """

    def __init__(self, module: torch.nn.Module, example: tuple[Any, ...], allow: Allowed) -> None:
        entries = capture_entries(module, [example])
        methods = tuple(one.side_effects.table() for one in entries)
        initial = entries[0].side_effects.state
        tensors = [one.clone() for one in initial.tensors]
        for source, value in initial.entries:
            parameter = _of(module, source)
            if isinstance(value, Stored) and isinstance(parameter, torch.nn.Parameter):
                tensors[value.number] = parameter
        self.state = State.fresh(EffectTable(methods, tuple(initial.entries)), tensors)
        self._entries = [
            (one.graph, prepared(method, allow)) for one, method in zip(entries, methods, strict=True)
        ]
        self._signature = inspect.signature(module.forward)

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        """Run the entry that fits.

        Raises:
            GuardError: none does.
        """
        named = self._signature.bind(*args).arguments
        refusal: GuardError | None = None
        for graph, effects in self._entries:
            try:
                return effects.replay(self.state, graph(*effects.inputs(self.state, named)), named)
            except GuardError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal


def _of(module: torch.nn.Module, source: Source) -> object:
    """The value of an attribute of a module or of its parts; None for other sources."""
    if isinstance(source, Attribute):
        return getattr(_of(module, source.base), source.name, None)
    return module if source == Local("self") else None
