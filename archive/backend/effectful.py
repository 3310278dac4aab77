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
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.modules.module import _IncompatibleKeys

from archive.backend.delegate import Delegate
from archive.backend.lower.effects import entry_names
from archive.backend.lower.wrappers import (
    EFFECTS_ARGUMENTS,
    EFFECTS_MEMBERS,
    EFFECTS_STATE,
    EFFECTS_TENSORS,
)
from archive.backend.members import Members, ModuleMember
from archive.base.errors import ArchiveError, LoweringError, shown
from archive.effects.errors import StateError
from archive.effects.placeholders import LEFT_OUT
from archive.effects.replay.choosing import Entry, run_entry
from archive.effects.replay.errors import GuardError
from archive.effects.replay.replay import prepared
from archive.effects.replay.state import State
from archive.formats.effects.model import Constant, Item, Op, Temporary
from archive.formats.effects.words import HOOK_OPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from archive.effects.replay.classes import Allowed
    from archive.formats.effects.model import Effect, Local, Value
    from archive.io.mapped import Source as File


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
        parameters = {_place(tensor): tensor for tensor in delegate.tensors if tensor.requires_grad}
        saved = _kept(delegate, EFFECTS_STATE, list)
        tensors = [
            parameters.get(_place(tensor), tensor.detach().clone().requires_grad_(tensor.requires_grad))
            for tensor in saved
        ]
        every = [effect for effects in table.methods for effect in effects.effects]
        if stock and any(effect.op is Op.SET_BACKWARD for effect in every):
            raise LoweringError("TorchScript runs no backward of an autograd function: stock=False")
        if stock and any(map(_is_hook_of_graph, every)):
            raise LoweringError("TorchScript gives no gradient to hooks of what the graph makes: stock=False")
        self.delegate = delegate
        self.state = State.fresh(table, tensors) if state is None else state
        self._members: Members | None = None
        if state is None:
            own = {_place(tensor): tensor for tensor in delegate.tensors}
            rows, held = _members(delegate)
            self._members = Members(
                self.state.module,
                rows,
                held,
                lambda tensor: own.get(_place(tensor)),
                table,
                file=delegate.archive.file,
            )
        self._entries = [
            Entry(
                _of_torchscript(delegate, name) if stock else partial(delegate.run, name),
                prepared(effects, allow, delegate.archive.symbolicate, delegate.tensors),
            )
            for name, effects in zip(
                entry_names(effects.method for effects in table.methods), table.methods, strict=True
            )
        ]
        self._latest = 0
        # By number of an entry, the one after it last time: calls come in patterns.
        self._following = list(range(len(self._entries)))
        # By number of an entry that is likely, the order in which they are tried.
        self._orders = [
            (likely, *(number for number in self._following if number != likely))
            for likely in self._following
        ]
        names = _kept(delegate, EFFECTS_ARGUMENTS, str)
        defaults = dict(pair for effects in table.methods for pair in effects.defaults)
        try:
            self._signature = _signature(names, defaults)
        except ValueError as error:
            raise ArchiveError(f"no parameters of a method: {error}", file=delegate.archive.file) from error
        by_place = [
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            for parameter in self._signature.parameters.values()
        ]
        self._positional = tuple(self._signature.parameters) if all(by_place) else None
        self._has_defaults = "*" in names or "=" in names

    def __deepcopy__(self, _: object) -> Effectful:
        """Refuse a copy, which would need the archive's open file.

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

    def __call__(self, /, *inputs: object, **named: object) -> Any:  # noqa: ANN401
        """Run ``forward``, and change the state as the eager module would have changed its own.

        Raises:
            BackendError: an operation failed; the state is as before.
            GuardError: the call breaks an assumption of the captured one; the state is as before.
            ReplayError: an effect failed; the state is as before.
            StateError: something that the graph holds was replaced; the state is as before.
            TypeError: the arguments do not fit ``forward``.
        """
        if self._members is not None:
            self._members.check()
        order = self._orders[self._following[self._latest]]
        try:
            number, result = run_entry(self._entries, order, self.state, self._arguments(inputs, named))
        except GuardError as error:
            if len(order) == 1:
                raise
            raise error.of(len(order)) from error.__cause__
        self._following[self._latest] = self._latest = number
        return result

    def train(self, mode: bool = True) -> Effectful:  # noqa: FBT001, FBT002 (as PyTorch's)
        """Set the mode of all modules, as ``torch.nn.Module.train`` does.

        Raises:
            StateError: no captured call is for this mode, or a class of the model has a ``train`` of its own;
                nothing is changed.
        """
        self._of_module("train").train(mode)
        return self

    def eval(self) -> Effectful:
        """``train(False)``."""
        return self.train(False)

    def named_parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Parameters and their names, as ``torch.nn.Module.named_parameters`` gives them.

        They are the tensors that calls use: an optimizer may change them.

        Raises:
            StateError: a class of the model has a method of its own for this, or the archive lacks a tensor.
        """
        yield from self._of_module("named_parameters").parameters()

    def parameters(self) -> Iterator[torch.Tensor]:
        """The tensors of :meth:`named_parameters`."""
        for _, tensor in self._of_module("parameters").parameters():
            yield tensor

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and persistent buffers by their names, as ``torch.nn.Module.state_dict`` gives them.

        They share memory with those that calls use.

        Raises:
            StateError: a class of the model has a method of its own for this, or the archive lacks a tensor.
        """
        members = self._of_module("state_dict")
        tensors: Any = OrderedDict((name, tensor.detach()) for name, tensor in members.tensors())
        tensors._metadata = OrderedDict((path, {"version": version}) for path, version in members.versions())
        return cast("dict[str, torch.Tensor]", tensors)

    def load_state_dict(
        self,
        state_dict: Mapping[str, torch.Tensor],
        strict: bool = True,  # noqa: FBT001, FBT002 (as PyTorch's)
    ) -> Any:  # noqa: ANN401
        """Copy parameters and buffers from a dict, as ``torch.nn.Module.load_state_dict`` does.

        Returns:
            Names that the dict lacks, ``missing_keys``, and that the module lacks, ``unexpected_keys``.

        Raises:
            RuntimeError: names differ though ``strict``, or shapes do; nothing is changed.
            StateError: a class of the model has a method of its own for this, or the archive lacks a tensor.
        """
        own = dict(self._of_module("load_state_dict").tensors())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        said = []
        if strict and missing:
            said.append(f"missing: {', '.join(missing)}")
        if strict and unexpected:
            said.append(f"unexpected: {', '.join(unexpected)}")
        said += [
            f"{name}: expected {tuple(own[name].shape)}, found {tuple(tensor.shape)}"
            for name, tensor in state_dict.items()
            if name in own and own[name].shape != tensor.shape
        ]
        if said:
            raise RuntimeError("a state dict of another module: " + "; ".join(said))
        with torch.no_grad():
            for name, tensor in state_dict.items():
                if name in own:
                    own[name].copy_(tensor)
        return _IncompatibleKeys(missing, unexpected)

    def to(self, *args: Any, **kwargs: Any) -> Effectful:  # noqa: ANN401
        """Check that everything is as ``torch.nn.Module.to`` would make it: a lowered graph is for one type.

        Raises:
            StateError: a parameter or buffer is on another device, or of another type.
        """
        members = self._of_module("to")
        device, dtype, _, _ = torch._C._nn._parse_to(*args, **kwargs)
        for tensor in members.every():
            is_converted = dtype is not None and (tensor.is_floating_point() or tensor.is_complex())
            is_moved = device is not None and (
                device.type != tensor.device.type or device.index not in (None, tensor.device.index or 0)
            )
            if is_moved or (is_converted and tensor.dtype is not dtype):
                raise StateError(
                    f"to: the lowered graph is for {tensor.dtype} on {tensor.device}; "
                    "convert the model, and lower that again"
                )
        return self

    def _of_module(self, method: str) -> Members:
        """The members, for a method of ``torch.nn.Module``."""
        if self._members is None:
            raise StateError(f"{method}: the state is the caller's own; ask its module")
        self._members.refuse_own(method)
        return self._members

    def _arguments(self, inputs: tuple[object, ...], named: dict[str, object]) -> Mapping[str, Any]:
        """The arguments of a call by name."""
        if self._positional is not None and not named and len(inputs) == len(self._positional):
            return dict(zip(self._positional, inputs, strict=True))
        bound = self._signature.bind(*inputs, **named)
        if self._has_defaults:
            bound.apply_defaults()
        return bound.arguments


def _is_hook_of_graph(effect: Effect) -> bool:
    """Whether an effect puts hooks on a tensor that the graph makes.

    The sources of such tensors are items of a temporary.
    """
    is_made = isinstance(effect.source, Item) and isinstance(effect.source.base, Temporary)
    return effect.op is Op.REGISTER_BACKWARD_HOOKS or (effect.op in HOOK_OPS and is_made)


def _of_torchscript(delegate: Delegate, name: str) -> Callable[..., Any]:
    """A method of TorchScript; never one of Python's class of such modules, as ``save`` is."""
    module: Any = delegate.module._c
    if not module._has_method(name):
        raise ArchiveError(
            expected="a method with effects", found=f"none named {shown(name)}", file=delegate.archive.file
        )
    run: Callable[..., Any] = module._get_method(name)
    return run


