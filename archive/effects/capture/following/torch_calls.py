"""Calls of PyTorch's functions: each becomes a node, and runs on copies of the model's tensors.

Under autocast the graph casts what PyTorch would cast. PyTorch has no list of which operators autocast casts
to which type, so each operator is tried on copies, once under autocast, and without it on arguments cast one
way or another, until it does the same. A function of ``torch.nn.functional`` that calls several operators is
followed inside.
"""

from __future__ import annotations

import sys
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.random import fork_rng
from torch.utils._python_dispatch import TorchDispatchMode

from archive.effects.capture.following.autograd import InferenceTensors, register_hook
from archive.effects.capture.following.outside import DEFAULT
from archive.effects.capture.graph.operations import (
    FACET_BY_NAME,
    GETTERS,
    LISTS,
    OPERATOR_METHODS,
    REFLECTED,
    REFUSED,
    TAKING_LISTS,
    TRAINING,
    WRAPPED,
    running_statistics,
)
from archive.effects.capture.graph.scalars import concrete
from archive.effects.capture.proxies.containers import in_graph, without_proxies
from archive.effects.capture.proxies.list_functions import detached_list
from archive.effects.capture.proxies.sizes import Sizes
from archive.effects.errors import ITEM_CHANGED
from archive.effects.looking import WITHOUT_MODES
from archive.effects.nested import tensors_in, with_tensors
from archive.formats.effects.model import Op
from archive.formats.effects.words import HOOK_OPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from archive.effects.capture.table.call import CapturedCall


# --- autocast

DEVICE = "cpu"
CAST_OPERATOR = "aten::_to_copy"
Trial = list[tuple[Any, ...]]
ASKING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
"""Functions by which those of ``torch.nn.functional`` ask whether a mode handles their call."""


class without_autocast:  # noqa: N801 (as PyTorch's contexts)
    """A context in which autocast is off, or on without its cache of cast weights.

    Args:
        keeping: whether the cache's own switch stays as it is.
    """

    def __init__(self, *, enabled: bool = False, keeping: bool = False) -> None:
        self._enabled, self._keeping = enabled, keeping

    def __enter__(self) -> None:
        self._before = torch._C.is_autocast_enabled(DEVICE), torch.is_autocast_cache_enabled()
        torch.set_autocast_enabled(DEVICE, self._enabled)
        torch.set_autocast_cache_enabled(self._keeping and self._before[1])

    def __exit__(self, *_: object) -> None:
        enabled, cached = self._before
        torch.set_autocast_enabled(DEVICE, enabled)
        torch.set_autocast_cache_enabled(cached)


