"""What of a file runs when PyTorch loads it: its TorchScript, and a backend that is there; no pickle."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

import archive
from archive.backend import Delegate, Effectful, load_archive, lower, lowered_archive
from archive.backend.errors import BackendError
from archive.base.errors import ArchiveError, LoweringError
from tests.attacks.attack import MARKER
from tests.attacks.payloads import archives
from tests.support.corpus import FIXTURES
from tests.support.forged import watched
from tests.support.sampling import crossed
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.torch

LOADS: dict[str, Callable[[Any], object]] = {
    "load_archive": load_archive,
    "Delegate.load": Delegate.load,
    "Effectful.load": Effectful.load,
}
REFUSALS = (ArchiveError, BackendError, LoweringError)
REACHES = ("os.system", "os.exec", "os.posix_spawn", "subprocess.", "pickle.", "import", "ctypes.dlopen")
"""Events of which no load of a hostile file may cause any."""
BACKEND = "backend_with_compiler_demo"
OWN = ("archive.", "torch.")
"""Python modules that are imported when they are first needed."""


@pytest.mark.parametrize(
    ("name", "payload"),
    crossed(LOADS, ["REDUCE", "STACK_GLOBAL", "BUILD", "NEWOBJ", "pickle in a pickle"]),
)
def test_no_pickle_of_a_file_runs(
    name: str, payload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    load_archive(FIXTURES / "effects" / "counting.pt")  # imports what any load imports
    files = [data for file, data in archives(payload).items() if file.endswith(".pt")]
    for data in files:
        with watched() as events, suppress(*REFUSALS):
            LOADS[name](data)
        own = [event for event in events if event[0] == "import" and str(event[1]).startswith(OWN)]
        assert [event for event in events if event[0].startswith(REACHES) and event not in own] == []
    assert not (tmp_path / MARKER).exists()


class Writing(torch.nn.Module):
    """A module that writes a file when it is loaded."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.training = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.path = state[0]
        self.training = state[1]
        torch.save(torch.ones(1), state[0])


class Adding(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


@pytest.mark.parametrize("load", [torch.jit.load, load_archive], ids=["torch.jit.load", "load_archive"])
def test_torchscript_of_a_file_runs_and_may_write_files(
    load: Callable[[Any], object], tmp_path: Path
) -> None:
    """SECURITY.md says so: who loads a stranger's file with PyTorch must know it."""
    target, data = tmp_path / "written", io.BytesIO()
    torch.jit.save(torch.jit.script(Writing(str(target))), data)
    assert not target.exists()
    data.seek(0)
    load(data)
    assert target.exists()


def test_a_file_names_a_backend_that_is_there_or_none() -> None:
    data = lowered_archive(lower(torch.jit.script(Adding().eval()), BACKEND))
    with watched() as events, pytest.raises(LoweringError, match="is not registered"):
        Delegate.load(_named(data, BACKEND.encode(), BACKEND.replace("demo", "evil").encode()))
    assert [event for event in events if event[0] == "import" and "evil" in str(event[1])] == []


def _named(data: bytes, old: bytes, new: bytes) -> bytes:
    """A lowered archive whose backend has another name of the same length."""
    with archive.open(data) as opened:
        names = [name for name in opened.records if name.startswith("code/") or name == "data.pkl"]
        changes = {
            name.replace(old.decode(), new.decode()): bytes(opened.records[name].view()).replace(old, new)
            for name in names
        }
        gone: dict[str, Any] = dict.fromkeys(name for name in names if name not in changes)
    return tampered(data, {**gone, **changes})
