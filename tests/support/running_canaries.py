"""Models with planted tokens, run by PyTorch."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch.utils import _pytree

from tests.support.tokens import CANARIES

LIBRARIES = ("libbackend_with_compiler.so", "libjitbackend_test.so")
"""PyTorch's demo backends; builds other than the CPU's for Linux have none."""


@cache
def registered() -> None:
    """Register what the exported models return, and the demo backend of the lowered one, once a process."""
    name = "canaries_exported"
    module = ModuleType(name)
    sys.modules[name] = module  # where dataclasses look annotations up
    exec(compile((CANARIES / "models" / "exported.py").read_text("utf-8"), name, "exec"), vars(module))  # noqa: S102
    _pytree.register_dataclass(module.zqresultxz, serialized_type_name="zqserialisedxz")
    for library in LIBRARIES:
        path = Path(str(torch.__file__)).parent / "lib" / library
        if not path.exists():
            pytest.skip(f"this build of PyTorch has no {library}")
        torch.ops.load_library(str(path))


def loaded(path: Path) -> Any:  # noqa: ANN401
    """A model of any format."""
    registered()
    if path.suffix == ".pt2":
        return torch.export.load(path).module()
    if path.suffix == ".ptl":
        return torch.jit.mobile._load_for_lite_interpreter(str(path))
    return torch.jit.load(path)


def called(path: Path, *, columns: int | None = None) -> list[Any]:
    """The results of a call, bit by bit.

    Args:
        path: the model.
        columns: of the argument; the model's own by default.
    """
    torch.manual_seed(0)
    name = path.stem.partition("_")[0]
    wanted = 3 if name == "effects" else 4
    x = torch.rand(3, columns or wanted)
    arguments = [x, *{"lowered": [x[:, :wanted]], "effects": [0]}.get(name, [])]
    keywords = {"zqkeywordxz": "zqsampletextxz"} if name == "exported" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the demo backend's
        leaves = _pytree.tree_leaves(loaded(path)(*arguments, **keywords))
    if name == "lowered":  # the demo backend computes the first element, and leaves the others as they come
        leaves = [one[0, 0] for one in leaves]
    return [bytes(one.detach().reshape(-1).view(torch.uint8).numpy()) for one in map(torch.as_tensor, leaves)]


def failure(path: Path) -> str:
    """What a call with an argument of another width says."""
    with pytest.raises((RuntimeError, AssertionError)) as failed:
        called(path, columns=5)
    return str(failed.value)
