"""Explained reports of the installed PyTorch, compared with its text with the debug records at hand."""

# TorchScript reads the annotations of attributes: they must not be postponed.
import io
from collections.abc import Callable
from pathlib import Path

import pytest

import archive
from archive.base.limits import Steps
from archive.failures.handles import HandleSplits
from archive.failures.operands import claims, contradiction
from archive.failures.traceback_failures import UNCHECKED
from archive.reader.lookups.nodes import loaded_nodes
from tests.failures.ambiguous_models import without, without_debug_info
from tests.support.corpus import KINDS, ORACLES
from tests.support.reports import explained

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

pytestmark = pytest.mark.torch


@torch.jit.interface
class Step(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, self.w)


class Middle(torch.nn.Module):
    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.step = Product()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step.forward(x + 1)


class Top(torch.nn.Module):
    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.step = Middle()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step.forward(x * 2)


def failure(model: Callable[..., object], *shape: int) -> bytes:
    with pytest.raises(RuntimeError) as caught:
        model(torch.ones(shape))
    return str(caught.value).encode()


def test_modules_called_through_interfaces(tmp_path: Path) -> None:
    path, stripped = tmp_path / "top.ptl", tmp_path / "stripped.ptl"
    torch.jit.script(Top())._save_for_lite_interpreter(str(path), _save_mobile_debug_info=True)
    without_debug_info(path, stripped)
    load = torch.jit.mobile._load_for_lite_interpreter
    report, full = (failure(load(str(file)), 2, 4) for file in (stripped, path))
    assert explained(report, path) == (full, 1, 0, [])
    digits = report.partition(b"{")[2].partition(b"}")[0].decode()
    with archive.open(path) as opened:
        assert [len(handles) for handles in HandleSplits(opened).fitting(digits, Steps(10_000))] == [3]


def test_frames_without_source_ranges_are_repeated(tmp_path: Path) -> None:
    whole = ORACLES / "traced_stack.pt"
    bare = without(whole, tmp_path / "bare.pt", lambda name: name.endswith(".debug_pkl"))
    report = failure(torch.jit.load(str(bare)), 1, 5)
    with archive.open(whole) as opened:
        records = opened.range_records
    noted = 0
    for record in records:
        part = without(whole, tmp_path / "part.pt", record.__eq__)
        outcome = explained(report, part)
        assert outcome.text == failure(torch.jit.load(str(part)), 1, 5)
        assert outcome[1:3] == (1, 0)
        noted += len(outcome.notes)
    assert (noted, len(records)) == (4, 9)
    assert explained(report, bare) == (report, 0, 1, explained(report, bare).notes)


def test_the_handle_of_an_earlier_call_is_no_line_of_a_refused_one(tmp_path: Path) -> None:
    path, stripped = tmp_path / "top.ptl", tmp_path / "stripped.ptl"
    torch.jit.script(Top())._save_for_lite_interpreter(str(path), _save_mobile_debug_info=True)
    lite = torch.jit.mobile._load_for_lite_interpreter(str(without_debug_info(path, stripped)))
    assert explained(failure(lite, 2, 4), path)[1:] == (1, 0, [])
    for given in (("x",), (torch.ones(2, 3), 1, 2)):
        with pytest.raises(RuntimeError) as caught:
            lite(*given)
        log = str(caught.value).encode()
        assert b"debug_handles:" in log
        outcome = explained(log, path)
        assert outcome[:3] == (log, 0, 1)
        assert "refused the arguments of" in outcome.notes[0]


