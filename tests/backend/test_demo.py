"""The demo backend: PyTorch's own texts, all elements, the data flow, and blobs that are not its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import BackendError, DebugHandles, Delegate, LoweringError, lower, save_lowered
from archive.backend.demo.backend import blob
from archive.backend.demo.runtime import CompilerDemo
from archive.backend.graph.graphs import Block, Graph, Operation
from archive.base.errors import ArchiveError
from tests.support.backend_models import MODELS, oracle_models
from tests.support.corpus import ORACLES, RELEASES
from tests.support.processes import run_fresh
from tests.support.tampering import tampered
from tests.support.torch_oracles import argument

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.torch

DEMO = "backend_with_compiler_demo"
L = oracle_models()
SHAPES = argument("float32[2, 3]"), argument("float32[14, 2]")
FAILING = {
    "lowered_shape": (L.A, SHAPES),
    "lowered_self_helper": (L.Helper, SHAPES),
    "lowered_free_function": (L.Free, SHAPES),
    "lowered_multiline": (L.MultiLine, SHAPES),
    "lowered_two_second_fails": (L.ASub, (argument("float64[1]"), argument("float64[1]"))),
    "lowered_dtype": (L.A, (argument("int64[1]"), argument("int64[1]"))),
}
EQUAL = [L.AA, L.A, L.ASub, L.Helper, L.Free, L.Twice, L.MultiLine]


class Flow(torch.nn.Module):
    """Results that are used twice, out of order, and behind constants."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = x - y
        b = torch.add(y, a, alpha=2.5)
        return (a - b) + (x + 3) - y


class Through(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        return y


class Added(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def test_a_run_says_what_the_backend_says_at_the_models_line(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    save_lowered(lower(Added(), DEMO), path)
    with pytest.raises(ArchiveError) as caught:
        archive.run(path, torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64))
    place, _, said = str(caught.value).rpartition(": ")
    assert said == "Only float tensors are compatible for add and sub."
    assert place.rpartition("test_demo.py:")[2].isdecimal()
    assert "_functional_assert_scalar" not in place


@pytest.mark.parametrize("case", FAILING)
def test_failures_say_what_pytorch_s_demo_said(case: str) -> None:
    model, arguments = FAILING[case]
    delegate = Delegate.of(lower(model(), DEMO))
    with pytest.raises(BackendError) as caught:
        delegate(*arguments)
    message, _, said = (ORACLES / f"{case}.txt").read_text("utf-8").partition("\n")
    assert caught.value.message == message
    _, generated, own = said.rpartition('  File "<string>"')
    assert generated
    own = own[own.index('  File "') :].rstrip()
    ours = str(caught.value).replace(str(MODELS), "models/lowered.py")
    assert ours.rstrip().endswith(own), "PyTorch starts with the calls that lead to the backend"
    hierarchy = said.partition("Module hierarchy:")[2].splitlines()[0]
    inner = caught.value.module_hierarchy.partition("::<unknown>")[2]
    assert hierarchy.endswith(inner)


@pytest.mark.parametrize(
    ("case", "model"),
    [("compile_error_mul", L.Mul), ("compile_error_mul_deep", L.MulDeep), ("compile_error_branch", L.Branch)],
)
def test_what_cannot_be_compiled_is_said_in_pytorch_s_words(case: str, model: type[torch.nn.Module]) -> None:
    with pytest.raises(LoweringError) as caught:
        lower(model(), DEMO)
    said = str(caught.value).replace(str(MODELS), "models/lowered.py")
    assert said == (ORACLES / f"{case}.txt").read_text("utf-8")


@pytest.mark.parametrize("model", [*EQUAL, Flow, Through])
def test_all_elements_are_computed_and_the_data_flow_respected(model: type[torch.nn.Module]) -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    lowered = lower(model(), DEMO)
    assert torch.equal(lowered(x, y), model()(x, y))
    assert torch.equal(Delegate.of(lowered)(x, y=y), model()(x, y))


def test_the_blob_names_operators_and_handles() -> None:
    lowered = lower(L.AA(), DEMO, recorder=DebugHandles(7))
    assert lowered._c.getattr("__loweredModule__").getattr("__processed_module") == {
        "forward": "prim::Load#0,prim::Load#1,prim::Constant#1<debug_handle>7,aten::add<debug_handle>8"
    }


@pytest.mark.parametrize("constant", ["a,b", None, True, [1]], ids=repr)
def test_constants_that_a_blob_cannot_hold_are_refused(constant: object) -> None:
    odd = Operation("prim::Constant", [], [1], value=constant)
    add = Operation("aten::add", [0, 1, 1], [2], "aten::add(…)")
    types = {0: "Tensor", 1: "Any", 2: "Tensor"}
    with pytest.raises(LoweringError, match="The node of prim::Constant is not supported"):
        blob(Graph("forward", Block([0], [odd, add], [2]), types), {odd: 0, add: 1})


def compiled(text: str) -> dict[str, object]:
    return CompilerDemo().compile({"forward": text}, {"forward": {}})


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("prim::Load#0,aten::mul<debug_handle>1", 1),
        ("prim::Constant#1.5.x<debug_handle>0", 0),
        ("prim::Constant#", 0),
        ("prim::Load#-1", 0),
        ("prim::Load#99999999999999999999", 0),
        ("aten::add<debug_handle>", 0),
        ("aten::add<debug_handle>1<debug_handle>2", 0),
        ("aten::add<debug_handle>99999999999999999999", 0),
        ("prim::Load#0,,aten::add", 1),
        ("", 0),
    ],
)
def test_a_token_that_is_none_is_named(text: str, token: int) -> None:
    with pytest.raises(AssertionError, match=rf"^method forward, token {token}: expected a token of {DEMO}"):
        compiled(text)


