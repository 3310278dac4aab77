"""Values that are known beforehand, and types, as TorchScript writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from archive.backend.errors import LoweringError
from archive.backend.graph.graphs import elements
from archive.backend.lower.codegen import literal

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
    """A value, with its type.

    Raises:
        LoweringError: the type is a class of the model's own, which a lowered module does not know.
    """
    if "__torch__" in kind:
        raise LoweringError(f"a value of type {kind}")
    return f"torch.jit.annotate({kind}, {text})"


def constant(value: object, kind: str, tensor: Callable[[torch.Tensor], str]) -> str:
    """A constant.

    Args:
        value: it.
        kind: its type.
        tensor: gives what stands for a tensor.

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
    if "[" not in kind:
        raise LoweringError(f"a constant of type {kind}")
    kinds = elements(kind)
    if isinstance(value, dict):
        key, held = kinds
        pairs = [f"{constant(k, key, tensor)}: {constant(v, held, tensor)}" for k, v in value.items()]
        return f"{{{', '.join(pairs)}}}"
    kinds = kinds * len(value) if isinstance(value, list) else kinds
    items = [constant(item, one, tensor) for item, one in zip(value, kinds, strict=True)]
    return f"[{', '.join(items)}]" if isinstance(value, list) else made_tuple(items)


def made_tuple(items: list[str]) -> str:
    """A tuple of some items."""
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def placeholder(kind: str) -> str:
    """Any value of a type: where early returns meet, one is passed on that nobody reads.

    Raises:
        LoweringError: none is known.
    """
    if kind.startswith(("List[", "Dict[")):
        return annotated(kind, "[]" if kind[0] == "L" else "{}")
    if kind.startswith("Optional["):
        return annotated(kind, "None")
    if kind.startswith("Tuple["):
        return made_tuple([placeholder(item) for item in elements(kind)])
    if kind not in PLACEHOLDERS:
        raise LoweringError(f"a value of type {kind}")
    return PLACEHOLDERS[kind]
