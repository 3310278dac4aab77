"""Autograd inside a model: hooks on tensors, inference mode, and ``torch.autograd.Function``.

In inference mode the graph computes without gradients, and replay makes inference tensors. Such a tensor has
no version counter, which a capture needs. So the call uses ordinary tensors, and notes which ones PyTorch
would have made in inference mode.

For a ``torch.autograd.Function``, which has its own backward, ``forward`` is captured. If a gradient is
wanted, the graph leads from each argument to each result through operations whose values are overwritten and
whose gradients replay replaces: there it hooks in the function's own ``backward``, found by the function's
name. For an argument ``x`` and a result ``y`` of the function::

    entry = x.clone()                 # replay replaces the gradient that leaves this clone
    exit = entry.sum().expand_as(y).clone()
    exit.detach().copy_(y)            # replay gets the result's gradient here
    result = exit.clone()
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.operations import MADE_IN_INFERENCE, VIEW_IN_INFERENCE
from archive.effects.capture.graph.sites import importable
from archive.effects.capture.graph.variables import VariableKind
from archive.effects.capture.proxies.hooks import Removable
from archive.effects.capture.proxies.sizes import Sizes
from archive.effects.capture.table.pending import Backward, Hook
from archive.effects.looking import WITHOUT_MODES
from archive.formats.effects.model import Op
from archive.formats.effects.source_text import CONTEXT, HANDLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.table.call import CapturedCall


# --- inference


class InferenceRegion:
    """The context in place of PyTorch's own; ``mode``: whether inference mode is turned on."""

    def __init__(self, call: CapturedCall, mode: bool) -> None:  # noqa: FBT001 (PyTorch's signature)
        self._call, self._mode = call, mode
        self._without_gradients = torch.no_grad()

    def __enter__(self) -> None:
        if self._mode:
            self._call.regions.inference += 1
            self._without_gradients.__enter__()
        elif self._call.regions.inference:
            self._call.refuse("inference mode that is turned off inside of inference mode")

    def __exit__(self, *error: object) -> None:
        if self._mode:
            self._call.regions.inference -= 1
            self._without_gradients.__exit__(*error)


class InferenceTensors:
    """The inference tensors of one call."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def note(self, value: Any, given: list[Any], versions: list[int]) -> None:
        """Note the result of an operation.

        Args:
            versions: their version counters before.
        """
        known = self._call.regions.inference_tensors
        if not self._call.regions.inference and not known:
            return
        with WITHOUT_MODES():
            values = value if isinstance(value, tuple | list) else (value,)
            made = [tensor for tensor in values if isinstance(tensor, torch.Tensor)]
            of_inference = [pair for pair in zip(given, versions, strict=True) if id(pair[0]) in known]
            if of_inference and not self._call.regions.inference:
                if any(tensor._version != version for tensor, version in of_inference):
                    self._call.refuse("an inference tensor that is changed outside of inference mode")
                if any(tensor.requires_grad for tensor in made):
                    self._call.refuse("an inference tensor in what needs a gradient")
            for tensor in made:
                if all(tensor is not other for other in given):
                    self._note_one(tensor, given)

    def _note_one(self, value: Any, given: list[Any]) -> None:
        address = value.untyped_storage().data_ptr()
        sharing = [tensor for tensor in given if address and tensor.untyped_storage().data_ptr() == address]
        known, node = self._call.regions.inference_tensors, self._call.builder.node_of(value)
        is_made = (
            any(id(tensor) in known for tensor in sharing) if sharing else bool(self._call.regions.inference)
        )
        if is_made:
            known.add(id(value))
            node.meta[MADE_IN_INFERENCE] = True
        elif self._call.regions.inference:
            node.meta[VIEW_IN_INFERENCE] = True


# --- custom backward

NO_SETUP = torch.autograd.function._SingleLevelFunction.setup_context


class Context:
    """The context of an autograd function, as ``forward`` and ``setup_context`` see it.

    Args:
        needed: whether each argument needs a gradient.
    """

    _parts: ContextNotes

    def __init__(self, call: CapturedCall, needed: tuple[bool, ...]) -> None:
        vars(self)["_parts"] = ContextNotes(call)
        self.needs_input_grad = needed

    def save_for_backward(self, *tensors: object) -> None:
        """Note that tensors are saved."""
        self._parts.saved = tensors

    def mark_dirty(self, *_: object) -> None:
        """Note that arguments are changed in place; their version counters show which."""
        self._parts.is_dirty = True

    def mark_non_differentiable(self, *tensors: object) -> None:
        """Note results without gradient."""
        self._parts.constant = {id(tensor) for tensor in tensors}

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001 (PyTorch's signature)
        """Note whether absent gradients are zeros for ``backward``."""
        self.materialize_grads = value


class ContextNotes:
    """What a context has noted.

    Attributes:
        saved: tensors for ``backward``.
        constant: identities of results without gradient.
        is_dirty: whether arguments are changed in place.
    """

    def __init__(self, call: CapturedCall) -> None:
        self.saved: tuple[object, ...] = ()
        self.constant: set[int] = set()
        self.is_dirty = False
        self.statement = call.here()


def apply_function(call: CapturedCall, cls: type[Any], args: tuple[Any, ...]) -> Any:
    """Run an autograd function's forward; ``backward`` is kept by name if a gradient is wanted."""
    enabled = torch.is_grad_enabled()  # guarded from now on
    needed = tuple(isinstance(argument, torch.Tensor) and argument.requires_grad for argument in args)
    context = Context(call, needed)
    wanted = enabled and any(needed)
    if wanted and importable(cls) is None:
        call.refuse(f"{cls.__name__}.apply: its backward cannot be found by a name")
    with torch.no_grad():
        result = _forward(call, cls, context, args)
    if not wanted:
        return result
    if context._parts.is_dirty:
        call.refuse(f"{cls.__name__}.apply: a gradient of arguments that it changes in place")
    return _Linked(call, cls, context, args).result(result)


