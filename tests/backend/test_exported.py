"""Exported programs are lowered like modules: same results, failures and times at the model's lines."""

from __future__ import annotations

import io
import re
import traceback
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch.utils import _pytree as pytree

from archive.backend import BackendError, Delegate, lower_to_torchscript, lowered_archive
from archive.backend.conformance.subject import Dispatches
from archive.base.source_files import is_pytorchs
from tests.backend.exported_models import MODELS, made
from tests.support.sampling import crossed, sampled

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much

WAYS = ("not strict", "strict", "decomposed")
LINE = re.compile(r'File "([^"]+)", line (\d+)')


def exported(model: torch.nn.Module, arguments: tuple[Any, ...], way: str = "not strict") -> Any:  # noqa: ANN401
    program = torch.export.export(model, arguments, strict=way == "strict")
    return program.run_decompositions() if way == "decomposed" else program


def lines(text: str) -> list[tuple[str, int]]:
    """Files and lines that a traceback shows; not those of generated code and of PyTorch's own."""
    found = [(file, int(line)) for file, line in LINE.findall(text)]
    return [(file, line) for file, line in found if not is_pytorchs(file) and file.endswith("models.py")]


def same(found: object, expected: object) -> bool:
    leaves, others = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    return len(leaves) == len(others) and all(map(torch.equal, leaves, others))


@pytest.mark.parametrize(("name", "way"), crossed(MODELS, WAYS, most=3))
def test_models_that_torchscript_does_not_take_run_in_stock_pytorch(name: str, way: str) -> None:
    model, arguments = made(name)
    with pytest.raises(Exception):  # noqa: B017, PT011 (of many kinds)
        torch.jit.script(model)
    program = exported(model, arguments, way)
    module = lower_to_torchscript(program, "aten")
    expected = program.module()(*arguments)
    assert same(module(*arguments), expected)
    assert same(Delegate.of(module)(*arguments), expected)
    assert same(torch.jit.load(io.BytesIO(lowered_archive(module)))(*arguments), expected)
    lite = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(lowered_archive(module, lite=True)))
    assert same(lite.run_method("forward", *arguments), expected)
    if way == "not strict":
        assert same(expected, model(*arguments))


# --- failures


class _Counting(torch.fx.Interpreter):
    """Runs a program's nodes, and notes which one runs each operator."""

    def __init__(self, program: Any) -> None:  # noqa: ANN401
        super().__init__(program.graph_module)
        self.mode = Dispatches()
        self.nodes: list[Any] = []

    def run_node(self, n: Any) -> Any:  # noqa: ANN401
        before = len(self.mode.seen)
        with self.mode:
            result = super().run_node(n)
        self.nodes += [n] * (len(self.mode.seen) - before)
        return result


def nodes_by_operator(program: Any, arguments: tuple[Any, ...]) -> list[Any]:  # noqa: ANN401
    """The node that runs each operator which PyTorch's dispatcher sees."""
    held = {**program.state_dict, **program.constants}
    own = [held[spec.target] for spec in program.graph_signature.input_specs if spec.target]
    counting = _Counting(program)
    with torch.no_grad():
        counting.run(*own, *arguments)
    return counting.nodes


def failing(run: Callable[..., object], arguments: tuple[Any, ...], number: int) -> BaseException:
    """The error of a call whose operator of a number, from 1, fails; none is computed ahead or left out."""
    dispatches = Dispatches(number)
    with (
        torch.no_grad(),
        torch.jit.optimized_execution(False),  # noqa: FBT003
        pytest.raises(Exception) as caught,  # noqa: PT011 (of many kinds)
        dispatches,
    ):
        run(*arguments)
    assert len(dispatches.seen) == number
    return caught.value


@pytest.mark.parametrize(("name", "way"), crossed(MODELS, WAYS, most=3))
def test_each_node_that_fails_is_shown_at_the_model_s_lines(name: str, way: str) -> None:
    model, arguments = made(name)
    program = exported(model, arguments, way)
    module = lower_to_torchscript(program, "aten")
    delegate = Delegate.of(module)
    loaded = torch.jit.load(io.BytesIO(lowered_archive(module)))
    nodes = nodes_by_operator(program, arguments)
    assert len(nodes) > 20
    for number, node in enumerate(nodes, 1):
        calls = lines(node.meta["stack_trace"])
        assert lines(str(failing(loaded, arguments, number)))[-1:] == calls[-1:], node
        error = failing(delegate, arguments, number)
        assert isinstance(error, BackendError)
        assert lines(str(error)) == calls, node


@pytest.mark.parametrize("way", sampled(WAYS, most=1))
def test_each_weight_of_a_wrong_size_fails_in_the_lite_interpreter_with_all_calls_and_modules(
    way: str,
) -> None:
    model, arguments = made("transformer")
    program = exported(model, arguments, way)
    module = lower_to_torchscript(program, "aten")
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for name, path in program.graph_signature.inputs_to_parameters.items():
        weight = program.state_dict[path]
        right = weight.data
        weight.data = torch.ones(2, 3, 4, 5)
        data = lowered_archive(module, lite=True)
        weight.data = right
        with pytest.raises(RuntimeError) as caught:
            torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data)).run_method("forward", *arguments)
        first, *_ = placeholders[name].users
        assert lines(str(caught.value)) == lines(first.meta["stack_trace"]), path
        outer, hierarchy = "", ""
        for inner, kind in list(first.meta["nn_module_stack"].values())[1:]:
            hierarchy += f".{inner.removeprefix(outer)}({kind.rpartition('.')[2]})::forward"
            outer = f"{inner}."
        assert f"{hierarchy}.{first.target.namespace}::" in str(caught.value)


def test_failures_are_at_the_lines_at_which_the_model_itself_fails() -> None:
    model, arguments = made("residual network")
    loaded = torch.jit.load(
        io.BytesIO(lowered_archive(lower_to_torchscript(exported(model, arguments), "aten")))
    )
    count = len(nodes_by_operator(exported(model, arguments), arguments))
    for number in range(1, count + 1):
        own = "".join(traceback.format_exception(failing(model, arguments, number)))
        assert lines(str(failing(loaded, arguments, number)))[-1] == lines(own)[-1]
