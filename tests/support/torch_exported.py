"""PyTorch 2.13, asked whether it loads an exported program."""

from __future__ import annotations

import dataclasses
import io
import traceback
import types
import typing

from torch._export.serde import schema as torch_schema
from torch._export.serde.union import _Union
from torch.export.pt2_archive._package import load_pt2

from archive.formats.exported import schema
from archive.formats.exported.schema import JsonClass, Type
from tests.support.running_exported import registered


def refusal(data: bytes) -> str:
    """The traceback of loading an archive; "" where PyTorch loads it."""
    registered()
    try:
        load_pt2(io.BytesIO(data))
    except Exception:  # noqa: BLE001 (of whatever kind)
        return traceback.format_exc()
    return ""


def declared() -> tuple[dict[str, JsonClass], dict[str, dict[str, Type]]]:
    """The classes and unions of PyTorch's schema, as the project declares them."""
    classes, unions = {}, {}
    for name in (*schema.CLASSES, *schema.UNIONS):
        theirs = getattr(torch_schema, name)
        hints = typing.get_type_hints(theirs)
        fields = {field.name: _type(hints[field.name]) for field in dataclasses.fields(theirs)}
        if issubclass(theirs, _Union):
            unions[name] = fields
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
        return schema.Nullable(_type(arguments[0]))  # X | None
    if origin is list:
        return schema.ListOf(_type(arguments[0]))
    if origin is dict:
        return schema.DictOf(_type(arguments[1]))
    return str(getattr(hint, "__name__", hint))
