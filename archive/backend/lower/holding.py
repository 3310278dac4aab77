"""The state that lowered modules of the link ``ahead of time`` give and take: ``(blob, tensors)``.

A module that holds attributes besides (see :mod:`archive.backend.graph.attributes`) has an attribute
``__held_0``, ``__held_1`` … for each, and the state ``(blob, tensors, held)``, where ``held`` is the tuple of
their values when the module is saved.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.graph.attributes import OBJECT_TYPE
from archive.backend.lower import codegen
from archive.backend.lower.emitting import CONSTANTS_ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.backend.graph.attributes import HeldAttribute

TYPE_NAMES = {
    "Tensor": torch.Tensor,
    "Device": torch.device,
    **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")},
}
"""The names that TorchScript's types consist of."""
PLAIN_STATE = "Tuple[str, List[Tensor]]"
EXPECTED = "'expected a text and tensors as state'"


def held_names(held: Mapping[str, HeldAttribute]) -> dict[str, str]:
    """The expression for each attribute that is held, by its path."""
    return {path: f"self.__held_{number}" for number, path in enumerate(held)}


def held_attributes(held: Mapping[str, HeldAttribute]) -> list[tuple[str, Any, Any]]:
    """Name, type (a ``torch._C.Type``) and value of each attribute that is held."""
    names = [name.removeprefix("self.") for name in held_names(held).values()]
    return [(name, _type(one), one.value) for name, one in zip(names, held.values(), strict=True)]


def _type(held: HeldAttribute) -> Any:  # noqa: ANN401
    """The ``torch._C.Type`` of an attribute."""
    if held.type.startswith(OBJECT_TYPE):
        return held.value._type()
    return torch.jit.annotations.try_ann_to_type(eval(held.type, dict(TYPE_NAMES)), None)  # noqa: S307 (TorchScript's own text)


def get_state(held: Mapping[str, HeldAttribute]) -> str:
    """The method ``__getstate__``."""
    if not held:
        return codegen.GET_STATE
    return codegen.block(
        [
            "def __getstate__(self):",
            "    processed = self.__processed_module",
            f"    assert isinstance(processed, {PLAIN_STATE}), {EXPECTED}",
            f"    state: Any = (processed[0], processed[1], {codegen.tuple_literal(_expressions(held))})",
            "    return self.__method_compile_spec, state, True",
        ]
    )


def set_state(held: Mapping[str, HeldAttribute]) -> str:
    """The method ``__setstate__``. When the module is made, its attributes hold their values already."""
    types = f"Tuple[{', '.join(one.type for one in held.values())}]"
    taken = [f"{name} = held[{number}]" for number, name in enumerate(_expressions(held))]
    with_held = [
        "    if state[2]:",
        f"        assert isinstance(given, Tuple[str, List[Tensor], {types}]), {EXPECTED}",
        "        held = given[2]",
        *(f"        {line}" for line in taken),
        "        self.__processed_module = (given[0], given[1])",
    ]
    return codegen.block(
        [
            f"def __setstate__(self, {codegen.STATE_PARAMETER}):",
            "    self.__method_compile_spec = state[0]",
            f"    {'given' if held else 'processed'} = state[1]",
            f"    self.__processed_module = {'given' if held else 'processed'}",
            "    self.__handles = state[0]",
            "    if state[2]:",
            "        self.__create_backend()",
            "        self.__create_backend_debug_info()",
            "    if not self.__is_available():",
            f'        raise Exception("{codegen.UNAVAILABLE}")',
            *([*with_held, "    processed = self.__processed_module"] if held else []),
            f"    assert isinstance(processed, {PLAIN_STATE}), {EXPECTED}",
            f"    {CONSTANTS_ATTRIBUTE} = processed[1]",
        ]
    )


def _expressions(held: Mapping[str, HeldAttribute]) -> list[str]:
    return list(held_names(held).values())
