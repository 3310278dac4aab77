"""A second run goes on from the manifest, whichever verb it is, and whatever stopped the first."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive import ArchiveError
from archive.app.verbs import VERB_KINDS, VERBS
from archive.batches.jobs import CompanionUse, plan
from archive.batches.manifest import outcomes_of
from archive.batches.working import Task
from archive.rewrite.shrink import ShrinkLevel
from tests.support.commands import called, files, process
from tests.support.corpus import KINDS
from tests.support.exported import EXPORTED
from tests.support.many_archives import (
    MANIFEST,
    NESTED,
    STACK,
    beside,
    kinds,
    make_archives,
    manifest,
    numbered,
    saved_tensors,
)
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from archive import Limits
    from archive.io.output import Sink

OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "split": ({"keep": ("traces", "origins")}, {"handles": "keep"}),
    "shrink": ({"level": "embed"}, {"level": "compact"}),
    "redact": ({"maps": ("models=m",)}, {"paths": "basename", "text": "none"}),
    "redact_companion": ({"maps": ("models=m",)}, {"paths": "basename", "text": "none"}),
    "redact_metadata": ({"maps": ("/home=h",)}, {"paths": "basename"}),
    "redact_checkpoint": ({"replace": ("dog=x",)}, {"replace": ("cat=x",)}),
    "migrate": ({"to": "1.12", "lossy": True}, {"to": "1.9", "lossy": True}),
    "convert": ({"layout": "mapped"}, {"layout": "packed", "level": 3}),
}
"""Verbs with options, and with others."""
NEEDS = {"lite": pytest.mark.torch}
INPUTS = {
    "join": "left",
    "restore": "embedded",
    "canonicalise": "programs",
    "convert": "companions",
    "redact_companion": "companions",
    "redact_metadata": "tensors",
    "redact_checkpoint": "checkpoints",
}


some_verbs = pytest.mark.parametrize(
    "verb", [pytest.param(verb, marks=NEEDS.get(verb, ())) for verb in sampled(VERBS, most=4)]
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two archives; the same split, and with embedded companions; two of each other kind."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "models" / "deep").mkdir(parents=True)
    shutil.copy(STACK, folder / "models" / "deep")
    shutil.copy(NESTED, folder / "models")
    (folder / "programs").mkdir()
    for name in ("noted.pt2", "own.pt2"):
        shutil.copy(EXPORTED / name, folder / "programs")
    (folder / "tensors").mkdir()
    for number in range(2):
        (folder / "tensors" / f"{number}.pt.safetensors").write_bytes(saved_tensors(number))
    (folder / "checkpoints").mkdir()
    for name in ("a.pt", "b.pt"):
        shutil.copy(KINDS / "object.pt", folder / "checkpoints" / name)
    archive.batch("split", folder / "models", folder / "left", folder / "companions", jobs=1)
    archive.batch("shrink", folder / "models", folder / "embedded", jobs=1, level="embed")
    return folder


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files but manifests, with the times of their change."""
    paths = [folder / name for name in files(folder) if not name.endswith(MANIFEST)]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


