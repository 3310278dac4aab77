"""A batch replaces what its manifest tells of, by path and digest, and nothing else unasked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import archive
from archive.app.verbs import VERBS
from archive.batches.jobs import CompanionUse, plan
from archive.batches.manifest import outcomes_of
from archive.batches.working import Task
from tests.batches.test_manifest import INPUTS, NEEDS, OPTIONS
from tests.support.corpus import KINDS
from tests.support.exported import EXPORTED
from tests.support.many_archives import (
    MANIFEST,
    NESTED,
    STACK,
    beside,
    kinds,
    manifest,
    numbered,
    saved_tensors,
)
from tests.support.sampling import crossed, sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive import Limits
    from archive.io.output import Sink

MINE = b"a user's own file"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive, the same split, and with an embedded companion; one of each other kind."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "models").mkdir()
    shutil.copy(STACK, folder / "models")
    (folder / "programs").mkdir()
    shutil.copy(EXPORTED / "noted.pt2", folder / "programs")
    (folder / "tensors").mkdir()
    for number in range(1):
        (folder / "tensors" / f"{number}.pt.safetensors").write_bytes(saved_tensors(number))
    (folder / "checkpoints").mkdir()
    for name in ("a.pt",):
        shutil.copy(KINDS / "object.pt", folder / "checkpoints" / name)
    archive.batch("split", folder / "models", folder / "left", folder / "companions", jobs=1)
    archive.batch("shrink", folder / "models", folder / "embedded", jobs=1, level="embed")
    return folder


class Run(NamedTuple):
    """A verb for a folder of one file, and where its results go."""

    verb: str
    inputs: Path
    out: Path
    private: Path

    @property
    def told(self) -> Path:
        """The manifest."""
        return self.private / MANIFEST if VERBS[self.verb].use is CompanionUse.WRITTEN else beside(self.out)

    @property
    def results(self) -> list[Path]:
        """What was written."""
        return [self.told.parent / one["path"] for one in manifest(self.told)[-1]["outputs"]]

    def __call__(self, *, others: bool = False, **options: Any) -> str:  # noqa: ANN401 (the verb's)
        """What comes of the file, with the usual options or others."""
        usual = OPTIONS.get(self.verb, ({}, {}))[others]
        use = VERBS[self.verb].use
        companions = {CompanionUse.READ: self.inputs.parent / "companions"}.get(
            use, self.private if use is CompanionUse.WRITTEN else None
        )
        [kind] = kinds(
            archive.batch(self.verb, self.inputs, self.out, companions, jobs=1, **usual, **options)
        )
        return kind


def _edited(place: Path) -> None:
    place.write_bytes(place.read_bytes() + b"edited")


def _linked(place: Path, data: bytes) -> None:
    mine = place.with_name("mine")
    mine.write_bytes(data)
    place.unlink()
    place.symlink_to(mine)


def _other(place: Path, make: Callable[[Path], object]) -> None:
    place.unlink()
    make(place)


IN_ITS_PLACE: dict[str, Callable[[Path], object]] = {
    "a user's own file": lambda place: place.write_bytes(MINE),
    "the result, edited": _edited,
    "a link to a user's own file": lambda place: _linked(place, MINE),
    "a link to nothing": lambda place: _other(place, lambda path: path.symlink_to("nothing")),
    "a folder": lambda place: _other(place, Path.mkdir),
    "a pipe": lambda place: _other(place, os.mkfifo),
}


def state(folder: Path) -> dict[str, object]:
    """All that is in a folder but manifests: what each name is, and what it holds."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = path.readlink()
        elif path.is_file() and not path.name.endswith(MANIFEST):
            found[str(path)] = (path.read_bytes(), path.stat().st_mtime_ns)
        else:
            found[str(path)] = path.lstat().st_mode
    return found


