"""Programs that were lowered in parts, among many models: a handle is of all that have it, of no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.backend import BackendError, lower
from archive.failures.messages import families, known_message, wording
from archive.reader.facts import facts_of
from archive.reader.lookups.lowered import lowered_nodes
from archive.store.store import Store
from tests.support import commands
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much

WORDS = torch.tensor([1, 9, 2])
"""Of which 9 is no word."""
SAID = b"index out of range in self"


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.table(words))


class Large(Small):
    def forward(self, words: torch.Tensor) -> torch.Tensor:
        low, high = torch.nn.functional.one_hot(words.clamp(max=4), 5).float().max(0)
        return self.table(words) + low.sum() + high.sum()


def saved(model: nn.Module, target: Path) -> Path:
    """A lowered program in a file."""
    program = torch.export.export(model.eval(), (torch.arange(3),)).run_decompositions({})
    torch.export.save(lower(program, "aten"), target)
    return target


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs, what `split` leaves of them, their companions, and a store of these."""
    folder = tmp_path_factory.mktemp("build")
    for name in ("models", "small", "companions"):
        (folder / name).mkdir()
    with Store.open(folder / "store", create=True) as store:
        for model in (Small(), Large()):
            path = saved(model, folder / "models" / f"{type(model).__name__}.pt2")
            companion = folder / "companions" / f"{path.stem}.ptdbg"
            archive.split(path, folder / "small" / path.name, companion)
            store.add(companion)
    return folder


def failure(small: Path, above: str = "") -> bytes:
    """The log of a failure of a program that was split."""
    with pytest.raises(BackendError) as caught:
        torch.export.load(small).module()(WORDS)
    return f"{above}ERROR {caught.value}\nnext\n".encode()


def handle_of(path: Path, op: str) -> str:
    """The handle of the only lowered node that calls an operator."""
    with archive.open(path) as opened:
        ((handle, _),) = [
            (handle, node) for handle, (node,) in lowered_nodes(opened).items() if node.op.startswith(op)
        ]
    return handle


def source(path: Path, handle: str) -> bytes:
    """What a program says of a handle."""
    return commands.well("symbolicate", path, handle).encode().rstrip(b"\n")


def explained(log: bytes, *files: Path) -> tuple[bytes, list[str]]:
    """A log, explained by models, and the notes."""
    explainer = explainer_of(models_in([*files]))
    return b"".join(explainer.explain([log])), [*explainer.notes]


@pytest.mark.parametrize("where", ["models", "companions", "store", "small companions"])
def test_a_handle_of_one_program_only_is_explained_by_it(build: Path, where: str) -> None:
    handle = handle_of(build / "models" / "Large.pt2", "aten.embedding")
    log = failure(build / "small" / "Large.pt2")
    assert b"debug_handles:{%s}" % handle.encode() in log
    assert handle not in map(str, range(2))  # Small has two nodes
    text, notes = explained(log, *(build / name for name in where.split()))
    assert source(build / "models" / "Large.pt2", handle) in text
    assert not notes


@pytest.mark.parametrize("said", [SAID, b"the chip is too warm"])
@pytest.mark.parametrize("where", ["models", "companions", "store", "small companions"])
def test_a_handle_of_both_is_explained_where_the_log_names_one(build: Path, where: str, said: bytes) -> None:
    folders = [build / name for name in where.split()]
    log = failure(build / "small" / "Small.pt2").replace(SAID, said)
    text, notes = explained(log, *folders)
    assert text == log
    assert len(notes) == 1
    assert "handles {0}: ambiguous: fits " in notes[0]
    assert notes[0].endswith("; give the FILE that failed, or --id or --model for its name in the log")
    with archive.open(build / "models" / "Small.pt2") as opened:
        named = f"loaded {opened.archive_id.hex()}\n"
    text, notes = explained(failure(build / "small" / "Small.pt2", named), *folders)
    assert source(build / "models" / "Small.pt2", "0") in text
    assert not notes


@pytest.mark.parametrize("where", ["models/Large.pt2", "companions/Large.ptdbg"])
def test_no_message_contradicts_a_node_that_a_backend_runs(build: Path, where: str) -> None:
    log = failure(build / "small" / "Small.pt2")
    known = [text for text in families().printed_by if wording(text) == text]
    assert all(map(known_message, known))
    for said in (*known[:: max(len(known) // 40, 1)], "unit trap: division by 0"):
        text, notes = explained(log.replace(SAID, said.encode()), build / where)
        assert source(build / where, "0") in text
        assert all("print" not in note for note in notes)


def test_a_lite_model_of_the_same_handle_is_not_taken_for_it(build: Path) -> None:
    lite = FIXTURES / "releases" / "torch-2.13.0" / "nested.ptl"
    log = b"  Debug info for handle(s): debug_handles:{1}, was not found.\n"
    alone, _ = explained(log, lite)
    assert alone != log
    for programs in ("models", "small"):
        text, notes = explained(log, lite, build / programs / "Small.pt2")
        assert text == log
        assert "ambiguous" in notes[0]


def test_a_program_without_its_companion_may_have_failed(build: Path) -> None:
    log = failure(build / "small" / "Small.pt2")
    files = build / "small" / "Small.pt2", build / "models" / "Large.pt2"
    text, notes = explained(log, *files)
    assert text == log
    assert "ambiguous" in notes[0]
    for name in ("Small", "Large"):
        with archive.open(build / "small" / f"{name}.pt2") as opened:
            (possible,) = facts_of(opened).handles
        with archive.open(build / "models" / f"{name}.pt2") as opened:
            known = {handle for run in facts_of(opened).handles for handle in run}
        assert known <= {*possible}
        assert len(possible) <= 4 * len(known)


def test_programs_that_were_trained_again_say_the_same(build: Path, tmp_path: Path) -> None:
    torch.manual_seed(7)
    other = saved(Small(), tmp_path / "again.pt2")
    companion = tmp_path / "again.ptdbg"
    archive.split(other, tmp_path / "small.pt2", companion)
    (tmp_path / "small.pt2").unlink()
    text, notes = explained(
        failure(build / "small" / "Small.pt2"), companion, build / "companions" / "Small.ptdbg"
    )
    assert source(build / "models" / "Small.pt2", "0") in text
    assert not notes


def test_handles_are_looked_up_in_many_programs(build: Path) -> None:
    handle = handle_of(build / "models" / "Large.pt2", "aten.embedding")
    done = commands.run("symbolicate", build / "models", handle)
    assert (done.returncode, done.stdout.rstrip(b"\n")) == (0, source(build / "models" / "Large.pt2", handle))
    several = commands.run("symbolicate", build / "models", "0")
    assert several.returncode == 2
    assert b"handle 0 has 2 different sources in them" in several.stderr


def test_a_program_without_partitions_has_no_handles(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Small().eval(), (torch.arange(3),)), tmp_path / "m.pt2")
    archive.split(tmp_path / "m.pt2", tmp_path / "s.pt2", tmp_path / "s.ptdbg")
    for name in ("m.pt2", "s.pt2", "s.ptdbg"):
        with archive.open(tmp_path / name) as opened:
            assert facts_of(opened).handles == ()
        log = b"the chip is too warm\n\nDebug info for handle(s): debug_handles:{0}, was not found.\n"
        text, notes = explained(log, tmp_path / name)
        assert text == log
        assert notes[0].endswith("no lowered node of this archive has it: the failure is another model's")
