"""Loops, branches, lists, dicts, numbers and texts, lowered: as in eager, down to where they fail."""

from __future__ import annotations

import io
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch.jit.mobile import _load_for_lite_interpreter

from archive import backend
from archive.backend import LoweringError, save_lowered
from archive.backend.graph.folding import folded
from archive.backend.graph.inlining import inlined
from archive.backend.graph.range_finder import RangeFinder
from archive.backend.lower.emitting import MANY, Emitted, constant, emitted
from archive.backend.lower.links import TORCHSCRIPT_NAMES, resolved
from tests.backend.control_flow import (
    FUNCTIONS,
    Calls,
    Changing,
    Copying,
    Doubled,
    Failing,
    Seeding,
    Shadowing,
    talking,
    thousand,
)
from tests.backend.made_models import saved

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.torch

LINE = re.compile(r'File "<string>", line (\d+)')


def lower(module: torch.nn.Module) -> torch.jit.ScriptModule:
    return backend.lower(module, "aten")


def statements(module: torch.jit.ScriptModule) -> Emitted:
    """What lowering writes for a module that takes a tensor and a number."""
    graph = folded(inlined(module._c, "forward", RangeFinder.of(module._c)))
    return emitted(graph, ["x", "n"], [], {})


def lite(module: torch.jit.ScriptModule) -> Callable[..., Any]:
    buffer = io.BytesIO(module._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True))
    loaded: Callable[..., Any] = _load_for_lite_interpreter(buffer)
    return loaded


def same(one: object, other: object) -> bool:
    """Whether two results are equal, types too."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and same(list(one.items()), list(other.items()))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_lowered_gives_what_eager_gives(name: str) -> None:
    """But where TorchScript's texts are bytes, and its numbers integers or not in other places."""
    eager = Calls(FUNCTIONS[name])
    model = torch.jit.script(eager)
    lowered = lower(model)
    for way in (lowered, saved(lowered), lite(lowered)):
        for number in (0, 1, 2, 5, 8):
            x = torch.arange(6.0).reshape(2, 3) - number
            want, got = model(x.clone(), number), way(x.clone(), number)
            assert same(want, got), (number, want, got)
            assert name in ("numbers", "texts") or same(eager(x.clone(), number), got)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_statement_is_the_operation_that_it_stands_for(name: str) -> None:
    """PyTorch chooses overloads by types: it must choose for each statement the one that the model has."""
    written = statements(torch.jit.script(Calls(FUNCTIONS[name])))
    module = torch._C.ScriptModule("Written", torch._C.CompilationUnit(), True)  # noqa: FBT003
    source = "def forward(self, x: Tensor, n: int):\n" + "".join(f"    {line}\n" for line in written.lines)
    module._define(
        torch._C.ConcreteModuleType.from_jit_type(module._type()),
        source,
        partial(resolved, names=TORCHSCRIPT_NAMES),
    )
    graph = module._get_method("forward").graph
    chosen: dict[int, list[str]] = {}
    blocks = [graph]
    while blocks:
        for node in blocks.pop().nodes():
            blocks.extend(node.blocks())
            found = LINE.search(node.sourceRange())
            if found:
                chosen.setdefault(int(found[1]), []).append(node.schema())
    compared = 0
    for line, operation in enumerate(written.operations, 2):
        if operation is not None and operation.kind.startswith("aten::"):
            schemas = [one for one in chosen.get(line, []) if one.startswith(operation.kind)]
            compared += len(schemas)
            assert not schemas or operation.schema in schemas, "but for what PyTorch has folded itself"
    assert compared or name == "nothing_done"


def test_loops_stay_loops() -> None:
    """However often they run; so that their operations are few, and each has one place."""
    module = torch.jit.script(Calls(thousand))
    assert len(statements(module).lines) < 10
    assert same(lower(module)(torch.ones(2), 0), torch.full((2,), 1001.0))


def test_no_name_is_taken_for_an_operator_or_for_another() -> None:
    model = Shadowing()
    for insane in (False, True):
        for isolated in (False, True):
            assert lower(model)(insane, isolated, 3) == model(insane, isolated, 3)