class Autocast:
    """Casts of one call.

    Args:
        guard: guards the type of a tensor.
        record: casts a tensor, by a node of the graph.
    """

    def __init__(
        self, call: CapturedCall, guard: Callable[[Any], None], record: Callable[[Any, torch.dtype], Any]
    ) -> None:
        self._call, self._guard, self._record = call, guard, record
        self._ambient = torch._C.is_autocast_enabled(DEVICE), torch.get_autocast_dtype(DEVICE)
        call.regions.cast_weights = {}

    def is_on(self) -> bool:
        """Whether the graph itself must cast the operators that run now."""
        now = torch._C.is_autocast_enabled(DEVICE), torch.get_autocast_dtype(DEVICE)
        if now == self._ambient or not (now[0] or self._ambient[0]):
            return False
        if self._ambient[0]:
            self._call.refuse("autocast inside the model, and another one around it")
        self._call.guards.setting("torch.is_autocast_enabled")
        return True

    def cast(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Arguments and keyword arguments, cast as autocast casts them; None if no cast does the same."""
        for tensor in tensors_in((args, kwargs)):
            self._guard(tensor)
        wanted = _tried(function, args, kwargs, enabled=True)
        kinds = {tensor.dtype: None for tensor in tensors_in((args, kwargs)) if tensor.is_floating_point()}
        for kind in (None, torch.get_autocast_dtype(DEVICE), torch.float32, *kinds):
            given = with_tensors((args, kwargs), partial(_copied, kind=kind))
            if _tried(function, *given, enabled=False) == wanted:
                with without_autocast(keeping=True):
                    return with_tensors((args, kwargs), partial(self._cast, kind=kind))
        return None

    def _cast(self, tensor: Any, kind: torch.dtype | None) -> Any:
        """A tensor of the graph, cast; a weight is cast only once until autocast ends."""
        if kind is None or not _is_cast(tensor, kind):
            return tensor
        key = id(tensor), kind
        with WITHOUT_MODES():
            is_weight = tensor.requires_grad and tensor.is_leaf and not tensor._is_view()
            is_weight &= tensor.dtype is torch.float32 and kind is torch.get_autocast_dtype(DEVICE)
        if not is_weight or not torch.is_autocast_cache_enabled():
            return self._record(tensor, kind)
        if key not in self._call.regions.cast_weights:
            self._call.regions.cast_weights[key] = self._record(tensor, kind)
        return self._call.regions.cast_weights[key]


def inside(function: Any) -> Any:
    """A function of ``torch.nn.functional`` that asks for no mode; None if it isn't written in Python."""
    if not isinstance(function, FunctionType):
        return None
    names = function.__globals__ | dict.fromkeys(ASKING, lambda *_: False)
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class _Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Notes operators, except casts."""

    def __init__(self) -> None:
        super().__init__()
        self.trial: Trial = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Note an operator, and run it."""
        if func._schema.name != CAST_OPERATOR:
            self.trial.append((str(func), *_compared_in((args, kwargs or {}))))
        return func(*args, **(kwargs or {}))


def _tried(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, enabled: bool) -> Trial | None:
    """The operators that a function runs on copies of its arguments; None if it fails."""
    given, named = with_tensors((args, kwargs), _copied)
    try:
        with fork_rng(devices=()), torch.no_grad(), without_autocast(enabled=enabled):
            with _Recorder() as recorder:
                result = function(*concrete(given), **concrete(named))
            return [*recorder.trial, tuple(_compared_in(result))]
    except Exception:  # noqa: BLE001 (the call itself shows it, if it is the model's)
        return None


def _compared_in(value: Any) -> Iterator[Any]:
    """What is compared in operators' arguments and results: types and shapes of tensors, or the value."""
    if isinstance(value, torch.Tensor):
        yield value.dtype, tuple(value.shape)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _compared_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _compared_in(item)
    else:
        yield repr(value)


def _is_cast(tensor: Any, kind: torch.dtype) -> bool:
    """Whether autocast may cast a tensor to a type: PyTorch leaves doubles as they are."""
    with WITHOUT_MODES():
        return bool(tensor.is_floating_point() and tensor.dtype not in (torch.float64, kind))


def _copied(tensor: Any, kind: torch.dtype | None = None) -> Any:
    with WITHOUT_MODES(), torch.no_grad():
        copy = tensor.detach().clone()
    return copy.to(kind) if kind is not None and _is_cast(tensor, kind) else copy


# --- torch calls


class TorchCalls(TorchFunctionMode):  # type: ignore[misc]
    """Adds a node for each call of PyTorch that the model makes."""

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
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
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
        if name in HOOK_OPS:
            return register_hook(self._call, self._sizes, Op(name), *args, **kwargs)
        if name == "item":
            return self.number(args[0])
        text = self._call.texts.of(*args) if name == "__format__" else None
        if text is not None:
            return text
        if name in REFUSED:
            self._call.refuse(REFUSED[name])
        if kwargs.get("generator") is DEFAULT:
            kwargs = {key: argument for key, argument in kwargs.items() if key != "generator"}
        elif isinstance(kwargs.get("generator"), torch.Generator):
            self._call.refuse("a generator of random numbers of the model's own")
        given = in_graph if name in TAKING_LISTS else without_proxies
        named = {key: given(argument) for key, argument in kwargs.items()}
        return self._casting(name, func, tuple(map(given, args)), named)

    def _cast(self, tensor: Any, kind: torch.dtype) -> Any:
        """A tensor as another type."""
        return self._do("call_method", "to", (tensor, kind), {}, torch.Tensor.to)

    def _casting(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call whose arguments autocast may cast."""
        if name in FACET_BY_NAME or not self._autocast.is_on():
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

    def _attribute(self, name: str, func: Any, args: tuple[Any, ...]) -> Any:
        attribute = func.__self__.__name__
        if name != "__get__":
            self._call.refuse(f"an attribute of a tensor that is set: {attribute}")
        if attribute == "data":
            return self._do("call_method", "detach", args, {}, torch.Tensor.detach)
        if attribute in GETTERS:
            return self._do("call_function", getattr, (args[0], attribute), {}, lambda *_: func(args[0]))
        if attribute not in FACET_BY_NAME:
            self._call.refuse(f"an attribute of a tensor that cannot be followed: {attribute}")
        return self._sizes.read(attribute, func, args, {})

    def _record(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in FACET_BY_NAME:
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
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        function: Callable[..., Any] | None = None,
    ) -> Any:
        """Add a node, compute its result, and note the tensors that it changes."""
        if self._grad and not torch._C.is_grad_enabled():
            args, kwargs = self._detached(args), self._detached(kwargs)
        before = len(self._builder.graph.nodes)
        node = self._builder.emit(kind, target, args, kwargs)
        node.meta["region"] = self._region
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        given = list(tensors_in((args, kwargs)))
        versions = [tensor._version for tensor in given]
        value = self._made(function or target, name, args, kwargs)
        self._note_changes()
        if name in TRAINING:
            for tensor in running_statistics(name, target, args, kwargs):  # changed without version counters
                changed = self._builder.input_of(tensor)
                if changed is not None:
                    self._call.check_once()
                    changed.silently, changed.statement = True, self._call.here()
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
    ) -> Any:
        """The result of a call; a tensor of its own even where PyTorch returns an argument unchanged."""
        given = [
            (tensor, tensor._version)
            for tensor in (*args, *kwargs.values())
            if isinstance(tensor, torch.Tensor)
        ]
        value = function(*concrete(args), **concrete(kwargs))
        if (
            any(tensor is value and tensor._version == before for tensor, before in given)
            and name[-1:] != "_"
        ):
            # `x.float()` returns a float tensor itself, but makes a new one of an int tensor in a later call.
            return torch.ops.aten.alias(value)
        return value

    def _note_changes(self) -> None:
        """Note that the running statement has changed a tensor in place, if a version counter says so."""
        for given in self._builder.inputs:
            if given.is_list:
                if any(tensor._version for _, tensor in given.tensors):
                    self._call.refuse(ITEM_CHANGED)
            elif given.tensors:
                version = given.proxy._version
                if version != given.version and (given.statement is None or given.latest != version):
                    self._call.check_once()
                    given.statement, given.latest = self._call.here(), version

    def _detached(self, value: Any) -> Any:
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
            return {key: self._detached(item) for key, item in value.items()}
        return value

    def number(self, tensor: Any) -> Any:
        """The only element of a tensor, as a number of the graph."""
        if tensor.is_complex():
            self._call.refuse("a complex number that depends on a tensor")
        self._sizes.kind(tensor)
        kind = float if tensor.is_floating_point() else bool if tensor.dtype == torch.bool else int
        return self._do("call_function", kind, (tensor,), {}, lambda detached: kind(detached.item()))


def _puts_back() -> bool:
    """Whether a context of PyTorch, such as ``no_grad``, ends and puts the mode of gradients back."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == torch.autograd.grad_mode.__name__:
        if frame.f_code.co_name == "__exit__":
            return True
        frame = frame.f_back
    return False
