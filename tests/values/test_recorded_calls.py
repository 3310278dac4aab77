"""Values of calls that a backend's runtime executes: the same facts as a run of the saved archive."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.base.errors import LoweringError

pytest.importorskip("torch", exc_type=ImportError)

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from archive.backend import BackendError, Delegate, lower, lowered_archive
from archive.page.values import read_values
from tests.support.backend_models import Branching, cases
from tests.support.commands import well
from tests.support.strategies import patient
from tests.values.models import CASES, made

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Run
    from archive.debuginfo.values.observed import ObservedOperation

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]
MODELS: dict[str, tuple[nn.Module, torch.Tensor]] = {
    **{name: made(name) for name in CASES},
    **{name: (case.model, case.good) for name, case in cases().items()},
    "branching": (Branching(), torch.ones(2, 4)),
}


def delegate_of(model: nn.Module) -> Delegate:
    return Delegate.of(lower(torch.jit.script(model), "aten"))


def recorded(model: nn.Module, *inputs: object) -> Run:
    delegate = delegate_of(model)
    with torch.inference_mode(), delegate.recording(values=True) as recording:
        delegate(*inputs)
    (run,) = delegate.runs(recording)
    return run


def facts(operation: ObservedOperation) -> tuple[object, ...]:
    results = [each._replace(kept=None) for each in operation.results]
    return operation.op, operation.line, operation.place.module, operation.visit, repr(results)


@pytest.mark.parametrize("name", MODELS)
def test_a_recorded_call_has_the_values_of_a_run(name: str) -> None:
    model, x = MODELS[name]
    lowered = lower(torch.jit.script(model), "aten")
    delegate = Delegate.of(lowered)
    with torch.inference_mode(), delegate.recording(values=True) as recording:
        delegate(x)
    (mine,) = delegate.runs(recording)
    run = archive.run(lowered_archive(lowered, lite=True), x)
    assert [*map(facts, mine.operations)] == [*map(facts, run.operations)]
    assert mine.observed.outputs is not None
    assert run.observed.outputs is not None
    assert [each.digest for each in mine.observed.outputs] == [each.digest for each in run.observed.outputs]
    handles = {operation.handle for operation in mine.operations}
    assert handles <= {handle for _, _, handle, _ in recording.operations}
    assert (mine.form, mine.inputs.is_empty) == ("backend aten", True)


@patient
@given(st.integers(1, 7), st.integers(0, 20))
def test_every_nth_call_is_recorded_from_the_first_one_on(every: int, calls: int) -> None:
    delegate = LOOPING
    given_ones = [torch.full((3, 8), float(number)) for number in range(calls)]
    with torch.inference_mode():
        with delegate.recording(values=True, every=every) as recording:
            found = [delegate(x) for x in given_ones]
        assert all(torch.equal(delegate(x), result) for x, result in zip(given_ones, found, strict=True))
    runs = delegate.runs(recording)
    expected = [result for number, result in enumerate(found) if number % every == 0]
    assert [run.operations[-1].results[0].mean for run in runs] == [
        pytest.approx(float(each.mean()), abs=1e-6) for each in expected
    ]
    assert len(recording.operations) == 8 * len(expected)
    again = delegate.runs(recording)
    assert [run.operations for run in again] == [run.operations for run in runs]


LOOPING = delegate_of(made("looping")[0])


class InPlace(nn.Module):
    """Operations that change what they are given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2.0
        y.add_(1.0)
        y.log_()
        return y - y


@pytest.mark.parametrize(
    ("value", "first"), [(-1.0, "aten::log_"), (nan, None), (inf, "aten::sub"), (0.0, None)]
)
def test_what_makes_the_first_nan_is_told_by_arguments_as_they_were(value: float, first: str | None) -> None:
    run = recorded(InPlace(), torch.tensor([1.0, value]))
    assert (None if run.first_nan is None else run.first_nan.op) == first
    if first == "aten::log_":
        assert run.first_nan is not None
        assert (run.first_nan.inputs[0].low, run.first_nan.inputs[0].nan) == (-1.0, 0)


