"""The looks of guards: the same when a model is captured and when its effects are replayed."""

from __future__ import annotations

import math
import operator
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.formats.effects.model import Look

if TYPE_CHECKING:
    from collections.abc import Callable

WITHOUT_MODES = torch._C.DisableTorchFunction
"""A context in which calls of PyTorch are not recorded as the model's."""
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
BUILTIN_TYPES: dict[str, type] = {
    one.__name__: one for one in (bool, int, float, str, bytes, list, dict, tuple, type(None))
}
SETTINGS: dict[str, Callable[[], object]] = {
    "torch.is_grad_enabled": torch._C.is_grad_enabled,
    "torch.is_autocast_enabled": lambda: torch._C.is_autocast_enabled("cpu"),
    "torch.is_autocast_enabled('cuda')": lambda: torch._C.is_autocast_enabled("cuda"),
    "torch.is_inference_mode_enabled": torch.is_inference_mode_enabled,
    "torch.get_default_dtype": lambda: str(torch.get_default_dtype()),
}
"""Settings of PyTorch that a model's results may depend on."""


def type_name(value: Any) -> str:  # noqa: ANN401
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


def is_tensor(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is an ordinary tensor."""
    return type(value) in PLAIN_TENSORS and value.layout is torch.strided


def kind_of(tensor: Any) -> str:  # noqa: ANN401
    """The kind of numbers that a tensor holds: float, complex, bool or int."""
    if tensor.is_floating_point():
        return "float"
    if tensor.is_complex():
        return "complex"
    return "bool" if tensor.dtype is torch.bool else "int"


def same_literal(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Whether two constants are the same: 1 is neither 1.0 nor True, 0.0 not -0.0, and nan is nan."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same_literal, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other) if not one or math.isnan(one) else one == other
    return bool(one == other)


def apart(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Whether two tensors share no memory, or two other objects are not the same one."""
    if one is other:
        return False
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return True
    address: int = one.untyped_storage().data_ptr()
    return address == 0 or address != other.untyped_storage().data_ptr()


def hook_names(module: Any, kind: object) -> tuple[str, ...]:  # noqa: ANN401
    """The names of a module's hooks of a kind, in their order: what runs when the module is called."""
    hooks = vars(module).get(str(kind))
    return tuple(map(_hook_name, hooks.values())) if isinstance(hooks, dict) else ()


def _hook_name(hook: Any) -> str:  # noqa: ANN401
    while isinstance(hook, partial | MethodType):
        hook = hook.func if isinstance(hook, partial) else hook.__func__
    named = hook if isinstance(hook, FunctionType) else type(hook)
    return f"{named.__module__}:{named.__qualname__}"


def has_hooks(module: Any, kind: object, names: tuple[str, ...]) -> bool:  # noqa: ANN401
    """Whether a live module has these hooks; other objects in its place have none, and need none."""
    return not isinstance(module, torch.nn.Module) or hook_names(module, kind) == names


def setting(name: object) -> object:
    """The value of a setting of PyTorch."""
    return SETTINGS[str(name)]()


def number(value: Any) -> Any:  # noqa: ANN401
    """A number of a computed expression.

    Raises:
        TypeError: it is none, or an int of more than 4096 bits: such numbers are not computed with.
    """
    if type(value) not in (bool, int, float):
        raise TypeError(f"expected a number, found a {type(value).__name__}")
    if type(value) is int and value.bit_length() > MOST_COMPUTED_BITS:
        raise TypeError(f"expected at most {MOST_COMPUTED_BITS} bits, found {value.bit_length()}")
    return value


MOST_COMPUTED_BITS = 4096
TENSOR_SIZES: dict[str, Callable[..., Any]] = {
    "size_of": lambda tensor, dim: tensor.size(dim),
    "numel": lambda tensor: tensor.numel(),
}
NUMBER_FUNCTIONS: dict[str, Callable[..., Any]] = {"int": int, "float": float, "min": min, "max": max}


def computed(op: str, *operands: Any) -> Any:  # noqa: ANN401
    """The number that an operation of :mod:`archive.formats.effects.computed` gives.

    Raises:
        TypeError: an operand is no number.
        ArithmeticError: Python cannot compute it, as a division by zero.
    """
    if op in TENSOR_SIZES:
        return TENSOR_SIZES[op](*operands)
    function = NUMBER_FUNCTIONS.get(op) or getattr(operator, op)
    return function(*map(number, operands))


FOUND: dict[Look, Callable[[Any, Any], Any]] = {
    Look.EQUAL: lambda value, _: value,
    Look.TEXT: lambda value, _: str(value),
    Look.TYPE: lambda value, _: type_name(value),
    Look.RANGE: lambda value, _: value,
    Look.LENGTH: lambda value, _: len(value),
    Look.KEYS: lambda value, _: tuple(value),
    Look.HAS: lambda value, key: "it there" if key in value else "it missing",
    Look.ATTRIBUTE: hasattr,
    Look.IS_NONE: lambda value, _: value,
    Look.HOOKS: hook_names,
    Look.DIM: lambda value, _: value.dim(),
    Look.SIZE: lambda value, key: value.size(key),
    Look.SHAPE: lambda value, _: tuple(value.shape),
    Look.STRIDE: lambda value, _: tuple(value.stride()),
    Look.DTYPE: lambda value, _: str(value.dtype),
    Look.KIND: lambda value, _: kind_of(value),
    Look.DEVICE: lambda value, _: str(value.device),
    Look.REQUIRES_GRAD: lambda value, _: value.requires_grad,
    Look.SETTING: lambda _, key: setting(key),
}
"""Functions that look at a subject, given a key; ``SAME`` and ``APART`` compare two subjects instead."""


def holds(look: Look, value: object) -> str:
    """A Python expression for whether a guard holds: of its subject {0}, value {1} and key {2}."""
    if look is Look.EQUAL and (value is None or isinstance(value, bool)):
        return "{0} is {1}"
    if look is Look.EQUAL and isinstance(value, str | int):
        return f"type({{0}}) is {type(value).__name__} and {{0}} == {{1}}"
    if look is Look.TYPE and value == "tensor":
        return "is_tensor({0})"
    return GUARD_EXPRESSIONS[look]


GUARD_EXPRESSIONS = {
    Look.EQUAL: "same_literal({0}, {1})",
    Look.TEXT: "str({0}) == {1}",
    Look.TYPE: "type_name({0}) == {1}",
    Look.RANGE: "type({0}) is int and -{1} <= {0} <= {1}",
    Look.LENGTH: "len({0}) == {1}",
    Look.KEYS: "same_literal(tuple({0}), {1})",
    Look.HAS: "({2} in {0}) is {1}",
    Look.ATTRIBUTE: "hasattr({0}, {2}) is {1}",
    Look.IS_NONE: "({0} is None) is {1}",
    Look.HOOKS: "has_hooks({0}, {2}, {1})",
    Look.SAME: "{0} is {1}",
    Look.APART: "disjoint({0}, {1})",
    Look.DIM: "{0}.dim() == {1}",
    Look.SIZE: "{0}.size({2}) == {1}",
    Look.SHAPE: "{0}.shape == {1}",
    Look.STRIDE: "{0}.stride() == {1}",
    Look.DTYPE: "str({0}.dtype) == {1}",
    Look.KIND: "kind_of({0}) == {1}",
    Look.DEVICE: "str({0}.device) == {1}",
    Look.REQUIRES_GRAD: "{0}.requires_grad is {1}",
    Look.SETTING: "setting({2}) == {1}",
}
"""The same for looks that need no special case."""
GUARD_HELPERS = {
    "disjoint": apart,
    "has_hooks": has_hooks,
    "is_tensor": is_tensor,
    "kind_of": kind_of,
    "number": number,
    "same_literal": same_literal,
    "setting": setting,
    "type_name": type_name,
}
"""The functions that these expressions call."""
