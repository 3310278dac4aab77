"""The backends in ``examples/`` keep all rules, and what their page shows and says of them is so."""

from __future__ import annotations

import importlib
import os
import re
import shutil
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
SINGLE_FILE = ROOT / "examples" / "backends"
PAGE = ROOT / "docs" / "how-to" / "backends.md"


class Chained(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.neg(x))


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.neg(x) * 2


class SecondOfTwo(torch.nn.Module):
    def forward(self, _: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(y)


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution as pip installs it; what it needs is here already."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([*pip, *offline, str(EXAMPLE)], check=True)
    return folder


@pytest.fixture
def installed(distribution: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It is found by its entry point."""
    monkeypatch.syspath_prepend(str(distribution))
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
    page = PAGE.read_text("utf-8")
    for name, language in (("chain_backend.py", "python"), ("pyproject.toml", "toml")):
        assert f"```{language}\n{(EXAMPLE / name).read_text('utf-8')}```" in page


def block_with(word: str, language: str = "python") -> str:
    """The only block of the page that has a word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if word in block)
    assert isinstance(block, str)
    return block


def ran(folder: Path, *words: object, path: Path = SINGLE_FILE) -> str:
    """What Python prints in a folder, as a reader runs it; modules are found in another folder, too."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(path), str(ROOT)]), "PYTHONDONTWRITEBYTECODE": "1"}
    program = [sys.executable, "-W", "ignore", *map(str, words)]
    done = subprocess.run(program, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_test_of_the_page_runs_as_it_is(distribution: Path, tmp_path: Path) -> None:
    (tmp_path / "test_chain.py").write_text(block_with("def test_chain"), "utf-8")
    said = ran(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_chain.py", path=distribution)
    assert "1 passed" in said


def test_the_tests_of_backends_in_one_file_pass(tmp_path: Path) -> None:
    shutil.copytree(SINGLE_FILE, tmp_path / "backends", ignore=shutil.ignore_patterns("__pycache__"))
    said = ran(
        tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "backends", path=tmp_path / "backends"
    )
    assert "4 passed" in said


def test_the_page_shows_times_and_what_stock_pytorch_prints(tmp_path: Path) -> None:
    (tmp_path / "scaled.py").write_text(block_with("class Scaled"), "utf-8")
    said = ran(tmp_path, "scaled.py").replace(f"{tmp_path}{os.sep}", "")
    assert re.search(r"^backend fused: 1 operation in ", said, re.MULTILINE)
    assert re.search(r"scaled.py:9 +return torch.relu\(x \* 2.5\)$", said, re.MULTILINE)
    assert said.rstrip().endswith(block_with("scaled.py", "text").rstrip())

    program = "import torch; torch.jit.load('scaled.pt')"  # without the module that has the operator
    assert re.search(r"^Unknown builtin op: (.*)\.$", ran(tmp_path, "-c", program), re.MULTILINE)
    assert "Unknown builtin op: fused::mul_relu" in PAGE.read_text("utf-8")


def test_the_kernels_of_the_page_are_those_of_the_example() -> None:
    schema = "mul_relu(Tensor x, float factor) -> Tensor"
    assert f'library.def("{schema}")' in block_with("TORCH_LIBRARY", "cpp")
    sys.path.insert(0, str(SINGLE_FILE))
    try:
        importlib.import_module("fused")
        assert str(torch.ops.fused.mul_relu.default._schema) == f"fused::{schema}"
    finally:
        sys.path.remove(str(SINGLE_FILE))
        unregister_backend("fused")
        del sys.modules["fused"]
