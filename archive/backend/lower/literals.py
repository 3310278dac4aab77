"""Constants of any type as TorchScript expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from archive.backend.graph.attributes import OBJECT_TYPE, OWN_TYPE
from archive.backend.graph.graphs import elements
from archive.backend.lower.codegen import literal, tuple_literal
from archive.effects.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable

PLACEHOLDERS = {
    "Tensor": "torch.empty([0])",
    "bool": "False",
    "int": "0",
    "float": "0.",
    "complex": "0j",
    "number": "0",
    "str": '""',
    "NoneType": "None",
    "Device": 'torch.device("cpu")',
}


def annotated(kind: str, text: str) -> str:
    """An expression with its type written down.

    Args:
        kind: the type.
        text: the expression.

    Raises:
        LoweringError: the type is a class of the model's own, which a lowered module does not know.
    """
    if OWN_TYPE in kind.replace(OBJECT_TYPE, ""):
        raise LoweringError(f"a value of type {kind}")
    return f"torch.jit.annotate({kind}, {text})"


def constant(value: object, kind: str, tensor: Callable[[torch.Tensor], str]) -> str:
    """The expression for a constant.

    Args:
        value: the constant.
        kind: its type.
        tensor: gives the expression for a tensor.

    Raises:
        LoweringError: TorchScript has no literal for it.
    """
    if value is not None and kind.startswith("Optional["):
        (kind,) = elements(kind)
    if isinstance(value, list | dict) or (isinstance(value, tuple) and "[" in kind):
        text = _items(value, kind, tensor)
        return annotated(kind, text) if not value or "[" in kind[5:] else text
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value) if isinstance(value, complex) else literal(value)


def _items(
    value: list[object] | tuple[object, ...] | dict[object, object],
    kind: str,
    tensor: Callable[[torch.Tensor], str],
) -> str:
    """A list, tuple or dict; see :func:`constant` for the arguments."""
    if "[" not in kind:
        raise LoweringError(f"a constant of type {kind}")
    kinds = elements(kind)
    if isinstance(value, dict):
        key, held = kinds
        pairs = [f"{constant(k, key, tensor)}: {constant(v, held, tensor)}" for k, v in value.items()]
        return f"{{{', '.join(pairs)}}}"
    kinds = kinds * len(value) if isinstance(value, list) else kinds
    items = [constant(item, one, tensor) for item, one in zip(value, kinds, strict=True)]
    return f"[{', '.join(items)}]" if isinstance(value, list) else tuple_literal(items)


def placeholder(kind: str) -> str:
    """Some value of a type, for values that TorchScript passes on but nobody reads, as after early returns.

    Raises:
        LoweringError: no value of this type is known.
    """
    if kind.startswith(("List[", "Dict[")):
        return annotated(kind, "[]" if kind[0] == "L" else "{}")
    if kind.startswith("Optional["):
        return annotated(kind, "None")
    if kind.startswith("Tuple["):
        return tuple_literal([placeholder(item) for item in elements(kind)])
    if kind not in PLACEHOLDERS:
        raise LoweringError(f"a value of type {kind}")
    return PLACEHOLDERS[kind]
