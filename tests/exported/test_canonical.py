"""``convert --canonical``: two exports of one model become the same bytes."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.formats.exported.canonical import IdNumbering
from archive.formats.exported.node_metadata import FUNCTION, FUNCTIONS, MODULES, ORIGINS, STACK_TRACE
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.exported import EXPORTED, PROGRAMS, nodes, texts
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path


def canonical(path: Path) -> bytes:
    out = io.BytesIO()
    archive.canonicalise(path, out)
    return out.getvalue()


def records(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {name.partition("/")[2]: opened.read(name) for name in opened.namelist()}


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_only_ids_in_metadata_differ(path: Path) -> None:
    before, after = records(path.read_bytes()), records(canonical(path))
    assert list(before) == list(after)
    changed = {name for name in before if before[name] != after[name]}
    for name in changed - {".data/serialization_id"}:
        assert name.startswith("models/")
        assert without_metadata(before[name]) == without_metadata(after[name])
        for old, new in zip(nodes(json.loads(before[name])), nodes(json.loads(after[name])), strict=True):
            assert old["metadata"].keys() == new["metadata"].keys()
            for key, text in old["metadata"].items():
                assert DIGITS.sub("", text) == DIGITS.sub("", new["metadata"][key])


DIGITS = re.compile(r"(?<=0x)[0-9a-f]+|\d+")


def without_metadata(data: bytes) -> object:
    tree = json.loads(data)
    for node in nodes(tree):
        del node["metadata"]
    return tree


@pytest.mark.parametrize("path", PROGRAMS[::4], ids=lambda path: path.stem)
def test_what_is_canonical_stays(path: Path, tmp_path: Path) -> None:
    once = canonical(path)
    (tmp_path / "other.pt2").write_bytes(once)
    assert canonical(tmp_path / "other.pt2") == once


@pytest.mark.parametrize("strict", [False, True])
def test_two_exports_of_one_model_are_the_same_bytes_and_run_equal(tmp_path: Path, strict: bool) -> None:  # noqa: FBT001
    torch = pytest.importorskip("torch")

    module: Any = torch.nn.Module

    class Model(module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            return torch.cond(x.sum() > 0, lambda x: self.linear(x).sin(), lambda x: x.cos(), (x,))

    x = torch.ones(2, 3)
    for name in ("a", "b"):
        torch.manual_seed(0)
        torch.export.save(torch.export.export(Model(), (x,), strict=strict), tmp_path / f"{name}.pt2")
    a, b = tmp_path / "a.pt2", tmp_path / "b.pt2"
    assert a.read_bytes() != b.read_bytes()
    assert canonical(a) == canonical(b)
    expected = torch.export.load(a).module()(x)
    assert torch.equal(torch.export.load(io.BytesIO(canonical(a))).module()(x), expected)


def test_each_kind_of_id_is_numbered_by_itself() -> None:
    numbering = IdNumbering()
    first = numbering.numbered(
        {
            STACK_TRACE: 'File "<eval_with_key>.327", line 5, in forward\n  File "a.py", line 327, in f',
            MODULES: "140145928258128,,a.Top;140145928250000@1,one,a.One",
            FUNCTION: "f_1;<function f at 0x7f0001>",
            FUNCTIONS: "f,<function f at 0x7f0001>;g,<function g at 0x7f0002>",
            ORIGINS: '[{"name": "x", "target": "<function f at 0x7f0003>", "graph_id": 9, "pass_name": "", '
            '"action": "create", "from_node": []}]',
            "custom": "at 0x7f0001>",
        }
    )
    assert first == {
        STACK_TRACE: 'File "<eval_with_key>.0", line 5, in forward\n  File "a.py", line 327, in f',
        MODULES: "0,,a.Top;1@1,one,a.One",
        FUNCTION: "f_1;<function f at 0x0>",
        FUNCTIONS: "f,<function f at 0x0>;g,<function g at 0x1>",
        ORIGINS: '[{"name": "x", "target": "<function f at 0x2>", "graph_id": 0, "pass_name": "", '
        '"action": "create", "from_node": []}]',
        "custom": "at 0x7f0001>",
    }
    second = numbering.numbered({MODULES: "140145928250000,one,a.One"})
    assert second == {MODULES: "1,one,a.One"}
    assert numbering.counts == {"graphs": 1, "modules": 2, "addresses": 3, "pieces of generated code": 1}


@pytest.mark.parametrize("key", [MODULES, ORIGINS])
def test_the_ids_of_fixtures_are_small(key: str) -> None:
    numbering = IdNumbering()
    found = [numbering.numbered({key: text})[key] for text in texts(key)]
    assert not [text for text in found if re.search(r"0x7f|\b\d{13,}\b", text)]


def test_one_of_two_forms_is_asked_for(tmp_path: Path) -> None:
    done = run("convert", EXPORTED / "shop.pt2", "-o", tmp_path / "out.pt2")
    assert done.returncode == 2
    assert b"give --profile PROFILE, or --canonical" in done.stderr


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("oracles/plain_stack.ptl", "a lite archive"),
        ("compiled/sources.pt2", "an AOTInductor package (.pt2)"),
    ],
)
def test_other_archives_are_refused(name: str, what: str, tmp_path: Path) -> None:
    path = FIXTURES / name
    done = run("convert", path, "-o", tmp_path / "out.ptl", "--canonical")
    assert done.returncode == 2
    assert done.stderr.decode() == f"debug-archive: {path}: expected an exported program, found {what}\n"
    assert not (tmp_path / "out.ptl").exists()
