"""PyTorch runs a model whose names are hashes as before, and the companion explains it by its names."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support.corpus import FIXTURES
from tests.support.reports import explained
from tests.support.scanner import holds

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

from tests.privacy.redact.named_models import CALLERS, GONE, VALUES, SecretScoring

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.torch

ORACLES = FIXTURES / "oracles"
IDS = torch.tensor([[1, 2], [0, 3]])


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("named") / "model.pt"
    torch.jit.script(SecretScoring().eval()).save(str(path))
    return path


@cache
def redacted(path: Path, **choice: Any) -> tuple[bytes, bytes]:  # noqa: ANN401
    """The archive with hashes, or otherwise redacted, and its companion."""
    out, companion = io.BytesIO(), io.BytesIO()
    hashes = {"names": "hash", "paths": "none"}
    facts = archive.redact(path, out, companion, **(choice or hashes), partial=True)
    assert (facts.is_clean, facts.refused) == (True, ())
    return out.getvalue(), companion.getvalue()


def loaded(data: bytes, *, lite: bool = False) -> Any:  # noqa: ANN401
    file = io.BytesIO(data)
    return torch.jit.mobile._load_for_lite_interpreter(file) if lite else torch.jit.load(file)


def failure(model: Any, *arguments: torch.Tensor) -> str:  # noqa: ANN401
    with pytest.raises((RuntimeError, IndexError)) as failed:
        model(*arguments)
    return str(failed.value)


def refused(mistake: Callable[[Any], Any], model: Any) -> str:  # noqa: ANN401
    with pytest.raises((RuntimeError, TypeError, AttributeError)) as failed:
        mistake(model)
    return str(failed.value)


def test_every_kind_of_name_is_gone_and_the_model_runs_the_same(scripted: Path) -> None:
    before = scripted.read_bytes()
    out, _ = redacted(scripted)
    assert [name for name in GONE if not holds(before, name)] == []
    assert [name for name in GONE if holds(out, name)] == []
    assert [name for name in (*CALLERS, *VALUES) if not holds(out, name)] == []
    old, new = loaded(before), loaded(out)
    one, other = old(IDS), new(customer_ids=IDS)
    assert torch.equal(one.suspicion, other.suspicion)
    assert one.gradation == other.gradation
    rows = torch.rand(2, 3)
    one, other = (model.public_method(public_argument=rows) for model in (old, new))
    assert torch.equal(one["answer_key"], other["answer_key"])
    assert all(map(torch.equal, old.state_dict().values(), new.state_dict().values()))
    assert list(old.state_dict())[-1].endswith("stage_modules.0.bias")
    assert re.fullmatch(r"a\w{8}\.0\.bias", list(new.state_dict())[-1])


def test_what_pytorch_prints_of_redacted_code_becomes_the_original(scripted: Path) -> None:
    out, companion = redacted(scripted)
    told, log = (failure(loaded(data), IDS + 100) for data in (scripted.read_bytes(), out))
    with archive.open(out, companion=companion) as opened:
        found = explained(log.encode(), opened).text.decode()
    assert "(_0).forward" not in log.partition("original")[0]
    assert found == told


@pytest.mark.parametrize("together", [False, True], ids=["companion", "both"])
def test_a_traceback_through_hashes_is_explained_by_the_names(scripted: Path, *, together: bool) -> None:
    out, companion = redacted(scripted)
    without = io.BytesIO()
    archive.split(io.BytesIO(out), without, io.BytesIO())
    told = failure(loaded(scripted.read_bytes()), IDS + 100)
    log = failure(loaded(without.getvalue()), IDS + 100)
    assert "blacklist_embedding" in told
    assert "blacklist_embedding" not in log
    with archive.open(out, companion=companion) if together else archive.open(companion) as opened:
        assert explained(log.encode(), opened).text.decode() == told


@pytest.mark.parametrize("choice", [{"preset": "publish"}, {"preset": "vendor"}], ids=["publish", "vendor"])
def test_what_pytorch_prints_of_another_redaction_is_explained_by_the_code(
    scripted: Path, choice: dict[str, Any]
) -> None:
    published, _ = redacted(scripted, **choice)
    out, companion = redacted(scripted)
    told, log = (failure(loaded(data), IDS + 100) for data in (scripted.read_bytes(), published))
    heading = "original code (most recent call last):\n"
    assert log.partition(heading)[2] != told.partition(heading)[2]
    for source, beside in ((out, companion), (companion, None), (scripted.read_bytes(), None)):
        with archive.open(source, companion=beside) as opened:
            found = explained(log.encode(), opened)
        assert found.text.decode() == told


MISTAKES: list[Callable[[Any], Any]] = [
    lambda model: model(),
    lambda model: model(1, 2, 3),
    lambda model: next(model.children())(),
    lambda model: next(model.children()).nothing,
    lambda model: model.load_state_dict({}),
    lambda model: model.nothing,
]
"""Calls that PyTorch refuses in messages with names of arguments, attributes and classes."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=range(len(MISTAKES)))
def test_a_message_of_pytorch_has_the_names_again(scripted: Path, mistake: Callable[[Any], Any]) -> None:
    out, companion = redacted(scripted)
    told, log = (refused(mistake, loaded(data)) for data in (scripted.read_bytes(), out))
    with archive.open(companion) as opened:
        assert explained(log.encode(), opened).text.decode() == told


