"""PyTorch's functions that no mode sees, replaced during a capture to follow what they do or return.

They are replaced in PyTorch itself, since a model may reach them by any path. In threads that capture
nothing, a replacement behaves like the original.

What ``torch.utils.checkpoint`` computes is captured as if it were called plainly. In the backward pass
PyTorch computes a checkpoint's part again. The gradients are the same, as long as the part changes nothing,
does not ask whether gradients are wanted, and draws the same random numbers again.
"""

from __future__ import annotations

import heapq
import operator
import os
import sys
import threading
import warnings
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.random import get_rng_state
from torch.utils import checkpoint
from torch.utils.checkpoint import CheckpointFunction

from archive.effects.capture.following.autograd import InferenceRegion, apply_function
from archive.effects.capture.following.outside import (
    Watch,
    audit,
    for_the_model,
    watched_calls,
)
from archive.effects.capture.graph.sites import first_read, is_model_module
from archive.effects.capture.graph.variables import is_container_proxy
from archive.effects.capture.proxies.open_list import OpenList
from archive.effects.capture.proxies.open_part import OpenPart
from archive.effects.errors import OUTSIDE
from archive.effects.looking import WITHOUT_MODES
from archive.formats.effects.gate import SETTING_NAMES
from archive.formats.effects.known_calls import WARN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.effects.capture.table.call import CapturedCall


# --- checkpoints

GENERATOR = checkpoint._checkpoint_without_reentrant_generator
LOST_RANDOM = (
    "random numbers inside torch.utils.checkpoint, which differ in the backward pass: preserve_rng_state"
)


def checkpointed(
    call: CapturedCall,
    function: Callable[..., Any],
    preserve: bool,  # noqa: FBT001 (PyTorch's order)
    args: tuple[Any, ...],
) -> Any:
    """Call a function as ``checkpoint(..., use_reentrant=True)`` does.

    Args:
        preserve: whether the backward pass draws the same random numbers.
        args: of the function. If none of them needs a gradient, the results have none.
    """
    tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
    call.guards.setting("torch.is_grad_enabled")
    if not torch._C.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        _note_warning(call, args)
        with torch.no_grad():
            return function(*args)
    before = get_rng_state()
    call.regions.checkpoints += 1
    result = function(*args)
    call.regions.checkpoints -= 1
    _check_random(call, before, preserve=preserve)
    for item in result if isinstance(result, tuple) else (result,):
        if isinstance(item, list | dict | tuple) or any(item is other for other in tensors):
            call.refuse("a result of torch.utils.checkpoint that is an argument, or holds several tensors")
        with WITHOUT_MODES():
            if isinstance(item, torch.Tensor) and item.is_floating_point() and not item.requires_grad:
                call.refuse("a result of torch.utils.checkpoint without gradient, to which PyTorch gives one")
    return result