class Repeating(torch.nn.Module):
    """A parameter has the short name that its operator would have."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.ReLU() for _ in range(MANY)])

    def forward(self, call_aten_relu: torch.Tensor, said: str) -> tuple[torch.Tensor, str]:
        x = call_aten_relu
        for layer in self.layers:
            x = layer(x) - 1
        return torch.sigmoid(x), said + "r = torch.ops.aten.relu(x)"


def test_what_many_statements_call_has_a_short_name() -> None:
    module = torch.jit.script(Repeating())
    graph = folded(inlined(module._c, "forward", RangeFinder.of(module._c)))
    body = emitted(graph, ["call_aten_relu", "said"], [], {})
    assert body.lines[0] == "call__aten_relu = torch.ops.aten.relu"
    assert sum("call__aten_relu(" in line for line in body.lines) == MANY
    assert sum("torch.ops.aten.sigmoid(" in line for line in body.lines) == 1, "one statement calls it"
    assert len(body.lines) == len(body.operations)
    x = torch.tensor([20.0])
    assert lower(module)(x, "a ") == (torch.sigmoid(x - MANY), "a r = torch.ops.aten.relu(x)")


def test_warnings_are_given_and_texts_printed_as_by_the_model(capfd: pytest.CaptureFixture[str]) -> None:
    model = torch.jit.script(Calls(talking))
    for module in (model, lower(model)):
        with pytest.warns(UserWarning, match="careful") as caught:
            module(torch.ones(1), 2)
        assert len(caught) == 1
        assert capfd.readouterr().out == "round 0 [0]\nround 1 [1]\n\n"


@pytest.mark.parametrize(("number", "line"), [(2, "x = x @ weight"), (4, "torch.cat([x, weight[:, :2]])")])
def test_what_fails_in_a_loop_fails_at_the_model_s_line(number: int, line: str, tmp_path: Path) -> None:
    path = tmp_path / "failing.ptl"
    save_lowered(lower(Failing()), path)
    module = _load_for_lite_interpreter(str(path))
    assert module(torch.ones(2, 3), 1).shape == (2, 3), "it runs with what it takes"
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 3), number)
    *_, marked, _ = str(caught.value).rpartition(" <--- HERE")[0].splitlines()
    assert line in marked
    assert 'control_flow.py", line ' in str(caught.value)
    assert "torch.ops" not in str(caught.value)


def test_what_a_model_raises_in_a_loop_is_raised() -> None:
    with pytest.raises(torch.jit.Error, match="too many: 9"):
        lower(Failing())(torch.ones(2, 3), 9)


def test_everything_that_cannot_be_written_is_told_in_loops_and_branches_too() -> None:
    with pytest.raises(LoweringError) as caught:
        lower(Seeding())
    said = str(caught.value)
    assert said.count("The node of aten::manual_seed is not supported in this compiler. Source code: ") == 2
    assert said.count("The node of prim::isinstance is not supported") == 1
    assert said.count("control_flow.py") == said.count("is not supported in this compiler")


def test_changes_of_a_list_that_the_module_keeps_are_refused() -> None:
    with pytest.raises(LoweringError, match="The node of aten::append is not supported") as caught:
        lower(Changing())
    assert "same.append(n)" in str(caught.value)


def test_whatever_a_module_holds_can_be_written() -> None:
    eager, x = Copying(), torch.ones(3, 2)
    lowered = lower(eager)
    for way in (lowered, lowered, saved(lowered), lite(lowered)):
        with torch.no_grad():
            assert same(eager(x, 3), way(x, 3))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ([], "List[int]", "torch.jit.annotate(List[int], [])"),
        ([3], "Optional[List[int]]", "[3]"),
        (None, "Optional[List[int]]", "None"),
        ([None, 1], "List[Optional[int]]", "torch.jit.annotate(List[Optional[int]], [None, 1])"),
        ({1: "a"}, "Dict[int, str]", "{1: 'a'}"),
        (float("inf"), "float", 'float("inf")'),
        (1 + 2j, "complex", "(1+2j)"),
        ("it's\x1b\n", "str", r"'it\047s\033\012'"),
    ],
)
def test_constants_as_torchscript(value: object, kind: str, text: str) -> None:
    assert constant(value, kind, str) == text


def test_numbers_in_traces_keep_their_type() -> None:
    """PyTorch hands them to Python as numbers, though in the graph they are tensors."""
    x = torch.tensor([1, 2])
    module = torch.jit.trace(Doubled(), (x,))
    assert same(module(x), lower(module)(x))
