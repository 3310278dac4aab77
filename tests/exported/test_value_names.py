"""Failures of programs whose values have other names in their modules than in their files."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

import archive
from archive.failures.explainer import LogExplainer
from archive.formats.exported.printed import own_name
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IDS, BEYOND = torch.tensor([1, 2]), torch.tensor([1, 99])


class Taken(nn.Module):
    """Python has taken the names of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(5, 3)

    def forward(self, input: Tensor, max: Tensor) -> Tensor:  # noqa: A002 (the names matter)
        rows: Tensor = self.rows(input) + max
        return rows


class Humps(nn.Module):
    """A parameter's name has capitals, which its input in the program has not."""

    def __init__(self) -> None:
        super().__init__()
        self.wordRows = nn.Embedding(5, 3)

    def forward(self, ids: Tensor) -> Tensor:
        rows: Tensor = self.wordRows(ids)
        return rows


class Clash(nn.Module):
    """A buffer and an input have one name."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(5, 3))

    def forward(self, ids: Tensor, table: Tensor) -> Tensor:
        return torch.embedding(self.get_buffer("table"), ids) + torch.embedding(table, ids)


class Lines(nn.Module):
    """The failing node takes no input, so its line alone proves it: a renamed input has one, too."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name matters)
        return torch.embedding(torch.ones(30, 3), (input + 1) * 2)


def numbered() -> nn.Module:
    """Parameters whose paths begin with a number."""
    return nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 3))


CASES: list[tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = [
    (Taken, (torch.ones(2, 3),)),
    (Humps, ()),
    (Clash, (torch.ones(5, 3),)),
    (Lines, ()),
    (numbered, ()),
]


def printed(call: Callable[..., object], *arguments: Tensor) -> str:
    try:
        call(*arguments)
    except IndexError:
        return traceback.format_exc()
    raise AssertionError("does not fail")


@pytest.mark.parametrize(("model", "others"), CASES)
def test_failures_are_explained_as_pytorch_does(
    model: Callable[[], nn.Module], others: tuple[Tensor, ...], tmp_path: Path
) -> None:
    whole, small = tmp_path / "whole.pt2", tmp_path / "small.pt2"
    torch.export.save(torch.export.export(model(), (IDS, *others)), whole)
    archive.split(whole, small, tmp_path / "model.ptdbg")
    before, after = (torch.export.load(path).module() for path in (whole, small))
    expected = printed(torch.fx.Interpreter(before).run, BEYOND, *others)
    log = printed(torch.fx.Interpreter(after).run, BEYOND, *others)
    with archive.open(whole) as opened:
        assert explained(opened, log) == expected != log
        assert "Original traceback:" in explained(opened, printed(after, BEYOND, *others))


class Mapped(nn.Module):
    """PyTorch names its nodes that give nothing anew when it loads them."""

    def forward(self, rows: Tensor, columns: Tensor) -> Tensor:
        first = torch.func.vmap(lambda row: row + 1)(rows)
        second = torch.func.vmap(lambda column: column * 2)(columns)
        return torch.cat([first, second])


@pytest.mark.parametrize("failing", [2, 3])
def test_failures_of_nodes_that_give_nothing_are_explained_as_pytorch_does(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = torch.ones(2, 3), torch.ones(3, 3)
    whole, small = tmp_path / "whole.pt2", tmp_path / "small.pt2"
    torch.export.save(torch.export.export(Mapped(), inputs), whole)
    archive.split(whole, small, tmp_path / "model.ptdbg")
    before, after = (torch.export.load(path).module() for path in (whole, small))

    def fails(size: int, _: str) -> int:
        if size == failing:
            raise IndexError
        return 1

    monkeypatch.setattr("torch._functorch.predispatch._vmap_increment_nesting_impl", fails)
    monkeypatch.setattr("torch._functorch.predispatch._add_batch_dim_impl", lambda rows, *_: rows)
    monkeypatch.setattr("torch._functorch.predispatch._remove_batch_dim_impl", lambda rows, *_: rows)
    monkeypatch.setattr("torch._functorch.predispatch._vmap_decrement_nesting_impl", lambda: 0)
    expected = printed(torch.fx.Interpreter(before).run, *inputs)
    log = printed(torch.fx.Interpreter(after).run, *inputs)
    with archive.open(whole) as opened:
        assert explained(opened, log) == expected != log
        source = expected.partition("Original traceback:")[2].partition("Use tlparse")[0]
        assert source in explained(opened, printed(after, *inputs))


def explained(opened: archive.Archive, log: str) -> str:
    return b"".join(LogExplainer.of(opened).explain([log.encode()])).decode()


def executing(name: str, target: str, arguments: str) -> str:
    """What the interpreter prints of a node without metadata."""
    node = f"%{name} : [num_users=1] = call_function[target={target}](args = {arguments}, kwargs = {{}})"
    return f"While executing {node}\nOriginal traceback:\nNone\n"


def test_a_fetched_result_is_not_called_another_models() -> None:
    """No file has the nodes that fetch one of several results."""
    with archive.open(EXPORTED / "choice.pt2") as opened:
        explainer = LogExplainer.of(opened)
        log = executing("getitem", "operator.getitem", "(%cond, 0)")
        assert b"".join(explainer.explain([log.encode()])).decode() == log
    assert not any("another model" in note for note in explainer.notes)


def test_an_operator_of_python_has_its_source() -> None:
    """The file calls it ``_operator.mul``."""
    with archive.open(EXPORTED / "sized_strict.pt2") as opened:
        log = executing("mul", "operator.mul", "(%sym_size_int_1, 2)")
        assert "n = x.shape[0] * 2 + y.shape[1]" in explained(opened, log)


def test_a_long_name_takes_no_longer_than_its_bytes() -> None:
    name = "x" * (1 << 17)
    assert re.match(own_name(name, ()), name)
