"""Which module a frame of a program's stack trace belongs to, and the source that its line is shown in."""

from __future__ import annotations

import functools
import linecache
import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import compile_error
from archive.backend.exported.program import exported

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.backend.graph.graphs import Operation

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much

X = torch.ones(2, 3)


def operation(model: nn.Module, kind: str, *, strict: bool = False) -> Operation:
    """The operation of a kind in a model's program."""
    return found(torch.export.export(model.eval(), (X,), strict=strict), kind)


def found(program: Any, kind: str) -> Operation:  # noqa: ANN401
    original, _ = exported(program)
    (graph,) = original.graphs.values()
    (only,) = (each for each in graph.operations() if each.kind == kind)
    return only


def calls(operation: Operation) -> list[tuple[str, str | None, str | None, str]]:
    """Function, class, attribute and line of each call."""
    return [
        (
            call.function,
            call.type_name and call.type_name.rpartition(".")[2],
            call.instance,
            call.range.text.decode() if call.range else "",
        )
        for call in operation.stack
    ]


def tripled(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 3


class Tripled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return tripled(x)


class Child(Tripled):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + 1)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def forward(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return function(*args, **kwargs)

    return forward


class Logged(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    @logged
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Doubly(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.many = nn.ModuleList([inner])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.many[0](x)


def test_strict_export_has_the_lines_of_functions_too() -> None:
    traced = operation(Doubly(Tripled()), "aten::tanh", strict=True)
    assert traced.range is not None
    is_marked = sys.version_info >= (3, 14)  # Python's traceback, where less than the statement fails
    assert traced.range.text == (b"torch.tanh(x)" if is_marked else b"torch.tanh(x) * 3")
    assert calls(traced) == [
        ("forward", "Tripled", "many.0", "self.many[0](x)"),
        ("tripled", None, None, "return tripled(x)" if is_marked else "tripled(x)"),
    ]


def test_other_export_has_the_lines_of_methods_forward_alone() -> None:
    traced = operation(Doubly(Tripled()), "aten::tanh")
    assert traced.range is not None
    assert traced.range.text == b"return tripled(x)"
    assert calls(traced) == [("forward", "Tripled", "many.0", "return self.many[0](x)")]


def test_a_forward_of_a_parent_class_is_a_function_in_its_module() -> None:
    traced = operation(Doubly(Child()), "aten::tanh")
    assert calls(traced) == [
        ("forward", "Child", "many.0", "return self.many[0](x)"),
        ("forward", None, None, "return super().forward(x + 1)"),
    ]


def test_what_wraps_a_forward_is_a_function_around_it() -> None:
    traced = operation(Doubly(Logged(nn.Tanh())), "aten::tanh")
    assert calls(traced) == [
        ("forward", None, None, "return self.many[0](x)"),
        ("forward", "Logged", "many.0", "return function(*args, **kwargs)"),
        ("forward", "Tanh", "inner", "return self.inner(x)"),
    ]


def test_modules_of_pytorch_have_no_line_in_strict_export() -> None:
    model = Doubly(nn.Sequential(nn.Identity(), nn.Sequential(nn.Tanh())))
    traced = operation(model, "aten::tanh", strict=True)
    assert traced.range is not None
    assert traced.range.text == b"self.many[0](x)"
    assert calls(traced) == [
        ("forward", "Sequential", "many.0", ""),
        ("forward", "Sequential", "1", ""),
        ("forward", "Tanh", "0", ""),
    ]


@pytest.mark.parametrize("strict", [False, True])
def test_classes_in_a_function_have_the_frames_that_are_left(strict: bool) -> None:  # noqa: FBT001
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    traced = operation(Outer(), "aten::tanh", strict=strict)
    ((function, kind, instance, line),) = calls(traced)
    assert (function, kind, instance) == ("forward", "Inner", "inner")
    assert line.endswith("self.inner(x)")


@pytest.fixture
def elsewhere(tmp_path: Path) -> tuple[Any, Path]:
    """A program whose class this process has not imported, and the file that its lines are of."""
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\n\n\nclass M(torch.nn.Module):\n"
        "    def forward(self, x):\n        return torch.tanh(x)\n"
    )
    space: dict[str, Any] = {"__name__": "model"}
    exec(compile(path.read_text(), path, "exec"), space)  # noqa: S102
    program = torch.export.export(space["M"](), (X,))
    torch.export.save(program, tmp_path / "model.pt2")
    return torch.export.load(tmp_path / "model.pt2"), path


def test_a_loaded_program_has_its_lines(elsewhere: tuple[Any, Path]) -> None:
    program, path = elsewhere
    traced = found(program, "aten::tanh")
    assert traced.shown == (
        f'  File "{path}", line 6\n'
        "    def forward(self, x):\n"
        "        return torch.tanh(x)\n"
        "        ~~~~~~~~~~~~~~~~~~~~ <--- HERE\n"
    )
    assert exported(program)[0].type_name == "__torch__.model.M"


@pytest.mark.parametrize("change", ["gone", "other line", "shorter"])
def test_a_file_that_has_changed_is_not_shown(elsewhere: tuple[Any, Path], change: str) -> None:
    program, path = elsewhere
    if change == "gone":
        path.unlink()
    else:
        path.write_text("\n" * 5 + "        return torch.sinh(x)\n" if change == "other line" else "\n")
    linecache.checkcache(str(path))
    traced = found(program, "aten::tanh")
    assert "torch.tanh(x)" in compile_error(traced)
    assert (
        traced.shown
        == f'  File "{path}", line 6\n    return torch.tanh(x)\n    ~~~~~~~~~~~~~~~~~~~~ <--- HERE\n'
    )


def test_without_traces_modules_are_left() -> None:
    program = torch.export.export(Doubly(nn.Tanh()).eval(), (X,))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    traced = found(program, "aten::tanh")
    assert traced.range is None
    assert calls(traced) == [("forward", "Tanh", "many.0", "")]
