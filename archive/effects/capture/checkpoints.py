"""``torch.utils.checkpoint`` inside a model: what it computes is captured as if it were called plainly.

On the way back PyTorch computes a checkpoint's part again. The gradients are the same, as long as the part
changes nothing, asks nobody whether gradients are wanted, and draws the same random numbers again.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch.random import get_rng_state
from torch.utils import checkpoint
from torch.utils.checkpoint import CheckpointFunction

from archive.effects.capture.function_code import first_read
from archive.effects.looking import WITHOUT_MODES
from archive.formats.effects.known_calls import WARN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.effects.capture.call import CapturedCall

GENERATOR = checkpoint._checkpoint_without_reentrant_generator
RANDOM = "random numbers inside torch.utils.checkpoint, which are others on the way back: preserve_rng_state"


def checkpointed(
    call: CapturedCall,
    function: Callable[..., Any],
    preserve: bool,  # noqa: FBT001 (PyTorch's order)
    args: tuple[Any, ...],
) -> Any:  # noqa: ANN401
    """Call a function as ``checkpoint(..., use_reentrant=True)`` does.

    Args:
        call: the captured call.
        function: the part of the model.
        preserve: whether the way back draws the same random numbers.
        args: of the function. If none of them needs a gradient, the results have none.

    Raises:
        CaptureError: the results would get other gradients than PyTorch's.
    """
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    call.guards.setting("torch.is_grad_enabled")
    if not torch._C.is_grad_enabled() or not any(one.requires_grad for one in tensors):
        _note_warning(call, args)
        with torch.no_grad():
            return function(*args)
    before = get_rng_state()
    call.checkpoints += 1
    result = function(*args)
    call.checkpoints -= 1
    _check_random(call, before, preserve=preserve)
    for one in result if isinstance(result, tuple) else (result,):
        if isinstance(one, list | dict | tuple) or any(one is other for other in tensors):
            call.refuse("a result of torch.utils.checkpoint that is an argument, or holds several tensors")
        with WITHOUT_MODES():
            if isinstance(one, torch.Tensor) and one.is_floating_point() and not one.requires_grad:
                call.refuse("a result of torch.utils.checkpoint without gradient, to which PyTorch gives one")
    return result


def _note_warning(call: CapturedCall, args: tuple[Any, ...]) -> None:
    """Keep PyTorch's warning that the results have no gradient."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        checkpoint.check_backward_validity(args)
    code = CheckpointFunction.forward.__code__
    position = first_read(code, "check_backward_validity")
    for one in found:
        place = code.co_filename, position[0] if position else 0, checkpoint.__name__
        call.kept_calls.note(WARN, (one.category.__name__, *place), (str(one.message),))


def without_reentry(
    call: CapturedCall,
    function: Callable[..., Any],
    preserve: bool = True,  # noqa: FBT001, FBT002 (PyTorch's signature)
    *args: Any,  # noqa: ANN401
    **kwargs: Any,  # noqa: ANN401
) -> Iterator[Any]:
    """PyTorch's own steps around a call of ``checkpoint(..., use_reentrant=False)``.

    Raises:
        CaptureError: the function draws random numbers that would be others on the way back.
    """
    before = get_rng_state()
    yield from GENERATOR(function, preserve, *args, **kwargs)
    if torch._C.is_grad_enabled():
        _check_random(call, before, preserve=preserve)


def _check_random(call: CapturedCall, before: Any, *, preserve: bool) -> None:  # noqa: ANN401
    with WITHOUT_MODES():
        if not preserve and not torch.equal(before, get_rng_state()):
            call.refuse(RANDOM)
