"""Modules with effects, lowered and run: what they change is changed in a state that they bring along.

>>> from archive.effects import Effectful  # doctest: +SKIP
>>> model = Effectful.load("model.pt")  # doctest: +SKIP
>>> model(x)  # doctest: +SKIP
>>> model.state.module.count  # doctest: +SKIP
1
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from archive.backend.delegate import Delegate
from archive.backend.errors import LoweringError
from archive.backend.lowering import STATE
from archive.effects.replay import State, prepared
from archive.formats.effects.model import Local

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from archive.effects.replay import Allowed
    from archive.mapping import Source

SELF = "self"


class Effectful:
    """A lowered module, and the state that it changes.

    Made by :meth:`of` and :meth:`load`; called like the eager module.

    Args:
        delegate: the lowered module.
        state: what is changed; by default what the module had when it was captured, without any class of the
            model: ``state.module`` is a plain object with the model's attributes.
        allow: classes and functions that effects may name: see :func:`archive.effects.replay.prepared`.
        stock: let TorchScript run the graph, not the backend's own runtime.

    Attributes:
        state: it.
        delegate: the lowered module.

    Raises:
        LoweringError: the module was not lowered with effects.
        ReplayError: effects name what is not allowed.
        StateError: the state cannot be made.
    """

    def __init__(
        self, delegate: Delegate, state: State | None = None, *, allow: Allowed = (), stock: bool = False
    ) -> None:
        table = delegate.archive.effects
        if table is None:
            raise LoweringError("the module was not lowered with effects: lower(..., effects=True)")
        tensors = [tensor.clone() for tensor in getattr(delegate.module, STATE)]
        (effects,) = table.methods
        self.delegate = delegate
        self.state = State.fresh(table, tensors) if state is None else state
        self._run: Callable[..., Any] = delegate.module if stock else delegate
        self._effects = prepared(effects, allow, delegate.archive.symbolicate)
        own = [one.name for one in effects.inputs if isinstance(one, Local) and one.name != SELF]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._signature = inspect.Signature([inspect.Parameter(name, kind) for name in own])

    @classmethod
    def of(
        cls,
        module: torch.jit.ScriptModule,
        state: State | None = None,
        *,
        allow: Allowed = (),
        stock: bool = False,
    ) -> Effectful:
        """A module that was lowered in this process; see :class:`Effectful`."""
        return cls(Delegate.of(module), state, allow=allow, stock=stock)

    @classmethod
    def load(
        cls,
        source: Source,
        state: State | None = None,
        *,
        companion: Source | None = None,
        allow: Allowed = (),
        stock: bool = False,
    ) -> Effectful:
        """A module in an archive; see :class:`Effectful`, and :meth:`Delegate.load` for what it raises."""
        return cls(Delegate.load(source, companion=companion), state, allow=allow, stock=stock)

    def __call__(self, *inputs: object, **named: object) -> Any:  # noqa: ANN401
        """Run ``forward``, and change the state as the eager module would have changed its own.

        Raises:
            BackendError: an operation failed; the state is as before.
            ReplayError: an effect failed; the state is as before.
            TypeError: these are not the method's arguments.
        """
        arguments = self._signature.bind(*inputs, **named).arguments
        given = self._effects.inputs(self.state, arguments)
        made = self._run(*given)
        return self._effects.replay(self.state, made, arguments)
