"""Models that fail in the installed PyTorch, in threads and tasks, explained as PyTorch does with source."""

from __future__ import annotations

import asyncio
import linecache
import logging
import sys
import threading
import types
from typing import TYPE_CHECKING, NamedTuple

import pytest

import archive
from archive.app.errors import MARK

pytest.importorskip("torch", exc_type=ImportError)

import torch

from tests.failures.ambiguous_models import without_debug_info
from tests.failures.models.three_models import FAILING, WORKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.torch

MODELS, THREADS = 50, 8
FAILS = [statement for statement in FAILING if "addmm" not in statement]
"""PyTorch shows its own source of addmm, and none of the model's."""
ORIGINAL = "Traceback of TorchScript, original code (most recent call last):\n"


class Served(NamedTuple):
    """A model as a service has it, without its debug records.

    Attributes:
        name: of its class and file.
        model: loaded by PyTorch.
        full: what PyTorch says when it fails with all records at hand.
    """

    name: str
    model: torch.jit.ScriptModule
    full: str


def written(number: int) -> torch.nn.Module:
    """A model of its own source, which fails in one of many ways."""
    name = f"Model{number:02}"
    lines = ["import torch", f"class {name}(torch.nn.Module):", "    def forward(self, x: torch.Tensor):"]
    lines += [f"        {WORKING[number >> shift & 3]}" for shift in (0, 2, 4)]
    lines += [f"        {FAILS[number % len(FAILS)]}", "        return x", ""]
    file, code = f"models/{name.lower()}.py", "\n".join(lines)
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    module = types.ModuleType(name.lower())
    module.__file__ = file
    sys.modules[module.__name__] = module
    exec(compile(code, file, "exec"), vars(module))  # noqa: S102 (our own source)
    made: torch.nn.Module = getattr(module, name)()
    return made


def said(model: torch.jit.ScriptModule) -> str:
    with pytest.raises((RuntimeError, IndexError)) as caught:
        model(torch.ones(2, 4))
    return str(caught.value)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zoo")


@pytest.fixture(scope="module")
def served(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Served]:
    """Many models without debug records; the whole archives are in the zoo."""
    bare = tmp_path_factory.mktemp("served") / "bare.pt"
    found = []
    for number in range(MODELS):
        whole = zoo / f"model{number:02}.pt"
        torch.jit.script(written(number)).save(str(whole))
        without_debug_info(whole, bare)
        found.append(Served(whole.name, torch.jit.load(str(bare)), said(torch.jit.load(str(whole)))))
    return found


@pytest.fixture
def hooks(zoo: Path, served: list[Served]) -> Iterator[archive.Hooks]:  # noqa: ARG001 (fills the zoo)
    with archive.install(zoo) as hooks:
        yield hooks
        stats = hooks.explainer.stats
        assert stats == archive.ExplainerStats(explained=stats.explained), stats
        assert hooks.explainer.unread == {}


class Kept(logging.Handler):
    """Keeps the messages of records, and the notes of their errors."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.notes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        if record.exc_info:
            self.notes += getattr(record.exc_info[1], "__notes__", [])


@pytest.fixture
def kept() -> Iterator[Kept]:
    logger, kept = logging.getLogger("service.torch"), Kept()
    logger.addHandler(kept)
    logger.propagate = False
    yield kept
    logger.propagate = True
    logger.removeHandler(kept)


def serve(one: Served) -> None:
    """What a service does: it runs a model, and logs that it failed."""
    logger = logging.getLogger("service.torch")
    try:
        one.model(torch.ones(2, 4))
    except (RuntimeError, IndexError) as error:
        logger.error("%s", error)  # noqa: TRY400 (as many do)
        logger.exception("%s failed", one.name)


def expected_notes(served: list[Served]) -> set[str]:
    sources = (one.full[one.full.index(ORIGINAL) :].rpartition("\nRuntimeError: ")[0] for one in served)
    return {f"Explained by {one.name}{MARK}\n{source}" for one, source in zip(served, sources, strict=True)}


@pytest.mark.parametrize("most", [256, 4])
def test_many_models_fail_in_many_threads(
    most: int, hooks: archive.Hooks, kept: Kept, served: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archive.failures.models.models.MOST_OPEN", most)

    def work(start: int) -> None:
        for one in served[start:] + served[:start]:
            serve(one)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(kept.messages) == {text for one in served for text in (one.full, f"{one.name} failed")}
    assert all(kept.messages.count(one.full) == THREADS for one in served)
    assert set(kept.notes) == expected_notes(served)
    assert len(kept.notes) == THREADS * MODELS
    assert len(hooks.explainer._models.opened.by_model) == min(most, MODELS)


def test_models_fail_in_tasks(hooks: archive.Hooks, kept: Kept, served: list[Served]) -> None:
    async def one(model: Served) -> None:
        await asyncio.to_thread(serve, model)

    async def service() -> None:
        await asyncio.gather(*(one(model) for model in served))
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: kept.notes.extend(context["exception"].__notes__)
        )
        asyncio.get_running_loop().call_soon(served[0].model, torch.ones(2, 4))
        await asyncio.sleep(0.01)

    asyncio.run(service())
    assert sorted(kept.notes[:-1]) == sorted(expected_notes(served))
    assert kept.notes[-1] in expected_notes(served[:1])
    assert hooks.explainer.stats.explained == 2 * MODELS + 1


class LookUp(torch.nn.Module):
    def forward(self, goods: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(ids, goods) * 2


def test_a_node_of_an_exported_program_is_told_by_the_frames_of_its_error(tmp_path: Path) -> None:
    """The error's own text names no node; Python before 3.13 shows no statement of generated code."""
    goods, ids = torch.ones(3, 2), torch.tensor([0, 1])
    path = tmp_path / "look_up.pt2"
    torch.export.save(torch.export.export(LookUp(), (goods, ids)), str(path))
    module = torch.export.load(str(path)).module()
    with pytest.raises(IndexError) as caught:
        module(goods, ids + 2)
    assert "embedding" not in str(caught.value)
    with archive.Explainer(path) as explainer:
        explainer.explain_error(caught.value)
        explainer.explain_error(caught.value)
    (note,) = caught.value.__notes__
    assert note.startswith(f"Explained by look_up.pt2{MARK}\nModule hierarchy:top(LookUp)")
    assert note.endswith("return torch.nn.functional.embedding(ids, goods) * 2")
    assert explainer.stats == archive.ExplainerStats(explained=1)
