"""TorchScript archives written for the lite interpreter, with the call stacks of the scripted module."""

from __future__ import annotations

import io
import re
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch import nn

import archive
from archive.backend import load_archive, lower, lowered_archive
from archive.backend.lite import lite
from archive.base.errors import ArchiveError
from archive.formats.effects import EFFECTS
from archive.rewrite.split import split
from tests.support.backend_models import Branching
from tests.support.commands import called
from tests.support.corpus import FIXTURES
from tests.support.documents import files_of
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:Lite Interpreter is deprecated:DeprecationWarning"),
]
RELEASES = FIXTURES / "releases"
OF_RELEASES = sorted(
    path
    for path in RELEASES.glob("torch-*/*.pt")
    if path.parent.name not in {"torch-1.0.1", "torch-1.2.0"}  # which PyTorch 2.13 does not load
    if path.stem == "nested"
    or (
        path.stem in {"traced", "unicode"}
        and path.parent.name in {"torch-1.4.0", "torch-1.10.0", "torch-2.13.0"}
    )
)
OLD = [RELEASES / f"torch-1.{minor}.0" for minor in range(3, 10)]
"""Releases that save no call stacks, or not those of 2.13."""
MODEL_LINE = re.compile(r'/src/models\.py(?:", line |\()(\d+)')
WIDE = torch.ones(2, 5)


class Functions(nn.Module):
    """Calls of functions whose names are short: PyTorch writes longer ones in another way."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Branching()

    def gated(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(nn.functional.glu(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.inner(torch.cat([self.gated(x), x.relu()], 1)[:, :4])
        return nn.functional.dropout(y, 0.5, self.training)


def saved(module: torch.jit.ScriptModule) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


def lite_of(module: torch.jit.ScriptModule) -> bytes:
    data: bytes = module._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
    return data


def explained(data: bytes | Path) -> Counter[str]:
    with archive.open(data) as opened:
        return Counter(str(opened.symbolicate(handle)) for handle in opened.handles)


def ranges(data: bytes | Path) -> Counter[tuple[object, ...]]:
    """The lines and texts of the calls on the way to all operations, and of the operations."""
    with archive.open(data) as opened:
        found = (opened.symbolicate(handle).frames for handle in opened.handles)
        spans = ([one.range for one in frames if one.range is not None] for frames in found)
        return Counter(
            tuple((span.line, span.text) for span in row if len(span.source.text)) for row in spans
        )


def failure(data: bytes) -> str:
    with pytest.raises(RuntimeError) as caught:
        torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data))(WIDE)
    return str(caught.value).partition("Module hierarchy")[2]


def test_calls_of_functions_are_kept_that_pytorch_loses() -> None:
    scripted = torch.jit.script(Functions())
    expected, pt, out = explained(lite_of(scripted)), saved(scripted), io.BytesIO()
    lost = expected - explained(lite_of(torch.jit.load(io.BytesIO(pt))))
    assert "return nn.functional.relu(nn.functional.glu(x))" in "".join(lost), "PyTorch's own way"
    facts = lite(pt, out)
    assert facts.calls == len(["relu", "glu"]), "PyTorch gives the long name of dropout a line"
    assert explained(out.getvalue()) == expected
    assert failure(out.getvalue()) == failure(lite_of(scripted))
    assert "return nn.functional.relu(nn.functional.glu(x))" in failure(out.getvalue())


@pytest.mark.parametrize(
    "path",
    sampled(OF_RELEASES, by=[attrgetter("parent"), attrgetter("stem")]),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_archives_of_all_releases_get_the_call_stacks_of_the_model(path: Path) -> None:
    out = io.BytesIO()
    lite(path, out)
    if path.parent in OLD:
        assert lines(out.getvalue()) == lines(RELEASES / "torch-2.13.0" / f"{path.stem}.ptl")
    else:
        assert explained(out.getvalue()) == explained(path.with_suffix(".ptl"))


def lines(data: bytes | Path) -> set[tuple[str, ...]]:
    """The model's lines of all call stacks, which are the same in all releases."""
    return {tuple(MODEL_LINE.findall(text)) for text in explained(data)}


@pytest.mark.parametrize("frozen", [False, True], ids=["whole", "frozen"])
def test_lowered_archives_keep_their_handles(frozen: bool) -> None:  # noqa: FBT001
    lowered = lower(Branching().eval(), "aten").eval()
    module = torch.jit.freeze(lowered) if frozen else lowered
    out = io.BytesIO()
    lite(lowered_archive(module), out)
    direct = lowered_archive(module, lite=True)
    assert ranges(out.getvalue()) == ranges(direct)
    assert (explained(out.getvalue()) == explained(direct)) is not frozen, "its calls of modules are gone"
    assert "aten::linear" in str(explained(lowered_archive(load_archive(out.getvalue()))))


def test_further_files_and_effects_are_kept() -> None:
    buffer, out = io.BytesIO(), io.BytesIO()
    torch.jit.save(torch.jit.script(Branching()), buffer, _extra_files={"labels.txt": "cat"})
    lite(buffer.getvalue(), out)
    with archive.open(out.getvalue()) as opened:
        assert bytes(opened.records["extra/labels.txt"].view()) == b"cat"
    out = io.BytesIO()
    lite(FIXTURES / "effects" / "counting.pt", out)
    with archive.open(out.getvalue()) as opened:
        assert EFFECTS in opened.records


def test_the_companion_of_a_split_archive_is_read(tmp_path: Path) -> None:
    scripted = torch.jit.script(Functions())
    out = io.BytesIO()
    split(saved(scripted), tmp_path / "small.pt", tmp_path / "model.ptdbg")
    lite(tmp_path / "small.pt", out, companion=tmp_path / "model.ptdbg")
    assert explained(out.getvalue()) == explained(lite_of(scripted))


def test_the_command_writes_one_file_or_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(saved(torch.jit.script(Functions())))
    model, target, folder = tmp_path / "model.pt", tmp_path / "model.ptl", tmp_path / "lite"
    done = called("lite", model, "-o", target)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "2 calls would be missing from PyTorch's own" in done.stdout
    again = called("lite", model, "-o", target)
    assert "the file exists" in str(again.exception)
    many = called("lite", model, RELEASES / "torch-1.4.0/nested.pt", "-o", folder, "-j", 1, "--json")
    assert [one["outcome"] for one in files_of(many.stdout)] == ["done", "done"]
    assert (folder / "model.pt").read_bytes() == target.read_bytes()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("torch-1.2.0/nested.pt", "PyTorch does not load it: Legacy model format"),
        (
            "torch-2.13.0/lowered.pt",
            "give or join its companion, .* PyTorch's own lowering has them only in .ptl files",
        ),
    ],
)
def test_what_pytorch_does_not_load_is_told(path: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=said):
        lite(RELEASES / path, tmp_path / "out.ptl")
    assert list(tmp_path.iterdir()) == []
