"""A folder in, a folder out: what comes of each file, in the order of the input."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive import ArchiveError, OutcomeKind
from archive.batches.pool import in_order
from tests.support.commands import WELL, called, files, outcomes, well
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.many_archives import MANIFEST, NESTED, STACK

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = ORACLES / "plain_stack.pt"
EMBEDDED = "its debug info is in an embedded companion; `restore` it first"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive without any debug info."""
    folder = tmp_path_factory.mktemp("bare")
    archive.split(SCRIPT, folder / "bare.pt", folder / "bare.ptdbg")
    return folder / "bare.pt"


@pytest.fixture
def models(bare: Path, tmp_path: Path) -> Path:
    """An archive with debug info, one without, one that embeds it, one in a flatbuffer, and a text."""
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(STACK, folder / "deep" / "stack.ptl")
    shutil.copy(bare, folder)
    (folder / "bare.pt").chmod(0o640)
    archive.shrink(STACK, folder / "embedded.ptl", level="embed")
    shutil.copy(FIXTURES / "kinds" / "flatbuffer.ptl", folder)
    (folder / "notes.txt").write_text("no archive")
    return folder


def test_a_folder_in_is_a_folder_out(models: Path, bare: Path, tmp_path: Path) -> None:
    out, companions = tmp_path / "out", tmp_path / "companions"
    done = called("split", models, "-o", out, "-c", companions, "-j", 1)
    assert done.exit_code == 1  # two archives are not in the folder
    assert done.stderr == "debug-archive: skipped, files of other kinds: 1 (text: 1)\n"
    assert outcomes(done.stdout) == {"done": 1, "nothing to do": 1, "impossible": 2}
    copied, embedded, flatbuffer, *_ = done.stdout.splitlines()
    assert copied == f"{models}/bare.pt: nothing to do: no debug info in it; copied"
    assert embedded == f"{models}/embedded.ptl: impossible: {EMBEDDED}"
    assert flatbuffer.startswith(f"{models}/flatbuffer.ptl: impossible: a lite model in a flatbuffer: ")
    assert files(out) == ["bare.pt", "deep/stack.ptl"]
    assert files(companions) == ["deep/stack.ptl.ptdbg", MANIFEST]
    assert (out / "bare.pt").read_bytes() == bare.read_bytes()
    assert (out / "bare.pt").stat().st_mode & 0o777 == 0o640
    assert not (out / "bare.pt").samefile(models / "bare.pt")


@pytest.mark.parametrize("words", ["shrink", "shrink --level embed", "migrate --to 2.13"])
def test_what_is_impossible_with_one_archive_is_no_failure(words: str, models: Path, tmp_path: Path) -> None:
    verb, *options = words.split()
    done = called(verb, models, "-o", tmp_path / "out", *options, "-j", 1)
    assert done.exit_code == 1
    assert outcomes(done.stdout)["impossible"] == 2
    assert f"{models}/embedded.ptl: impossible: {EMBEDDED}" in done.stdout
    assert files(tmp_path / "out") == ["bare.pt", "deep/stack.ptl"]


