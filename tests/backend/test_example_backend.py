"""The example of a backend in ``examples/``: installed as another distribution, it keeps all rules."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import LoweringError, backend_names, lower, unregister_backend
from archive.backend.conformance import examine

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "chain_backend"


class Chained(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.neg(x))


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.neg(x) * 2


class SecondOfTwo(torch.nn.Module):
    def forward(self, _: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(y)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution as pip installs it; what it needs is here already."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(tmp_path)]
    subprocess.run([*pip, *offline, str(EXAMPLE)], check=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield
    if "chain_backend" in sys.modules:
        unregister_backend("chain")
        del sys.modules["chain_backend"]


@pytest.mark.usefixtures("installed")
def test_the_installed_example_keeps_all_rules() -> None:
    assert "chain" in backend_names()
    report = examine(
        "chain",
        Chained(),
        good=(torch.randn(3),),
        bad={"torch.neg(x)": (torch.ones(3, dtype=torch.int64),)},
        unsupported={"torch.neg(x) * 2": Doubled()},
    )
    assert report.findings == ()
    with pytest.raises(LoweringError, match=r"relu is not supported .*\n.*\n *return torch\.relu\(y\)"):
        lower(SecondOfTwo(), "chain")


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "how-to" / "backends.md").read_text("utf-8")
    for name, language in (("chain_backend.py", "python"), ("pyproject.toml", "toml")):
        assert f"```{language}\n{(EXAMPLE / name).read_text('utf-8')}```" in page
