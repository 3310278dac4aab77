"""Exported programs and AOTInductor packages, run and loaded by PyTorch, and its schema of programs."""

from __future__ import annotations

import dataclasses
import io
import re
import sys
import traceback
import types
import typing
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import _inductor as inductor
from torch._export.serde import schema as torch_schema
from torch._export.serde.union import _Union
from torch.export.pt2_archive import _package
from torch.export.pt2_archive._package import load_pt2
from torch.utils import _pytree

from archive.formats.exported import schema
from archive.formats.schema.json import DictOf, JsonClass, JsonUnion, ListOf, Nullable, Type
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from pathlib import Path

inductor.config.cpp.vec_isa_ok = True  # a C++ compiler is asked otherwise, for a second a process


@cache
def registered() -> None:
    """Register what the models take and return, once a process."""
    sys.path.insert(0, str(EXPORTED / "models"))
    try:
        import odd  # type: ignore[import-not-found]  # noqa: F401, PLC0415 (an operator of its own)
        import shop  # type: ignore[import-not-found]  # noqa: PLC0415
    finally:
        sys.path.pop(0)
    _pytree._register_namedtuple(shop.Offer, serialized_type_name="shop.Offer")
    _pytree.register_dataclass(shop.Bill, serialized_type_name="shop.Bill")


def outcomes(path: Path, *, unflattened: bool = False) -> dict[str, list[Any]]:
    """For each program, its results for the sample inputs in the archive, bit by bit.

    Args:
        path: the archive.
        unflattened: run it as ``torch.export.unflatten`` makes modules of it.
    """
    registered()
    torch.manual_seed(0)
    found = {}
    for name, program in _package.load_pt2(path).exported_programs.items():
        arguments, keywords = program.example_inputs
        module = torch.export.unflatten(program) if unflattened else program.module()
        result = module(*arguments, **keywords)
        found[name] = [_bits(leaf) for leaf in _pytree.tree_leaves(result)]
    return found


known_outcomes = cache(outcomes)
"""Those of a file that does not change."""


def _bits(leaf: Any) -> Any:  # noqa: ANN401 (any value)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return bytes(leaf.detach().reshape(-1).contiguous().view(torch.uint8).numpy())


# --- Compiled packages, run by PyTorch


PLACES = re.compile(r"0x[0-9a-f]+|aotinductor_\w+/\w+")
"""Addresses, and where a package is unpacked."""


def outcome(path: Path) -> list[bytes]:
    """The results of a call of the fixtures' model, bit by bit."""
    arguments = torch.linspace(-1, 1, 12).reshape(3, 4), torch.full((3, 4), 2.0), torch.tensor([1, 2, 5])
    results = inductor.aoti_load_package(str(path))(*arguments)
    return [bytes(one.contiguous().reshape(-1).view(torch.uint8).numpy()) for one in results]


def failure(path: Path) -> str:
    """What a call of it with inputs of another shape says."""
    wide, right = torch.ones(3, 5), torch.ones(3, 4)
    with pytest.raises(RuntimeError) as failed:
        inductor.aoti_load_package(str(path))(wide, right, torch.tensor([1, 2, 3]))
    return PLACES.sub("", str(failed.value))


# --- PyTorch 2.13, asked whether it loads an exported program


def refusal(data: bytes) -> str:
    """The traceback of loading an archive; "" where PyTorch loads it."""
    registered()
    try:
        load_pt2(io.BytesIO(data))
    except Exception:  # noqa: BLE001 (of whatever kind)
        return traceback.format_exc()
    return ""


def declared() -> tuple[dict[str, JsonClass], dict[str, JsonUnion]]:
    """The classes and unions of PyTorch's schema, as the project declares them."""
    classes, unions = {}, {}
    for name in (*schema.CLASSES, *schema.UNIONS):
        theirs = getattr(torch_schema, name)
        hints = typing.get_type_hints(theirs)
        fields = {field.name: _type(hints[field.name]) for field in dataclasses.fields(theirs)}
        if issubclass(theirs, _Union):
            unions[name] = JsonUnion(fields)
        else:
            needed = {one.name for one in dataclasses.fields(theirs) if _is_needed(one)}
            required = {key: kind for key, kind in fields.items() if key in needed}
            classes[name] = JsonClass(required, {key: fields[key] for key in fields if key not in needed})
    return classes, unions


def _is_needed(field: dataclasses.Field[object]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _type(hint: object) -> Type:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return Nullable(_type(arguments[0]))  # X | None
    if origin is list:
        return ListOf(_type(arguments[0]))
    if origin is dict:
        return DictOf(_type(arguments[1]))
    return str(getattr(hint, "__name__", hint))
