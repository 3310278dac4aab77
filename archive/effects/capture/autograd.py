"""``torch.autograd.Function``: its forward is followed like any function; its backward is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from archive.effects.capture.recorder import Recorder


class Context:
    """What a function keeps for the way back; nothing outlives the captured call.

    Args:
        recorder: of the call.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def save_for_backward(self, *tensors: object) -> None:
        """Keep tensors."""
        effects = self._recorder.side_effects
        effects.track_save_for_backward(effects[self], tensors, self._recorder.here())

    def mark_dirty(self, *_: object) -> None:
        """Tell that arguments are changed; that is seen anyway."""

    def mark_non_differentiable(self, *_: object) -> None:
        """Tell that results have no gradient."""

    def set_materialize_grads(self, _: bool) -> None:  # noqa: FBT001 (PyTorch's signature)
        """Tell how absent gradients are given."""


def apply_function(recorder: Recorder, cls: type[Any], args: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Run a function's forward.

    Raises:
        CaptureError: a gradient is wanted, which would not be the function's own.
    """
    wanted = torch.is_grad_enabled() and any(
        isinstance(one, torch.Tensor) and one.requires_grad for one in args
    )
    if wanted:
        recorder.refuse(
            f"{cls.__qualname__}.apply: its own backward would be lost; capture without gradients"
        )
    if cls.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context:
        recorder.refuse(f"{cls.__qualname__}.apply: a function with a setup_context")
    context = Context(recorder)
    context.needs_input_grad = (False,) * len(args)
    variable = recorder.side_effects.track_object_new(context, "torch.autograd.function:FunctionCtx")
    recorder.stand_ins[variable] = context
    return recorder.functions.copy(cls.forward)(context, *args)