class Asking(nn.Module):
    """An infinite number that the model asks for by an argument's name."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, x, alpha=float("inf"))


def test_an_infinite_number_that_is_asked_for_by_name_is_no_first() -> None:
    run = recorded(Asking(), torch.ones(2))
    assert (run.first_inf, run.operations[0].results[0].inf) == (None, 2)


def test_a_call_that_fails_has_the_values_before_it() -> None:
    case = cases()["resnet"]
    delegate = delegate_of(nn.Sequential(nn.ReLU(), case.model))
    with delegate.recording(values=True, every=2) as recording:
        with pytest.raises(BackendError):
            delegate(case.bad)
        delegate(case.good)
        delegate(case.good)
    failed, whole = delegate.runs(recording)
    assert [each.op for each in failed.operations] == ["aten::relu"]
    assert failed.observed.outputs is None
    assert len(whole.operations) > 5
    assert whole.observed.outputs is not None


def test_calls_of_other_threads_are_not_mixed_into_a_recorded_one() -> None:
    delegate = LOOPING
    with delegate.recording(values=True, every=3) as recording, ThreadPoolExecutor(4) as threads:
        results = [*threads.map(delegate, [torch.rand(3, 8) for _ in range(90)])]
    runs = delegate.runs(recording)
    assert (len(results), len(runs), len(recording.operations)) == (90, 30, 8 * 30)
    for run in runs:
        assert [each.op for each in run.operations] == ["aten::linear", "aten::tanh"] * 4
        assert [each.visit for each in run.operations] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_what_cannot_be_recorded_is_refused() -> None:
    delegate = LOOPING
    with pytest.raises(ValueError, match=r"^every 0: expected 1 or more$"), delegate.recording(every=0):
        pass
    with (
        pytest.raises(ValueError, match="memory and values need a recording each"),
        delegate.recording(memory=True, values=True),
    ):
        pass

    class Adding(nn.Module):
        def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return x + h

    demo = Delegate.of(lower(torch.jit.script(Adding()), "backend_with_compiler_demo"))
    with (
        pytest.raises(LoweringError, match=r"records no values: its runtime has no attribute values"),
        demo.recording(values=True),
    ):
        pass
    with demo.recording(every=2) as recording:
        for _ in range(3):
            demo(torch.ones(2), torch.ones(2))
    assert len(recording.operations) == 2


def test_it_is_saved_and_shown_as_a_run_is(tmp_path: Path) -> None:
    model, x = made("transformer")
    lowered = lower(torch.jit.script(model), "aten")
    file, inputs, saved = tmp_path / "model.ptl", tmp_path / "x.pt", tmp_path / "values.json"
    file.write_bytes(lowered_archive(lowered, lite=True))
    torch.save(x, inputs)
    delegate = Delegate.load(file)
    with torch.inference_mode(), delegate.recording(values=True) as recording:
        delegate(x)
    (run,) = delegate.runs(recording)
    run.save_json(saved)
    printed = json.loads(well("run", file, "--input", inputs, "--json"))
    found = json.loads(saved.read_text())
    for document in (printed, found):
        (of_file,) = document["files"]
        of_file["form"] = ""
        for operation in of_file["operations"]:
            operation["handle"] = 0
    assert found == printed
    page = tmp_path / "report.html"
    well("report", str(file), "--values", str(saved), "-o", str(page))
    assert len(read_values(saved).rows) == len({operation.line for operation in run.operations})
    assert run._repr_html_().startswith("<div>backend aten: ")
    with pytest.raises(ValueError, match="values were not kept"):
        run.value(run.operations[0])


def test_gradients_flow_through_a_recorded_call() -> None:
    model: Any = nn.Linear(3, 2)
    delegate, x = delegate_of(model), torch.ones(1, 3, requires_grad=True)
    with delegate.recording(values=True) as recording:
        delegate(x).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad[0], model.weight.sum(0))
    assert len(delegate.runs(recording)[0].operations) == 1