def _forward(call: CapturedCall, cls: type[Any], context: Context, args: tuple[Any, ...]) -> Any:
    forward = cls.forward
    function = call.functions.copy(getattr(forward, "__func__", forward))
    if isinstance(forward, MethodType):
        function = MethodType(function, call.wrap(cls, None))
    if cls.setup_context is NO_SETUP:
        return function(context, *args)
    result = function(*args)
    call.functions.copy(cls.setup_context)(context, args, result)
    return result


class _Linked:
    """Links results of a function to its arguments, for its own gradient."""

    def __init__(self, call: CapturedCall, cls: type[Any], context: Context, args: tuple[Any, ...]) -> None:
        self._call, self._cls, self._context, self._args = call, cls, context, args
        self._sizes = Sizes(call)
        self._exits: dict[int, Any] = {}

    def result(self, result: Any) -> Any:
        """The function's result, linked."""
        results = result if type(result) is tuple else (result,)
        entries = [self._entry(argument) for argument in self._args]
        made = tuple(self._linked(single, entries) for single in results)
        self._keep(results, entries)
        return made if type(result) is tuple else made[0]

    def _entry(self, value: Any) -> Any:
        """The clone of an argument at which its gradient is replaced; None for other arguments."""
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return None
        self._sizes.kind(value)
        with WITHOUT_MODES():
            if value.is_complex():
                self._refuse("complex numbers")
        return value.clone()

    def _linked(self, value: Any, entries: list[Any]) -> Any:
        """One result of the function, linked to its arguments."""
        if not isinstance(value, torch.Tensor):
            if isinstance(value, list | dict | tuple):
                self._refuse("results inside one another")
            return value
        self._sizes.kind(value)
        with WITHOUT_MODES():
            if id(value) in self._context._parts.constant or not value.is_floating_point():
                return value
        gate: Any = 0
        for entry in entries:
            gate = gate if entry is None else entry.sum().to(value) + gate
        if self._context._parts.saved:
            gate = gate * gate.detach()  # a second backward pass then fails, as saved tensors are gone
        exit_ = gate.expand_as(value).clone()
        exit_.detach().copy_(value)
        self._exits[id(value)] = exit_
        linked = exit_.clone()
        if all(value is not argument for argument in self._args):
            self._call.builder.bind(value, self._call.builder.node_of(linked))
        with WITHOUT_MODES():
            address = value.untyped_storage().data_ptr()
            tensors = [argument for argument in self._args if isinstance(argument, torch.Tensor)]
            sharing = [tensor for tensor in tensors if tensor.untyped_storage().data_ptr() == address]
            if sharing:  # nothing may change a result that shares memory with an argument
                self._watch_all([linked, *sharing])
        return linked

    def _watch_all(self, tensors: Iterable[Any]) -> None:
        with WITHOUT_MODES():
            for tensor in tensors:
                self._call.regions.unchanging.append(
                    (tensor, tensor._version, self._context._parts.statement)
                )

    def _keep(self, results: tuple[Any, ...], entries: list[Any]) -> None:
        """Note the function, its context and the places of its gradients."""
        call, parts = self._call, self._context._parts
        variable = call.side_effects.track(VariableKind.OBJECT, None, self._context, class_name=CONTEXT)
        call.proxies[variable] = self._context
        for attribute, value in vars(self._context).items():
            if attribute != "_parts":
                linked = self._exits.get(id(value), value)
                call.side_effects.store_attr(
                    variable, attribute, linked, existed=False, statement=parts.statement
                )
        self._watch_all(tensor for tensor in parts.saved if isinstance(tensor, torch.Tensor))
        saved = tuple(self._exits.get(id(tensor), tensor) for tensor in parts.saved)
        call.side_effects.save_for_backward.append((variable, saved, parts.statement))
        # A result without gradient is included, since ``backward`` may get zeros for it.
        likes = (result.detach() if isinstance(result, torch.Tensor) else None for result in results)
        exits = tuple(self._exits.get(id(result), like) for result, like in zip(results, likes, strict=True))
        name = importable(self._cls)
        assert name is not None  # noqa: S101 (asked before)
        call.side_effects.backwards.append(Backward(variable, name, exits, tuple(entries), parts.statement))

    def _refuse(self, what: str) -> None:
        self._call.refuse(f"{self._cls.__name__}.apply: {what}")


