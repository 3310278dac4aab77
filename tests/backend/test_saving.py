"""Lowered modules in stock PyTorch, without this library: they run, and fail at the model's own lines."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import LoweringError, lower, save_lowered
from archive.backend.lower import saving
from archive.base.errors import ArchiveError
from archive.check.verify import verify
from archive.container.container import Container
from archive.container.serialization_id import MACOS, RECORD_NAME, serialization_id, writers
from archive.container.write import member_from, new_member, write_archive
from tests.support.backend_models import Branching, Host, cases
from tests.support.corpus import CALLSTACKS, DELEGATED
from tests.support.processes import run_fresh
from tests.support.sampling import Suite

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.container.record import Record
    from archive.container.write import Member

pytestmark = pytest.mark.torch

STOCK = """
import json
import sys
import torch
import torch.jit.mobile
for name in ("archive", "numpy.nonsense"):
    try:
        __import__(name)
    except ImportError:
        continue
    sys.exit("can import " + name)
said = {}
for path in sys.argv[1:]:
    load = torch.jit.mobile._load_for_lite_interpreter if path.endswith(".ptl") else torch.jit.load
    model = load(path)
    good, expected, bad = torch.load(path + ".arguments")
    with torch.no_grad():
        result = "same" if torch.allclose(model(good), expected, atol=1e-5) else "another result"
        try:
            model(bad)
        except Exception as error:
            said[path] = [result, str(error)]
