"""Every debug handle of a lowered module leads to the line of its operation, or to no line at all."""

from __future__ import annotations

import io
import linecache
import re
import sys
import types
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

import archive
from archive.backend import BackendError, Delegate, load_archive, lower
from archive.backend.graph import inlining
from archive.backend.lower.saving import lowered_archive
from archive.check.verify import verify
from tests.support.backend_models import Host
from tests.support.strategies import patient

if TYPE_CHECKING:
    from archive.debuginfo.symbolicate import TracebackFrame

pytestmark = pytest.mark.torch

INTEGERS = st.recursive(
    st.sampled_from(
        ["x.shape[0]", "x.shape[-1]", "len(x.shape)", "x.ndim", "x.dim()", "x.size(0)", "k", "2", "x.numel()"]
    ),
    lambda inner: (
        st.builds("{1}({0}, {2})".format, inner, st.sampled_from(["max", "min"]), inner)
        | st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner)
        | st.builds("(-{})".format, inner)
    ),
    max_leaves=3,
)
BOOLEANS = (
    st.sampled_from(["x.is_cuda", "x.requires_grad", "x.dtype == torch.float", "x.is_sparse", "k > 1"])
    | st.builds("{} < {}".format, INTEGERS, INTEGERS)
    | st.builds("bool({})".format, INTEGERS)
)
STATEMENTS = (
    st.builds("x = x + {}".format, INTEGERS)
    | st.builds("x = {} * x".format, INTEGERS)
    | st.builds("k = {}".format, INTEGERS)
    | st.sampled_from(["x = x.T", "x = x.mT", "x = x.reshape(x.shape[0], -1)", "x = x.mH + 1"])
    | st.builds("x = torch.relu(x) if {} else x - 1".format, BOOLEANS)
)
ATTRIBUTES = {
    **{name: rf"\.{name}\b" for name in ("mT", "mH", "is_cuda", "requires_grad", "dtype", "is_sparse")},
    "numpy_T": r"\.T\b|numpy_T",
    "size": r"\.shape\b|size\(",
    "dim": r"\.ndim\b|dim\(|len\(",
}
"""What a line of the model, or of PyTorch's builtin functions, says where these operators run."""


def of_source(statements: list[str]) -> torch.nn.Module:
    """A model whose ``forward`` has these statements."""
    lines = ["import torch", "class Made(torch.nn.Module):"]
    lines += ["    def forward(self, x: torch.Tensor, k: int):", *(f"        {one}" for one in statements)]
    code, name = (
        "\n".join([*lines, "        return x, k", ""]),
        f"made_{zlib.crc32(repr(statements).encode())}",
    )
    linecache.cache[f"{name}.py"] = (len(code), None, code.splitlines(keepends=True), f"{name}.py")
    module = types.ModuleType(name)
    module.__file__ = f"{name}.py"
    sys.modules[name] = module
    exec(compile(code, f"{name}.py", "exec"), vars(module))  # noqa: S102 (our own source)
    made: torch.nn.Module = module.Made()
    return made


def loaded(data: bytes, *, lite: bool) -> torch.jit.ScriptModule:
    if not lite:
        return torch.jit.load(io.BytesIO(data))
    return torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data))


def line_of(frame: TracebackFrame) -> str:
    """The line of the model that a frame shows; "" if it shows none."""
    if frame.range is None or not len(frame.range.source.text):
        return ""
    text = bytes(frame.range.source.text).decode()
    return text.splitlines()[frame.range.line - frame.range.source.starting_line]


@given(statements=st.lists(STATEMENTS, min_size=1, max_size=4))
@settings(patient, max_examples=8)
def test_each_handle_leads_to_a_line_that_does_what_it_says(statements: list[str]) -> None:
    model, x = of_source(statements), torch.ones(2, 3)
    lowered, expected = lower(model, "aten"), model(x, 2)
    for lite in (False, True):
        data = lowered_archive(lowered, lite=lite)
        assert [str(one) for one in verify(data)] == []
        found = loaded(data, lite=lite)(x, 2)
        assert torch.equal(found[0], expected[0])
        assert found[1] == expected[1]
    with archive.open(data) as opened:
        (state,) = opened.lowered.values()
        assert set(state.handles) <= set(opened.handles)
        for handle in state.handles:
            name = str(opened.handles[handle].op).partition("::")[2]
            line = line_of(opened.symbolicate(handle).frames[-1])
            if name in ATTRIBUTES and line:
                assert re.search(ATTRIBUTES[name], line), (name, line)


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return 2 * y.mT


class Once(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return self.inner(y)


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = y.mT
        return z.mT + 1


def failure(module: torch.jit.ScriptModule | Delegate) -> str:
    with pytest.raises((RuntimeError, BackendError)) as caught:
        module(torch.ones(3))
    return str(caught.value)


@pytest.mark.parametrize("lite", [False, True], ids=["pt", "ptl"])
def test_an_attribute_fails_at_its_own_line_though_pytorch_records_none(lite: bool) -> None:  # noqa: FBT001
    lowered = lower(Once(), "aten")
    for said in (
        failure(loaded(lowered_archive(lowered, lite=lite), lite=lite)),
        failure(Delegate.of(lowered)),
    ):
        lines = said.splitlines()
        mark = max(at for at, line in enumerate(lines) if "<--- HERE" in line)
        assert lines[mark - 1] == "        return 2 * y.mT"
        assert lines[mark] == "                   ~~~~ <--- HERE"


@pytest.mark.parametrize("lite", [False, True], ids=["pt", "ptl"])
def test_an_attribute_that_stands_on_two_lines_is_led_to_neither(lite: bool) -> None:  # noqa: FBT001
    lowered = lower(Twice(), "aten")
    saved = lowered_archive(lowered, lite=lite)
    hosted = lowered_archive(torch.jit.script(Host(load_archive(saved))), lite=lite)
    assert [str(one) for one in verify(saved)] == []
    for said in (failure(loaded(one, lite=lite)) for one in (saved, hosted)):
        assert "z = y.mT" not in said
        assert "y = x + 1" not in said
    said = failure(Delegate.of(lowered))
    assert "Module hierarchy:top(Twice)::<unknown>.aten::mT\n" in said
    assert "HERE" not in said


def test_the_text_of_a_function_is_searched_once_however_often_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So lowering takes a time that follows the layers."""
    searches: list[object] = []

    def counted(*arguments: object) -> object:
        searches.append(arguments[0])
        return re.finditer(*arguments)  # type: ignore[call-overload]

    counts = []
    for layers in (1, 3):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
        encoder = torch.jit.script(
            torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()
        )
        searches.clear()
        with monkeypatch.context() as patch:
            patch.setattr(inlining, "re", types.SimpleNamespace(finditer=counted, escape=re.escape))
            lower(encoder, "aten")
        counts.append(len(searches))
    assert counts[0] == counts[1] > 0
