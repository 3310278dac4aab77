"""Runs of models in every form: PyTorch's own values, at the lines that compute them."""

from __future__ import annotations

import io
import linecache
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError

pytest.importorskip("torch", exc_type=ImportError)

import torch
from click.testing import CliRunner
from torch import nn

from archive.backend import lower, register_backend, save_lowered, unregister_backend
from archive.backend.stock.running import profile_archive
from archive.backend.values.scripts import Script
from archive.cli.profile import command as profile_command
from archive.cli.run import command as run_command
from tests.backend.other_backend import Tape, preprocess
from tests.support.sampling import crossed
from tests.values.models import CASES, FORMS, form, made

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive import Run
    from archive.debuginfo.values.observed import ObservedOperation

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]


def scripted(model: nn.Module) -> bytes:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(model), file)
    return file.getvalue()


def run_of(name: str, form_name: str) -> Run:
    model, x = made(name)
    return archive.run(form(model, x, form_name), x)


def words(operation: ObservedOperation) -> str:
    """The text of an operation's line, as it is in its file."""
    source = operation.place.source
    assert source is not None
    return linecache.getline(source.file, source.number).strip()


class Norm(nn.LayerNorm):
    """A norm whose line is in a file of its own, as in timm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x  # noqa: RET504 (in generated code, the call is in the return)


class Norms(nn.Module):
    """Norms of two epsilons: TorchScript writes the code of each."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Norm(4), Norm(4, eps=1e-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.one(x)
        return x + self.two(x)


def test_a_function_that_is_called_where_its_value_is_returned_has_its_line() -> None:
    with archive.run(scripted(Norms()), torch.rand(3, 4)) as run:
        norms = [each for each in run.operations if each.op == "aten::layer_norm"]
    assert [each.place.module for each in norms] == ["one", "two"]
    assert {words(each).partition("(")[0] for each in norms} == {"x = nn.functional.layer_norm"}


@pytest.mark.parametrize(("name", "form_name"), crossed(CASES, FORMS, most=10))
def test_the_last_value_is_what_the_model_returns(name: str, form_name: str) -> None:
    model, x = made(name)
    with torch.inference_mode():
        returned = model(x)
    with run_of(name, form_name) as run:
        value = run.value(run.operations[-1])
        assert torch.allclose(value, returned, atol=1e-6)
        assert run.observed.outputs is not None
        assert run.observed.outputs[0].shape == tuple(returned.shape)


@pytest.mark.parametrize("form_name", FORMS)
def test_each_form_s_operations_are_at_the_lines_of_the_eager_run(form_name: str) -> None:
    if form_name == "frozen":
        pytest.skip("a frozen archive knows PyTorch's own line for what its modules run")
    eager, other = run_of("transformer", "eager"), run_of("transformer", form_name)
    lines = [words(operation) for operation in eager.operations if "linear" in operation.op]
    found = [words(each) for each in other.operations if each.op.split("::")[1] in {"linear", "addmm"}]
    assert found == lines


def test_a_summary_has_the_numbers_that_pytorch_computes() -> None:
    with run_of("transformer", "scripted") as run:
        for operation in run.operations:
            value, (result, *_) = run.value(operation), operation.results
            assert (result.shape, result.dtype) == (tuple(value.shape), str(value.dtype)[6:])
            numbers = value.double()
            assert result.low == numbers.min()
            assert result.high == numbers.max()
            assert result.mean == pytest.approx(float(numbers.mean()), abs=1e-6)
            assert result.std == pytest.approx(float(numbers.std(correction=0)), abs=1e-6)
            assert result.zeros == int((numbers == 0).sum())


def test_equal_bytes_have_equal_digests_in_all_forms() -> None:
    digests = {
        form_name: [each.results[0].digest for each in run_of("looping", form_name).operations][-1]
        for form_name in ("eager", "scripted", "lite", "exported")
    }
    assert len({*digests.values()}) == 1


def test_visits_count_how_often_a_line_ran() -> None:
    run = run_of("looping", "scripted")
    assert [(each.op, each.visit) for each in run.operations if each.op == "aten::tanh"] == [
        ("aten::tanh", number) for number in range(4)
    ]
    (row,) = run.rows_by("line")
    assert row.runs == len(run.operations)


