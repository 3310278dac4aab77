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
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.backend.delegate import Delegate
from archive.backend.errors import BackendError
from archive.backend.lower.effects import entry_names
from archive.backend.lower.lowering import EFFECTS_ARGUMENTS, EFFECTS_STATE
from archive.base.errors import ArchiveError, shown
from archive.effects.errors import LoweringError
from archive.effects.replay.errors import GuardError
from archive.effects.replay.replay import prepared
from archive.effects.replay.state import State
from archive.formats.effects.hooks import HOOK_OPS
from archive.formats.effects.model import Constant, Item, Op, Output, Temporary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.base.mapped import Source as File
    from archive.effects.replay.code_names import Allowed
    from archive.effects.replay.replay import Prepared
    from archive.formats.effects.model import Effect, Local, Value


class Entry(NamedTuple):
    """One entry of the method.

    Attributes:
        run: runs its graph.
        effects: its guards and effects, compiled.
        guards_results: whether some guards look at what the graph gives.
    """

    run: Callable[..., Any]
    effects: Prepared
    guards_results: bool


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
        ArchiveError: what the module keeps for its effects is not there.
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
        kept = _kept(delegate, EFFECTS_STATE, list)
        tensors = [parameters.get(_place(one), _copy(one)) for one in kept]
        every = [one for effects in table.methods for one in effects.effects]
        if stock and any(one.op is Op.SET_BACKWARD for one in every):
            raise LoweringError("TorchScript runs no backward of an autograd function: stock=False")
        if stock and any(_is_hook_of_graph(one) for one in every):
            raise LoweringError("TorchScript gives no gradient to hooks of what the graph makes: stock=False")
        self.delegate = delegate
        self.state = State.fresh(table, tensors) if state is None else state
        self._entries = [
            Entry(
                _of_torchscript(delegate, name) if stock else partial(delegate.run, name),
                prepared(effects, allow, delegate.archive.symbolicate),
                any(isinstance(guard.subject, Output) for guard in effects.guards),
            )
            for name, effects in zip(
                entry_names(effects.method for effects in table.methods), table.methods, strict=True
            )
        ]
        self._latest = 0
        # By number of an entry, the one that followed last time: calls come in patterns.
        self._following = list(range(len(self._entries)))
        names = _kept(delegate, EFFECTS_ARGUMENTS, str)
        defaults = dict(pair for effects in table.methods for pair in effects.defaults)
        try:
            self._signature = _signature(names, defaults)
        except ValueError as error:
            raise ArchiveError(f"no parameters of a method: {error}", file=delegate.archive.file) from error
        by_place = [one.kind is one.POSITIONAL_OR_KEYWORD for one in self._signature.parameters.values()]
        self._positional = tuple(self._signature.parameters) if all(by_place) else None
        self._has_defaults = bool(defaults) or "*" in names

    def __deepcopy__(self, _: object) -> Effectful:
        """Refuse a copy, which would have to know the archive's open file.

        Raises:
            TypeError: always.
        """
        raise TypeError("a loaded module with effects has no deep copy: load its archive again")

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
        """Run a module in an archive; see :class:`Effectful`, and :meth:`Delegate.load` for errors.

        TorchScript of the archive runs: trust it as you must for ``torch.jit.load``; see SECURITY.md. The
        table of effects runs nothing but what ``allow`` names.
        """
        return cls(Delegate.load(source, companion=companion), state, allow=allow, stock=stock)

    def __call__(self, *inputs: object, **named: object) -> Any:  # noqa: ANN401
        """Run ``forward``, and change the state as the eager module would have changed its own.

        Raises:
            BackendError: an operation failed; the state is as before.
            GuardError: the call breaks an assumption of the captured one; the state is as before.
            ReplayError: an effect failed; the state is as before.
            TypeError: the arguments do not fit ``forward``.
        """
        arguments = self._arguments(inputs, named)
        refusals: dict[int, GuardError] = {}
        failure: BackendError | None = None
        likely = self._following[self._latest]
        for number in (likely, *range(likely), *range(likely + 1, len(self._entries))):
            entry = self._entries[number]
            try:
                result = self._made(entry, arguments)
            except GuardError as error:
                refusals[number] = error
            except BackendError as error:
                if len(self._entries) == 1 or not entry.guards_results:
                    raise
                failure = failure or error  # the entry may be for other results than this call's
            else:
                self._following[self._latest] = self._latest = number
                return result
        if failure is not None:
            raise failure
        if len(refusals) == 1:
            raise refusals[0]
        nearest = max(range(len(refusals)), key=lambda number: refusals[number].number)
        raise refusals[nearest].of(len(refusals))

    def _arguments(self, inputs: tuple[object, ...], named: dict[str, object]) -> Mapping[str, Any]:
        """The arguments of a call by name."""
        if self._positional is not None and not named and len(inputs) == len(self._positional):
            return dict(zip(self._positional, inputs, strict=True))
        bound = self._signature.bind(*inputs, **named)
        if self._has_defaults:
            bound.apply_defaults()
        return bound.arguments

    def _made(self, entry: Entry, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Run an entry, and make its changes.

        Raises:
            GuardError: the entry is not for this call.
        """
        given = entry.effects.inputs(self.state, arguments)
        if not entry.guards_results:
            return entry.effects.replay(self.state, entry.run(*given), arguments)
        before = torch.get_rng_state()
        try:
            return entry.effects.replay(self.state, entry.run(*given), arguments)
        except (GuardError, BackendError):
            torch.set_rng_state(before)
            raise


def _is_hook_of_graph(effect: Effect) -> bool:
    """Whether an effect puts hooks on a tensor that the graph makes.

    The sources of such tensors are items of a temporary.
    """
    is_made = isinstance(effect.source, Item) and isinstance(effect.source.base, Temporary)
    return effect.op is Op.REGISTER_BACKWARD_HOOKS or (effect.op in HOOK_OPS and is_made)


def _of_torchscript(delegate: Delegate, name: str) -> Callable[..., Any]:
    """A method of TorchScript; never one of Python's class of such modules, as ``save`` is.

    Raises:
        ArchiveError: the module has no such method.
    """
    module: Any = delegate.module._c
    if not module._has_method(name):
        raise ArchiveError(
            expected="a method with effects", found=f"none named {shown(name)}", file=delegate.archive.file
        )
    found: Callable[..., Any] = module._get_method(name)
    return found


def _kept(delegate: Delegate, name: str, kind: type) -> Any:  # noqa: ANN401
    """What a module with effects keeps beside its graphs.

    Raises:
        ArchiveError: the module keeps no such thing.
    """
    module: Any = delegate.module._c
    found = module.getattr(name) if module.hasattr(name) else None
    items = found if kind is list and isinstance(found, list) else []
    if not isinstance(found, kind) or not all(isinstance(one, torch.Tensor) for one in items):
        raise ArchiveError(
            f"a table of effects, and no {shown(name)} that belongs to it", file=delegate.archive.file
        )
    return found


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    """A key that a parameter and its view in the state have in common: address and layout of its elements."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _signature(names: str, given: Mapping[Local, Value]) -> inspect.Signature:
    """The signature of the captured method.

    Args:
        names: the parameters, as :class:`~archive.backend.lower.effects.WithEffects` has them.
        given: the defaults of parameters that captured calls left out.
    """
    defaults = {argument.name: value for argument, value in given.items()}
    words = list(filter(None, names.split(", ")))
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    kind: Any = inspect.Parameter.POSITIONAL_ONLY if "/" in words else plain
    parameters = []
    for name in words:
        if name == "/":
            kind = plain
            continue
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
