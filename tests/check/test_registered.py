"""What a model names that PyTorch hasn't registered is noted; PyTorch itself is the oracle."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from archive.check.registered import CLASS_NAMESPACES, NAMED, NAMESPACES
from archive.check.verify import verify
from tests.support.corpus import ARCHIVES, ORACLES
from tests.support.sampling import sampled
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

REGISTERED = "PyTorch loads it where others have registered "
UNKNOWN = re.compile(r"Unknown type name '__torch__\.([\w.]+)'|Unknown builtin op: (\w+)::(\w+)")
CODE = "code/__torch__/plain.py"
STACK = ORACLES / "plain_stack.pt"


def needed(source: bytes | Path) -> str:
    """What verification notes that others must have registered."""
    return ", ".join(
        finding.message.removeprefix(REGISTERED)
        for finding in verify(source)
        if finding.message.startswith(REGISTERED)
    )


@pytest.mark.torch
@pytest.mark.parametrize("path", sampled(ARCHIVES, 30), ids=str)
def test_what_pytorch_does_not_know_is_noted(path: Path) -> None:
    torch = pytest.importorskip("torch")
    try:
        torch.jit.load(str(path))
        refused = None
    except (RuntimeError, ValueError, NotImplementedError) as error:
        refused = UNKNOWN.search(str(error))
    if refused is None:
        return
    name = refused[1] or f"torch.ops.{refused[2]}.{refused[3]}"
    assert name in needed(path)


@pytest.mark.parametrize("name", ["plain_stack.pt", "plain_stack.ptl", "plain_branches.ptl"])
def test_what_comes_with_pytorch_is_not(name: str) -> None:
    assert needed(ORACLES / name) == ""


def test_backends_classes_and_operators_are_named() -> None:
    backend = "torch.classes.__backends__.backend_with_compiler_demo"
    assert needed(ORACLES / "lowered_two.pt") == backend
    more = b"\n# ops.mylib.foo( ops.aten.add( self.ops.x.y( __torch__.torch.classes.mylib.Box.__new__(\n"
    assert needed(tampered(STACK, {CODE: lambda code: code + more})) == (
        "torch.ops.mylib.foo, torch.classes.mylib.Box"
    )


@pytest.mark.torch
def test_namespaces_of_pytorch_are_known() -> None:
    torch = pytest.importorskip("torch")
    schemas = map(str, torch._C._jit_get_custom_class_schemas())
    classes = {found[1].decode() for text in schemas for found in NAMED.finditer(text.encode()) if found[1]}
    assert classes
    assert classes - {"__backends__"} <= CLASS_NAMESPACES, "backends are of whoever registers them"
    operators = {schema.name.partition("::")[0] for schema in torch._C._jit_get_all_schemas()}
    assert {"aten", "quantized"} <= operators & NAMESPACES
