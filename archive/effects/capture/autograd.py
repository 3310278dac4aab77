"""Autograd inside a model: hooks on tensors, and the forward of ``torch.autograd.Function``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from archive.effects.looking import WITHOUT_MODES
from archive.formats.effects.model import Op
from archive.formats.effects.source_text import HANDLE

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.sizes import Sizes


class HookHandle:
    """The handle that ``register_hook`` gives while a model is captured.

    Args:
        call: the captured call.
        sizes: guards what is read of tensors.
        tensor: that has the hook.
    """

    def __init__(self, call: CapturedCall, sizes: Sizes, tensor: Any) -> None:  # noqa: ANN401
        self._call, self._sizes = call, sizes
        self._tensor = tensor

    def remove(self) -> None:
        """Take the hook off; a second time does nothing, as in PyTorch."""
        if self._call.side_effects.take_off(self, self._call.here()):
            # No effect may be left that fails, as PyTorch does, for a tensor without gradient: a guard does.
            with WITHOUT_MODES():
                self._sizes.gradient(self._tensor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class LaterHandle:
    """What a handle is to later calls: the place of one that an earlier call has kept."""


class KeptHandle:
    """The proxy of a handle that an earlier call has kept.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def remove(self) -> None:
        """Take the hook off."""
        source = self._call.side_effects[self].source
        assert source is not None  # noqa: S101 (kept handles have one)
        self._call.check_once()
        self._call.side_effects.mutation(source, Op.TAKE_OFF, statement=self._call.here())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_hook(
    call: CapturedCall,
    sizes: Sizes,
    op: Op,
    tensor: Any,  # noqa: ANN401
    hook: Any,  # noqa: ANN401
) -> HookHandle:
    """Note a hook on a tensor; replay puts it on after the graph has run, before all changes.

    Args:
        call: the captured call.
        sizes: guards what is read of tensors.
        op: the method of the tensor.
        tensor: that gets the hook.
        hook: what is called with the gradient, or with the tensor once the gradient has been added up.

    Raises:
        CaptureError: the tensor requires no gradient, or has been changed before.
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
    variable = call.side_effects.track_object_new(handle, HANDLE)
    call.proxies[variable] = handle
    version = tensor._version if given is None else None
    call.side_effects.register_hook(tensor, hook, call.here(), op=op, handle=variable, version=version)
    return handle
