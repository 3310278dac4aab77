"""The demo backend's failures in the stock lite interpreter, beside those of PyTorch's own demo backend.

The modules are those of PyTorch's own tests (``BackendTestDebugInfo`` in its ``test_backend.cpp``); the texts
of ``fixtures/oracles`` are what its demo in C++ prints. One frame is not there: that of the generated line
``self.__backend.execute(...)``. It is that of a second handle, which PyTorch adds where C++ throws a
``BackendRuntimeException``; TorchScript, and so a runtime that is part of the module, cannot throw one.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

from archive.backend import DebugHandles, lower, lowered_archive
from tests.support.backend_models import MODELS, oracle_models
from tests.support.corpus import ORACLES
from tests.support.tampering import tampered
from tests.support.torch_oracles import argument

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

DEMO = "backend_with_compiler_demo"
L = oracle_models()
SHAPES = argument("float32[2, 3]"), argument("float32[14, 2]")
DOUBLES = argument("float64[1]"), argument("float64[1]")
INTEGERS = argument("int64[1]"), argument("int64[1]")
EXECUTE = re.compile(
    r'  File "<string>", line 5, in forward\n +typed_inputs: (?:.*\n)*? +return _0\n'
    r'(  File ".*", line \d+, in )<unknown>'
)
RAISED = "Exception raised from <C++ location>\n\n"


def stock(module: torch.nn.Module, arguments: tuple[object, ...]) -> str:
    """What the lite interpreter says when a module fails, which has lowered parts."""
    data = lowered_archive(torch.jit.script(module), lite=True)
    with pytest.raises(RuntimeError) as caught:
        torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data))(*arguments)
    return str(caught.value).replace(str(MODELS), "models/lowered.py")


def lowered(model: torch.nn.Module) -> torch.nn.Module:
    return lower(model, DEMO)


@pytest.mark.parametrize(
    ("case", "module", "arguments"),
    [
        ("lowered_shape", lambda: L.C(lowered(L.A())), SHAPES),
        ("lowered_wrapper_on_top", lambda: lowered(L.A()), SHAPES),
        ("lowered_two", lambda: L.CTwo(lowered(L.A()), lowered(L.ASub())), SHAPES),
        ("lowered_two_second_fails", lambda: L.CTwo(lowered(L.A()), lowered(L.ASub())), DOUBLES),
        ("lowered_self_helper", lambda: L.C(lowered(L.Helper())), SHAPES),
        ("lowered_free_function", lambda: L.C(lowered(L.Free())), SHAPES),
        ("lowered_multiline", lambda: L.C(lowered(L.MultiLine())), SHAPES),
        ("lowered_dtype", lambda: L.C(lowered(L.A())), INTEGERS),
    ],
)
def test_stock_lite_prints_what_it_prints_of_pytorch_s_own_demo(
    case: str, module: Callable[[], torch.nn.Module], arguments: tuple[object, ...]
) -> None:
    theirs = (ORACLES / f"{case}.txt").read_text("utf-8")
    expected, cut = EXECUTE.subn(r"\1forward", theirs.replace(RAISED, ""))
    assert cut == 1
    assert stock(module(), arguments).rstrip() == expected.rstrip()


class Leaf(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 2


class Pair(torch.nn.Module):
    def __init__(self, first: torch.nn.Module) -> None:
        super().__init__()
        self.A0 = first
        self.B0 = Two()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.A0.forward(x, y) + self.B0.forward(x)


class Around(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.inner.forward(x, y) + 3


OF_WRAPPER = "return self.__loweredModule__.forward(x, y)"
OF_LEAF = "return x + y"
OF_PAIR = "return self.A0.forward(x, y) + self.B0.forward(x)"
OF_AROUND = "return self.inner.forward(x, y) + 3"


UPSTREAM: dict[str, tuple[Callable[[], torch.nn.Module], str, list[str]]] = {
    "TestCompiler": (
        lambda: lowered(Leaf()),
        ".__loweredModule__(Leaf)::forward",
        [OF_WRAPPER, OF_LEAF],
    ),
    "ModuleHierarchy": (
        lambda: lowered(Pair(Leaf())),
        ".__loweredModule__(Pair)::forward.A0(Leaf)::forward",
        [OF_WRAPPER, OF_PAIR, OF_LEAF],
    ),
    "TwoLevelModuleHierarchy": (
        lambda: lowered(Around(Around(Leaf()))),
        ".__loweredModule__(Around)::forward.inner(Around)::forward.inner(Leaf)::forward",
        [OF_WRAPPER, OF_AROUND, OF_AROUND, OF_LEAF],
    ),
    "LoweredSubModule": (
        lambda: Pair(lowered(Leaf())),
        ".A0(Leaf)::forward.__loweredModule__(Leaf)::forward",
        [OF_PAIR, OF_WRAPPER, OF_LEAF],
    ),
    "SelectiveLoweredSubModule": (
        lambda: Pair(lowered(Around(Leaf()))),
        ".A0(Around)::forward.__loweredModule__(Around)::forward.inner(Leaf)::forward",
        [OF_PAIR, OF_WRAPPER, OF_AROUND, OF_LEAF],
    ),
}
"""PyTorch's tests: module, hierarchy and lines of the failure; ``test_upstream.py`` runs them."""


def check(module: Callable[[], torch.nn.Module], hierarchy: str, lines: list[str]) -> None:
    """Check the hierarchy and the marked lines of a failure."""
    said = stock(module(), (torch.rand(2, 4), torch.rand(13, 9)))
    assert f")::<unknown>{hierarchy}.aten::add\n" in said
    marked = re.findall(r"(.+)\n +~+ <--- HERE", said)
    assert [line.strip() for line in marked] == lines


@pytest.mark.parametrize("lite", [True, False])
def test_an_operation_whose_handle_nobody_gave_out_fails_all_the_same(lite: bool) -> None:  # noqa: FBT001
    data = lowered_archive(lower(Leaf(), DEMO, recorder=DebugHandles(700)), lite=lite)
    with archive.open(data) as opened:
        state = bytes(opened.records["data.pkl"].view())
    assert b"add<debug_handle>701" in state
    other = tampered(data, {"data.pkl": state.replace(b"add<debug_handle>701", b"add<debug_handle>999")})
    load = torch.jit.mobile._load_for_lite_interpreter if lite else torch.jit.load
    model = load(io.BytesIO(other))
    with pytest.raises(torch.jit.Error, match=r"Expected x\.sizes\(\) == h\.sizes\(\) to be") as caught:
        model(*SHAPES)
    assert OF_LEAF not in str(caught.value)