def _note_warning(call: CapturedCall, args: tuple[Any, ...]) -> None:
    """Keep PyTorch's warning that the results have no gradient."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        checkpoint.check_backward_validity(args)
    code = CheckpointFunction.forward.__code__
    position = first_read(code, "check_backward_validity")
    for warning in shown:
        place = code.co_filename, position[0] if position else 0, checkpoint.__name__
        call.kept_calls.note(WARN, (warning.category.__name__, *place), (str(warning.message),))


def _check_random(call: CapturedCall, before: Any, *, preserve: bool) -> None:
    with WITHOUT_MODES():
        if not preserve and not torch.equal(before, get_rng_state()):
            call.refuse(LOST_RANDOM)


# --- interception

LOCK = threading.Lock()
CALL_BY_THREAD: dict[int, CapturedCall] = {}
"""The captured call of each thread that captures one."""
DECIDING = "torch.nn."
"""The part of PyTorch that depends on settings; others only read them to restore them later."""
UNGUARDED = ", which no guard looks at"
RANDOM = {
    "manual_seed": OUTSIDE,
    "seed": OUTSIDE,
    "set_rng_state": OUTSIDE,
    "get_rng_state": UNGUARDED,
    "initial_seed": UNGUARDED,
}
"""Functions that change or return the state of random numbers, each with why it is refused."""
PROCESS_SETTERS = (
    "save",
    "set_deterministic_debug_mode",
    "set_printoptions",
    "set_default_dtype",
    "set_default_device",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
)
"""Other functions that change what is outside the model: settings of the process, files."""
OF_NUMPY = ("set_printoptions", "setbufsize", "seterr", "seterrcall")
"""Functions of NumPy that change settings of the process."""
OF_CUDA = ("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all")
OF_ALL_MODULES = [name for name in vars(torch.nn.modules.module) if name.startswith("register_module_")]
"""Functions that put hooks on all modules."""
OF_NUMPY_RANDOM = [
    name
    for name in np.random.__all__
    if name != "default_rng" and not isinstance(getattr(np.random, name), type)
]
"""Functions of ``numpy.random`` that use the generator of the process."""
OF_ITEMS = (
    (heapq, ("heapify", "heappop", "heappush", "heappushpop", "heapreplace")),
    (operator, ("concat", "iconcat")),
)
"""Functions of lists that call none of their methods."""
Environment: Any = type(os.environ)
INFERENCE = torch._C._InferenceMode
CLEAR = torch.clear_autocast_cache
APPLY = torch.autograd.Function.__dict__["apply"]
"""The method of PyTorch, as its class has it."""


def _current() -> CapturedCall | None:
    """The captured call of this thread."""
    return CALL_BY_THREAD.get(threading.get_ident())


def _apply(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """Replace ``torch.autograd.Function.apply``."""
    call = _current()
    if call is None:
        return APPLY.__func__(cls, *args, **kwargs)
    if cls is CheckpointFunction:
        function, preserve, *given = args
        return checkpointed(call, function, preserve, tuple(given))
    return apply_function(call, cls, args)


def _without_reentry(
    function: Callable[..., Any],
    preserve: bool = True,  # noqa: FBT001, FBT002 (PyTorch's signature)
    *args: Any,
    **kwargs: Any,
) -> Iterator[Any]:
    """Replace the steps around ``checkpoint(..., use_reentrant=False)``."""
    call = _current()
    before = None if call is None else get_rng_state()
    yield from GENERATOR(function, preserve, *args, **kwargs)
    if call is not None and torch._C.is_grad_enabled():
        _check_random(call, before, preserve=preserve)


def _reading(real: Callable[..., Any], setting: str) -> Callable[..., Any]:
    """Replace a function that returns a setting of PyTorch: the setting is guarded."""

    def read(*args: Any) -> Any:
        call = _current()
        if call is not None and _decides(sys._getframe(1).f_globals.get("__name__", "")):
            if setting == "torch.is_grad_enabled" and call.regions.checkpoints:
                call.refuse("torch.is_grad_enabled inside torch.utils.checkpoint, which disables gradients")
            device = args[0] if args else ""
            name = setting
            if setting == "torch.is_autocast_enabled" and device != "cpu":
                name = f"{setting}({device or 'cuda'!r})"
            if name not in call.guards.settings:
                call.refuse(f"{name}, which no guard looks at")
            call.guards.setting(name)
            if call.regions.inference and name == "torch.is_inference_mode_enabled":
                return True
        return real(*args)

    return read


def _refusing(real: Callable[..., Any], name: str, reason: str) -> Callable[..., Any]:
    """Replace a function that no table can follow; libraries' own code may call it."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        call = _current()
        if call is not None and _decides(sys._getframe(1).f_globals.get("__name__", "")):
            call.refuse(f"{name}{reason}")
        return real(*args, **kwargs)

    return refused