print(json.dumps(said))
"""
NAMES = list(cases())
OUTER = "top(Host)::<unknown>.inner(Sequential)::forward.__loweredModule__(Sequential)::forward"


class Said(NamedTuple):
    """What a stock process said of a model."""

    result: str
    failure: str


@cache
def saved(name: str, ending: str, folder: Path) -> Path:
    path = folder / f"{name}{ending}"
    save_lowered(hosted(name), path)
    return path


@cache
def hosted(name: str) -> torch.jit.ScriptModule:
    made: torch.jit.ScriptModule = torch.jit.script(Host(lower(cases()[name].model, "aten")))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lowered")


@pytest.fixture(scope="module")
def stock(folder: Path) -> dict[Path, Said]:
    """What one fresh process says of all archives, which it loads and calls."""
    paths = [saved(name, ending, folder) for name in NAMES for ending in (".ptl", ".pt")]
    for path in paths:
        model, good, bad = cases()[path.stem]
        with torch.no_grad():
            torch.save((good, model(good) + 1, bad), f"{path}.arguments")
    done = run_fresh(f"import sys; sys.modules['archive'] = None\n{STOCK}", *paths, folder=folder)
    return {Path(path): Said(*said) for path, said in json.loads(done.stdout).items()}


@pytest.mark.parametrize("ending", [".ptl", ".pt"])
@pytest.mark.parametrize("name", NAMES)
def test_they_run_without_this_library(name: str, ending: str, folder: Path, stock: dict[Path, Said]) -> None:
    assert stock[saved(name, ending, folder)].result == "same"


@pytest.mark.parametrize(
    ("name", "hierarchy", "lines"),
    [
        (
            "mlp",
            f"{OUTER}.0(Linear)::forward.aten::linear",
            [
                "return self.inner(x) + 1",
                "input = module(input)",
                "return F.linear(input, self.weight, self.bias)",
            ],
        ),
        (
            "resnet",
            f"{OUTER}.0(Block)::forward.first(Conv2d)::forward.SELF(Conv2d)::_conv_forward.aten::conv2d",
            [
                "y = torch.relu(self.norm(self.first(x)))",
                "return self._conv_forward(input",
                "return F.conv2d(",
            ],
        ),
    ],
)
def test_the_lite_interpreter_prints_the_model_s_lines(
    name: str, hierarchy: str, lines: list[str], folder: Path, stock: dict[Path, Said]
) -> None:
    said = stock[saved(name, ".ptl", folder)].failure
    assert f"Module hierarchy:{hierarchy}\n" in said
    places = [said.index(line) for line in lines]
    assert places == sorted(places)
    assert "torch.ops.aten" not in said, "no generated statement is shown"


@pytest.mark.parametrize("name", NAMES)
def test_torchscript_prints_the_innermost_line_that_is_not_pytorch_s_own(
    name: str, folder: Path, stock: dict[Path, Said]
) -> None:
    said = stock[saved(name, ".pt", folder)].failure
    original = said.partition("Traceback of TorchScript, original code")[2]
    last = original.rpartition('  File "')[2]
    assert {"resnet": "self.norm(self.first(x))", "mlp": "return F.linear("}.get(name, "torch/nn") in last
    assert "torch.ops.aten" not in original


@pytest.mark.parametrize("name", NAMES)
def test_what_stock_prints_is_what_symbolication_gives(
    name: str, folder: Path, stock: dict[Path, Said]
) -> None:
    said = stock[saved(name, ".ptl", folder)].failure
    if "Module hierarchy" not in said:
        assert said.startswith("AssertionError"), "raised by the model: PyTorch gives no handle"
        return
    with archive.open(saved(name, ".ptl", folder)) as opened:
        assert any(str(opened.symbolicate(handle)).strip() in said for handle in opened.handles)


@pytest.mark.parametrize("ending", [".ptl", ".pt"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_well_formed(name: str, ending: str, folder: Path) -> None:
    with archive.open(saved(name, ending, folder)) as opened:
        findings = [one for one in verify(opened) if one.severity != "note"]
        assert findings == []
        (state,) = opened.lowered.values()
        assert (state.backend, state.wrapped, state.create_backend) == ("aten", True, True)
        assert set(state.handles) <= set(opened.handles)
        assert len(state.handles) > 5
        assert CALLSTACKS in opened.records
        assert DELEGATED in opened.records


@pytest.mark.parametrize("how", ["scripted", "traced", *(["scripted encoder"] if Suite.whole else [])])
def test_the_same_model_lowered_twice_gives_the_same_bytes(how: str, tmp_path: Path) -> None:
    traced, good, _ = cases()["mlp"]
    model = cases()["encoder"].model if how == "scripted encoder" else Branching()
    for name in ("first", "second"):
        module = torch.jit.trace(traced, good) if how == "traced" else torch.jit.script(model)
        lowered = lower(module, "aten")
        for ending in (".ptl", ".pt"):
            save_lowered(lowered, tmp_path / f"{name}{ending}")
    for ending in (".ptl", ".pt"):
        first, second = ((tmp_path / f"{name}{ending}").read_bytes() for name in ("first", "second"))
        assert first == second


def test_a_module_that_was_not_lowered_here_is_refused(tmp_path: Path) -> None:
    plain = torch.jit.script(cases()["mlp"].model)
    with pytest.raises(LoweringError, match="no module in it is lowered"):
        save_lowered(plain, tmp_path / "plain.ptl")
    assert list(tmp_path.iterdir()) == []


def test_the_platform_is_that_of_the_pytorch_that_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saved_on_macos(module: torch.jit.ScriptModule, path: Path) -> None:
        with Container.open(save_to_bytes(module)) as container, path.open("wb") as file:
            members = [member_from(one) for one in container.records.values() if one.name != RECORD_NAME]
            members.append(new_member(RECORD_NAME, serialization_id(members, MACOS).encode()))
            write_archive(file, container.root, members)

    monkeypatch.setattr(torch.jit, "save", saved_on_macos)
    save_lowered(lower(cases()["mlp"].model, "aten"), tmp_path / "model.pt")
    with archive.open(tmp_path / "model.pt") as opened:
        assert writers(opened.records.values(), opened.records[RECORD_NAME].view()) == (MACOS,)


def save_to_bytes(module: torch.jit.ScriptModule) -> bytes:
    data: bytes = module.save_to_buffer()
    return data


def test_an_existing_file_is_not_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "there.ptl"
    path.write_bytes(b"mine")
    lowered = lower(cases()["mlp"].model, "aten")
    with pytest.raises(ArchiveError, match="the file exists"):
        save_lowered(lowered, path)
    assert path.read_bytes() == b"mine"
    save_lowered(lowered, path, force=True)
    assert path.stat().st_size > 4


class First(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.left(x)


class Second(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.right = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.right(x)


def test_modules_whose_generated_source_is_the_same_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "two.ptl"
    save_lowered(torch.jit.script(torch.nn.Sequential(lower(First(), "aten"), lower(Second(), "aten"))), path)
    with archive.open(path) as opened:
        said = {opened.symbolicate(one).module_hierarchy for one in opened.handles}
    for outer, inner in (("0(First)", "left"), ("1(Second)", "right")):
        name = outer[2:-1]
        way = f"{outer}::forward.__loweredModule__({name})::forward.{inner}(Linear)::forward.aten::linear"
        assert f"top(Sequential)::<unknown>.{way}" in said


@pytest.mark.parametrize("change", [lambda data: bytes([data[0] ^ 1]) + data[1:], lambda data: data[:-4]])
@pytest.mark.parametrize("ending", [".pt", ".ptl"])
def test_another_weight_than_the_model_s_is_never_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, change: Callable[[bytes], bytes]
) -> None:
    """What was written is read back, and compared with what PyTorch has written, byte by byte."""

    def written(record: Record) -> Member:
        is_weight = record.name.rpartition("/")[2] == "0"
        return new_member(record.name, change(bytes(record.view()))) if is_weight else member_from(record)

    monkeypatch.setattr(saving, "member_from", written)
    with pytest.raises(ArchiveError, match="records besides debug info would change; nothing is written"):
        save_lowered(lower(torch.jit.script(torch.nn.Linear(3, 3)), "aten"), tmp_path / f"model{ending}")
    assert not [*tmp_path.iterdir()]
