"""Stock PyTorch runs archives with unique handles, prints these, and the log is explained as before."""

# TorchScript reads the annotations of attributes: they must not be postponed.
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import archive
from archive.debuginfo.unique_handles import DIGITS
from tests.support.corpus import ORACLES
from tests.support.reports import explained

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

from archive import Explainer
from archive.backend import lower, save_lowered
from archive.store.store import Store
from tests.support.torch_oracles import cases, failure, have_backends

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:torch.ao.quantization:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning"),
]

PRINTED = re.compile(r"debug_handles:\{(\d+)\}")


class Dense(torch.nn.Module):
    """A module with a product that fails for inputs of another width."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.bn = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.bn(self.fc(x)))


class Several(Dense):
    """A module with more methods than one."""

    @torch.jit.export
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x + 1)


class Wide(torch.nn.Module):
    """A module whose free function fails."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, torch.ones(3, 3)).relu()


def several() -> torch.jit.ScriptModule:
    return torch.jit.script(Several().eval())


def frozen() -> torch.jit.ScriptModule:
    return torch.jit.freeze(torch.jit.script(Dense().eval()))


def optimised() -> torch.jit.ScriptModule:
    return torch.jit.optimize_for_inference(torch.jit.script(Wide().eval()))


def traced() -> torch.jit.ScriptModule:
    made: torch.jit.ScriptModule = torch.jit.trace(Dense().eval(), torch.ones(2, 3))
    return made


def quantised() -> torch.jit.ScriptModule:
    model = torch.ao.quantization.quantize_dynamic(Dense().eval(), {torch.nn.Linear}, torch.qint8)
    return torch.jit.script(model)


class Failure(NamedTuple):
    """A model, and the method that fails."""

    make: Callable[[], torch.jit.ScriptModule]
    method: str = "forward"


FAILURES = {
    "several": Failure(several),
    "encode": Failure(several, "encode"),
    "frozen": Failure(frozen),
    "optimised": Failure(optimised),
    "traced": Failure(traced),
    "quantised": Failure(quantised),
}


def failed(path: Path, method: str) -> str:
    model = torch.jit.mobile._load_for_lite_interpreter(str(path))
    with pytest.raises(RuntimeError) as caught:
        model.run_method(method, torch.ones(2, 5))
    return str(caught.value)


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_names_its_archive_and_is_explained_as_pytorch_explains_it(
    name: str, tmp_path: Path
) -> None:
    """A compact archive with unique handles prints what it printed."""
    make, method = FAILURES[name]
    path, left, companion, small = (tmp_path / file for file in ("whole", "left", "m.ptdbg", "small"))
    make()._save_for_lite_interpreter(str(path), _save_mobile_debug_info=True)
    said, expected = archive.split(path, left, companion), failed(path, method)
    log = failed(left, method)
    digits = PRINTED.findall(log)
    assert [(len(one), one[:10]) for one in digits] == [(DIGITS, str(said.prefix))]
    assert explained(log.encode(), companion) == (expected.encode(), 1, 0, [])
    archive.shrink(path, small, handles="unique")
    assert failed(small, method) == expected


def test_delegated_handles_stand_in_front_as_the_backend_numbered_them(tmp_path: Path) -> None:
    have_backends()
    left, companion = tmp_path / "left.ptl", tmp_path / "m.ptdbg"
    said = archive.split(ORACLES / "lowered_shape.ptl", left, companion)
    model = torch.jit.mobile._load_for_lite_interpreter(str(left))
    with pytest.raises(RuntimeError) as caught:
        model(torch.ones(1, 5), torch.ones(1, 3))
    (digits,) = PRINTED.findall(str(caught.value))
    with archive.open(ORACLES / "lowered_shape.ptl") as opened:
        inner, outer = digits[:-DIGITS], digits[-DIGITS:]
        assert outer.startswith(str(said.prefix))
        assert int(inner) in opened.handles
        assert int(outer[-8:]) in opened.handles


class Part(torch.nn.Module):
    """A module that is lowered, and fails for inputs of another width."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Whole(torch.nn.Module):
    """A module with such a part."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)


def test_builds_of_a_lowered_module_are_told_apart_in_a_store(tmp_path: Path) -> None:
    """The handles of its operations have 15 digits here, and none of them is an instruction's."""
    store, logs = Store.open(tmp_path / "symbols", create=True), []
    for number in range(2):
        whole, left, companion = (tmp_path / f"{name}{number}.ptl" for name in ("whole", "left", "debug"))
        model = Whole().eval()
        model.part = lower(model.part, "aten")
        save_lowered(torch.jit.script(model), whole)
        archive.split(whole, left, companion)
        store.add(companion, label=f"1.{number}")
        logs.append((failed(left, "forward"), failed(whole, "forward")))
    assert logs[0][0] != logs[1][0]
    explainer = Explainer(store.file)
    for log, expected in logs:
        assert explainer.explain(log) == expected


def test_the_frozen_failure_is_what_pytorch_prints(tmp_path: Path) -> None:
    left, companion = tmp_path / "left.ptl", tmp_path / "m.ptdbg"
    (call,) = [call for call in cases() if call.path.name == "plain_unicode.ptl"]
    archive.split(call.path, left, companion)
    log = failure(left, call.method, call.arguments)
    assert log == (ORACLES / "plain_unicode.unique.txt").read_text("utf-8")
    assert explained(log.encode(), companion) == (call.error.encode(), 1, 0, [])