def test_handles_of_the_lite_interpreter_and_nodes_of_programs_are_keys() -> None:
    model, x = made("transformer")
    lite = form(model, x, "lite")
    run = archive.run(lite, x)
    with archive.open(lite) as opened:
        for operation in run.operations:
            assert operation.handle is not None
            assert operation.op in str(opened.symbolicate(operation.handle))
    nodes = [each.node for each in archive.run(form(model, x, "exported"), x).operations]
    assert len({*nodes}) == len(nodes)


class Unfortunate(nn.Module):
    """An infinite number first, then a NaN."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.full([4], -float("inf"))
        y = torch.log(torch.relu(x))
        y = y + mask
        return y - y


@pytest.mark.parametrize("form_name", ["eager", "scripted", "lite", "exported"])
def test_the_first_nan_and_the_first_infinite_number_are_where_they_are_made(form_name: str) -> None:
    model, x = Unfortunate().eval(), torch.tensor([1.0, -1.0, 2.0, 3.0])
    run = archive.run(form(model, x, form_name), x)
    assert run.first_inf is not None
    assert run.first_nan is not None
    assert words(run.first_inf) == "y = torch.log(torch.relu(x))"  # nobody asked for it, unlike the mask
    assert run.first_inf.inputs[0].low == 0
    assert words(run.first_nan) == "return y - y"
    assert run.first_nan.results[0].nan == 4


def test_a_model_without_them_has_neither() -> None:
    run = run_of("convolutional", "scripted")
    assert (run.first_nan, run.first_inf) == (None, None)


class Various(nn.Module):
    """Results of many kinds."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        values, indices = torch.max(x, dim=1)
        empty = x[:, :0] * 2.0
        bits = x > 0.5
        return values, indices, (empty.sum() + bits.sum()) * torch.fft.fft(x[:1, :1]).real


@pytest.mark.parametrize("form_name", ["eager", "scripted", "exported"])
def test_all_results_of_an_operation_are_seen_whatever_their_type(form_name: str) -> None:
    x = torch.rand(3, 4)
    run = archive.run(form(Various().eval(), x, form_name), x)
    largest = next(each for each in run.operations if each.op == "aten::max")
    assert [result.dtype for result in largest.results] == ["float32", "int64"]
    assert torch.equal(run.value(largest, 1), x.max(dim=1).indices)
    dtypes = {result.dtype for each in run.operations for result in each.results}
    assert {"bool", "complex64", "float32", "int64"} <= dtypes
    assert any(0 in result.shape for each in run.operations for result in each.results)


class Choosing(nn.Module):
    """A branch and a loop, which export keeps as graphs of their own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))


@pytest.mark.parametrize(("factor", "ops"), [(1.0, {"aten::sin", "aten::mul"}), (-1.0, {"aten::cos"})])
def test_the_branch_that_runs_is_seen(factor: float, ops: set[str]) -> None:
    x = torch.ones(3)
    run = archive.run(form(Choosing(), x, "exported"), x * factor)
    assert {each.op for each in run.operations if each.node and "/" in each.node} == ops
    assert all(each.place.source for each in run.operations if each.op in ops)


def test_a_lowered_archive_has_the_model_s_lines(tmp_path: Path) -> None:
    model, x = made("transformer")
    save_lowered(lower(torch.jit.script(model), "aten"), tmp_path / "lowered.pt")
    run, eager = archive.run(tmp_path / "lowered.pt", x), archive.run(model, x)
    lines = [words(each) for each in run.operations if each.op == "aten::linear"]
    assert lines == [words(each) for each in eager.operations if each.op == "aten::linear"]


def test_debug_info_that_was_split_off_is_used(tmp_path: Path) -> None:
    model, x = made("looping")
    (tmp_path / "m.pt").write_bytes(scripted(model))
    archive.split(tmp_path / "m.pt", tmp_path / "small.pt", tmp_path / "m.ptdbg")
    run = archive.run(tmp_path / "small.pt", x, companion=tmp_path / "m.ptdbg")
    assert words(run.operations[0]) == "x = torch.tanh(self.step(x))"


def test_running_a_model_leaves_the_state_of_the_process_as_it_was() -> None:
    model, x = made("looping")
    before = torch.get_rng_state()
    archive.run(scripted(model), x)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.is_inference_mode_enabled()
    assert not torch._C._autograd._profiler_enabled()
    assert torch.rand(2, requires_grad=True).sum().requires_grad


@pytest.mark.parametrize("form_name", ["scripted", "lite", "exported", "eager"])
def test_inputs_that_do_not_fit_are_one_error_with_what_the_model_takes(form_name: str) -> None:
    model, x = made("looping")
    with pytest.raises(ArchiveError, match=r"float32 of shape \(3, 5\).*it takes"):
        archive.run(form(model, x, form_name), torch.rand(3, 5))
    run = archive.run(form(model, x, form_name), x)  # an error leaves nothing behind
    assert len(run.operations) >= 8


def test_the_operation_that_fails_is_named_with_its_line() -> None:
    model, _ = made("looping")
    with pytest.raises(ArchiveError, match=r"aten::linear at .*models\.py:\d+: mat1 and mat2 shapes"):
        archive.run(scripted(model), torch.rand(3, 5))


def test_values_that_were_not_kept_cannot_be_asked_for() -> None:
    model, x = made("looping")
    run = archive.run(model, x, keep=False)
    assert run.operations[0].results[0].std > 0
    with pytest.raises(ValueError, match="keep=True"):
        run.value(run.operations[0])


def test_a_notebook_shows_the_operations() -> None:
    page = run_of("looping", "scripted")._repr_html_()
    assert "aten::tanh" in page
    assert "models.py" in page


class Changing(nn.Module):
    """Changes its argument."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)


