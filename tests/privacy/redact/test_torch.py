"""Models with planted tokens: PyTorch runs what is redacted as before, and no token is left."""

from __future__ import annotations

import importlib.util
import io
import re
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support.scanner import holds

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

TOKENS = ("home_qzxv", "comment_wkjh", "docstring_plfm", "folder_bnty")
SOURCE = '''
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x):
        """docstring_plfm"""
        y = self.fc(x)  # comment_wkjh
        return y.relu() + 1
'''


def saved(model: Any, way: str, path: Path) -> None:  # noqa: ANN401
    example = torch.ones(2, 3)
    if way == "exported":
        torch.export.save(torch.export.export(model, (example,)), path)
        return
    scripted = torch.jit.trace(model, example) if way == "traced" else torch.jit.script(model)
    if way == "lite":
        scripted._save_for_lite_interpreter(str(path), _use_flatbuffer=False)
        path.write_bytes(path.read_bytes())
    else:
        torch.jit.save(scripted, path)


def loaded(path: Path, way: str) -> Any:  # noqa: ANN401
    if way == "exported":
        return torch.export.load(path).module()
    if way == "lite":
        return torch.jit.mobile._load_for_lite_interpreter(str(path))
    return torch.jit.load(path)


def failure(model: Any) -> str:  # noqa: ANN401
    with pytest.raises((RuntimeError, AssertionError)) as failed:
        model(torch.ones(2, 4))
    return str(failed.value)


@pytest.mark.parametrize("way", ["scripted", "traced", "lite", "exported"])
def test_no_token_is_left_and_pytorch_runs_the_same(way: str, tmp_path: Path) -> None:
    file = tmp_path / "home_qzxv" / "folder_bnty" / "net.py"
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE, "utf-8")
    spec = importlib.util.spec_from_file_location("net", file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path, out = tmp_path / "model.pt2", tmp_path / "out.pt2"
    saved(module.Net().eval(), way, path)
    planted = [token for token in TOKENS if holds(path.read_bytes(), token)]
    assert set(TOKENS[::3]) <= set(planted)
    companion = io.BytesIO()
    facts = archive.redact(path, out, companion, paths="basename", text="none")
    assert (facts.is_clean, facts.unread, facts.refused) == (True, (), ())
    assert [token for token in TOKENS if holds(out.read_bytes(), token)] == []
    before, after, x = loaded(path, way), loaded(out, way), torch.rand(2, 3)
    assert torch.equal(before(x), after(x))
    old, new = failure(before), failure(after)
    assert re.findall(r"line \d+|[Hh]andle:? ?\d+", new) == re.findall(r"line \d+|[Hh]andle:? ?\d+", old)
    assert not any(token in new for token in TOKENS)


def test_pytorch_loads_and_runs_programs_without_sample_inputs(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any, *, scale: Any) -> Any:  # noqa: ANN401
            return (x * scale).relu()

    path, out = tmp_path / "private_name.pt2", tmp_path / "public.pt2"
    given = torch.rand(3, 4), torch.rand(3, 4)
    torch.export.save(torch.export.export(Net(), given[:1], {"scale": given[1]}), path)
    assert given[0].numpy().tobytes() in read(path, "data/sample_inputs/model.pt")
    facts = archive.redact(path, out, tmp_path / "c", inputs=False)
    assert facts.gone == ("data/sample_inputs/model.pt",)
    assert facts.sought["file"] == 2
    before, after = torch.export.load(path), torch.export.load(out)
    assert before.example_inputs
    assert after.example_inputs is None
    x = torch.rand(3, 4)
    assert torch.equal(after.module()(x, scale=x), before.module()(x, scale=x))
    torch.export.save(after, tmp_path / "again.pt2")
    assert torch.export.load(tmp_path / "again.pt2").example_inputs is None


@pytest.mark.parametrize("way", ["scripted", "lite"])
def test_pytorch_loads_models_without_their_extra_files(way: str, tmp_path: Path) -> None:
    path, out = tmp_path / "model.pt", tmp_path / "out.pt"
    model: Any = torch.jit.script(torch.nn.Linear(3, 3))
    extra = {"notes.txt": "trained by planted_ann on planted_host"}
    if way == "lite":
        model._save_for_lite_interpreter(str(path), _extra_files=extra, _use_flatbuffer=False)
    else:
        torch.jit.save(model, path, _extra_files=extra)
    facts = archive.redact(path, out, tmp_path / "c", extra=False)
    assert "extra/notes.txt" in facts.gone
    assert not holds(out.read_bytes(), "planted_ann")
    told = {"notes.txt": ""}
    if way == "lite":
        again: Any = torch.jit.mobile._load_for_lite_interpreter(str(out))
    else:
        again = torch.jit.load(out, _extra_files=told)
    assert not told["notes.txt"], "PyTorch leaves those empty that are not there"
    x = torch.rand(2, 3)
    assert torch.equal(again(x), model(x))


def read(path: Path, record: str) -> bytes:
    with archive.open(path) as opened:
        return bytes(opened.records[record].view())


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_inputs_that_a_model_gives_out_itself_are_told(tmp_path: Path) -> None:
    bundled_inputs = pytest.importorskip("torch.utils.bundled_inputs")
    model, path = torch.jit.script(torch.nn.Linear(3, 3)), tmp_path / "model.pt"
    bundled_inputs.augment_model_with_bundled_inputs(model, [(torch.arange(3.0),)], skip_size_check=True)
    torch.jit.save(model, path)
    counted = archive.leaks(path).counted([archive.LeakKind.INPUTS])
    assert [one.text for one in counted] == ["_bundled_inputs_deflated_forward"]
    with pytest.raises(
        archive.ArchiveError, match="left: sample inputs _bundled_inputs_deflated_forward in "
    ):
        archive.redact(path, tmp_path / "out", tmp_path / "c", inputs=False)
    assert archive.redact(path, tmp_path / "out", tmp_path / "c", paths="none").is_clean
