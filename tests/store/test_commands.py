"""``debug-archive store`` as its users call it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from archive.store.plain import PlainForm
from archive.store.store import Store
from tests.support.commands import process, run
from tests.support.corpus import FIXTURES
from tests.support.documents import file_of, files_of
from tests.support.kin import LEAST_PREFIX, id_of, kin

if TYPE_CHECKING:
    from pathlib import Path

FLEET = FIXTURES / "fleet"
RANKER = "765c5a945fdcb44468a450a4c51f42c2"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEBUG_ARCHIVE_STORE", str(tmp_path / "symbols"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1760000000")
    return tmp_path / "symbols"


def lines(*words: object, status: int = 0, error: str = "") -> list[str]:
    """The lines that a command of stores prints."""
    ended = run("store", *words)
    assert ended.returncode == status, ended.stderr
    assert error in ended.stderr.decode()
    return ended.stdout.decode().splitlines()


def test_files_and_folders_are_added(path: Path) -> None:
    found = lines(
        "add",
        FLEET / "Ranker.ptdbg",
        FLEET,
        error="skipped, files of other kinds: 3 (JSON: 1, text: 2)",
    )
    kept = Store.open(path).one("Ranker").kept_size
    assert found[0] == (
        f"{FLEET}/Ranker.ptdbg: added, 765c5a945fdcb44468a450a4c51f42c2, prefix 2597103980, "
        f"3,727 bytes in {kept:,}"
    )
    assert found[-1] == "3 files: 3 added"
    assert lines("add", FLEET)[-1] == "3 files: 3 kept already"
    assert len(Store.open(path).entries()) == 3


def test_archives_give_companions_or_are_counted(path: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("traced.ptl", "unicode.pt"):
        shutil.copy(FIXTURES / "releases" / "torch-2.13.0" / name, models)
    run("split", models / "traced.ptl", "-o", models / "left.ptl", "-c", tmp_path / "traced.ptdbg")
    assert lines("add", models)[-1] == "3 files: 2 added, 1 without debug info, skipped"
    assert lines("add", models / "left.ptl", error="left.ptl: no debug info in it; skipped") == [
        "1 file: 1 without debug info, skipped"
    ]
    assert lines("add", tmp_path / "traced.ptdbg")[-1] == "1 file: 1 kept already"
    assert len(Store.open(path).entries()) == 2


@pytest.mark.parametrize("is_digested", [False, True])
def test_it_is_said_that_nothing_tells_failures_of_releases_apart(
    path: Path, tmp_path: Path, *, is_digested: bool
) -> None:
    """Of scripted models, which have no unique handles; before the first crash."""
    releases = [FIXTURES / "releases" / f"torch-{release}" / "nested.pt" for release in ("1.4.0", "2.13.0")]
    said = []
    for release in releases:
        companion = tmp_path / f"{release.parent.name}.ptdbg"
        digests = ["--fingerprints"] if is_digested else []
        run("split", release, "-o", tmp_path / "small", "-c", companion, "--force", *digests)
        said.append(run("store", "add", companion).stderr.decode())
    assert not said[0]
    entry = Store.open(path).one("torch-2.13.0.ptdbg")
    assert said[1] == (
        ""
        if is_digested
        else f"debug-archive: {entry.name}: failures look like those of other companions of "
        f"{entry.facts.top!r}: add the archive, or split with --fingerprints\n"
    )
    assert not run("store", "add", releases[1]).stderr, "its lines are known now"


@pytest.mark.parametrize("epoch", ["yesterday", "-1", "1e9", " 5", "\u0665", "253402300800", "9" * 5000])
def test_a_time_to_note_that_is_none_is_refused(
    epoch: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    error = "$SOURCE_DATE_EPOCH: expected seconds since 1970, fewer than 253,402,300,800, found '"
    assert lines("add", FLEET / "Ranker.ptdbg", status=2, error=error) == ["1 file: 1 failed"]
    assert Store.open(path).entries() == []
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "253402300799")
    lines("add", FLEET / "Ranker.ptdbg")
    assert lines("ls")[2].endswith("9999-12-31")


def test_one_that_is_refused_hinders_no_other(path: Path, tmp_path: Path) -> None:
    for name, data in {"a": kin(1, line=1), "b": kin(1, line=2), "c": kin(3), "d": b"text"}.items():
        (tmp_path / f"{name}.ptdbg").write_bytes(data)
    files = [tmp_path / f"{name}.ptdbg" for name in "abcd"]
    assert (
        lines("add", *files, status=2, error="is kept already with other debug info")[-1]
        == "4 files: 2 added, 2 failed"
    )
    told = files_of("\n".join(lines("add", *files, "--json", status=2)))
    assert [one["outcome"] for one in told] == ["same", "failed", "same", "failed"]
    assert [one["file"] for one in told] == [str(file) for file in files]
    assert told[3]["reason"].startswith(f"{files[3]}: a text file (it begins with 'text')")
    assert lines("add", "--force", files[1])[-1] == "1 file: 1 replaced"
    assert Store.open(path).companion(id_of(1)) == kin(1, line=2)


def test_facts_are_printed_as_json(path: Path) -> None:
    added = files_of("\n".join(lines("add", FLEET, "--json")))
    assert [(one["outcome"], one["top"]) for one in added] == [
        ("added", "Detector"),
        ("added", "Encoder"),
        ("added", "Ranker"),
    ]
    listed = files_of("\n".join(lines("ls", "--json")))
    known = {one["archive_id"]: one for one in listed}[RANKER]
    assert (known["prefix"], known["added"], known["size"]) == (2597103980, 1760000000, 3727)
    assert known["handles"] == [[0, 1152]]
    assert file_of("\n".join(lines("check", "--json")))["diagnostics"] == []
    assert file_of("\n".join(lines("gc", "--json"))) == {
        "file": str(path),
        "drafts": 0,
        "bases": 0,
        "repacked": 0,
        "freed": 0,
        "claims": None,
    }


@pytest.mark.usefixtures("path")
def test_ls_lists_what_fits() -> None:
    lines("add", FLEET)
    table = lines("ls")
    assert table[0].split() == ["archive", "id", "prefix", "top", "file", "bytes", "kept", "in", "added"]
    assert table[3].split()[:4] == ["765c5a945fdc", "2597103980", "Ranker", "Ranker.ptdbg"]
    assert table[3].split()[-1] == "2025-10-09"
    assert table[-1].startswith("3 companions, 10,597 bytes, kept in ")
    for pattern in ("Ranker", "*anker.ptdbg", "2597*", "765c*", "__torch__.ranker.*", "Ranker@765c5a945fdc"):
        assert lines("ls", pattern)[-1].startswith("1 companion,")
    assert lines("ls", "Other*", status=1, error="no companion fits Other*") == []


@pytest.mark.usefixtures("path")
def test_get_writes_a_companion_to_the_byte(tmp_path: Path) -> None:
    lines("add", FLEET)
    data = (FLEET / "Ranker.ptdbg").read_bytes()
    for word in (RANKER, RANKER[:5], "2597103980", "Ranker", "Ranker@765c5a945fdc"):
        assert run("store", "get", word, "-o", "-").stdout == data
    assert lines("get", "Ranker", "-o", tmp_path / "out.ptdbg") == []
    assert (tmp_path / "out.ptdbg").read_bytes() == data
    lines("get", "Encoder", "-o", tmp_path / "out.ptdbg", status=2, error="the file exists; pass --force")
    lines("get", "Encoder", "-o", tmp_path / "out.ptdbg", "--force")
    lines(
        "get", "nobody", "-o", "-", status=2, error="no companion has the id, prefix, name or label 'nobody'"
    )


def test_companions_are_removed_and_what_they_leave(path: Path) -> None:
    with Store.open(path, create=True) as store:
        for number in range(3):
            store.add(kin(number), name=f"release-{number}.ptdbg")
    assert lines("rm", "release-0", id_of(1)) == [f"{id_of(0)} removed", f"{id_of(1)} removed"]
    assert lines("ls")[-1].endswith("of them of removed ones")
    assert lines("rm", "release-2") == [f"{id_of(2)} removed"]
    assert lines("gc")[0].startswith(f"{path}: 2 bases and 0 drafts removed, ")
    lines("rm", "release-2", status=2, error="no companion has")


def test_check_tells_what_is_wrong(path: Path) -> None:
    with Store.open(path, create=True) as store:
        for number in range(3):
            store.add(kin(number))
    assert lines("check") == [f"{path}: 3 companions, well"]
    store.folder.kept_path(id_of(2)).write_bytes(b"broken")
    assert lines("check", status=1)[0].startswith(f"{path}: error: companions/{id_of(2)}.kept: ")
    assert (
        len(lines("ls", status=1, error=f"{id_of(2)}.kept: byte 0: expected a kept companion's header")) == 6
    )
    assert lines("rm", id_of(2)) == [f"{id_of(2)} removed"]
    assert lines("check") == [f"{path}: 2 companions, well"]


def test_a_log_is_explained_from_a_store_as_from_a_folder(path: Path) -> None:
    lines("add", FLEET)
    for name, status in (("unique.log", 0), ("plain.log", 1)):
        log = b"".join((FLEET / name).read_bytes().splitlines(keepends=True)[:150])
        folder, store = (run("symbolicate", where, stdin=log) for where in (FLEET, path))
        assert store.returncode == folder.returncode == status
        assert store.stdout == folder.stdout
        assert store.stderr.splitlines()[-1:] == folder.stderr.splitlines()[-1:]


def test_a_store_is_named_by_its_option_or_the_environment(tmp_path: Path) -> None:
    ended = process("store", "ls")
    assert ended.returncode == 2
    assert b"Missing option '--store'" in ended.stderr
    ended = process("store", "ls", "--store", tmp_path)
    assert ended.returncode == 2
    assert b"isn't a store: there is no mark debug-archive-store in it" in ended.stderr


@pytest.mark.usefixtures("path")
def test_redacted_ids_are_listed_and_found(tmp_path: Path) -> None:
    companion, exact = tmp_path / "private.ptdbg", tmp_path / "again.ptdbg"
    model = FIXTURES / "oracles" / "plain_stack.ptl"
    run("redact", model, "-o", tmp_path / "x", "-c", companion, "--names", "hash", "--paths", "none")
    lines("add", FLEET / "Ranker.ptdbg")
    assert "redacted id" not in lines("ls")[0]
    lines("add", companion)
    known = files_of("".join(lines("ls", "Stack", "--json")))[0]
    redacted = known["redacted_id"]
    assert redacted != known["archive_id"]
    assert lines("ls")[0].split()[:4] == ["archive", "id", "redacted", "id"]
    assert any(line.split()[:2] == [known["archive_id"][:12], redacted[:12]] for line in lines("ls"))
    assert len(lines("ls", f"{redacted[:8]}*")) == len(lines("ls", "Stack"))
    told = file_of("".join(lines("get", redacted[:12], "-o", exact, "--json")))
    assert told == {"output": str(exact), "exact": True} | known
    assert exact.read_bytes() == companion.read_bytes()
    lines("get", redacted[:12], "-o", "-", "--json", status=2, error="give a file")
    removed = files_of("".join(lines("rm", "Stack", "--json")))
    assert removed == [{"archive_id": known["archive_id"], "outcome": "removed"}]
    assert len(files_of("".join(lines("ls", "--json")))) == 1


def test_processes_read_many_files_and_one_adds_them(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It proves none of the recipes, which takes half of the time.
    monkeypatch.setattr(PlainForm, "of", mock.Mock(side_effect=AssertionError))
    (tmp_path / "many").mkdir()
    for number in range(40):
        (tmp_path / "many" / f"{number}.ptdbg").write_bytes(kin(number))
    (tmp_path / "many" / "taken.ptdbg").write_bytes(kin(50, prefix=LEAST_PREFIX + 3))
    found = lines("add", tmp_path / "many", "-j", "2", status=2, error="is the prefix of another archive")
    assert found[-1] == "41 files: 40 added, 1 failed"
    assert len(Store.open(path).entries()) == 40


def test_a_process_hands_on_no_long_plain_form(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.cli.store.MOST_HANDED", 0)
    proved = mock.Mock(wraps=PlainForm.of)
    monkeypatch.setattr(PlainForm, "of", proved)
    assert lines("add", FLEET / "Ranker.ptdbg")[-1] == "1 file: 1 added"
    assert proved.call_count == 2
    assert Store.open(path).companion(RANKER) == (FLEET / "Ranker.ptdbg").read_bytes()
