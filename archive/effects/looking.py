"""The looks of guards, which are the same at capture and at replay."""

from __future__ import annotations

import math
import operator
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects import places
from archive.effects.errors import StateError
from archive.effects.placeholders import ABSENT
from archive.effects.places import is_container
from archive.formats.effects.gate import SETTING_NAMES
from archive.formats.effects.model import Look

if TYPE_CHECKING:
    from collections.abc import Callable

WITHOUT_MODES = torch._C.DisableTorchFunction
"""A context in which calls of PyTorch are not recorded as the model's."""
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
SHOWN_CONTAINERS = frozenset((tuple, list, torch.Size))
SHOWN_TYPES = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, *PLAIN_TENSORS),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)
"""Types whose texts run no code of a model."""
BUILTIN_TYPES: dict[str, type] = {
    cls.__name__: cls for cls in (bool, int, float, str, bytes, list, dict, tuple, type(None))
}
_SETTINGS: tuple[Callable[[], object], ...] = (
    torch._C.is_grad_enabled,
    lambda: torch._C.is_autocast_enabled("cpu"),
    lambda: torch._C.is_autocast_enabled("cuda"),
    torch.is_inference_mode_enabled,
    lambda: str(torch.get_default_dtype()),
)
SETTINGS = dict(zip(SETTING_NAMES, _SETTINGS, strict=True))
"""Settings of PyTorch that a model's results may depend on."""


def type_name(value: Any) -> str:
    """A value's type: ``tensor``, a builtin's name, or ``module:qualname``; sizes are a tuple."""
    kind = type(value)
    if kind is torch.Size:
        return "tuple"
    if kind in PLAIN_TENSORS:
        return "tensor" if value.layout is torch.strided else f"tensor {value.layout}"
    return (
        kind.__name__
        if BUILTIN_TYPES.get(kind.__name__) is kind
        else f"{kind.__module__}:{kind.__qualname__}"
    )


def is_tensor(value: Any) -> bool:
    """Whether a value is an ordinary tensor."""
    return type(value) in PLAIN_TENSORS and value.layout is torch.strided


def checked_tensor(value: Any) -> Any:
    """A value that is a tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"expected a tensor, found a {type(value).__name__}")
    return value


def checked_int(value: object) -> int:
    """A value that is an int of Python's own class."""
    if type(value) is not int:
        raise TypeError(f"expected an int, found a {type(value).__name__}")
    return value


def check_shown(*values: object) -> None:
    """Refuse values whose text comes from a class that somebody wrote: such a class may run any code."""
    waiting, seen = list(values), set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        if kind is dict:
            waiting += [*value.keys(), *value.values()]  # type: ignore[attr-defined]
        elif kind in SHOWN_CONTAINERS:
            waiting += value  # type: ignore[arg-type]
        elif kind not in SHOWN_TYPES:
            raise StateError(f"expected a value whose text is known, found a {kind.__name__}")


def plain_text(value: Any) -> str:
    """The text of an immutable value."""
    if isinstance(value, tuple) or is_container(value):
        check_shown(value)
    elif type(value).__flags__ & places.HEAP_TYPE:
        raise TypeError(f"expected an immutable value, found a {type(value).__name__}")
    return str(value)


def kind_of(tensor: Any) -> str:
    """The kind of numbers that a tensor holds: float, complex, bool or int."""
    if tensor.is_floating_point():
        return "float"
    if tensor.is_complex():
        return "complex"
    return "bool" if tensor.dtype is torch.bool else "int"


def same_literal(left: Any, right: Any) -> bool:
    """Whether two constants are the same: 1 is neither 1.0 nor True, 0.0 not -0.0, and nan is nan."""
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same_literal, left, right))
    if isinstance(left, float):
        return repr(left) == repr(right) if not left or math.isnan(left) else left == right
    return bool(left == right)


def apart(left: Any, right: Any) -> bool:
    """Whether two tensors share no memory, or two other objects are not the same one."""
    if left is right:
        return False
    address = memory(left)
    return address == 0 or address != memory(right)


def memory(value: Any) -> int:
    """The address of a tensor's memory; 0 if it has none, or of other values."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return 0
    address: int = value.untyped_storage().data_ptr()
    return address


def hook_names(module: Any, kind: object) -> tuple[str, ...]:
    """The names of a module's hooks of a kind, in their order: what runs when the module is called."""
    hooks = vars(module).get(str(kind))
    names = []
    for hook in hooks.values() if isinstance(hooks, dict) else ():
        while isinstance(hook, partial | MethodType):
            hook = hook.func if isinstance(hook, partial) else hook.__func__  # noqa: PLW2901
        code = hook if isinstance(hook, FunctionType) else type(hook)
        names.append(f"{code.__module__}:{code.__qualname__}")
    return tuple(names)


def has_hooks(module: Any, kind: object, names: tuple[str, ...]) -> bool:
    """Whether a live module has these hooks. A stand-in for a module has no hooks; the check is skipped."""
    return not isinstance(module, torch.nn.Module) or hook_names(module, kind) == names


