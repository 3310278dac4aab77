"""A program that PyTorch loads and saves again is the same model: what it does not keep is no part of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

import archive
from archive.compare.sameness import Level
from tests.support.corpus import FIXTURES
from tests.support.exported import EXPORTED
from tests.support.sampling import sampled
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.compare.changes import Diff

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

PROGRAM = "models/model.json"
NEEDS_CLASSES = {"counter.pt2", "counter_strict.pt2", "own.pt2", "own_strict.pt2", "teller.pt2"}
"""Programs with classes of their model, which this process does not have."""
SEVERAL = {"several.pt2"}
"""`torch.export.load` reads the only program of a file."""
FILES = [
    path
    for path in (*sorted(EXPORTED.glob("*.pt2")), FIXTURES / "kinds" / "exported.pt2")
    if path.name not in NEEDS_CLASSES | SEVERAL
]
CHANGED = {"maxima.pt2", "picked.pt2", "sized.pt2", "steps.pt2", "walk.pt2", "walk_strict.pt2"}
"""Programs of which PyTorch writes something else: offsets, ranges, names of nodes."""


def saved_again(path: Path, target: Path) -> Path:
    torch.export.save(torch.export.load(str(path)), str(target))
    return target


def rows(found: Diff) -> list[str]:
    """The rows of the model."""
    return [str(row) for row in found.changes if row.level is Level.MODEL]


@pytest.mark.parametrize(
    "path", sampled(FILES, 8, [lambda path: path.name in CHANGED and path.name]), ids=lambda path: path.name
)
def test_a_program_that_is_saved_again_is_the_same_model(path: Path, tmp_path: Path) -> None:
    once = saved_again(path, tmp_path / "once.pt2")
    twice = saved_again(once, tmp_path / "twice.pt2")
    assert {str(archive.digest(file)) for file in (path, once, twice)} == {str(archive.digest(path))}
    for old, new in ((path, once), (once, twice), (path, twice)):
        found = archive.diff(old, new)
        assert rows(found) == []
        assert found.same_model


def test_several_programs_of_a_file_are_too(tmp_path: Path) -> None:
    from torch.export.pt2_archive._package import load_pt2, package_pt2  # noqa: PLC0415 (this test alone)

    (name,) = SEVERAL
    again = tmp_path / "again.pt2"
    package_pt2(again, exported_programs=load_pt2(EXPORTED / name).exported_programs)
    assert str(archive.digest(EXPORTED / name)) == str(archive.digest(again))
    assert rows(archive.diff(EXPORTED / name, again)) == []


class Sliced(torch.nn.Module):
    """Views at other offsets, in a branch too; and a number that is only an offset."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def one(x: torch.Tensor) -> torch.Tensor:
            return x.t()[:, 1:].sum(1)

        def other(x: torch.Tensor) -> torch.Tensor:
            return x[1:].sum(0)

        at = n.item()
        torch._check(at >= 1)
        torch._check(at < x.shape[0])
        return torch.cond(x.sum() > 0, one, other, (x,)) + x[at]


def test_offsets_in_branches_and_of_numbers_do_not_count(tmp_path: Path) -> None:
    given = torch.ones(4, 4), torch.tensor(2)
    torch.export.save(torch.export.export(Sliced(), given), tmp_path / "first.pt2")
    again = saved_again(tmp_path / "first.pt2", tmp_path / "again.pt2")
    assert str(archive.digest(tmp_path / "first.pt2")) == str(archive.digest(again))
    assert rows(archive.diff(tmp_path / "first.pt2", again)) == []


# --- and nothing else is left out


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> bytes:
    def of_record(data: bytes) -> bytes:
        tree = json.loads(bytes(data))
        change(tree)
        return json.dumps(tree).encode()

    return tampered(path, {PROGRAM: of_record})


def values(tree: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = tree["graph_module"]["graph"]["tensor_values"]
    return found


def stride(tree: dict[str, Any]) -> None:
    values(tree)["slice_1"]["strides"][0] = {"as_int": 77}


def size(tree: dict[str, Any]) -> None:
    values(tree)["slice_1"]["sizes"][0] = {"as_int": 77}


def offset(tree: dict[str, Any]) -> None:
    values(tree)["slice_1"]["storage_offset"] = {"as_int": 77}


def used_range(tree: dict[str, Any]) -> None:
    (symbol, *_) = tree["range_constraints"]
    tree["range_constraints"][symbol]["max_val"] = 77


def unused_range(tree: dict[str, Any]) -> None:
    tree["range_constraints"]["u99"] = {"min_val": 1, "max_val": None}


@pytest.mark.parametrize(
    ("name", "change", "is_model"),
    [
        ("sized.pt2", stride, True),
        ("sized.pt2", size, True),
        ("sized.pt2", offset, False),
        ("shop_dynamic.pt2", used_range, True),
        ("shop_dynamic.pt2", unused_range, False),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_only_what_is_not_kept_does_not_count(
    name: str,
    change: Callable[[dict[str, Any]], None],
    is_model: bool,  # noqa: FBT001
) -> None:
    was, now = rewritten(EXPORTED / name, lambda _: None), rewritten(EXPORTED / name, change)
    found = archive.diff(was, now)
    assert bool(rows(found)) is is_model
    levels = {row.level for row in found.changes if row.what == "program"}
    assert levels == {Level.MODEL if is_model else Level.LAYOUT}
    assert (str(archive.digest(was)) != str(archive.digest(now))) is is_model