@pytest.mark.parametrize(
    ("processed", "said"),
    [
        ({"other": "prim::Load#0"}, "method forward: expected a text, found none"),
        (["prim::Load#0"], "expected a state of a text for each method"),
        ({"forward": 3}, "expected a state of a text for each method"),
    ],
)
def test_a_state_of_another_shape_is_refused(processed: object, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        CompilerDemo().compile(processed, {"forward": {}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prim::Load#2", "there is no such value: prim::Load#2"),
        ("prim::Load#0,aten::add<debug_handle>1", "aten::add has not enough operands"),
        ("prim::Constant#1,aten::add,aten::add", "no operand is named"),
    ],
)
def test_a_blob_without_its_operands_fails_by_itself(text: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        CompilerDemo().execute(compiled(text)["forward"], [torch.ones(2), torch.ones(2)])


STOCK = """
import sys
import torch
import torch.jit.mobile
sys.modules["archive"] = None
path = sys.argv[1]
model = (torch.jit.mobile._load_for_lite_interpreter if path.endswith(".ptl") else torch.jit.load)(path)
x = torch.arange(6.).reshape(2, 3)
print(model(x, 2 * x).tolist())
try:
    model(x, torch.ones(14, 2))
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("ending", [".pt", ".ptl"])
def test_stock_pytorch_runs_it_and_its_error_leads_to_the_model(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"host{ending}"
    save_lowered(torch.jit.script(L.C(lower(L.A(), DEMO))), path)
    result, _, log = run_fresh(STOCK, path, folder=tmp_path).stdout.partition("\n")
    x = torch.arange(6.0).reshape(2, 3)
    assert result == str((x + 2 * x + x + 2).tolist())
    assert "Expected x.sizes() == h.sizes() to be true" in log
    *_, last = re.findall(r"(.*)\n.*<--- HERE", log)
    assert last == "        return x + y"


def theirs() -> Iterator[Path]:
    """Archives that PyTorch's own demo backend was lowered to."""
    for path in [*sorted(ORACLES.glob("lowered_*.pt")), *sorted(RELEASES.rglob("lowered*.pt"))]:
        with archive.open(path) as opened:
            states = [state for state in opened.lowered.values() if state.backend == DEMO]
            if any(isinstance(state.processed, dict) for state in states):
                yield path


@pytest.mark.parametrize("path", [*theirs()], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_blobs_of_pytorch_s_own_demo_run_where_they_say_enough(path: Path) -> None:
    """They name no operands: of several operations it is not told what each one takes."""
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    with archive.open(path) as opened:
        states = list(opened.lowered.values())
        for state in states:
            runtime = CompilerDemo()
            assert isinstance(state.processed, dict)
            handles = runtime.compile(state.processed, dict.fromkeys(state.processed))
            for method, text in state.processed.items():
                if text.count("aten::") > 1:
                    with pytest.raises(AssertionError, match=r"^no operand is named$"):
                        runtime.execute(handles[method], [x, y])
                    continue
                expected = x - y if "aten::sub" in text else x + y
                assert torch.equal(runtime.execute(handles[method], [x, y])[0], expected)
    assert states


def test_a_tampered_archive_is_refused_with_the_token(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_lowered(lower(L.A(), DEMO), path)
    with archive.open(path) as opened:
        state = bytes(opened.records["data.pkl"].view())
    data = tampered(path, {"data.pkl": state.replace(b"aten::add<", b"aten::bad<")})
    with pytest.raises(ArchiveError, match=r"token 3: expected a token of backend_with_compiler_demo"):
        Delegate.load(data)


def test_a_failure_of_no_operation_is_the_message_alone() -> None:
    delegate = Delegate.of(lower(L.AA(), DEMO))
    with pytest.raises(BackendError) as caught:
        delegate(torch.ones(2), 3)
    assert (str(caught.value), caught.value.handles) == ("expected tensors as inputs", ())