# --- autograd


class HookHandle(Removable):
    """The handle that ``register_hook`` returns while a model is captured."""

    def __init__(self, call: CapturedCall, sizes: Sizes, tensor: Any) -> None:
        self._call, self._sizes = call, sizes
        self._tensor = tensor

    def remove(self) -> None:
        """Remove the hook; a second time does nothing, as in PyTorch."""
        if self._call.side_effects.take_off(self, self._call.here()):
            # PyTorch refuses a hook on a tensor without gradient. No effect is left that could fail, so a
            # guard does.
            with WITHOUT_MODES():
                self._sizes.gradient(self._tensor)


class LaterHandle:
    """What later calls see of a handle: the place where an earlier call kept it."""


class KeptHandle(Removable):
    """The proxy of a handle that an earlier call kept."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def remove(self) -> None:
        """Remove the hook."""
        source = self._call.side_effects[self].source
        assert source is not None  # noqa: S101 (kept handles have one)
        self._call.check_once()
        self._call.side_effects.mutation(source, Op.TAKE_OFF, statement=self._call.here())


def register_hook(
    call: CapturedCall,
    sizes: Sizes,
    op: Op,
    tensor: Any,
    hook: Any,
) -> HookHandle:
    """Note a hook on a tensor; replay registers it after the graph has run, before all changes.

    Args:
        hook: called with the gradient, or with the tensor once its gradient has been accumulated.
    """
    if not tensor.requires_grad:
        call.refuse("cannot register a hook on a tensor that doesn't require gradient")
    given = call.builder.input_of(tensor)
    if given is not None and given.changed:
        call.refuse("a hook on a tensor that was changed in place before")
    if op is Op.REGISTER_GRAD_HOOK and not tensor.is_leaf:
        call.refuse("post accumulate grad hooks cannot be registered on non-leaf tensors")
    call.check_once()
    handle = HookHandle(call, sizes, tensor)
    variable = call.side_effects.track(VariableKind.OBJECT, None, handle, class_name=HANDLE)
    call.proxies[variable] = handle
    version = tensor._version if given is None else None
    call.side_effects.register_hook(Hook(tensor, hook, call.here(), op, variable, version))
    return handle
