"""Full backward hooks of modules: the graph has an alias of the module's argument and one of its result.

PyTorch puts a function between a module and what it gets and gives; its hooks run where gradients pass there.
Here the aliases are operations of the graph, and replay puts the hooks on these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.hook_copies import follow
from archive.effects.capture.hook_sets import BACKWARD, BACKWARD_PRE
from archive.effects.capture.pending import BackwardHooks
from archive.effects.capture.sizes import Sizes
from archive.effects.capture.snapshot import instance_dict
from archive.effects.looking import WITHOUT_MODES

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall

SEVERAL = "hooks on the way back of a module that takes or gives several tensors"


class BackwardHooking:
    """The backward hooks of one call of a module.

    Args:
        call: the captured call.
        proxy: of the module.
    """

    def __init__(self, call: CapturedCall, proxy: Any) -> None:  # noqa: ANN401
        self._call, self._proxy = call, proxy
        self._own = instance_dict(call.real[call.side_effects[proxy]])
        if self._own.get("_is_full_backward_hook") is False:
            call.refuse("a backward hook that is not a full one: register_full_backward_hook puts on such")
        self._inputs: tuple[Any, ...] = ()

    def before(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments, with an alias in place of the tensor."""
        tensors = [one for one in args if isinstance(one, torch.Tensor)]
        if not self._need_gradients(tensors):
            self._inputs = (None,) * len(args)
            return args
        if len(tensors) > 1:
            self._call.refuse(SEVERAL)
        args = tuple(one.view_as(one) if isinstance(one, torch.Tensor) else one for one in args)
        self._inputs = tuple(one if isinstance(one, torch.Tensor) else None for one in args)
        return args

    def after(self, result: Any) -> Any:  # noqa: ANN401
        """The result, with an alias in place of the tensor; the hooks are noted."""
        given = result if isinstance(result, tuple) else (result,)
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        if not self._need_gradients(tensors):
            return result
        if len(tensors) > 1 or type(given) is not tuple:
            self._call.refuse(SEVERAL)
        made = tuple(one.view_as(one) if isinstance(one, torch.Tensor) else one for one in given)
        outputs = tuple(one if isinstance(one, torch.Tensor) else None for one in made)
        self._call.check_once()
        hooks, pre = (
            tuple(follow(self._call, one) for one in self._own[kind].values())
            for kind in (BACKWARD, BACKWARD_PRE)
        )
        with WITHOUT_MODES():
            versions = tuple(one._version for one in (*self._inputs, *outputs) if one is not None)
        self._call.side_effects.backward_hooks.append(
            BackwardHooks(self._proxy, hooks, pre, self._inputs, outputs, self._call.here(), versions)
        )
        return made if isinstance(result, tuple) else made[0]

    def _need_gradients(self, tensors: list[Any]) -> bool:
        """Whether PyTorch hooks on to some tensors, guarded."""
        with WITHOUT_MODES():
            self._call.guards.setting("torch.is_grad_enabled")
            for one in tensors:
                Sizes(self._call).gradient(one)
            return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
