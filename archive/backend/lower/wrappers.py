"""What the wrappers of lowered modules have besides methods, and how such modules are found."""

from __future__ import annotations

import re
from typing import Any

import torch

EFFECTS_STATE, EFFECTS_ARGUMENTS = "__effects_state", "__effects_arguments"
"""Attributes of a wrapper with effects: the tensors of the state, and the parameters' names."""
EFFECTS_MEMBERS, EFFECTS_TENSORS = "__effects_members", "__effects_tensors"
"""More of them: the module's members as rows, and their tensors."""
LOWERED_TYPE = re.compile(r"torch\.jit\.LoweredModule\.(?P<backend>[^.]+)\.")


def lowered_parts(module: Any) -> dict[str, Any]:  # noqa: ANN401
    """The lowered modules in a module, by the attributes that lead to each, joined by dots.

    Args:
        module: a ``torch._C.ScriptModule``; if it is lowered itself, its path is "".
    """
    parts = {}
    left = [("", module)]
    while left:
        path, part = left.pop()
        if LOWERED_TYPE.match(part._type().annotation_str):
            parts[path.removesuffix("__loweredModule__").removesuffix(".")] = part
        children = torch._C.ModuleDict(part).items()
        left += [(f"{path}.{name}".removeprefix("."), child) for name, child in children]
    return parts