def _kept(delegate: Delegate, name: str, kind: type) -> Any:  # noqa: ANN401
    """What a module with effects keeps beside its graphs."""
    module: Any = delegate.module._c
    value = module.getattr(name) if module.hasattr(name) else None
    items = value if kind is list and isinstance(value, list) else []
    if not isinstance(value, kind) or not all(isinstance(item, torch.Tensor) for item in items):
        raise ArchiveError(
            f"a table of effects, and no {shown(name)} that belongs to it", file=delegate.archive.file
        )
    return value


def _members(delegate: Delegate) -> tuple[list[ModuleMember], list[torch.Tensor]]:
    """The members of the module, and their tensors; none where the archive has none."""
    module: Any = delegate.module._c
    if not module.hasattr(EFFECTS_MEMBERS):
        return [], []
    rows = module.getattr(EFFECTS_MEMBERS)
    is_right = isinstance(rows, list) and all(
        isinstance(row, tuple) and tuple(map(type, row)) == (str, str, str, int) for row in rows
    )
    if not is_right:
        raise ArchiveError("members of a module that aren't rows of members", file=delegate.archive.file)
    return [ModuleMember(*row) for row in rows], _kept(delegate, EFFECTS_TENSORS, list)


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    """A key that a parameter and its view in the state have in common: address and layout of its elements.

    A sparse tensor has no address of its own: its key is its identity, and a view of it has another one.
    """
    if tensor.layout is not torch.strided:
        return (id(tensor),)
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _signature(names: str, given: Mapping[Local, Value]) -> inspect.Signature:
    """The signature of the captured method.

    Args:
        given: the defaults that the table of effects holds.
    """
    defaults = {argument.name: value for argument, value in given.items()}
    words = list(filter(None, names.split(", ")))
    empty, plain = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    kind: Any = inspect.Parameter.POSITIONAL_ONLY if "/" in words else plain
    parameters = []
    for word in words:
        name, has_default, _ = word.strip("*").partition("=")
        if word == "/":
            kind = plain
        elif word.startswith("**"):
            parameters.append(inspect.Parameter(name, inspect.Parameter.VAR_KEYWORD))
        elif word.startswith("*"):
            kind = inspect.Parameter.KEYWORD_ONLY
            if name:
                parameters.append(inspect.Parameter(name, inspect.Parameter.VAR_POSITIONAL))
        else:
            default = defaults.get(name)
            value = default.value if isinstance(default, Constant) else LEFT_OUT if has_default else empty
            parameters.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(parameters)
