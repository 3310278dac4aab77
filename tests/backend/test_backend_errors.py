"""Whatever a backend's runtime raises has its type, as Python prints it, and the model's line."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import (
    BackendError,
    Delegate,
    LoweringError,
    OperationError,
    compile_error,
    lower,
    register_backend,
    unregister_backend,
)
from archive.backend.graph.inlining import inlined
from archive.backend.graph.range_finder import RangeFinder
from archive.backend.pytorch import said_by
from archive.base.errors import ArchiveError
from tests.backend.partitioned import backend, exported, supporting

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much
X = torch.ones(3)
LINE = "torch.relu(y)"


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.neg(x)
        return torch.relu(y)


class ChipError(Exception):
    """A backend's own."""


ERRORS = {
    "KeyError: 0": KeyError(0),
    "KeyError: 'x'": KeyError("x"),
    "IndexError: list index out of range": IndexError("list index out of range"),
    "ValueError": ValueError(),
    "AssertionError": AssertionError(),
    "NotImplementedError: no": NotImplementedError("no"),
    f"{__name__}.ChipError: too warm": ChipError("too warm"),
    "of two\nlines": RuntimeError("of two\nlines"),
    "expected float32": AssertionError("expected float32"),
    "too warm": OperationError("too warm", -1),
    "a.bin: expected 3": ArchiveError("expected 3", file="a.bin"),
}
"""What is said of an error."""


@pytest.mark.parametrize("said", ERRORS, ids=repr)
def test_what_is_said_of_an_error_is_what_python_prints_without_types_that_say_nothing(said: str) -> None:
    error = ERRORS[said]
    printed = "".join(traceback.format_exception_only(error)).removesuffix("\n")
    assert said_by(error) == said
    assert printed in (said, f"{type(error).__name__}: {said}") or printed.endswith(
        f"{type(error).__name__}: {said}"
    )


def handles(original: Any, _: Any, generate: Any) -> dict[str, int]:  # noqa: ANN401
    """The state: debug handles by kinds of operations."""
    return {operation.kind: handle for operation, handle in generate(original.graphs["forward"]).items()}


class Raising:
    """Raises an error for ``relu``, where it says; a program's runtime needs no TorchScript."""

    error: Exception = RuntimeError()
    where = "execute"

    def __init__(self) -> None:
        self.last_handle = -1

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, spec: Any) -> Any:  # noqa: ANN401
        if self.where == "compile":
            self.last_handle = processed["aten::relu"]
            raise self.error
        return dict.fromkeys(spec, processed)

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401, ARG002
        self.last_handle = handle["aten::relu"]
        raise self.error


@pytest.mark.parametrize(
    "said", [said for said, error in ERRORS.items() if not isinstance(error, OperationError)]
)
def test_errors_of_parts_of_programs_have_type_and_line(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Raising, "error", ERRORS[said])
    program = exported(Two(), X)
    with backend(
        preprocess=handles, runtime=Raising, link="inline", supports=supporting("neg", "relu")
    ) as name:
        module = lower(program, name).module()
        with pytest.raises(BackendError) as caught:
            module(X)
        assert caught.value.message == said
        assert LINE in str(caught.value)
        monkeypatch.setattr(Raising, "where", "compile")
        with pytest.raises(LoweringError) as refused:
            lower(program, name)
        assert str(refused.value).startswith(f"backend {name} does not compile the state: {said}\n\n")
        assert LINE in str(refused.value)


class Choosy:
    """A runtime in TorchScript's language, which compiles and runs no ``relu``."""

    def __init__(self) -> None:
        self.last_handle: int = -1
        self.sizes: dict[int, int] = {-1: 0}

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
        assert torch.jit.isinstance(processed, dict[str, int])
        compiled: dict[str, Any] = {}
        for method in method_compile_spec.keys():  # noqa: SIM118 (TorchScript knows no other way)
            self.last_handle = processed["aten::relu"]
            assert torch.is_grad_enabled(), "no relu on this chip."
            compiled[method] = processed
        return compiled

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401
        assert torch.jit.isinstance(handle, dict[str, int])
        self.last_handle = handle["aten::relu"]
        x = inputs[0]
        assert isinstance(x, torch.Tensor)
        return [x * self.sizes[17]]


def test_errors_of_modules_have_type_and_line() -> None:
    register_backend("choosy", preprocess=handles, runtime=Choosy)
    try:
        lowered = lower(Two(), "choosy")
        delegate = Delegate.of(lowered)
        with pytest.raises(BackendError) as caught:
            delegate(X)
        assert caught.value.message == "KeyError: 17"
        assert LINE in str(caught.value)
        with torch.no_grad():
            with pytest.raises(
                ArchiveError, match=r"does not compile the state: no relu on this chip\."
            ) as late:
                Delegate.of(lowered)
            assert LINE in str(late.value)
            with pytest.raises(LoweringError) as refused:
                lower(Two(), "choosy")
        said = "The node of aten::relu is not supported in this compiler: no relu on this chip. Source code: "
        assert said in str(refused.value)
        assert LINE in str(refused.value)
    finally:
        unregister_backend("choosy")


def test_a_reason_stands_beside_pytorchs_words() -> None:
    scripted = torch.jit.script(Two())
    graph = inlined(scripted._c, "forward", RangeFinder.of(scripted._c))
    for operation in graph.operations():
        plain, told = compile_error(operation), compile_error(operation, "at most 64 outputs")
        words = f"The node of {operation.kind} is not supported in this compiler"
        assert plain.startswith(f"{words}. Source code: ")
        assert told == plain.replace(words, f"{words}: at most 64 outputs", 1)
