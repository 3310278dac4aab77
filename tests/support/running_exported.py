"""Exported programs, run by PyTorch."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.export.pt2_archive import _package
from torch.utils import _pytree

from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from pathlib import Path


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


def _bits(leaf: Any) -> Any:  # noqa: ANN401 (any value)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return bytes(leaf.detach().reshape(-1).contiguous().view(torch.uint8).numpy())
