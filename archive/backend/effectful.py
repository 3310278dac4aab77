"""Runs lowered modules with side effects, on a state that the archive brings along.

::

    model = Effectful.load("model.pt")
    model(x)
    model.state.module.count  # 1

Guards in the archive say what the captured call relied on. A call that breaks one is refused with the
model's line, and leaves the state unchanged.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.delegate import Delegate
from archive.backend.lower.lowering import EFFECTS_ARGUMENTS, EFFECTS_STATE
from archive.effects.errors import LoweringError
from archive.effects.replay.errors import GuardError
from archive.effects.replay.replay import prepared
from archive.effects.replay.state import State
from archive.formats.effects.model import Constant, Item, Op, Output, Temporary

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.mapped import Source as File
    from archive.effects.replay.replay import Allowed
    from archive.formats.effects.model import MethodEffects, Source


class Effectful:
    """A lowered module, and the state that it changes.

    :meth:`of` and :meth:`load` make one; it is called like the eager module.

    Args:
        delegate: the lowered module.
        state: the state to change; by default a new one as it was at the capture. ``state.module`` is then a
            plain object with the attributes of the model, without the model's classes. It shares the
            parameters that the graph uses; everything else is a copy.
        allow: classes and functions that effects may name: see
            :func:`archive.effects.replay.replay.prepared`.
        stock: let TorchScript run the graph, not the backend's own runtime.

    Attributes:
        state: the state.
        delegate: the lowered module.

    Raises:
        LoweringError: the module was not lowered with effects, or has effects that TorchScript cannot run.
        ReplayError: effects name a class or function that is not allowed.
        StateError: the state cannot be made.
    """

    def __init__(
        self, delegate: Delegate, state: State | None = None, *, allow: Allowed = (), stock: bool = False
    ) -> None:
        table = delegate.archive.effects
        if table is None:
            raise LoweringError("the module was not lowered with effects: lower(..., effects=True)")
        parameters = {_place(one): one for one in delegate.tensors if one.requires_grad}
        tensors = [
            parameters.get(_place(one), one.clone()) for one in getattr(delegate.module, EFFECTS_STATE)
        ]
        (effects,) = table.methods
        if stock and any(one.op is Op.REGISTER_HOOK and _is_made(one.source) for one in effects.effects):
            raise LoweringError("TorchScript gives no gradient to hooks of what the graph makes: stock=False")
        self.delegate = delegate
        self.state = State.fresh(table, tensors) if state is None else state
        self._run: Callable[..., Any] = delegate.module if stock else delegate
        self._effects = prepared(effects, allow, delegate.archive.symbolicate)
        self._signature = _signature(getattr(delegate.module, EFFECTS_ARGUMENTS), effects)
        self._has_defaults = bool(effects.defaults) or "*" in getattr(delegate.module, EFFECTS_ARGUMENTS)
        self._guards_results = any(isinstance(guard.subject, Output) for guard in effects.guards)

    @classmethod
    def of(
        cls,
        module: torch.jit.ScriptModule,
        state: State | None = None,
        *,
        allow: Allowed = (),
        stock: bool = False,
    ) -> Effectful:
        """Run a module that was lowered in this process; see :class:`Effectful`."""
        return cls(Delegate.of(module), state, allow=allow, stock=stock)

    @classmethod
    def load(
        cls,
        source: File,
        state: State | None = None,
        *,
        companion: File | None = None,
        allow: Allowed = (),
        stock: bool = False,
    ) -> Effectful:
        """Run a module in an archive; see :class:`Effectful`, and :meth:`Delegate.load` for errors."""
        return cls(Delegate.load(source, companion=companion), state, allow=allow, stock=stock)

    def __call__(self, *inputs: object, **named: object) -> Any:  # noqa: ANN401
        """Run ``forward``, and change the state as the eager module would have changed its own.

        Raises:
            BackendError: an operation failed; the state is as before.
            GuardError: the call breaks an assumption of the captured one; the state is as before.
            ReplayError: an effect failed; the state is as before.
            TypeError: the arguments do not fit ``forward``.
        """
        bound = self._signature.bind(*inputs, **named)
        if self._has_defaults:
            bound.apply_defaults()
        given = self._effects.inputs(self.state, bound.arguments)
        if not self._guards_results:
            return self._effects.replay(self.state, self._run(*given), bound.arguments)
        before = torch.get_rng_state()
        made = self._run(*given)
        try:
            return self._effects.replay(self.state, made, bound.arguments)
        except GuardError:
            torch.set_rng_state(before)
            raise


def _is_made(source: Source) -> bool:
    """Whether a tensor is one that the graph makes; the sources of such tensors are items of a temporary."""
    return isinstance(source, Item) and isinstance(source.base, Temporary)


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    """A key that a parameter and its view in the state have in common: address and layout of its elements."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _signature(names: str, effects: MethodEffects) -> inspect.Signature:
    """The signature of the captured method.

    Args:
        names: the parameters, as :class:`~archive.backend.lower.effects.WithEffects` has them.
        effects: the method's effects, with the defaults of parameters that the captured call left out.
    """
    defaults = {argument.name: value for argument, value in effects.defaults}
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = []
    for name in filter(None, names.split(", ")):
        if name.startswith("*"):
            kind = inspect.Parameter.KEYWORD_ONLY
            if name != "*":
                parameters.append(inspect.Parameter(name[1:], inspect.Parameter.VAR_POSITIONAL))
            continue
        default = defaults.get(name)
        value = default.value if isinstance(default, Constant) else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=value))
    # Python has no parameter with a default before one without.
    for place in range(len(parameters) - 1, 0, -1):
        one, before = parameters[place], parameters[place - 1]
        if one.kind is before.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty:
            parameters[place - 1] = before.replace(default=one.empty)
    return inspect.Signature(parameters)