class Forking(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.product = Product()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        future = torch.jit.fork(self.product, x)
        return torch.jit.wait(future) + 1


def test_what_a_forked_function_throws_is_one_failure_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "forking.pt"
    torch.jit.script(Forking()).save(str(path))
    stripped = without_debug_info(path, tmp_path / "stripped.pt")
    report, full = (failure(torch.jit.load(str(file)), 2, 4) for file in (stripped, path))
    assert report.count(b"Traceback of TorchScript") == 2
    assert explained(report, path) == (full, 1, 0, [])


def packaged(path: Path) -> torch.nn.Module:
    """The scripted module in a torch.package, the fixture or one that was made of it."""
    model: torch.nn.Module = torch.package.PackageImporter(str(path)).load_pickle("model", "model.pkl")
    return model


def test_a_split_package_is_explained_as_pytorch_explains_the_whole_one(tmp_path: Path) -> None:
    package = KINDS / "package.pt"
    left, companion, shrunk = (tmp_path / name for name in ("left.pt", "left.ptdbg", "shrunk.pt"))
    archive.split(package, left, companion)
    archive.shrink(package, shrunk)
    report, full = (failure(packaged(path), 5, 5) for path in (left, package))
    assert b'File ".data/ts_code/code/__torch__/net.py", line 24, in forward' in report
    assert b"original code" not in report
    for path in (package, shrunk):
        assert explained(report, path) == (full, 1, 0, [])
    with archive.open(left, companion=companion) as both:
        assert explained(report, both) == (full, 1, 0, [])
    alone = f"line 2: {UNCHECKED}"
    assert explained(report, companion) == (full, 1, 0, [alone])
    assert failure(packaged(shrunk), 5, 5) == full


class Quoting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, str]:
        said = 'Traceback of TorchScript (most recent call last):\n  File "code/__torch__/net.py", line 8\n'
        return torch.matmul(x, torch.ones(5, 5)), said


@pytest.mark.parametrize("others", [0, 1])
def test_code_may_have_a_heading_in_a_string(others: int, tmp_path: Path) -> None:
    whole = tmp_path / "models" / "quoting.pt"
    whole.parent.mkdir()
    torch.jit.script(Quoting()).save(str(whole))
    for number in range(others):
        torch.jit.script(Product()).save(str(whole.with_name(f"other{number}.pt")))
    bare = without_debug_info(whole, tmp_path / "bare.pt")
    report, full = (failure(torch.jit.load(str(file)), 2, 4) for file in (bare, whole))
    shown = report.partition(b"File")[2].partition(b"HERE")[0]
    assert b"Traceback of TorchScript (most recent" in shown
    assert archive.explain(report, whole.parent) == full


NORMED = torch.nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
REFUSING = {
    "linear": (torch.nn.Linear(4, 6), (2, 4), (2, 5)),
    "matmul": (Product(), (2, 3), (2, 4)),
    "conv1d": (torch.nn.Conv1d(4, 6, 3), (2, 4, 9), (2, 5, 9)),
    "conv_transpose1d": (torch.nn.ConvTranspose1d(4, 6, 3), (2, 4, 9), (2, 5, 9)),
    "batch_norm": (torch.nn.BatchNorm1d(4), (2, 4), (2, 5)),
    "instance_norm": (NORMED, (2, 4, 8), (2, 5, 8)),
}


@pytest.mark.parametrize("operator", REFUSING)
def test_no_message_of_a_programs_own_operator_contradicts_it(operator: str) -> None:
    module, sizes, others = REFUSING[operator]
    program = torch.export.export(module.eval(), (torch.zeros(sizes),))
    unchecked = program.module(check_guards=False)
    unchecked._forward_pre_hooks.clear()  # these check the sizes of inputs
    with pytest.raises(RuntimeError) as failed:
        unchecked(torch.zeros(others))
    saved = io.BytesIO()
    torch.export.save(program, saved)
    (node,) = (
        node
        for node in loaded_nodes(archive.open(saved.getvalue()).programs)
        if node.site.target == f"torch.ops.aten.{operator}.default"
    )
    assert [*claims(str(failed.value), node.site.target)] or operator == "instance_norm"
    assert contradiction(node.site, [str(failed.value)], is_fixed=False) == ""