def setting(name: object) -> object:
    """The value of a setting of PyTorch."""
    return SETTINGS[str(name)]()


def number(value: Any) -> Any:
    """A number in a computed expression."""
    kind = type(value)
    if kind is int:
        if value.bit_length() > MOST_COMPUTED_BITS:
            raise TypeError(f"expected at most {MOST_COMPUTED_BITS} bits, found {value.bit_length()}")
    elif kind is not bool and kind is not float:
        raise TypeError(f"expected a number, found a {kind.__name__}")
    return value


MOST_COMPUTED_BITS = 4096
TENSOR_SIZES: dict[str, Callable[..., Any]] = {
    "size_of": lambda tensor, dim: checked_tensor(tensor).size(dim),
    "numel": lambda tensor: checked_tensor(tensor).numel(),
}
NUMBER_FUNCTIONS: dict[str, Callable[..., Any]] = {"int": int, "float": float, "min": min, "max": max}


def operation(op: str) -> Callable[..., Any]:
    """The function of an operation of :mod:`archive.formats.effects.words`: a number from its operands.

    The function raises a ``TypeError`` if an operand isn't a number, and an ``ArithmeticError`` if Python
    cannot compute the result, such as a division by zero.
    """
    if op in TENSOR_SIZES:
        return TENSOR_SIZES[op]
    function = NUMBER_FUNCTIONS.get(op) or getattr(operator, op)
    return lambda *operands: function(*map(number, operands))


FOUND: dict[Look, Callable[[Any, Any], Any]] = {
    Look.EQUAL: lambda value, _: value,
    Look.TEXT: lambda value, _: plain_text(value),
    Look.TYPE: lambda value, _: type_name(value),
    Look.RANGE: lambda value, _: value,
    Look.LENGTH: lambda value, _: places.length(value),
    Look.KEYS: lambda value, _: tuple(places.items(value)),
    Look.HAS: lambda value, key: "it there" if places.has(value, key) else "it missing",
    Look.ATTRIBUTE: lambda value, key: places.own(value, key) is not ABSENT,
    Look.IS_NONE: lambda value, _: value,
    Look.HOOKS: hook_names,
    Look.DIM: lambda value, _: checked_tensor(value).dim(),
    Look.SIZE: lambda value, key: checked_tensor(value).size(key),
    Look.SHAPE: lambda value, _: tuple(checked_tensor(value).shape),
    Look.STRIDE: lambda value, _: tuple(checked_tensor(value).stride()),
    Look.DTYPE: lambda value, _: str(checked_tensor(value).dtype),
    Look.KIND: lambda value, _: kind_of(checked_tensor(value)),
    Look.DEVICE: lambda value, _: str(checked_tensor(value).device),
    Look.REQUIRES_GRAD: lambda value, _: checked_tensor(value).requires_grad,
    Look.SETTING: lambda _, key: setting(key),
}
"""Functions that look at a subject, given a key; ``SAME`` and ``APART`` compare two subjects instead."""


def condition(look: Look, value: Any, key: Any) -> Callable[[Any, Any], bool]:
    """Whether a guard holds, as a function of its subject, and of another one if it names one."""
    if look in (Look.SAME, Look.APART):
        return apart if look is Look.APART else operator.is_
    if look is Look.TYPE and value == "tensor":
        return lambda subject, _: is_tensor(subject)
    if look is Look.HOOKS:
        return lambda subject, _: has_hooks(subject, key, value)
    if look is Look.EQUAL and (value is None or isinstance(value, bool)):
        return lambda subject, _: subject is value
    if look is Look.EQUAL and isinstance(value, str | int):
        kind = type(value)
        return lambda subject, _: type(subject) is kind and subject == value
    if look in (Look.EQUAL, Look.KEYS):
        look_at = FOUND[look]
        return lambda subject, _: same_literal(look_at(subject, key), value)
    if look is Look.RANGE:
        return lambda subject, _: type(subject) is int and -value <= subject <= value
    if look is Look.HAS:
        return lambda subject, _: places.has(subject, key) is value
    if look is Look.IS_NONE:
        return lambda subject, _: (subject is None) is value
    found = FOUND[look]
    return lambda subject, _: bool(found(subject, key) == value)


UNCOMPARED = (Look.RANGE, Look.SAME, Look.APART)
"""Looks where two guards may both hold though their values differ."""
FOLLOWING: dict[tuple[Look, Look], Callable[[Any, Any], object]] = {
    (Look.EQUAL, Look.TYPE): lambda value, _: type_name(value),
    (Look.EQUAL, Look.IS_NONE): lambda value, _: value is None,
    (Look.EQUAL, Look.TEXT): lambda value, _: str(value),
    (Look.TYPE, Look.IS_NONE): lambda value, _: value == "NoneType",
    (Look.KEYS, Look.HAS): lambda value, key: any(same_literal(present, key) for present in value),
    (Look.KEYS, Look.LENGTH): lambda value, _: len(value),
}
"""What the second look finds if a guard of the first holds, by that guard's value and its own key."""