@pytest.mark.parametrize(
    ("verb", "kind"), crossed([verb for verb in VERBS if verb not in NEEDS], IN_ITS_PLACE)
)
def test_what_is_not_a_batchs_own_is_replaced_by_force_alone(
    verb: str, kind: str, made: Path, tmp_path: Path
) -> None:
    run = Run(verb, made / INPUTS.get(verb, "models"), tmp_path / "out", tmp_path / "dbg")
    assert run() == "done"
    IN_ITS_PLACE[kind](run.results[0])
    before = state(tmp_path)
    assert run() == "failed"
    assert run(others=True, dry_run=True) == "failed"
    assert state(tmp_path) == before
    if kind not in {"a folder", "a pipe"}:
        assert run(force=True) == "done"


@pytest.mark.parametrize("verb", sampled(sorted(OPTIONS), most=4))
def test_what_is_its_own_is_replaced_unless_it_is_a_link(verb: str, made: Path, tmp_path: Path) -> None:
    run = Run(verb, made / INPUTS.get(verb, "models"), tmp_path / "out", tmp_path / "dbg")
    assert (run(), run(), run(others=True), run()) == ("done", "same", "done", "done")
    result = run.results[0]
    _linked(result, result.read_bytes())  # the very bytes, kept elsewhere
    before = state(tmp_path)
    assert (run(), run(others=True)) == ("same", "failed")
    assert state(tmp_path) == before


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no digest": lambda output: output.update(digest=""),
    "another digest": lambda output: output.update(digest="0" * 32),
    "another size": lambda output: output.update(bytes=output["bytes"] + 1),
    "another path": lambda output: output.update(path=f"../{output['path']}"),
    "an absolute path": lambda output: output.update(path=f"/{output['path']}"),
    "no path": lambda output: output.pop("path"),
    "the path of a folder": lambda output: output.update(path="."),
}


@pytest.mark.parametrize("kind", sampled(FORGED, most=3))
def test_a_manifest_that_does_not_name_path_and_digest_tells_nothing(
    kind: str, made: Path, tmp_path: Path
) -> None:
    run = Run("shrink", made / "models", tmp_path / "out", tmp_path / "dbg")
    assert run() == "done"
    [line] = manifest(run.told)
    FORGED[kind](line["outputs"][0])
    run.told.write_text(json.dumps(line) + "\n")
    before = state(tmp_path)
    assert run(others=True) == "failed"
    assert state(tmp_path) == before


@pytest.mark.parametrize("is_told", [False, True])
def test_what_comes_while_a_result_is_made_is_not_replaced(tmp_path: Path, *, is_told: bool) -> None:
    """Neither its owner's edit nor another batch's result."""
    (tmp_path / "in").mkdir()
    shutil.copy(NESTED, tmp_path / "in")
    place = tmp_path / "out" / "nested.ptl"
    if is_told:
        archive.batch("shrink", tmp_path / "in", tmp_path / "out", jobs=1, level="embed")

    def overtaken(source: str, out: Sink, *, force: bool, limits: Limits) -> archive.Shrinkage:
        if isinstance(out, str):
            place.write_bytes(MINE)
        return archive.shrink(source, out, force=force, limits=limits)

    work = plan([str(tmp_path / "in")], str(tmp_path / "out"))
    assert kinds(outcomes_of(work, Task("shrink", overtaken, {}, {}, many=True), 1)) == ["failed"]
    assert place.read_bytes() == MINE


def test_a_run_that_was_killed_between_two_targets_is_gone_on_with(tmp_path: Path) -> None:
    """The companion is the new one then, and the archive the old one; both are the batch's own."""
    (tmp_path / "in").mkdir()
    words = [tmp_path / name for name in ("in", "out", "dbg")]
    file, companion = tmp_path / "in" / "one.ptl", tmp_path / "dbg" / "one.ptl.ptdbg"
    file.write_bytes(numbered(1))
    assert kinds(archive.batch("split", *words, jobs=1)) == ["done"]
    file.write_bytes(numbered(2, NESTED))
    archive.split(file, tmp_path / "left.ptl", companion, force=True)
    assert kinds(archive.batch("split", *words, jobs=1, dry_run=True)) == ["to do"]
    assert kinds(archive.batch("split", *words, jobs=1)) == ["done"]
    assert (tmp_path / "out" / "one.ptl").read_bytes() == (tmp_path / "left.ptl").read_bytes()
    assert kinds(archive.batch("split", *words, jobs=1)) == ["same"]