@pytest.mark.parametrize("name", ["plain_stack", "plain_free_functions"])
def test_handles_of_the_lite_interpreter_stay_and_lead_to_the_names(name: str) -> None:
    path = ORACLES / f"{name}.ptl"
    out, companion = redacted(path)
    told, log = (failure(loaded(data, lite=True), torch.ones(5, 2)) for data in (path.read_bytes(), out))
    assert re.findall(r"line \d+", told) == re.findall(r"line \d+", log) != []
    with archive.open(path) as before, archive.open(out) as after, archive.open(companion) as private:
        texts = {one: str(before.symbolicate(one)) for one in before.handles}
        handle = next(one for one, text in texts.items() if text.strip() in told)
        assert str(after.symbolicate(handle)).strip() in log
        assert {one: str(private.symbolicate(one)) for one in texts} == texts
    with archive.open(out, companion=companion) as both:
        found = explained(log.encode(), both).text.decode()
    begins = "Module hierarchy:top("
    assert found.partition(begins)[1:] == told.partition(begins)[1:]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["in", "def", "lambda"])
def test_a_submodule_with_a_name_that_python_keeps_for_itself_runs_the_same(name: str) -> None:
    model = torch.nn.Sequential()
    model.add_module(name, torch.nn.Linear(2, 2))
    model.add_module("secret", torch.nn.Linear(2, 2))
    traced, rows = torch.jit.trace(model.eval(), torch.ones(1, 2)), torch.rand(3, 2)
    data = traced._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
    out, companion, again = io.BytesIO(), io.BytesIO(), io.BytesIO()
    archive.redact(data, out, companion, names="hash", paths="none")
    assert not holds(out.getvalue(), "secret")
    assert torch.equal(loaded(out.getvalue(), lite=True)(rows), model(rows))
    archive.join(out.getvalue(), companion.getvalue(), again)
    assert again.getvalue() == data


@pytest.mark.filterwarnings("ignore")
def test_a_program_loads_runs_and_unflattens_without_the_names_of_its_classes() -> None:
    path = FIXTURES / "exported" / "shop.pt2"
    out, _ = redacted(path)
    assert holds(path.read_bytes(), "shop.Lookup")
    assert not holds(out, "Lookup")
    old, new = torch.export.load(path), torch.export.load(io.BytesIO(out))
    arguments = old.example_inputs[0]
    assert all(map(torch.equal, old.module()(*arguments), new.module()(*arguments)))
    one, other = (torch.export.unflatten(program) for program in (old, new))
    assert [name for name, _ in one.named_modules()] == [name for name, _ in other.named_modules()]
    assert all(map(torch.equal, one(*arguments), other(*arguments)))