@pytest.mark.parametrize("form_name", ["eager", "scripted", "lite", "exported"])
def test_a_model_that_changes_its_inputs_changes_copies(form_name: str) -> None:
    x = torch.zeros(3)
    made_form = form(Changing().eval(), torch.zeros(3), form_name)
    run = archive.run(made_form, x)
    assert torch.equal(x, torch.zeros(3))
    assert torch.equal(run.inputs.args[0], x)


def test_a_scripted_module_runs_as_its_archive_does() -> None:
    model, x = made("looping")
    script = torch.jit.script(model)
    digests = [each.results[0].digest for each in archive.run(script, x).operations]
    assert digests == [each.results[0].digest for each in archive.run(scripted(model), x).operations]


class Repeating(nn.Module):
    """The same operators at several lines, which only the branches of a lowered module tell apart."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x @ self.weight)
        x = torch.relu(x)
        y = torch.relu(x @ self.weight)
        return torch.relu(x + y)


@pytest.fixture
def taped(tmp_path: Path) -> Iterator[Path]:
    """A lite archive lowered to a backend that gives no values."""
    path = tmp_path / "taped.ptl"
    register_backend("taped", preprocess=preprocess, runtime=Tape)
    try:
        save_lowered(lower(torch.jit.script(Repeating()), "taped"), path)
        yield path
    finally:
        unregister_backend("taped")


def test_operations_of_a_lowered_lite_archive_have_the_lines_that_torchscript_knows(taped: Path) -> None:
    x = torch.linspace(-1, 2, 6).reshape(2, 3)
    lowered = archive.run(taped, x)
    assert lowered.form == "lite interpreter"
    found = [
        (one.op, words(one))
        for one in lowered.operations
        if one.place.source is not None and one.place.source.file == __file__
    ]
    assert found == [(one.op, words(one)) for one in archive.run(scripted(Repeating()), x).operations]
    assert not any(one.place.among for one in lowered.operations)


def test_operations_that_may_be_of_several_lines_are_said_to_be(
    taped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.linspace(-1, 2, 6).reshape(2, 3)
    events = profile_archive(taped, x).events
    relus = [one.place for one in events if one.name == "aten::relu"]
    assert relus
    assert all(place.source is not None or place.among > 1 for place in relus)
    assert any(place.among for place in relus)
    profile = profile_archive(taped, x, lite=False)
    assert (profile.ambiguous, profile.unknown) == (0, 0)
    monkeypatch.setattr(Script, "_lines_of_script", lambda *_: [])
    run = archive.run(taped, x)
    assert any(one.place.among and one.place.source is None for one in run.operations)


def test_profile_and_run_say_how_many_operations_have_no_line(
    taped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Script, "_lines_of_script", lambda *_: [])
    torch.save(torch.ones(2, 3), tmp_path / "x.pt")
    said = [
        CliRunner().invoke(command, [str(taped), "--input", given]).stderr
        for command, given in ((profile_command, "2x3"), (run_command, str(tmp_path / "x.pt")))
    ]
    assert "operations may be of several lines: the lite interpreter does not say of which" in said[0]
    assert "operations have no line of the model in its debug info" in said[0]
    assert "--torchscript" in said[0]
    assert "operations may be of several lines: the lite interpreter does not say of which" in said[1]
