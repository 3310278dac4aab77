"""``migrate`` of a folder again: after all is done, or after something has changed."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from archive import ArchiveError
from tests.support.commands import called, files, well
from tests.support.corpus import RELEASES
from tests.support.migrated_folders import MANIFEST, NEW, OLD, OLDER, again, contents, digest, lines
from tests.support.migrations import migrated

if TYPE_CHECKING:
    from collections.abc import Callable


NAMES = ["deep/new.ptl", "deep/older.pt", "old.ptl"]
SOURCES = dict(zip(NAMES, (NEW, OLDER, OLD), strict=True))
ALL_DONE = "debug-archive: done already, and left as they are: 3 of 3 files\n"
TWO_DONE = ALL_DONE.replace("3 of 3", "2 of 3")
ONE_CHANGED = "debug-archive: changed since, and done again: 1\n"
EXISTS = "the file exists; pass --force (force=True) to replace it"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    for name, source in SOURCES.items():
        shutil.copy(source, folder / name)
    return folder


@pytest.fixture
def out(models: Path) -> Path:
    """What was made of them, once."""
    folder = models.parent / "out"
    well("migrate", models, "-o", folder, "--to", "2.13", "-j", 1)
    return folder


def times(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_mtime_ns for name in files(folder)}


def as_expected(out: Path, to: str = "2.13") -> bool:
    return contents(out) == {name: migrated(source, to).data for name, source in SOURCES.items()}


# --- all is done


def test_what_is_done_is_not_done_again(models: Path, out: Path) -> None:
    before = times(out)
    done = again(models, out)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", ALL_DONE)
    assert times(out) == before
    assert as_expected(out)


def test_as_json_that_is_an_empty_list(models: Path, out: Path) -> None:
    done = again(models, out, "--json")
    assert (done.exit_code, json.loads(done.stdout), done.stderr) == (0, [], ALL_DONE)


def test_what_is_forced_is_done_again(models: Path, out: Path) -> None:
    before = times(out)
    done = again(models, out, "--force")
    assert (done.exit_code, done.stderr) == (0, "")
    assert all(times(out)[name] > before[name] for name in SOURCES)
    assert again(models, out).stderr == ALL_DONE


def test_a_file_that_failed_is_tried_again(models: Path, out: Path) -> None:
    (models / "late.pt").write_bytes(b"PK\3\4 not yet")
    for _ in range(2):
        done = again(models, out, "--json")
        assert done.exit_code == 2
        assert done.stderr.startswith(ALL_DONE.replace("of 3", "of 4"))
        assert [one["file"] for one in json.loads(done.stdout)] == [str(models / "late.pt")]
    shutil.copy(OLD, models / "late.pt")
    assert again(models, out).stdout.startswith(f"{models / 'late.pt'}: PyTorch 1.9 -> PyTorch 2.13: ")
    assert (out / "late.pt").read_bytes() == migrated(OLD, "2.13").data


def test_names_of_any_characters_are_known_again(models: Path, out: Path) -> None:
    names = [
        b"two\nlines.pt",
        b"line\xe2\x80\xa8separator.pt",
        b"no utf-8 \xff.pt",
        b"\x1b[31mred.pt",
        b'"{.pt',
    ]
    for name in names:
        shutil.copy(OLDER, models / os.fsdecode(name))
    dry = again(models, out, "--dry-run")
    assert (dry.exit_code, dry.stderr) == (0, "")
    assert len(dry.stdout.splitlines()) == len(NAMES) + len(names)
    assert not set("\x1b\u2028") & set(dry.stdout)
    done = again(models, out)
    assert (done.exit_code, done.stderr) == (0, ALL_DONE.replace("of 3", "of 8"))
    assert len(done.stdout.splitlines()) == len(names) + 1
    assert again(models, out).stderr == ALL_DONE.replace("3 of 3", "8 of 8")


# --- something has changed


def test_a_result_that_is_gone_is_made_again(models: Path, out: Path) -> None:
    (out / "old.ptl").unlink()
    done = again(models, out)
    assert (done.exit_code, done.stderr) == (0, TWO_DONE)
    assert done.stdout.splitlines()[-1].startswith("1 file: ")
    assert as_expected(out)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: b"\0" + data[1:], lambda _: b""])
def test_a_result_that_was_changed_is_made_again(
    change: Callable[[bytes], bytes], models: Path, out: Path
) -> None:
    (out / "old.ptl").write_bytes(change((out / "old.ptl").read_bytes()))
    done = again(models, out)
    assert (done.exit_code, done.stderr) == (0, TWO_DONE + ONE_CHANGED)
    assert as_expected(out)
    assert again(models, out).stderr == ALL_DONE


def test_a_file_that_was_changed_is_migrated_again(models: Path, out: Path) -> None:
    shutil.copy(RELEASES / "torch-1.9.0" / "unicode.ptl", models / "old.ptl")
    done = again(models, out)
    assert (done.exit_code, done.stderr) == (0, TWO_DONE + ONE_CHANGED)
    assert (out / "old.ptl").read_bytes() == migrated(RELEASES / "torch-1.9.0" / "unicode.ptl", "2.13").data
    assert again(models, out).stderr == ALL_DONE


def test_a_file_that_is_broken_now_leaves_the_result_it_gave(models: Path, out: Path) -> None:
    (models / "old.ptl").write_bytes(b"PK\3\4 broken")
    for _ in range(2):
        done = again(models, out)
        assert done.exit_code == 2
        assert str(models / "old.ptl") in done.stderr
        assert as_expected(out)
    shutil.copy(OLD, models / "old.ptl")
    assert again(models, out).stderr == ALL_DONE


def test_files_by_name_that_are_gone_are_told(models: Path, out: Path) -> None:
    inputs = [models / "old.ptl", models / "none.ptl"]
    done = called("migrate", *inputs, "-o", out, "--to", "2.13", "-j", 1)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[1:] == [
        f"debug-archive: {models / 'none.ptl'}: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("to", "options"), [("1.12", []), ("string-table", []), ("2.13", ["--no-aside"])], ids=str
)
def test_results_for_something_else_are_replaced_only_by_force(
    to: str, options: list[str], models: Path, out: Path
) -> None:
    before = contents(out)
    options = [*options, "--lossy"]
    done = again(models, out, *options, to=to)
    assert done.exit_code == 2
    refused = [name for name in NAMES if f"{out / name}: {EXISTS}" in done.stderr]
    assert "old.ptl" in refused
    assert done.stderr.count("\n") == len(refused)
    assert contents(out) == before
    assert again(models, out).stderr.startswith("debug-archive: done already")  # that is not forgotten

    done = again(models, out, "--force", *options, to=to)
    assert (done.exit_code, done.stderr) == (0, "")
    for name, source in SOURCES.items():
        forced = models.parent / "forced" / name
        well("migrate", source, "-o", forced, "--to", to, *options)
        assert (out / name).read_bytes() == forced.read_bytes()
    assert again(models, out, *options, to=to).stderr == ALL_DONE


# --- the manifest


def test_a_line_that_was_cut_short_is_passed_over(models: Path, out: Path) -> None:
    path = out / MANIFEST
    whole = path.read_bytes()
    last = whole.splitlines()[-1]
    for size in (1, len(last) // 2, len(last) - 1):
        cut = whole.removesuffix(last + b"\n") + last[:size]
        path.write_bytes(cut)
        before = times(out)
        done = again(models, out)
        assert (done.exit_code, done.stderr) == (0, TWO_DONE)
        assert {name: times(out)[name] for name in NAMES} == {name: before[name] for name in NAMES}
        assert path.read_bytes() == cut + b"\n" + last + b"\n"
        assert again(models, out).stderr == ALL_DONE
    path.write_bytes(whole[:-1])
    assert again(models, out).stderr == ALL_DONE


def test_a_result_that_nobody_told_of_is_taken_as_done_only_if_it_is_what_would_be(
    models: Path, out: Path
) -> None:
    path = out / MANIFEST
    told = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in told if '"old.ptl"' not in line))
    before = (out / "old.ptl").stat().st_mtime_ns
    done = again(models, out)
    assert (done.exit_code, done.stderr) == (0, TWO_DONE)
    assert (out / "old.ptl").stat().st_mtime_ns == before
    assert lines(out)["old.ptl"]["digest"] == digest(out / "old.ptl")

    path.write_text("".join(line for line in told if '"old.ptl"' not in line))
    (out / "old.ptl").write_bytes(b"somebody else's")
    done = again(models, out)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"{out / 'old.ptl'}: {EXISTS}\n")
    assert (out / "old.ptl").read_bytes() == b"somebody else's"
    assert files(out) == sorted([*NAMES, MANIFEST])


def test_a_line_that_does_not_tell_of_the_source_is_not_believed(models: Path, out: Path) -> None:
    told = [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()]
    for line in told:
        del line["source"]
    (out / MANIFEST).write_text("".join(f"{json.dumps(line)}\n" for line in told))
    done = again(models, out)
    assert (done.exit_code, done.stderr) == (0, ONE_CHANGED.replace("1", "3"))
    assert as_expected(out)


def test_without_a_manifest_nothing_is_known(models: Path, out: Path) -> None:
    (out / MANIFEST).unlink()
    (out / "old.ptl").write_bytes(b"somebody else's")
    assert again(models, out).exit_code == 2
    assert (out / "old.ptl").read_bytes() == b"somebody else's"


GARBAGE = [
    b"",
    b"\n\n\n",
    b"no json",
    b'17\n[]\n"path"\nnull\ntrue\n1e999\nNaN\n',
    b'{"path": "old.ptl"',
    b"\xff\xfe\x00\x00\n\x80",
    '{"path": "old.ptl", "digest": "0"}\n'.encode("utf-16"),
    b"[" * 200_000 + b"\n",
    b'{"path":' * 100_000 + b"\n",
    b"9" * 10_000 + b"\n",
    b'{"path": {"digest": []}, "digest": "00"}\n{"digest": "00"}\n',
    *(
        b'{"path": "old.ptl", "to": "PyTorch 2.13", "aside": true, "source": %b, "digest": %b}\n' % (one, one)
        for one in (b"null", b"[]", b"7", b'"7"', b"{}", b"true")
    ),
    b'{"path": "old.ptl", "to": {"a": []}, "aside": [], "digest": "7"}\n',
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda data: repr(data[:20]))
def test_whatever_stands_in_a_manifest_is_passed_over(garbage: bytes, models: Path) -> None:
    folder = models.parent / "new"
    folder.mkdir()
    (folder / MANIFEST).write_bytes(garbage)
    done = again(models, folder)
    assert (done.exit_code, done.stderr) == (0, "")
    assert as_expected(folder)
    assert (folder / MANIFEST).read_bytes().startswith(garbage)
    assert again(models, folder).stderr == ALL_DONE


@pytest.mark.parametrize("kind", ["link", "pipe", "character device", "socket"])
def test_a_manifest_is_a_regular_file(kind: str, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    path = folder / MANIFEST
    if kind == "link":
        (tmp_path / "mine").write_text("mine")
        path.symlink_to(tmp_path / "mine")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.path.relpath(path))
    status = Path("/dev/null").stat() if kind == "character device" else path.lstat()
    with mock.patch.object(Path, "lstat", return_value=status):
        done = again(models, folder)
    assert isinstance(done.exception, ArchiveError)
    assert str(done.exception) == f"{path}: is a {kind}, and a manifest is a regular file"
    assert files(folder) == ([MANIFEST] if kind == "link" else [])
    assert kind != "link" or (tmp_path / "mine").read_text() == "mine"


def test_a_folder_in_the_place_of_the_manifest_is_an_error(models: Path) -> None:
    (models.parent / "new" / MANIFEST).mkdir(parents=True)
    assert isinstance(again(models, models.parent / "new").exception, IsADirectoryError)
