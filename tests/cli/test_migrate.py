"""``migrate`` of one file, and of a folder that is told of in a manifest."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive import ArchiveError
from archive.reader.provenance import Evidence
from archive.render.fitted_table import lines_of
from archive.render.migrate import migration_facts, plan_text
from tests.support.commands import called, files, outcomes, row, run, size, told, well
from tests.support.corpus import RELEASES
from tests.support.documents import files_of
from tests.support.migrations import (
    NEW_ARCHIVE,
    OLD_ARCHIVE,
    OLDER_ARCHIVE,
    contents,
    digest,
    entry,
    lines,
    migrated,
    records,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

RESULTS = ["deep/deeper/older.PTH", "deep/new.ptl", "old.ptl"]


LEFT_OUT = "debug-archive: skipped, files of other kinds: 1 (text: 1)"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with three archives, two of them below, something broken, and something else."""
    folder = tmp_path / "models"
    (folder / "deep" / "deeper").mkdir(parents=True)
    shutil.copy(OLD_ARCHIVE, folder / "old.ptl")
    shutil.copy(OLDER_ARCHIVE, folder / "deep" / "deeper" / "older.PTH")
    shutil.copy(NEW_ARCHIVE, folder / "deep" / "new.ptl")
    (folder / "broken.pt").write_bytes(b"PK\x03\x04 garbage")
    (folder / "notes.txt").write_text("no archive")
    return folder


@pytest.fixture
def good(models: Path) -> Path:
    """The same without what is broken."""
    (models / "broken.pt").unlink()
    (models / "notes.txt").unlink()
    return models


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


# --- one file


def test_one_file_is_migrated_and_told_of(tmp_path: Path) -> None:
    target = tmp_path / "new.ptl"
    said = well("migrate", OLD_ARCHIVE, "-o", target, "--to", "latest")
    kept = len(records(target.read_bytes())["extra/migrated.ptdbg"])
    assert said.splitlines() == [
        f"{OLD_ARCHIVE}, of PyTorch 1.9, for PyTorch 2.13",
        "",
        "mended",
        "  call-stack map completed, 3 to 4 elements, rows: 202",
        "",
        "rewritten",
        "  source ranges, inline rows to string table, rows: 96",
        "  record delegated_backends.debug_pkl in",
        "  record byteorder in",
        "",
        f"{target}: {size(OLD_ARCHIVE)} -> {size(target)} bytes",
        f"{kept:,} of them keep what it was: migrated back, it is the original file, byte for byte",
    ]
    assert target.read_bytes() == migrated(OLD_ARCHIVE, "2.13").data

    back = tmp_path / "back.ptl"
    assert well("migrate", target, "-o", back, "--to", "1.9").splitlines()[-1].startswith(f"{back}: ")
    assert back.read_bytes() == OLD_ARCHIVE.read_bytes()


def test_one_file_as_json_has_all_facts_but_the_bytes(tmp_path: Path) -> None:
    target = tmp_path / "new.ptl"
    facts = told("migrate", OLD_ARCHIVE, "-o", target, "--to", "2.13")
    paths = {"file": str(OLD_ARCHIVE), "out": str(target), "outcome": "done"}
    assert {name: facts.pop(name) for name in paths} == paths
    assert facts.keys() == migration_facts(migrated(OLD_ARCHIVE, "2.13")).keys()
    sizes = {"size": OLD_ARCHIVE.stat().st_size, "out_size": target.stat().st_size}
    digests = {"source_digest": digest(OLD_ARCHIVE), "digest": digest(target)}
    assert {name: facts[name] for name in (*sizes, *digests)} == sizes | digests
    assert facts["exact"] is True
    plan = facts["plan"]
    assert isinstance(plan, dict)
    assert plan["rescues"] == [{"what": "call-stack map completed, 3 to 4 elements, rows", "count": 202}]
    assert "data" not in facts


def test_a_dry_run_tells_and_writes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "new.ptl"
    said = well("migrate", OLD_ARCHIVE, "-o", target, "--to", "2.13", "--dry-run")
    facts = told("migrate", OLD_ARCHIVE, "-o", target, "--to", "2.13", "--dry-run")
    assert files(tmp_path) == []
    *plan, would = said.splitlines()
    assert well("migrate", OLD_ARCHIVE, "-o", target, "--to", "2.13").splitlines()[: len(plan)] == plan
    assert would == f"would write {target}: {size(target)} bytes"
    target.unlink()
    assert (facts.pop("outcome"), facts["digest"]) == ("to do", migrated(OLD_ARCHIVE, "2.13").digest)
    made = told("migrate", OLD_ARCHIVE, "-o", target, "--to", "2.13")
    assert (made.pop("outcome"), made) == ("done", facts)


def test_a_dry_run_refuses_what_the_work_refuses(tmp_path: Path) -> None:
    words = ("migrate", NEW_ARCHIVE, "-o", tmp_path / "x", "--to", "1.8")
    dry, done = run(*words, "--dry-run"), run(*words)
    assert (dry.returncode, dry.stderr) == (2, done.stderr)
    assert dry.stdout.decode().splitlines()[-1] == "pass --lossy to go on without what is lost"
    assert files(tmp_path) == []


