"""Autocast inside a model: the graph casts what PyTorch would cast.

Which operators autocast to which type is PyTorch's own affair, and no list here says so: an operator is tried
on copies, once under autocast, and without it on arguments that were cast one way or another, until it does
the same. A function of ``torch.nn.functional`` that calls several operators is followed inside.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.random import fork_rng
from torch.utils._python_dispatch import TorchDispatchMode

from archive.effects.capture.scalars import concrete
from archive.effects.looking import WITHOUT_MODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.effects.capture.call import CapturedCall

DEVICE = "cpu"
CASTS = "aten::_to_copy"
Trial = list[tuple[Any, ...]]
ASKING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
"""Functions by which those of ``torch.nn.functional`` ask whether a mode is to be called instead of them."""


class without_autocast:  # noqa: N801 (as PyTorch's contexts)
    """A context in which autocast is off, or on without its cache of cast weights.

    Args:
        enabled: whether it is on.
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
        call: the captured call.
        guard: guards the type of a tensor.
        record: casts a tensor, by a node of the graph.
    """

    def __init__(
        self, call: CapturedCall, guard: Callable[[Any], None], record: Callable[[Any, torch.dtype], Any]
    ) -> None:
        self._call, self._guard, self._record = call, guard, record
        self._ambient = torch._C.is_autocast_enabled(DEVICE), torch.get_autocast_dtype(DEVICE)
        call.cast_weights = {}

    def is_on(self) -> bool:
        """Whether operators are to be cast now by the graph itself.

        Raises:
            CaptureError: autocast is on around the captured call, and otherwise inside.
        """
        now = torch._C.is_autocast_enabled(DEVICE), torch.get_autocast_dtype(DEVICE)
        if now == self._ambient or not (now[0] or self._ambient[0]):
            return False
        if self._ambient[0]:
            self._call.refuse("autocast inside the model, and another one around it")
        self._call.guards.setting("torch.is_autocast_enabled")
        return True

    def cast(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Arguments and keyword arguments, cast as autocast casts them; None if no cast does the same."""
        for one in tensors_in((args, kwargs)):
            self._guard(one)
        wanted = _tried(function, args, kwargs, enabled=True)
        kinds = {one.dtype: None for one in tensors_in((args, kwargs)) if one.is_floating_point()}
        for kind in (None, torch.get_autocast_dtype(DEVICE), torch.float32, *kinds):
            given = _mapped((args, kwargs), partial(_copied, kind=kind))
            if _tried(function, *given, enabled=False) == wanted:
                with without_autocast(keeping=True):
                    return _mapped((args, kwargs), partial(self._cast, kind=kind))
        return None

    def _cast(self, tensor: Any, kind: torch.dtype | None) -> Any:  # noqa: ANN401
        """A tensor of the graph, cast; a weight is cast once, until autocast ends."""
        if kind is None or not _is_cast(tensor, kind):
            return tensor
        key = id(tensor), kind
        with WITHOUT_MODES():
            is_weight = tensor.requires_grad and tensor.is_leaf and not tensor._is_view()
            is_weight &= tensor.dtype is torch.float32 and kind is torch.get_autocast_dtype(DEVICE)
        if not is_weight or not torch.is_autocast_cache_enabled():
            return self._record(tensor, kind)
        if key not in self._call.cast_weights:
            self._call.cast_weights[key] = self._record(tensor, kind)
        return self._call.cast_weights[key]


def inside(function: Any) -> Any:  # noqa: ANN401
    """A function of ``torch.nn.functional`` that asks for no mode; None for what is not written in Python."""
    if not isinstance(function, FunctionType):
        return None
    names = function.__globals__ | dict.fromkeys(ASKING, lambda *_: False)
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class _Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Notes operators, but for casts."""

    def __init__(self) -> None:
        super().__init__()
        self.trial: Trial = []

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 (PyTorch's name)
        """Note an operator, and run it."""
        if func._schema.name != CASTS:
            self.trial.append((str(func), *_shown((args, kwargs or {}))))
        return func(*args, **(kwargs or {}))


def _tried(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, enabled: bool) -> Trial | None:  # noqa: ANN401
    """The operators that a function runs on copies of its arguments; None if it fails."""
    given, named = _mapped((args, kwargs), _copied)
    try:
        with fork_rng(devices=()), torch.no_grad(), without_autocast(enabled=enabled):
            with _Recorder() as recorder:
                result = function(*concrete(given), **concrete(named))
            return [*recorder.trial, tuple(_shown(result))]
    except Exception:  # noqa: BLE001 (the call itself shows it, if it is the model's)
        return None


def _shown(value: Any) -> Iterator[Any]:  # noqa: ANN401
    """What is compared of operators' arguments and results: types and shapes of tensors, else the value."""
    if isinstance(value, torch.Tensor):
        yield value.dtype, tuple(value.shape)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _shown(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _shown(one)
    else:
        yield repr(value)


def tensors_in(value: Any) -> Iterator[Any]:  # noqa: ANN401
    """The tensors in arguments, at any depth."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(one)


def _mapped(value: Any, function: Callable[[Any], Any], known: dict[int, Any] | None = None) -> Any:  # noqa: ANN401
    """A value with other tensors; equal ones stay equal."""
    known = {} if known is None else known
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            known[id(value)] = function(value)
        return known[id(value)]
    if type(value) in (tuple, list):
        return type(value)(_mapped(one, function, known) for one in value)
    if type(value) is dict:
        return {key: _mapped(one, function, known) for key, one in value.items()}
    return value


def _is_cast(tensor: Any, kind: torch.dtype) -> bool:  # noqa: ANN401
    """Whether autocast may cast a tensor to a type: PyTorch leaves doubles as they are."""
    with WITHOUT_MODES():
        return bool(tensor.is_floating_point() and tensor.dtype not in (torch.float64, kind))


def _copied(tensor: Any, kind: torch.dtype | None = None) -> Any:  # noqa: ANN401
    with WITHOUT_MODES(), torch.no_grad():
        copy = tensor.detach().clone()
    return copy.to(kind) if kind is not None and _is_cast(tensor, kind) else copy
