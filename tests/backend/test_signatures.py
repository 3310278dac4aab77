"""Signatures of all kinds through the link whose backend executes whole methods.

PyTorch's own lowering makes source that cannot be parsed of keyword-only arguments, drops defaults, and
crashes on a tuple without elements: here each of these works.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

from archive.backend import (
    BackendError,
    Delegate,
    lower,
    register_backend,
    save_lowered,
    unregister_backend,
)
from tests.backend.other_backend import Echo, Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.torch


class Keywords(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, scale: float, name: str) -> tuple[torch.Tensor, float, str]:
        return x, scale, name


class Defaults(torch.nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        n: int = 3,
        f: float = float("inf"),
        t: tuple[int, str] = (1, "a\nb"),
        o: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, int, float, tuple[int, str], torch.Tensor | None]:
        return x, n, f, t, o


class Empty(torch.nn.Module):
    def forward(self) -> tuple[()]:
        return ()


class One(torch.nn.Module):
    def forward(self, x: list[torch.Tensor]) -> tuple[list[torch.Tensor]]:
        return (x,)


class Named(torch.nn.Module):
    def forward(self, p: Pair) -> Pair:
        return p


class Nested(torch.nn.Module):
    def forward(self, x: tuple[torch.Tensor, tuple[int, dict[str, float]]]) -> tuple[int, dict[str, float]]:
        return x[1]


X = torch.ones(2)
CALLS: list[tuple[type[torch.nn.Module], tuple[object, ...], dict[str, object], object]] = [
    (Keywords, (X,), {"scale": 0.5, "name": "b"}, (X, 0.5, "b")),
    (Defaults, (X,), {}, (X, 3, float("inf"), (1, "a\nb"), None)),
    (Defaults, (X, 4), {"o": X}, (X, 4, float("inf"), (1, "a\nb"), X)),
    (Empty, (), {}, ()),
    (One, ([X],), {}, ([X],)),
]


@pytest.fixture
def echo() -> Iterator[str]:
    backend = register_backend("echo", preprocess=lambda *_: {"forward": ""}, runtime=Echo)
    yield backend.name
    unregister_backend("echo")


def ways(lowered: torch.jit.ScriptModule) -> dict[str, Callable[..., object]]:
    """Here, by the runtime in Python, and loaded."""
    buffer = io.BytesIO()
    torch.jit.save(lowered, buffer)
    buffer.seek(0)
    return {"here": lowered, "delegate": Delegate.of(lowered), "loaded": torch.jit.load(buffer)}


@pytest.mark.parametrize(("model", "given", "named", "expected"), CALLS)
def test_arguments_and_results_pass_through(
    model: type[torch.nn.Module],
    given: tuple[object, ...],
    named: dict[str, object],
    expected: object,
    echo: str,
) -> None:
    assert repr(model()(*given, **named)) == repr(expected)
    for way, call in ways(lower(model(), echo)).items():
        assert repr(call(*given, **named)) == repr(expected), way


class Two(torch.nn.Module):
    """Its arguments have no names: tracing calls each ``input``."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(3, 2)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(inputs[0]), self.second(inputs[1])


def test_arguments_of_one_name_stay_apart() -> None:
    given = torch.randn(1, 2), torch.randn(1, 3)
    traced = torch.jit.trace(Two(), given)
    names = [one.name for one in traced._c._get_method("forward").schema.arguments]
    assert len(set(names)) < len(names)
    lowered = lower(traced, "aten")
    runs: list[Callable[..., object]] = [*ways(lowered).values(), Delegate.of(lowered)]
    for run in runs:
        found = run(*given)
        assert isinstance(found, tuple)
        assert all(map(torch.equal, found, traced(*given)))


def test_named_tuples_are_taken_as_what_they_are(echo: str) -> None:
    with pytest.raises(RuntimeError, match="Expected 2 elements"):
        lower(Named(), echo)(Pair(X, 1))
    lowered = lower(Named(), "aten")
    assert repr(tuple(lowered(Pair(X, 1)))) == repr(Delegate.of(lowered)(Pair(X, 1))) == repr((X, 1))


@pytest.mark.parametrize(("given", "named"), [((), {}), ((X, X, X), {}), ((X,), {"other": 1})])
def test_wrong_arguments_are_refused_as_python_does(
    given: tuple[object, ...], named: dict[str, object], echo: str
) -> None:
    delegate = Delegate.of(lower(Keywords(), echo))
    with pytest.raises(TypeError):
        delegate(*given, **named)


def test_a_result_of_another_type_is_refused(echo: str) -> None:
    lowered = lower(Nested(), echo)
    given = X, (1, {"a": 1.0})
    with pytest.raises(RuntimeError, match="Expected 2 elements in a list but found 1"):
        lowered(given)
    with pytest.raises(BackendError, match=r"^method forward: expected 2 results of the backend, found 1$"):
        Delegate.of(lowered)(given)


def test_the_lite_interpreter_takes_keywords_and_defaults(tmp_path: Path) -> None:
    register_backend("echo", preprocess=lambda *_: {"forward": ""}, runtime=Echo)
    try:
        save_lowered(lower(Defaults(), "echo"), tmp_path / "a.ptl")
    finally:
        unregister_backend("echo")
    loaded = torch.jit.mobile._load_for_lite_interpreter(str(tmp_path / "a.ptl"))
    assert repr(loaded(X)) == repr(Defaults()(X))


def test_a_method_that_was_not_lowered_is_named(echo: str) -> None:
    with pytest.raises(AttributeError, match=r"expected a lowered method \(forward\), found other"):
        Delegate.of(lower(One(), echo)).run("other", X)