def test_what_is_lost_is_counted_and_needs_consent(tmp_path: Path) -> None:
    target = tmp_path / "old.ptl"
    done = run("migrate", NEW_ARCHIVE, "-o", target, "--to", "1.8")
    with archive.open(NEW_ARCHIVE) as opened:
        count = len(opened.handles)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        f"debug-archive: {NEW_ARCHIVE}: PyTorch 1.8 has no place for source ranges and call stacks of debug "
        f"handles: {count}; pass --lossy to go on without\n"
    )
    assert files(tmp_path) == []
    said = well("migrate", NEW_ARCHIVE, "-o", target, "--to", "1.8", "--lossy")
    assert f"\nlost\n  source ranges and call stacks of debug handles: {count}\n" in said
    assert "pass --lossy" not in said


def test_nothing_is_kept_aside_if_it_is_not_wanted(tmp_path: Path) -> None:
    said = well("migrate", OLD_ARCHIVE, "-o", tmp_path / "x", "--to", "2.13", "--no-aside")
    assert "keep what it was" not in said
    assert "extra/migrated.ptdbg" not in records((tmp_path / "x").read_bytes())


def test_an_archive_of_that_release_is_copied_byte_for_byte(tmp_path: Path) -> None:
    said = well("migrate", NEW_ARCHIVE, "-o", tmp_path / "same.ptl", "--to", "v2.13.0")
    assert "\n\nnothing to rewrite: it is as that release may have written it\n" in said
    assert (tmp_path / "same.ptl").read_bytes() == NEW_ARCHIVE.read_bytes()


def test_another_file_is_not_replaced_unasked(tmp_path: Path) -> None:
    target = tmp_path / "mine.ptl"
    target.write_bytes(b"mine")
    done = run("migrate", OLD_ARCHIVE, "-o", target, "--to", "2.13")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == f"debug-archive: {target}: the file exists; pass --force ".encode() + (
        b"to replace it\n"
    )
    assert target.read_bytes() == b"mine"
    well("migrate", OLD_ARCHIVE, "-o", target, "--to", "2.13", "--force")
    assert target.read_bytes() == migrated(OLD_ARCHIVE, "2.13").data


@pytest.mark.parametrize("options", [[], ["--force"], ["--force", "--dry-run"]])
def test_nothing_is_written_over_what_is_read(options: list[str], models: Path) -> None:
    before = contents(models)
    for arguments in ([models / "old.ptl", "-o", models / "old.ptl"], [models, "-o", models]):
        done = called("migrate", *arguments, "--to", "2.13", *options)
        assert isinstance(done.exception, ArchiveError)
        assert "is an input, too" in str(done.exception)
    assert contents(models) == before


@pytest.mark.parametrize("to", ["2.14", "", "newest", "1.9.x", "pair"])
def test_an_unknown_target_is_answered_with_those_that_are_known(to: str, models: Path, out: Path) -> None:
    for source in (OLD_ARCHIVE, models):
        done = called("migrate", source, "-o", out, "--to", to)
        assert isinstance(done.exception, ArchiveError)
        assert str(done.exception) == (
            "expected a release from 1.0 to 2.13, or latest; or a layout: "
            f"pair-rows, inline-rows, string-table; or original, found {to}"
        )
    assert not out.exists()


def test_foreign_names_do_not_reach_the_terminal_as_they_are() -> None:
    facts = archive.migrate(OLD_ARCHIVE, to="2.13", dry_run=True)
    against = Evidence("data.pkl, a\x1b[31m\nb\udcff", "old", (1, 9), (1, 9))
    odd = replace(facts, origin=replace(facts.origin, against=(against,)))
    [(head, _)], [(but, _)], *_ = lines_of(plan_text(odd, "m\x1b]0;\udcfe.pt"), 200)
    assert head == "m\\x1b]0;\\xfe.pt, of PyTorch 1.9, for PyTorch 2.13"
    assert but == "  but data.pkl, a\\x1b[31m\\nb\\xff: old (1.9)"


# --- a folder


