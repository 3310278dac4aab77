"""Records what PyTorch is asked to do, and does it: with real tensors, none of them the model's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from archive.effects.capture.containers import plain
from archive.effects.capture.operations import (
    GETTERS,
    KNOWN,
    LISTS,
    OPERATORS,
    REFLECTED,
    REFUSED,
    SHAPES,
    TRAINING,
    running_statistics,
)
from archive.effects.capture.tape import concrete

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.effects.capture.recorder import Recorder


class Recording(TorchFunctionMode):  # type: ignore[misc]
    """Adds a node for each call of PyTorch.

    Args:
        recorder: of the captured call.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._tape = recorder.tape
        self._grad = torch.is_grad_enabled()
        self._autocast = torch.is_autocast_enabled("cpu")

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 (PyTorch's name)
        """Record a call and do it."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if name in ("__get__", "__set__", "__delete__"):
            return self._attribute(name, func, args)
        if name == "_set_grad_enabled":
            self._recorder.guards.setting("torch.is_grad_enabled")
            return func(*args)
        if name == "register_hook":
            return self._recorder.hooks.register(*args, **kwargs)
        if name == "item":
            return self.number(args[0])
        if name in REFUSED:
            self._recorder.refuse(REFUSED[name])
        if torch.is_autocast_enabled("cpu") != self._autocast:
            self._recorder.refuse("autocast inside the model")
        args, kwargs = plain(args), plain(kwargs)
        return self._record(name, func, args, kwargs)

    def _attribute(self, name: str, func: Any, args: tuple[Any, ...]) -> Any:  # noqa: ANN401
        attribute = func.__self__.__name__
        if name != "__get__":
            self._recorder.refuse(f"an attribute of a tensor that is set: {attribute}")
        if attribute == "data":
            return self._do("call_method", "detach", args, {}, torch.Tensor.detach)
        if attribute in GETTERS:
            return self._do("call_function", getattr, (args[0], attribute), {}, lambda *_: func(args[0]))
        if attribute not in KNOWN:
            self._recorder.refuse(f"an attribute of a tensor that cannot be followed: {attribute}")
        return self._recorder.sizes.read(attribute, func, args, {})

    def _record(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        if name in SHAPES:
            return self._recorder.sizes.read(name, func, args, kwargs)
        if name in REFLECTED:
            return self._do("call_function", REFLECTED[name], args[::-1], kwargs)
        if name in OPERATORS:
            return self._do("call_function", OPERATORS[name], args, kwargs)
        if getattr(torch.Tensor, name, None) is func:
            return self._do("call_method", name, args, kwargs, func)
        return self._do("call_function", func, args, kwargs, func)

    def _do(
        self,
        kind: str,
        target: Any,  # noqa: ANN401
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        function: Callable[..., Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Add a node and compute what it gives."""
        if self._grad and not torch.is_grad_enabled():
            args, kwargs = self._detached(args), self._detached(kwargs)
        before = len(self._tape.graph.nodes)
        node = self._tape.emit(kind, target, args, kwargs)
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        given = [(one, one._version) for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
        value = (function or target)(*concrete(args), **concrete(kwargs))
        if any(one is value and one._version == version for one, version in given) and name[-1:] != "_":
            value = torch.ops.aten.alias(value)  # another call may make another tensor of it, as `x.float()`
        self._recorder.note_changes()
        if name in TRAINING:
            self._recorder.note_silent(running_statistics(name, target, args, kwargs))
        if value is None or isinstance(value, torch.dtype | torch.device | str):
            if value is not None and len(self._tape.graph.nodes) == before + 1:
                self._tape.graph.erase_node(node)
            return value
        if name in LISTS and isinstance(value, tuple | list):
            self._recorder.fixed(
                self._tape.number(len(value), self._tape.emit_on("call_function", len, node), free=True)
            )
        return self._tape.results(value, node)

    def _detached(self, value: Any) -> Any:  # noqa: ANN401
        """Without autograd's record, as under ``no_grad``: a graph has no such blocks."""
        if isinstance(value, torch.Tensor) and self._tape.node_of(value) is not None:
            self._recorder.sizes.gradient(value)
            if not value.requires_grad:
                return value
            node = self._tape.emit("call_method", "detach", (value,), {})
            detached = value.detach()
            self._tape.bind(detached, node)
            return detached
        if type(value) is tuple:
            return tuple(map(self._detached, value))
        if type(value) is list:
            return list(map(self._detached, value))
        if type(value) is dict:
            return {key: self._detached(one) for key, one in value.items()}
        return value

    def number(self, tensor: Any) -> Any:  # noqa: ANN401
        """A tensor's only item, as a number of the graph."""
        if tensor.is_complex():
            self._recorder.refuse("a complex number that depends on a tensor")
        self._recorder.sizes.kind(tensor)
        kind = float if tensor.is_floating_point() else bool if tensor.dtype == torch.bool else int
        return self._do("call_function", kind, (tensor,), {}, lambda one: kind(one.item()))