@some_verbs
def test_a_second_run_leaves_what_is_done_and_does_the_rest(verb: str, made: Path, tmp_path: Path) -> None:
    if verb in NEEDS:
        pytest.importorskip("torch", exc_type=ImportError)
    out, inputs = tmp_path / "out", made / INPUTS.get(verb, "models")
    use = VERBS[verb].use
    private = tmp_path / "dbg"
    companions = {CompanionUse.WRITTEN: private, CompanionUse.READ: made / "companions"}.get(use)
    told_in = private / MANIFEST if use is CompanionUse.WRITTEN else beside(out)
    usual, others = OPTIONS.get(verb, ({}, {}))

    def again(**options: Any) -> list[str]:  # noqa: ANN401 (the verb's)
        return kinds(archive.batch(verb, inputs, out, companions, jobs=1, **options))

    assert again(**usual) == ["done", "done"]
    before, told = contents(tmp_path), told_in.read_bytes()
    assert again(**usual) == ["same", "same"]
    assert (contents(tmp_path), told_in.read_bytes()) == (before, told)

    first, _ = out.rglob("*.pt*")
    first.unlink()
    assert sorted(again(**usual)) == ["done", "same"]
    for name, (data, _) in contents(tmp_path).items():
        assert data == before[name][0]
    if others:
        assert again(**others) == ["done", "done"]
        assert again(**others) == ["same", "same"]
    for line in manifest(told_in)[-2:]:
        assert (line["verb"], line["outcome"]) == (verb, "done")
        for file in (*line["sources"], *line["outputs"]):
            assert (told_in.parent / file["path"]).stat().st_size == file["bytes"]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("split -c dbg", {}),
        ("split -c dbg --keep traces --keep origins", {"keep": ["origins", "traces", "origins"]}),
        ("shrink --level embed", {"level": ShrinkLevel.EMBED}),
        ("migrate --to latest", {"to": "2.13", "aside": True}),
        ("convert --layout mapped", {"layout": "mapped"}),
    ],
)
def test_options_are_the_same_however_they_are_given(
    words: str, options: dict[str, Any], made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verb, *more = words.split()
    inputs = made / INPUTS.get(verb, "models")
    assert called(verb, inputs, "-o", "out", *more, "-j", 1).exit_code == 0
    found = archive.batch(verb, inputs, "out", "dbg" if verb == "split" else None, jobs=1, **options)
    assert kinds(found) == ["same", "same"]


def test_an_input_that_is_another_now_is_done_again(tmp_path: Path) -> None:
    make_archives(tmp_path / "in", 3)
    words = ("split", tmp_path / "in", "-o", tmp_path / "out", "-c", tmp_path / "dbg", "-j", 1)
    assert called(*words).exit_code == 0
    changed = tmp_path / "in" / "000" / "000001.ptl"
    changed.write_bytes(numbered(99))
    done = called(*words)
    assert done.exit_code == 0
    again = [line.partition("; ")[2] for line in done.stdout.splitlines()[:3]]
    assert again == ["", "done again: the input has changed", ""]
    with archive.open(changed) as source, archive.open(tmp_path / "out" / "000" / "000001.ptl") as left:
        assert left.archive_id == source.archive_id


def test_targets_of_a_run_that_was_killed_before_it_told_are_taken_as_done(tmp_path: Path) -> None:
    make_archives(tmp_path / "in", 3)
    inputs, out, dbg = tmp_path / "in", tmp_path / "out", tmp_path / "dbg"
    archive.batch("split", inputs, out, dbg, jobs=1)
    lines = (dbg / MANIFEST).read_bytes().splitlines(keepends=True)
    (dbg / MANIFEST).write_bytes(lines[0] + lines[1][:40])
    (out / "000" / "000002.ptl").unlink()  # its companion was there first
    before = contents(tmp_path)
    assert kinds(archive.batch("split", inputs, out, dbg, jobs=1)) == ["same", "done", "done"]
    after = contents(tmp_path)
    untouched = [name for name in before if not name.endswith("2.ptl.ptdbg")]
    assert [after[name] for name in untouched] == [before[name] for name in untouched]
    assert kinds(archive.batch("split", inputs, out, dbg, jobs=1)) == ["same"] * 3


def test_a_companion_of_somebody_else_is_never_replaced(tmp_path: Path) -> None:
    make_archives(tmp_path / "in", 2)
    foreign = tmp_path / "dbg" / "000" / "000001.ptl.ptdbg"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"somebody else's")
    first, last = archive.batch("split", tmp_path / "in", tmp_path / "out", tmp_path / "dbg", jobs=1)
    assert (str(first.kind), str(last.kind)) == ("done", "failed")
    assert last.reason == f"{foreign}: the file exists; pass --force to replace it"
    assert foreign.read_bytes() == b"somebody else's"
    assert not (tmp_path / "out" / "000" / "000001.ptl").exists()


def test_a_target_that_another_process_wrote_meanwhile_is_taken_as_done(tmp_path: Path) -> None:
    make_archives(tmp_path / "in", 1)
    (other,) = archive.batch("shrink", tmp_path / "in", tmp_path / "other", jobs=1)

    def raced(source: str, out: Sink, *, force: bool, limits: Limits) -> archive.Shrinkage:
        if isinstance(out, str) and not Path(out).exists():
            shutil.copy(other.written[0], out)
        return archive.shrink(source, out, force=force, limits=limits)

    work = plan([str(tmp_path / "in")], str(tmp_path / "out"))
    assert kinds(outcomes_of(work, Task("shrink", raced, {}, {}, many=True), 1)) == ["done"]
    assert (tmp_path / "out" / "000" / "000000.ptl").read_bytes() == Path(other.written[0]).read_bytes()


def test_a_file_of_which_the_manifest_does_not_tell_is_never_replaced(made: Path, tmp_path: Path) -> None:
    """Whether its folder is another one now, or the archive had no debug info when the line was written."""
    inputs, out = made / "models", tmp_path / "out"
    assert kinds(archive.batch("split", inputs, out, tmp_path / "dbg", jobs=1)) == ["done", "done"]
    (tmp_path / "other").mkdir()
    foreign = tmp_path / "other" / "nested.ptl.ptdbg"
    foreign.write_bytes(b"somebody else's")
    nested, stack = archive.batch("split", inputs, out, tmp_path / "other", jobs=1)
    assert (str(nested.kind), nested.reason) == (
        "failed",
        f"{foreign}: the file exists; pass --force to replace it",
    )
    assert str(stack.kind) == "done"
    assert foreign.read_bytes() == b"somebody else's"


