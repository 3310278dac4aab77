"""Calls of PyTorch's functions: each becomes a node, and runs on copies of the model's tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from archive.effects.capture.autocast import Autocast, inside, tensors_in, without_autocast
from archive.effects.capture.autograd import register_hook
from archive.effects.capture.containers import in_graph, plain
from archive.effects.capture.inference import InferenceTensors
from archive.effects.capture.list_functions import detached_list
from archive.effects.capture.operations import (
    GETTERS,
    KNOWN_ATTRIBUTES,
    LISTS,
    OPERATOR_METHODS,
    REFLECTED,
    REFUSED,
    SHAPES,
    TAKING_LISTS,
    TRAINING,
    WRAPPED,
    running_statistics,
)
from archive.effects.capture.scalars import concrete
from archive.effects.capture.sizes import Sizes
from archive.effects.errors import ITEM_CHANGED
from archive.formats.effects.model import Op

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from archive.effects.capture.call import CapturedCall


HOOK_METHODS = (Op.REGISTER_HOOK, Op.REGISTER_GRAD_HOOK)
"""Methods of tensors that put hooks on."""


class TorchCalls(TorchFunctionMode):  # type: ignore[misc]
    """Adds a node for each call of PyTorch that the model makes.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        super().__init__()
        self._call = call
        self._builder = call.builder
        self._sizes = Sizes(call)
        self._grad = torch._C.is_grad_enabled()
        self._region = 0  # a number for each stretch with or without gradients
        self._inference = InferenceTensors(call)
        self._autocast = Autocast(call, self._sizes.type, self._cast)

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 (PyTorch's name)
        """Record a call and make it."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if name in ("__get__", "__set__", "__delete__"):
            return self._attribute(name, func, args)
        if name == "_set_grad_enabled":
            if not (self._grad and (args == (False,) or _puts_back())):
                self._call.guards.setting("torch.is_grad_enabled")
            self._region += 1
            return func(*args)
        if name in HOOK_METHODS:
            return register_hook(self._call, self._sizes, Op(name), *args, **kwargs)
        if name == "item":
            return self.number(args[0])
        text = self._call.texts.of(*args) if name == "__format__" else None
        if text is not None:
            return text
        if name in REFUSED:
            self._call.refuse(REFUSED[name])
        if isinstance(kwargs.get("generator"), torch.Generator):
            self._call.refuse("a generator of random numbers of the model's own")
        given = in_graph if name in TAKING_LISTS else plain
        named = {key: given(one) for key, one in kwargs.items()}
        return self._casting(name, func, tuple(map(given, args)), named)

    def _cast(self, tensor: Any, kind: torch.dtype) -> Any:  # noqa: ANN401
        """A tensor as another type."""
        return self._do("call_method", "to", (tensor, kind), {}, torch.Tensor.to)

    def _casting(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Record a call whose arguments autocast may cast."""
        if name in SHAPES or not self._autocast.is_on():
            return self._record(name, func, args, kwargs)
        cast = self._autocast.cast(func, args, kwargs)
        if cast is not None:
            with without_autocast():
                return self._record(name, func, *cast)
        followed = inside(func)
        if followed is None:
            self._call.refuse(f"what autocast does to {name}")
        with self:
            return followed(*args, **kwargs)

    def _attribute(self, name: str, func: Any, args: tuple[Any, ...]) -> Any:  # noqa: ANN401
        attribute = func.__self__.__name__
        if name != "__get__":
            self._call.refuse(f"an attribute of a tensor that is set: {attribute}")
        if attribute == "data":
            return self._do("call_method", "detach", args, {}, torch.Tensor.detach)
        if attribute in GETTERS:
            return self._do("call_function", getattr, (args[0], attribute), {}, lambda *_: func(args[0]))
        if attribute not in KNOWN_ATTRIBUTES:
            self._call.refuse(f"an attribute of a tensor that cannot be followed: {attribute}")
        return self._sizes.read(attribute, func, args, {})

    def _record(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        if name in SHAPES:
            return self._sizes.read(name, func, args, kwargs)
        if name in REFLECTED:
            return self._do("call_function", REFLECTED[name], args[::-1], kwargs)
        if name in OPERATOR_METHODS:
            return self._do("call_function", OPERATOR_METHODS[name], args, kwargs)
        if func is torch.Tensor.norm:
            return self._do(
                "call_function", torch.norm, args, kwargs, func
            )  # TorchScript's method has no "fro"
        func = getattr(func, "__wrapped__", func) if name in WRAPPED else func
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
        """Add a node, compute its result, and note the tensors that it changes."""
        if self._grad and not torch._C.is_grad_enabled():
            args, kwargs = self._detached(args), self._detached(kwargs)
        before = len(self._builder.graph.nodes)
        node = self._builder.emit(kind, target, args, kwargs)
        node.meta["region"] = self._region
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        given = list(tensors_in((args, kwargs)))
        versions = [one._version for one in given]
        value = self._made(function or target, name, args, kwargs)
        self._note_changes()
        if name in TRAINING:
            self._note_silent(running_statistics(name, target, args, kwargs))
        if value is None or isinstance(value, torch.dtype | torch.device | str):
            if value is not None and len(self._builder.graph.nodes) == before + 1:
                self._builder.graph.erase_node(node)
            return value
        if name in LISTS and isinstance(value, tuple | list):
            self._builder.fixed(
                self._builder.number(len(value), self._builder.emit_on("call_function", len, node), free=True)
            )
        result = self._builder.results(value, node)
        self._inference.note(result, given, versions)
        return result

    @staticmethod
    def _made(
        function: Callable[..., Any],
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:  # noqa: ANN401
        """The result of a call; a tensor of its own even where PyTorch returns an argument unchanged."""
        given = [(one, one._version) for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
        value = function(*concrete(args), **concrete(kwargs))
        if any(one is value and one._version == version for one, version in given) and name[-1:] != "_":
            # `x.float()` returns a float tensor itself, but makes a new one of an int tensor in a later call.
            return torch.ops.aten.alias(value)
        return value

    def _note_changes(self) -> None:
        """Note that the running statement has changed a tensor in place, where a version counter says so."""
        for one in self._builder.inputs:
            if one.is_list:
                if any(tensor._version for _, tensor in one.tensors):
                    self._call.refuse(ITEM_CHANGED)
            elif one.tensors:
                version = one.proxy._version
                if version != one.version and (one.statement is None or one.latest != version):
                    self._call.check_once()
                    one.statement, one.latest = self._call.here(), version

    def _note_silent(self, tensors: list[Any]) -> None:
        """Note that the running statement has changed tensors without their version counters."""
        for tensor in tensors:
            given = self._builder.input_of(tensor)
            if given is not None:
                self._call.check_once()
                given.silently, given.statement = True, self._call.here()

    def _detached(self, value: Any) -> Any:  # noqa: ANN401 (one a kind)
        """A value whose tensors are detached, as under ``no_grad``: a graph has no such blocks."""
        if isinstance(value, torch.Tensor) and self._builder.node_of(value) is not None:
            if self._builder.node_of(value).meta.get("region") == self._region:
                return value  # made without gradients itself
            self._sizes.gradient(value)
            if not value.requires_grad:
                return value
            node = self._builder.emit("call_method", "detach", (value,), {})
            detached = value.detach()
            self._builder.bind(detached, node)
            return detached
        if type(value) is list and self._builder.node_of(value) is not None:
            return detached_list(self._builder, value)
        if type(value) in (tuple, list):
            return type(value)(map(self._detached, value))
        if type(value) is dict:
            return {key: self._detached(one) for key, one in value.items()}
        return value

    def number(self, tensor: Any) -> Any:  # noqa: ANN401
        """The only element of a tensor, as a number of the graph."""
        if tensor.is_complex():
            self._call.refuse("a complex number that depends on a tensor")
        self._sizes.kind(tensor)
        kind = float if tensor.is_floating_point() else bool if tensor.dtype == torch.bool else int
        return self._do("call_function", kind, (tensor,), {}, lambda one: kind(one.item()))


def _puts_back() -> bool:
    """Whether a context of PyTorch, such as ``no_grad``, ends and puts the mode of gradients back."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == torch.autograd.grad_mode.__name__:
        if frame.f_code.co_name == "__exit__":
            return True
        frame = frame.f_back
    return False
