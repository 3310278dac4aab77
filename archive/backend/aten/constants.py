"""Constants of programs, to JSON and back; :mod:`archive.formats.blob_programs` has the format."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from archive.base.errors import LoweringError, shown
from archive.effects.nested import with_items

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_NESTING = 64
"""Most lists, tuples and dicts inside one another."""
INT64 = range(-(1 << 63), 1 << 63)
INT64_DIGITS = 20
TORCH_DEVICE = re.compile(r"[a-z]+(:\d{1,4})?", re.ASCII)
DTYPE_BY_NAME = {
    str(dtype).partition(".")[2]: dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}
NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


@dataclass(frozen=True, slots=True)
class TensorAt:
    """A constant that is a tensor, by its index in the list that all methods of a module share."""

    index: int


def packed(value: Any) -> Any:  # noqa: ANN401
    """A constant as a value that ``json`` writes."""
    if isinstance(value, list):
        return [packed(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    for kind, (tag, pack, _) in TAGGED_FORMS.items():
        if isinstance(value, kind):
            return {tag: pack(value)}
    raise LoweringError(f"no form for a constant of type {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class HeldAt:
    """A constant that is an object, by its index among the attributes that the lowered module holds."""

    index: int


@dataclass(frozen=True, slots=True)
class HeldList:
    """The list of all attributes that the lowered module holds; one list for all methods and runs."""


class JsonObject(dict[str, Any]):
    """A JSON object that is not the form of a constant."""

    __slots__ = ()


def from_json(text: str) -> Any:  # noqa: ANN401
    """The value of a text, with the constants that its objects are the forms of.

    Raises:
        ValueError: it is not JSON, has a name twice, an integer of more than 64 bits, or a float that is not
            finite.
    """
    return json.loads(
        text, object_pairs_hook=_unpacked, parse_int=_integer, parse_float=_finite, parse_constant=_finite
    )


def _unpacked(pairs: list[tuple[str, Any]]) -> Any:  # noqa: ANN401
    """The constant that a JSON object is the form of, or the object itself."""
    if len(pairs) == 1:
        ((name, value),) = pairs
        for tag, _, unpack in TAGGED_FORMS.values():
            if tag == name:
                return unpack(value)
        if name == "float" and type(value) is str and value in NON_FINITE:
            return NON_FINITE[value]
    made = JsonObject(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return made


def _integer(digits: str) -> int:
    """An integer of 64 bits."""
    if len(digits) > INT64_DIGITS or int(digits) not in INT64:
        raise ValueError(f"an integer of more than 64 bits: {digits[:INT64_DIGITS]}")
    return int(digits)


def _finite(text: str) -> float:
    """A finite float."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"a float that is not finite: {text[:INT64_DIGITS]}")
    return value


def _items(value: Any) -> list[Any]:  # noqa: ANN401
    if type(value) is not list:
        raise ValueError(f"a constant's items aren't a list: {shown(value)}")
    return value


def _complex(value: Any) -> complex:  # noqa: ANN401
    real, imaginary = _items(value)
    if type(real) is not float or type(imaginary) is not float:
        raise ValueError(f"not a complex number: {shown(value)}")
    return complex(real, imaginary)


def _dict(value: Any) -> dict[Any, Any]:  # noqa: ANN401
    made = {}
    for pair in _items(value):
        key, item = _items(pair)
        if type(key) not in (str, int, float, bool, complex):
            raise ValueError(f"not a key of a dict: {shown(key)}")
        made[key] = item
    return made


def _device(value: Any) -> torch.device:  # noqa: ANN401
    if type(value) is not str or not TORCH_DEVICE.fullmatch(value):
        raise ValueError(f"no device: {shown(value)}")
    try:
        return torch.device(value)
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def _dtype(value: Any) -> torch.dtype:  # noqa: ANN401
    if type(value) is not str or value not in DTYPE_BY_NAME:
        raise ValueError(f"no dtype: {shown(value)}")
    return DTYPE_BY_NAME[value]


def _index(value: Any) -> int:  # noqa: ANN401
    if type(value) is not int:
        raise ValueError(f"no number of a tensor or object: {shown(value)}")
    return value


def _held_list(value: Any) -> HeldList:  # noqa: ANN401
    if value is not None:
        raise ValueError(f"no form of the list of attributes: {shown(value)}")
    return HeldList()


TAGGED_FORMS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    TensorAt: ("tensor", lambda value: value.index, lambda value: TensorAt(_index(value))),
    HeldAt: ("held", lambda value: value.index, lambda value: HeldAt(_index(value))),
    HeldList: ("all held", lambda _: None, _held_list),
    tuple: ("tuple", lambda value: [packed(item) for item in value], lambda value: tuple(_items(value))),
    dict: ("dict", lambda value: [[packed(key), packed(item)] for key, item in value.items()], _dict),
    complex: ("complex", lambda value: [packed(value.real), packed(value.imag)], _complex),
    torch.device: ("device", str, _device),
    torch.dtype: ("dtype", lambda value: str(value).partition(".")[2], _dtype),
}
"""For each type without a form in JSON: its tag, a function to JSON, and one back."""


def is_constant(value: Any, tensors: int, held: int, depth: int = MAX_NESTING) -> bool:  # noqa: ANN401
    """Whether a value is a constant, and all its tensors and objects exist.

    Args:
        depth: how many lists, tuples and dicts may be inside one another.
    """
    if isinstance(value, TensorAt | HeldAt):
        return value.index in range(tensors if isinstance(value, TensorAt) else held)
    items = value.values() if type(value) is dict else value
    if type(value) in (list, tuple, dict):
        return depth > 0 and all(is_constant(item, tensors, held, depth - 1) for item in items)
    return type(value) is not JsonObject


def resolved(value: Any, tensors: Sequence[torch.Tensor], held: list[Any]) -> Any:  # noqa: ANN401
    """A constant with the tensors and objects themselves in place of their indices."""
    if isinstance(value, TensorAt):
        return tensors[value.index]
    if isinstance(value, HeldAt | HeldList):
        return held if isinstance(value, HeldList) else held[value.index]
    return with_items(value, partial(resolved, tensors=tensors, held=held))


def copied(value: Any) -> Any:  # noqa: ANN401
    """A copy of a constant with new lists and dicts."""
    return with_items(value, copied)