def test_two_commands_may_add_to_one_manifest(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_archives(tmp_path / name, 4)
        (tmp_path / name / "000").rename(tmp_path / name / name)

    def shrunk(name: str) -> int:
        return process("shrink", tmp_path / name, "-o", tmp_path / "out", "-j", 1).returncode

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(shrunk, ("a", "b"))) == [0, 0]
    told = sorted(line["input"] for line in manifest(beside(tmp_path / "out")))
    assert told == [f"{name}/{number:06}.ptl" for name in ("a", "b") for number in range(4)]


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes")
def test_names_that_look_like_escapes_of_others_are_told_apart(tmp_path: Path) -> None:
    names = [os.fsdecode(name) for name in (b"a\xff.pt", rb"a\xff.pt", rb"a\x5cxff.pt", rb"a\\xff.pt")]
    models = tmp_path / "models"
    models.mkdir()
    for name, file in zip(names, (STACK, NESTED, NESTED, STACK), strict=True):
        shutil.copy(file, models / name)
    asked = "split", models, tmp_path / "small", tmp_path / "companions"
    assert [str(one.kind) for one in archive.batch(*asked, jobs=1)] == ["done"] * 4
    assert [str(one.kind) for one in archive.batch(*asked, jobs=1)] == ["same"] * 4
    told = manifest(tmp_path / "companions" / MANIFEST)
    assert len(told) == len({line["input"] for line in told}) == 4
    assert all(file["path"] for line in told for file in line["outputs"])


@some_verbs
def test_a_folder_that_is_shipped_holds_results_alone_unless_more_is_asked(
    verb: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each verb; companions, and manifests with their paths and maps, go elsewhere."""
    if verb in NEEDS:
        pytest.importorskip("torch", exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    inputs, use = made / INPUTS.get(verb, "models"), VERBS[verb].use
    options = OPTIONS.get(verb, ({}, {}))[0]
    if use is CompanionUse.WRITTEN:
        for given in (inputs, next(inputs.glob("*.pt*"))):
            with pytest.raises(ArchiveError, match=r"(?m)name another folder: -c out-companions/$"):
                plan([str(given)], "out/", None, use, VERB_KINDS[verb])
    read = str(made / "companions") if use is CompanionUse.READ else None

    def done(out: str, companions: str | None, **others: Any) -> None:  # noqa: ANN401 (of batch)
        assert (
            kinds(archive.batch(verb, inputs, out, companions, jobs=1, **options, **others)) == ["done"] * 2
        )

    done("out", "own" if use is CompanionUse.WRITTEN else read)
    names = [name for name in files(inputs) if not name.endswith(MANIFEST)]
    assert files(tmp_path / "out") == names
    extra = [f"{name}.ptdbg" for name in names] if use is CompanionUse.WRITTEN else []
    told = f"own/{MANIFEST}" if extra else f"out.{MANIFEST}"
    assert files(tmp_path) == sorted(
        [told, *(f"own/{name}" for name in extra), *(f"out/{name}" for name in names)]
    )

    done("all", "all" if use is CompanionUse.WRITTEN else read, manifest=f"all/own.{MANIFEST}")
    assert files(tmp_path / "all") == sorted([*names, *extra, f"own.{MANIFEST}"])


@pytest.mark.parametrize(
    ("out", "place"),
    [
        ("out", "out.manifest.jsonl"),
        ("out/", "out.manifest.jsonl"),
        ("deep/./out//", "deep/out.manifest.jsonl"),
        (".", "{here}.manifest.jsonl"),
        ("deep/..", "{here}.manifest.jsonl"),
        ("..", "{above}.manifest.jsonl"),
    ],
)
def test_the_manifest_of_a_folder_has_its_name(
    out: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_archives(tmp_path / "models", 1)
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    work = plan([str(tmp_path / "models")], out)
    assert work.manifest == place.format(here=tmp_path / "a" / "b", above=tmp_path / "a")


@pytest.mark.parametrize(
    ("out", "manifest", "refusal"),
    [
        ("/", None, "/: there is no place for a manifest beside it; name one: --manifest FILE.jsonl"),
        (
            "memory://",
            None,
            "memory://: there is no place for a manifest beside it; name one: --manifest FILE.jsonl",
        ),
        ("out", "", "expected a path, found an empty one"),
        ("out", "model.ptl", "expected a manifest, FILE.jsonl, found model.ptl"),
        ("out", "in/a.jsonl", "in/a.jsonl: is an input, and the manifest's name; nothing is written"),
        ("out", "out/a.jsonl", "out/a.jsonl: is the manifest's name; nothing is written"),
    ],
)
def test_a_manifest_takes_the_place_of_no_model(
    out: str, manifest: str | None, refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "://" in out:
        pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    shutil.copy(STACK, "in/a.jsonl")
    with pytest.raises(ArchiveError) as error:
        archive.batch("shrink", "in", out, manifest=manifest, jobs=1)
    assert str(error.value) == refusal
    assert files(tmp_path) == ["in/a.jsonl"]


def test_a_single_file_has_no_manifest(tmp_path: Path) -> None:
    done = called("shrink", STACK, "-o", tmp_path / "out", "--manifest", tmp_path / "a.jsonl")
    assert str(done.exception) == f"{tmp_path / 'a.jsonl'}: --manifest needs several input files"