def test_a_single_file_without_debug_info_is_copied_and_told(bare: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    said = well("split", bare, "-o", out, "-c", tmp_path / "out.ptdbg")
    size = bare.stat().st_size
    assert said == f"{bare}: no debug info in it; copied as it is to {out}: {size:,} bytes\n"
    assert files(tmp_path) == ["out.pt"]
    assert out.read_bytes() == bare.read_bytes()
    assert "the file exists" in str(called("split", bare, "-o", out).exception)


def test_options_for_handles_are_for_archives_of_a_folder_that_have_some(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for file in (SCRIPT, STACK):
        shutil.copy(file, tmp_path / "models")
    out, companions = tmp_path / "out", tmp_path / "dbg"
    found = archive.batch("split", tmp_path / "models", out, companions, jobs=1, handles="keep")
    assert [(one.kind, one.facts.kept) for one in found] == [
        (OutcomeKind.DONE, ()),
        (OutcomeKind.DONE, ("mobile_debug_handles.pkl",)),
    ]
    (named,) = archive.batch("split", SCRIPT, tmp_path / "o", tmp_path / "d", jobs=1, handles="keep")
    assert (named.kind, named.written) == (OutcomeKind.IMPOSSIBLE, ())
    assert named.reason.startswith("has no debug handles to keep")


def test_globs_name_files_as_a_shell_would_and_each_file_is_done_once(bare: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    for name in ("a.ptl", "b.pt", "deep/c.ptl", "deep/deeper/d.ptl", "[e].ptl"):
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(bare, models / name)
    names = {
        "**/*.ptl": ["[e].ptl", "a.ptl", "deep/c.ptl", "deep/deeper/d.ptl"],
        "*/*.ptl": ["deep/c.ptl"],
        "?.pt*": ["a.ptl", "b.pt"],
        "[ab].ptl": ["a.ptl"],
        "[e].ptl": ["[e].ptl"],
        "d*": ["deep/c.ptl", "deep/deeper/d.ptl"],
    }
    for number, (pattern, expected) in enumerate(names.items()):
        inputs = [f"{models}/{pattern}", models / "deep" / ".." / expected[0]]
        found = archive.batch("split", map(str, inputs), tmp_path / f"out{number}", tmp_path, jobs=1)
        assert [one.job.relative for one in found] == expected
        assert files(tmp_path / f"out{number}") == sorted(expected)


def test_results_below_what_is_searched_are_no_inputs_and_those_above_hinder_nothing(
    bare: Path, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    (models / "deep").mkdir(parents=True)
    shutil.copy(bare, models / "deep" / "a.pt")
    for inputs in (models, f"{models}/**/*.pt", f"{models}/*"):
        for out, companions in ((models / "deep" / "out", tmp_path), (tmp_path, models / "deep" / "out")):
            found = archive.batch("split", inputs, out, companions, jobs=1, force=True)
            assert [one.file for one in found] == [f"{models}/deep/a.pt"]


def test_results_come_in_the_order_of_the_input_whichever_finishes_first() -> None:
    assert list(in_order([(2, "c"), (0, "a"), (3, "d"), (1, "b")])) == list("abcd")


def test_lines_and_json_are_in_the_order_of_the_input(tmp_path: Path) -> None:
    inputs = [SCRIPT, ORACLES / "plain_unicode.ptl", NESTED]
    for number, words in enumerate(([], ["--json"])):
        done = called("shrink", *inputs, "-o", tmp_path / f"{number}", "-j", 1, *words)
        places = [done.stdout.index(str(path)) for path in inputs]
        assert places == sorted(places)


@pytest.mark.parametrize(
    ("verb", "options", "problem"),
    [
        (
            "pack",
            {},
            (
                "expected a verb: split, join, shrink, restore, redact, redact_companion, "
                "redact_metadata, redact_checkpoint, migrate, lite, canonicalise, convert, found pack"
            ),
        ),
        (
            "shrink",
            {"to": "2.13"},
            "expected an option of shrink: level, handles, salt, keep, drop, strength, found to",
        ),
        ("migrate", {}, "migrate needs the option to"),
    ],
)
def test_a_verb_or_option_that_is_none_is_refused(
    verb: str, options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveError) as refused:
        archive.batch(verb, STACK, tmp_path / "out", **options)
    assert str(refused.value) == problem
    assert files(tmp_path) == []


def test_an_empty_folder_is_told_beside_others_and_refused_alone(models: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = called("shrink", models, tmp_path / "empty", "-o", tmp_path / "out", "-j", 1)
    assert "skipped, files of other kinds: 2 (empty folder: 1, text: 1)\n" in done.stderr
    alone = called("shrink", tmp_path / "empty", "-o", tmp_path / "other")
    assert str(alone.exception) == f"{tmp_path / 'empty'}: no archive in it"


@pytest.mark.parametrize(
    "fixture", [STACK, NESTED, SCRIPT, FIXTURES / "exported" / "noted.pt2"], ids=lambda path: path.name
)
def test_what_was_split_is_split_no_second_time_and_verify_says_where_its_debug_info_is(
    fixture: Path, tmp_path: Path
) -> None:
    """However it is found: a search that finds the results of another one makes no companions of them."""
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(fixture, models)
    (first,) = archive.batch("split", models, models / "small", models / "own", jobs=1)
    own, left = models / fixture.name, models / "small" / fixture.name
    words = "split", models, "-o", tmp_path / "out", "-c", tmp_path / "dbg", "-j", 1
    said = well(*words).splitlines()[:-1]
    assert len(said) == 2, "companions and manifests are no inputs"
    assert said[0].startswith(f"{own}: {own.stat().st_size:,} -> ")
    assert said[1].startswith(f"{left}: nothing to do: no debug info in it")
    assert said[1].endswith("; copied")
    assert files(tmp_path / "dbg") == [MANIFEST, f"{fixture.name}.ptdbg"]
    assert [line.rpartition(": ")[2] for line in well(*words).splitlines()[:-1]] == ["same", "same"]

    verified = well("verify", models).splitlines()
    assert verified[0] == f"{own}: {'well' if fixture.suffix == '.pt2' else WELL}"
    if fixture.suffix == ".pt2":
        return
    where = f"in the companion with the archive id {first.facts.archive_id} (-c COMPANION)"
    told = [line for line in verified if line.startswith(f"{left}: ")]
    assert told == [f"{left}: note: debug info was split off this archive: it is {where}"]
    assert archive.verify(models / "own" / f"{fixture.name}.ptdbg") == []


def test_the_handles_of_what_was_split_are_dropped_and_made_unique_when_asked(tmp_path: Path) -> None:
    kept, again, own = tmp_path / "kept.ptl", tmp_path / "again.ptl", tmp_path / "again.ptdbg"
    archive.split(STACK, kept, tmp_path / "kept.ptdbg", handles="keep")
    archive.split(kept, again, own, handles="unique")
    archive.split(again, tmp_path / "bare.ptl", tmp_path / "bare.ptdbg", handles="drop")
    archive.join(tmp_path / "bare.ptl", tmp_path / "bare.ptdbg", tmp_path / "back.ptl")
    assert archive.open(tmp_path / "back.ptl").records["mobile_debug_handles.pkl"].view() == (
        archive.open(again).records["mobile_debug_handles.pkl"].view()
    )
    nothing = pytest.raises(
        ArchiveError, match=r"no debug info in it but mobile_debug_handles\.pkl, to be kept"
    )
    with nothing:
        archive.split(kept, tmp_path / "o", tmp_path / "c", handles="keep")
    with nothing:
        archive.shrink(kept, tmp_path / "o", level="embed", handles="keep")
    assert not (tmp_path / "o").exists()
