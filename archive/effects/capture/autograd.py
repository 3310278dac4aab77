"""Autograd inside a model: hooks on tensors, and the forward of ``torch.autograd.Function``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import torch

from archive.effects.capture.function_code import importable
from archive.effects.looking import WITHOUT_MODES

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.sizes import Sizes


class HookHandle:
    """The handle that ``register_hook`` gives while a model is captured.

    Args:
        call: the captured call.
        sizes: guards what is read of tensors.
        tensor: that has the hook.
        number: of the hook.
    """

    def __init__(self, call: CapturedCall, sizes: Sizes, tensor: Any, number: int) -> None:  # noqa: ANN401
        self._call, self._sizes = call, sizes
        self._tensor = tensor
        self._number = number

    def remove(self) -> None:
        """Take the hook off; a second time does nothing, as in PyTorch."""
        if self._number in self._call.side_effects.tensor_hooks:
            self._call.side_effects.remove_hook(self._number)
            # No effect is left that fails, as PyTorch does, for a tensor without gradient: a guard does.
            with WITHOUT_MODES():
                self._sizes.gradient(self._tensor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_hook(call: CapturedCall, sizes: Sizes, tensor: Any, hook: Any) -> HookHandle:  # noqa: ANN401
    """Note a hook on a tensor by its function's name; replay puts it on after all other effects.

    Args:
        call: the captured call.
        sizes: guards what is read of tensors.
        tensor: that gets the hook.
        hook: the function.

    Raises:
        CaptureError: no name leads to the function, or the tensor requires no gradient.
    """
    if not tensor.requires_grad:
        call.refuse("cannot register a hook on a tensor that doesn't require gradient")
    variable = call.side_effects.variable_of(hook)
    function = call.real[variable] if variable is not None else hook
    name = importable(function)
    if name is None:
        call.refuse("a hook that is no function of a Python module: it cannot be found by a name")
    number = call.side_effects.register_hook(tensor, name, call.here())
    return HookHandle(call, sizes, tensor, number)


class Context:
    """The context of an autograd function; it lives no longer than the captured call.

    Args:
        call: the captured call.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def save_for_backward(self, *tensors: object) -> None:
        """Note that tensors are saved."""
        effects = self._call.side_effects
        effects.track_save_for_backward(effects[self], tensors, self._call.here())

    def mark_dirty(self, *_: object) -> None:
        """Accept arguments that are changed in place; their version counters tell of the change anyway."""

    def mark_non_differentiable(self, *_: object) -> None:
        """Accept results without gradient."""

    def set_materialize_grads(self, _: bool) -> None:  # noqa: FBT001 (PyTorch's signature)
        """Accept any form of absent gradients."""


def apply_function(call: CapturedCall, cls: type[Any], args: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Run an autograd function's forward.

    Raises:
        CaptureError: a gradient is wanted, which the function's own backward would give otherwise; or the
            function has a ``setup_context``.
    """
    wanted = torch.is_grad_enabled() and any(
        isinstance(one, torch.Tensor) and one.requires_grad for one in args
    )
    if wanted:
        call.refuse(f"{cls.__qualname__}.apply: its own backward would be lost; capture without gradients")
    if cls.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context:
        call.refuse(f"{cls.__qualname__}.apply: a function with a setup_context")
    context = Context(call)
    context.needs_input_grad = (False,) * len(args)
    variable = call.side_effects.track_object_new(context, "torch.autograd.function:FunctionCtx")
    call.proxies[variable] = context
    return call.functions.copy(cls.forward)(context, *args)
