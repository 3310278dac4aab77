"""Python functions that run operations in place of PyTorch; see :mod:`archive.backend.aten.operators`.

Texts of values as TorchScript makes them, by ``operator<<`` of ``aten/src/ATen/core/ivalue.cpp``.
"""

from __future__ import annotations

import operator
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[..., Any]

# --- texts

PERCENT_FORMAT = re.compile(r"(?:[^%]|%[sdifeEgGc%])*", re.DOTALL)
INT64 = 1 << 63


def shown(value: object) -> str:
    """The text of a value. Whole floats end in a point, others have 17 digits; texts have no quotes."""
    if isinstance(value, float):
        is_whole = abs(value) < INT64 and value == int(value)
        return f"{int(value)}." if is_whole else f"{value:.17g}"
    if type(value) is list:
        return f"[{', '.join(map(shown, value))}]"
    if type(value) is tuple:
        return f"({shown(value[0])},)" if len(value) == 1 else f"({', '.join(map(shown, value))})"
    if type(value) is dict:
        return "{" + ", ".join(f"{shown(key)}: {shown(one)}" for key, one in value.items()) + "}"
    return str(value)


def formatted(text: str, *values: object) -> str:
    """A text with values in place of ``{}``; as in TorchScript, nothing else in braces is replaced."""
    first, *rest = text.split("{}")
    if len(rest) > len(values):
        raise IndexError("too few arguments for format string")
    return first + "".join(f"{shown(value)}{piece}" for value, piece in zip(values, rest, strict=False))


def percent_formatted(text: str, *values: object) -> str:
    """Python's ``%`` without widths, because a large width would take any amount of memory."""
    if not PERCENT_FORMAT.fullmatch(text):
        raise ValueError(f"unsupported format: {text!r}")
    (given, *rest) = values or ((),)
    found = given if isinstance(given, tuple) and not rest else values
    kinds = re.findall(r"%(.)", text.replace("%%", ""), re.DOTALL)
    return text % tuple(
        shown(value) if kind == "s" else value
        for kind, value in zip([*kinds, *[""] * len(found)], found, strict=False)
    )


# --- calls

DICT_KEY_TYPES = ("int", "float", "bool", "complex", "str", "Tensor")
"""The types of dict keys in TorchScript, as overloads of operators name them."""


def _identity(value: object) -> object:
    return value


def _list(*values: object) -> list[object]:
    return list(values)


def _tuple(*values: object) -> tuple[object, ...]:
    return values


def _dict(*values: object) -> dict[object, object]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _present(value: object) -> object:
    if value is None:
        raise ValueError("Unwrapping null optional")
    return value


def _raise(message: object, *_: object) -> None:
    raise RuntimeError(message)


def _print(*values: object) -> None:
    sys.stdout.write(" ".join(map(shown, values)) + "\n")


def _warn(message: str, *_: object) -> None:
    warnings.warn(message, stacklevel=2)


def _disable_gradients() -> bool:
    """Disable gradients; whether they were enabled. The machine enables them again when a run ends."""
    enabled: bool = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)
    return enabled


def _append(items: list[object], item: object) -> list[object]:
    items.append(item)
    return items


def _set_item(items: Any, key: object, item: object) -> Any:  # noqa: ANN401
    items[key] = item
    return items


def _slice(items: list[object], start: int | None, end: int | None, step: int) -> list[object]:
    return items[start:end:step]


def _tensor(
    data: list[object],
    dtype: int | None,
    device: torch.device | None,
    requires_grad: bool = False,  # noqa: FBT001, FBT002
) -> torch.Tensor:
    kind = None if dtype is None else torch._C._get_operation_overload("aten::empty", "memory_format")[0]
    return torch.tensor(
        data,
        dtype=None if kind is None else kind([0], dtype=dtype).dtype,
        device=device,
        requires_grad=requires_grad,
    )


PYTHON_CALLS: dict[str, Call] = {
    "prim::ListConstruct": _list,
    "prim::TupleConstruct": _tuple,
    "prim::DictConstruct": _dict,
    "prim::ListUnpack": tuple,
    "prim::TupleUnpack": tuple,
    "prim::TupleIndex": operator.getitem,
    "prim::unchecked_cast": _identity,
    "prim::unchecked_unwrap_optional": _identity,
    "prim::shape": lambda tensor: list(tensor.shape),
    "prim::tolist": lambda tensor, *_: tensor.tolist(),
    "prim::Enter": _disable_gradients,
    "prim::Exit": torch._C._set_grad_enabled,
    "prim::RaiseException": _raise,
    "prim::Print": _print,
    "aten::_unwrap_optional": _present,
    "aten::warn": _warn,
    "aten::format": formatted,
    "aten::percentFormat": percent_formatted,
    "aten::str": shown,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
    "aten::__contains__": operator.contains,
    "aten::__getitem__": operator.getitem,
    "aten::_set_item": _set_item,
    "aten::Delete": operator.delitem,
    "aten::len": len,
    "aten::Bool": bool,
    "aten::append": _append,
    "aten::extend": lambda items, more: items.extend(more),
    "aten::insert": lambda items, place, item: items.insert(place, item),
    "aten::reverse": lambda items: items.reverse(),
    "aten::clear": lambda items: items.clear(),
    "aten::pop": lambda items, *which: items.pop(*which),
    "aten::popitem": lambda items: items.popitem(),
    "aten::setdefault": lambda items, key, item: items.setdefault(key, item),
    "aten::update": lambda items, more: items.update(more),
    "aten::get": lambda items, key, default=None: items.get(key, default),
    "aten::keys": list,
    "aten::items": lambda items: list(items.items()),
    "aten::copy.t": list,
    "aten::list": list,
    "aten::dict": dict,
    "aten::sorted": sorted,
    "aten::add.t": operator.add,
    "aten::add_.t": operator.iadd,
    "aten::mul.left_t": operator.mul,
    "aten::mul.right_": operator.mul,
    "aten::mul_.t": operator.imul,
    "aten::slice.t": _slice,
    "aten::select.t": operator.getitem,
    "aten::tensor": _tensor,
    "aten::as_tensor.list": _tensor,
    **dict.fromkeys([f"aten::copy.Dict_{kind}" for kind in DICT_KEY_TYPES], dict),
    **dict.fromkeys([f"aten::values.{kind}" for kind in DICT_KEY_TYPES], lambda items: list(items.values())),
    **dict.fromkeys(
        [f"aten::remove.{kind}" for kind in ("int", "float", "bool", "str")],
        lambda items, item: items.remove(item),
    ),
    **dict.fromkeys(
        [f"aten::sort.{kind}" for kind in ("int", "float", "bool", "str", "any")],
        lambda items, reverse: items.sort(reverse=reverse),
    ),
}
"""Functions by the name of the operation, or by its kind for all overloads."""

SCALAR_CALLS: dict[str, Call] = {
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::__xor__": operator.xor,
}
"""Functions by kind, for plain numbers or texts: some twenty times faster than calling PyTorch's operator."""
