"""States that are not what the backend made, and what is put on lowered modules later."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch.utils.bundled_inputs import augment_model_with_bundled_inputs

from archive.backend import (
    BackendError,
    DebugHandles,
    Delegate,
    LoweringError,
    lower,
    lowered_archive,
    save_lowered,
)
from archive.base.errors import ArchiveError
from tests.support.backend_models import Host, cases, oracle_models
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

DEMO = "backend_with_compiler_demo"
WRONG: list[object] = [3, "text", {"forward": 3}, ("text",), ("text", "text"), ([1.0], "text")]


def lowered_to(backend: str) -> torch.jit.ScriptModule:
    return lower(cases()["mlp"].model if backend == "aten" else oracle_models().A(), backend)


@pytest.mark.parametrize("state", WRONG, ids=repr)
@pytest.mark.parametrize("backend", ["aten", DEMO])
def test_stock_pytorch_says_which_state_was_expected(backend: str, state: object) -> None:
    inner = lowered_to(backend)._c.getattr("__loweredModule__")
    spec = inner.getattr("__method_compile_spec")
    said = "expected a text and tensors as state" if backend == "aten" else "expected a state of a text"
    with pytest.raises(torch.jit.Error, match=said):
        inner._get_method("__setstate__")((spec, state, True))


def test_programs_that_are_broken_are_refused_with_the_instruction(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_lowered(lowered_to("aten"), path)
    with archive.open(path) as opened:
        state = bytes(opened.records["data.pkl"].view())
    for before, after, place in (
        (b"aten::linear", b"aten::lineaR", "program"),
        (b'"registers":', b'"registerS":', "program"),
        (b'"instructions":[[0,[', b'"instructions":[[9,[', "method forward, instruction 0"),
    ):
        assert before in state
        with pytest.raises(ArchiveError, match=place):
            Delegate.load(tampered(path, {"data.pkl": state.replace(before, after)}))


def test_a_handle_that_nobody_knows_is_told_as_pytorch_does(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_lowered(lower(oracle_models().A(), DEMO, recorder=DebugHandles(10)), path)
    with archive.open(path) as opened:
        state = bytes(opened.records["data.pkl"].view())
    delegate = Delegate.load(
        tampered(path, {"data.pkl": state.replace(b"<debug_handle>11", b"<debug_handle>99")})
    )
    with pytest.raises(
        BackendError, match=r"Debug info for handle\(s\): debug_handles:\{99\}, was not found"
    ):
        delegate(torch.ones(2), torch.ones(3))


def test_debug_info_may_come_from_a_companion(tmp_path: Path) -> None:
    path, device, companion = (tmp_path / name for name in ("a.pt", "device.pt", "model.ptdbg"))
    save_lowered(lowered_to(DEMO), path)
    archive.split(path, device, companion)
    bad = torch.ones(2), torch.ones(3)
    said = []
    for delegate in (Delegate.load(path), Delegate.load(device, companion=companion), Delegate.load(device)):
        with pytest.raises(BackendError) as caught:
            delegate(*bad)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "was not found" in said[2]


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")  # by PyTorch's own function
def test_bundled_inputs_survive(tmp_path: Path) -> None:
    model, good, _ = cases()["mlp"]
    lowered = lower(model, "aten")
    augment_model_with_bundled_inputs(lowered, inputs=[(good,)], skip_size_check=True)
    for path in (tmp_path / "a.pt", tmp_path / "a.ptl"):
        save_lowered(lowered, path)
        ((bundled,),) = torch.jit.load(path).get_all_bundled_inputs()
        assert torch.equal(bundled, good)
    lite = torch.jit.mobile._load_for_lite_interpreter(str(tmp_path / "a.ptl"))
    assert lite.run_method("get_num_bundled_inputs") == 1


def test_one_of_several_lowered_parts_is_chosen_by_its_path() -> None:
    model, good, _ = cases()["mlp"]
    both = torch.jit.script(
        torch.nn.ModuleDict({"a": lower(model, "aten"), "b": Host(lower(model, "aten"))})["b"]
    )
    assert Delegate.of(both).path == "inner"
    several = torch.nn.Sequential(lower(model[:1], "aten"), lower(model[1:], "aten"))
    scripted = torch.jit.script(several)
    with pytest.raises(LoweringError, match=r"expected part='0' or part='1', a lowered module's path"):
        Delegate.of(scripted)
    with torch.no_grad():
        first, second = (Delegate.of(scripted, part=part) for part in ("0", "1"))
        assert torch.allclose(second(first(good)), model(good))
    buffer = io.BytesIO(lowered_archive(scripted))
    assert Delegate.load(buffer, part="1").path == "1"
    plain = torch.jit.script(model)
    with pytest.raises(LoweringError, match="no module in it is lowered; lower it before saving"):
        Delegate.of(plain)


def test_what_pytorch_does_not_load_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(b"nonsense" * 100)
    with pytest.raises(ArchiveError) as caught:
        Delegate.load(path)
    assert len(str(caught.value).splitlines()) == 1