def test_a_folder_is_migrated_and_one_broken_file_stops_nothing(models: Path, out: Path) -> None:
    done = run("migrate", models, "-o", out, "--to", "2.13", "--jobs", 1)
    problem = f"{models / 'broken.pt'}: "
    assert done.returncode == 2
    broken, left_out = done.stderr.decode().splitlines()
    assert broken.startswith(f"debug-archive: {problem}")
    assert left_out == LEFT_OUT
    assert files(out) == sorted(RESULTS)
    *each, total = done.stdout.decode().splitlines()
    assert len(each) == 3
    line = row(done.stdout.decode(), f"{models / 'old.ptl'}:")
    assert " ".join(line) == (
        "PyTorch 1.9 -> PyTorch 2.13: 1 mended, 3 rewritten; "
        f"{size(OLD_ARCHIVE)} -> {size(out / 'old.ptl')} bytes"
    )
    assert outcomes(total) == {"done": 2, "nothing to do": 1, "failed": 1}

    told_of = lines(out)
    assert sorted(told_of) == ["broken.pt", *RESULTS]
    assert told_of["broken.pt"]["outcome"] == "failed"
    assert told_of["broken.pt"]["outputs"] == []
    origins = ["PyTorch 1.6 to 1.8", "PyTorch 2.1 or later", "PyTorch 1.9"]
    for name, origin in zip(RESULTS, origins, strict=True):
        assert told_of[name] == {
            "input": name,
            "verb": "migrate",
            "options": {"to": "PyTorch 2.13", "lossy": False, "aside": True},
            "outcome": "nothing to do" if name == "deep/new.ptl" else "done",
            "reason": "it is as that release may have written it" if name == "deep/new.ptl" else "",
            "sources": [entry(models / name, f"models/{name}")],
            "outputs": [entry(out / name, f"{out.name}/{name}")],
            "from": origin,
        }
    for name, source in zip(RESULTS, (OLDER_ARCHIVE, NEW_ARCHIVE, OLD_ARCHIVE), strict=True):
        assert (out / name).read_bytes() == migrated(source, "2.13").data


def test_a_folder_as_json_is_a_list_in_the_order_of_its_files(models: Path, out: Path) -> None:
    done = called("migrate", models, "-o", out, "--to", "2.13", "--json", "-j", 1)
    assert done.exit_code == 2
    facts = files_of(done.stdout)
    assert [one["file"] for one in facts] == [
        str(models / name) for name in ("broken.pt", "old.ptl", "deep/new.ptl", "deep/deeper/older.PTH")
    ]
    assert list(facts[0]) == ["file", "outcome", "reason"]
    for one in facts[1:]:
        assert one["digest"] == digest(Path(one["out"]))
        assert "data" not in one


def test_what_is_lost_is_told_file_by_file(good: Path, out: Path) -> None:
    done = called("migrate", good, "-o", out, "--to", "1.8", "-j", 1)
    assert (done.exit_code, done.stderr) == (1, "")
    assert (
        done.stdout.count(
            ": impossible: PyTorch 1.8 has no place for source ranges and call stacks of debug handles: "
        )
        == 2
    )
    assert files(out) == ["deep/deeper/older.PTH"]
    well("migrate", good, "-o", out, "--to", "1.8", "-j", 1, "--force", "--lossy")
    assert files(out) == sorted(RESULTS)


def test_a_dry_run_of_a_folder_is_a_line_a_file(models: Path, out: Path) -> None:
    (models / "gone.pt").symlink_to(models / "nowhere.pt")
    done = called("migrate", models, "-o", out, "--to", "2.13", "--dry-run", "-j", 1)
    assert done.exit_code == 2
    broken, gone, left_out = done.stderr.splitlines()
    assert left_out == LEFT_OUT
    assert broken.startswith(f"debug-archive: {models / 'broken.pt'}: ")
    assert gone == f"debug-archive: {models / 'gone.pt'}: No such file or directory"
    assert done.stdout.splitlines() == [
        *(
            f"{models}/{name}: {what} bytes".replace("OUT", f"would write {out}/{name}:")
            for name, what in (
                ("old.ptl", "PyTorch 1.9 -> PyTorch 2.13: 1 mended, 3 rewritten; OUT 11,170"),
                ("deep/new.ptl", "PyTorch 2.1 or later -> PyTorch 2.13: nothing to do; OUT 9,881"),
                ("deep/deeper/older.PTH", "PyTorch 1.6 to 1.8 -> PyTorch 2.13: 2 rewritten; OUT 5,559"),
            )
        ),
        "5 files: 2 to do, 1 nothing to do, 2 failed; 22,577 -> 26,610 bytes (117.9%), without 2 failed",
    ]
    as_json = called("migrate", models, "-o", out, "--to", "2.13", "--dry-run", "--json", "-j", 1)
    assert as_json.exit_code == 2
    facts: list[Mapping[str, Any]] = files_of(as_json.stdout)
    assert [one["outcome"] for one in facts] == ["failed", "failed", "to do", "nothing to do", "to do"]
    assert facts[2]["plan"]["rescues"][0]["count"] == 202
    assert not out.exists()


def test_a_dry_run_of_a_good_folder_ends_well(good: Path, out: Path) -> None:
    assert well("migrate", good, "-o", out, "--to", "2.13", "--dry-run", "-j", 1).count("\n") == 4
    assert not out.exists()


def test_the_original_is_given_back(tmp_path: Path) -> None:
    source = RELEASES / "torch-1.8.0" / "nested.pt"
    there, back = tmp_path / "there.pt", tmp_path / "back.pt"
    well("migrate", source, "-o", there, "--to", "latest")
    said = well("migrate", there, "-o", back, "--to", "original")
    assert f"{there}, which was of PyTorch 1.6 to 1.8 before its migration\n\ngiven back as it was\n" in said
    assert back.read_bytes() == source.read_bytes()
    again = well("migrate", source, "-o", back, "--to", "original", "--force")
    assert "given as it is: without extra/migrated.ptdbg, nothing in it shows a migration\n" in again
    assert back.read_bytes() == source.read_bytes()
