"""The tensors in inert values: the module tree, attributes and constants of TorchScript.

A tensor's name is the path to it, ``encoder.layers.0.weight``: attributes by name, the items of lists and
tuples by number, those of dicts by key. A tensor that several attributes hold has each path as a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.debuginfo.model import Global, Inert, TensorInfo
from archive.formats.record_kinds import DATA
from archive.formats.tensors.dtypes import dtype_of_storage
from archive.formats.tensors.tensor import QUANTISER_PARTS, Tensor, path_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.base.limits import Allowance

Container = Inert | dict[object, object] | list[object] | tuple[object, ...]
MAY_HOLD = (TensorInfo, Inert, dict, list, tuple)
"""What may be a tensor, or hold one."""
ROW_BYTES = 400
"""Bytes of memory that a tensor and its name take, besides the name's characters."""


def script_tensors(root: object, folder: str, allowance: Allowance) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a value, with their names; "" if the value is itself a tensor.

    A value that is held twice is searched once.

    Args:
        root: inert values: see :mod:`archive.formats.inert_values`.
        folder: of the records of its tensors.
        allowance: the memory that rows may take, and the length of names.
    """
    seen: set[int] = set()
    stack: list[tuple[str, object]] = [("", root)]
    while stack:
        path, value = stack.pop()
        tensor = tensor_in(value)
        if tensor is not None:
            yield path, tensor.at(f"{folder}{tensor.record}")
        if id(value) not in seen and isinstance(value, Inert | dict | list | tuple):
            seen.add(id(value))
            parts = []
            for key, part in _parts(value):
                step = key if isinstance(key, str) else str(key) if isinstance(key, int | float) else "(…)"
                parts.append((path_below(path, step), part))
            allowance.take(sum(ROW_BYTES + len(name) for name, _ in parts), "tensors", record=DATA)
            stack += [(name, part) for name, part in reversed(parts) if isinstance(part, MAY_HOLD)]


def _parts(
    value: Inert | dict[object, object] | list[object] | tuple[object, ...],
) -> Iterable[tuple[object, object]]:
    match value:
        case dict():
            return value.items()
        case list() | tuple():
            return enumerate(value)
        case Inert(
            what=Global("torch._utils", "_rebuild_qtensor"), arguments=(_, _, _, _, (*quantiser,), *_)
        ):
            return zip(QUANTISER_PARTS, quantiser, strict=False)  # for scales per channel, an axis follows
        case Inert(state=dict()):
            return value.attributes.items()
    return [("", value.arguments), ("", value.state)]


def tensor_in(value: object) -> Tensor | None:
    """The tensor that a value describes, with its storage's key as record; None for other values."""
    match value:
        case TensorInfo(storage_key=key, dtype=kind, shape=shape, strides=strides, offset=offset):
            return Tensor(
                dtype_of_storage(kind), shape, strides, offset, key, value.requires_grad, (), value.math_bits
            )
        case Inert(
            what=Global("torch._utils", "_rebuild_qtensor"),
            arguments=(
                (("storage", Global(name=kind), str(key), *_),),
                int(offset),
                tuple(shape),
                tuple(strides),
                tuple(quantiser),
                bool(requires_grad),
                *_,
            ),
        ) if len(shape) == len(strides) and all(isinstance(size, int) for size in shape + strides):
            parts = tuple(  # the scheme's name, and numbers; no tensors
                part.name if isinstance(part, Global) else part
                for part in quantiser
                if isinstance(part, Global | int | float)
            )
            return Tensor(dtype_of_storage(kind), shape, strides, offset, key, requires_grad, parts)
    return None


def quantised_parts(value: object) -> dict[str, object]:
    """The tensors that a quantised tensor's scales and zero points are, by name; empty for other values."""
    match value:
        case Inert(what=Global("torch._utils", "_rebuild_qtensor"), arguments=(_, _, _, _, (*parts,), *_)):
            named = zip(QUANTISER_PARTS, parts, strict=False)
            return {name: part for name, part in named if name is not None and isinstance(part, TensorInfo)}
    return {}