def _of_items(real: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a function in C that reads a list's items from its memory, where proxies have none."""

    def checked(*args: Any) -> Any:
        call = _current()
        if call is not None and args and isinstance(args[0], OpenPart):
            args[0].fixed()
        elif call is not None and args and (isinstance(args[0], OpenList) or is_container_proxy(args[0])):
            call.refuse("a list was changed by what is not written in Python")
        return real(*args)

    return checked


def _inference_mode(mode: bool) -> Any:  # noqa: FBT001 (PyTorch's signature)
    """Replace the context that ``torch.inference_mode`` enters."""
    call = _current()
    return INFERENCE(mode) if call is None else InferenceRegion(call, mode)


def _clear_autocast_cache() -> None:
    """Replace ``torch.clear_autocast_cache``, which autocast calls at its end."""
    call = _current()
    if call is not None:
        call.regions.cast_weights.clear()
    CLEAR()


def _decides(module: str) -> bool:
    """Whether a Python module's code belongs to a model, or decides for one."""
    return is_model_module(module) or module.startswith(DECIDING)


WATCH = Watch(_current)


class Replacement(NamedTuple):
    """One function of PyTorch."""

    owner: Any
    name: str
    real: Any
    made: Any


REPLACEMENTS = (
    Replacement(torch.autograd.Function, "apply", APPLY, classmethod(_apply)),
    Replacement(checkpoint, "_checkpoint_without_reentrant_generator", GENERATOR, _without_reentry),
    Replacement(torch._C, "_InferenceMode", INFERENCE, _inference_mode),
    Replacement(torch, "clear_autocast_cache", CLEAR, _clear_autocast_cache),
    *(
        Replacement(owner, name, getattr(owner, name), _of_items(getattr(owner, name)))
        for owner, names in OF_ITEMS
        for name in names
    ),
    *(
        Replacement(Environment, name, method, for_the_model(method, _current))
        for name, method in vars(Environment).items()
        if isinstance(method, FunctionType) and name not in ("__init__", "__repr__")
    ),
    *(
        Replacement(torch, name, getattr(torch, name), _reading(getattr(torch, name), f"torch.{name}"))
        for name in (name.removeprefix("torch.") for name in SETTING_NAMES if "(" not in name)
    ),
    *(
        Replacement(
            owner, name, getattr(owner, name), _refusing(getattr(owner, name), f"{shown}.{name}", reason)
        )
        for owner, shown, reasons in (
            (torch, "torch", RANDOM | dict.fromkeys(PROCESS_SETTERS, OUTSIDE)),
            (torch.random, "torch", RANDOM | {"fork_rng": OUTSIDE}),
            (torch.cuda, "torch.cuda", dict.fromkeys(OF_CUDA, OUTSIDE)),
            (torch.nn.modules.module, "torch.nn.modules.module", dict.fromkeys(OF_ALL_MODULES, OUTSIDE)),
            (np, "numpy", dict.fromkeys(OF_NUMPY, OUTSIDE)),
            (np.random, "numpy.random", dict.fromkeys(OF_NUMPY_RANDOM, OUTSIDE)),
        )
        for name, reason in reasons.items()
    ),
)
BY_FUNCTION = {
    id(replacement.real): replacement.made
    for replacement in REPLACEMENTS
    if isinstance(replacement.owner, ModuleType)
}
"""The same by the identity of the functions that they take the place of."""
STOOD: list[Any] = []
"""What stood at the place of each replacement before the capture; see :func:`_standing`."""


def replaced() -> dict[int, Any]:
    """Replacements of functions that a model may have imported by their names."""
    with LOCK:
        standing = STOOD if CALL_BY_THREAD else _standing()
    named = zip(REPLACEMENTS, standing, strict=True)
    return BY_FUNCTION | {id(stood): each.made for each, stood in named if isinstance(each.owner, ModuleType)}


def _standing() -> list[Any]:
    """What stands at the place of each replacement: dynamo puts another ``torch.manual_seed`` there."""
    return [
        getattr(each.owner, each.name) if isinstance(each.owner, ModuleType) else each.real
        for each in REPLACEMENTS
    ]


@contextmanager
def several_attempts() -> Iterator[None]:
    """Watch modules from the first attempt to the last, since each start and each end changes all modules."""
    with LOCK:
        WATCH.captures += 1
    try:
        yield
    finally:
        with LOCK:
            WATCH.captures -= 1
            if not (CALL_BY_THREAD or WATCH.captures):
                WATCH.end()


@contextmanager
def intercepted(call: CapturedCall) -> Iterator[None]:
    """Follow what this thread does with these functions."""
    audit(_current)
    with LOCK:
        if not CALL_BY_THREAD:
            STOOD[:] = _standing()
            for replacement in REPLACEMENTS:
                setattr(replacement.owner, replacement.name, replacement.made)
            WATCH.begin()
        CALL_BY_THREAD[threading.get_ident()] = call
    try:
        with watched_calls(call):
            yield
    finally:
        with LOCK:
            del CALL_BY_THREAD[threading.get_ident()]
            if not CALL_BY_THREAD:
                if not WATCH.captures:
                    WATCH.end()
                for replacement, stood in zip(REPLACEMENTS, STOOD, strict=True):
                    setattr(replacement.owner, replacement.name, stood)
