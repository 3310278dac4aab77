"""``migrate`` of a folder again: after all is done, after a change, or after an interruption."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from archive import ArchiveError
from tests.support.commands import called, files, outcomes, well
from tests.support.corpus import RELEASES
from tests.support.documents import files_of
from tests.support.many_archives import beside
from tests.support.migrations import (
    NEW_ARCHIVE,
    OLD_ARCHIVE,
    OLDER_ARCHIVE,
    again,
    contents,
    digest,
    lines,
    migrated,
)
from tests.support.processes import becomes
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ["deep/new.ptl", "deep/older.pt", "old.ptl"]
SOURCES = dict(zip(NAMES, (NEW_ARCHIVE, OLDER_ARCHIVE, OLD_ARCHIVE), strict=True))
ALL_SAME = {"same": 3}
ONE_DONE = {"done": 1, "same": 2}
CHANGED = "the file is not what the manifest says; pass --force to replace it"
EXISTS = "the file exists; pass --force to replace it"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return filled(tmp_path / "models")


def filled(folder: Path) -> Path:
    (folder / "deep").mkdir(parents=True)
    for name, source in SOURCES.items():
        shutil.copy(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is made of them, and its manifest."""
    folder = tmp_path_factory.mktemp("made") / "out"
    well("migrate", filled(folder.parent / "models"), "-o", folder, "--to", "2.13", "-j", 1)
    return folder


@pytest.fixture
def out(models: Path, made_once: Path) -> Path:
    """A copy of that beside the models."""
    folder = models.parent / "out"
    shutil.copytree(made_once, folder)
    shutil.copy2(beside(made_once), beside(folder))
    return folder


def times(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_mtime_ns for name in files(folder)}


def as_expected(out: Path, to: str = "2.13") -> bool:
    return contents(out) == {name: migrated(source, to).data for name, source in SOURCES.items()}


# --- all is done


def test_what_is_done_is_not_done_again(models: Path, out: Path) -> None:
    before = times(out)
    done = again(models, out)
    assert (done.exit_code, done.stderr, outcomes(done.stdout)) == (0, "", ALL_SAME)
    assert times(out) == before
    assert as_expected(out)


def test_as_json_each_file_is_told_as_the_same(models: Path, out: Path) -> None:
    done = again(models, out, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [(one["file"], one["outcome"]) for one in files_of(done.stdout)] == [
        (str(models / name), "same") for name in ("old.ptl", "deep/new.ptl", "deep/older.pt")
    ]


def test_what_is_forced_is_done_again(models: Path, out: Path) -> None:
    before = times(out)
    done = again(models, out, "--force")
    assert (done.exit_code, done.stderr) == (0, "")
    assert all(times(out)[name] > before[name] for name in SOURCES)
    assert outcomes(again(models, out).stdout) == ALL_SAME


def test_a_file_that_failed_is_tried_again(models: Path, out: Path) -> None:
    (models / "late.pt").write_bytes(b"PK\3\4 not yet")
    for _ in range(2):
        done = again(models, out, "--json")
        assert done.exit_code == 2
        found = {one["file"]: one["outcome"] for one in files_of(done.stdout)}
        assert found.pop(str(models / "late.pt")) == "failed"
        assert set(found.values()) == {"same"}
    shutil.copy(OLD_ARCHIVE, models / "late.pt")
    assert f"{models / 'late.pt'}: PyTorch 1.9 -> PyTorch 2.13: " in again(models, out).stdout
    assert (out / "late.pt").read_bytes() == migrated(OLD_ARCHIVE, "2.13").data


def test_names_of_any_characters_are_known_again(models: Path, out: Path) -> None:
    names = [
        b"two\nlines.pt",
        b"line\xe2\x80\xa8separator.pt",
        b"no utf-8 \xff.pt",
        b"\x1b[31mred.pt",
        b'"{.pt',
    ]
    for name in names:
        shutil.copy(OLDER_ARCHIVE, models / os.fsdecode(name))
    dry = again(models, out, "--dry-run")
    assert (dry.exit_code, dry.stderr) == (0, "")
    assert outcomes(dry.stdout) == {"to do": len(names), "same": len(NAMES)}
    assert not set("\x1b\u2028") & set(dry.stdout)
    done = again(models, out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert outcomes(done.stdout) == {"done": len(names), "same": len(NAMES)}
    assert outcomes(again(models, out).stdout) == {"same": len(NAMES) + len(names)}


# --- something has changed


def test_a_result_that_is_gone_is_made_again(models: Path, out: Path) -> None:
    (out / "old.ptl").unlink()
    done = again(models, out)
    assert (done.exit_code, outcomes(done.stdout)) == (0, ONE_DONE)
    assert done.stdout.count("; done again: the result was gone\n") == 1
    assert as_expected(out)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: b"\0" + data[1:], lambda _: b""])
def test_a_result_that_was_changed_is_replaced_by_force_alone(
    change: Callable[[bytes], bytes], models: Path, out: Path
) -> None:
    changed = change((out / "old.ptl").read_bytes())
    (out / "old.ptl").write_bytes(changed)
    done = again(models, out)
    assert (done.exit_code, outcomes(done.stdout)) == (2, {"same": 2, "failed": 1})
    assert done.stderr.endswith(f"{out / 'old.ptl'}: {CHANGED}\n")
    assert (out / "old.ptl").read_bytes() == changed
    assert again(models, out, "--force").exit_code == 0
    assert as_expected(out)
    assert outcomes(again(models, out).stdout) == ALL_SAME


def test_a_file_that_was_changed_is_migrated_again(models: Path, out: Path) -> None:
    shutil.copy(RELEASES / "torch-1.9.0" / "unicode.ptl", models / "old.ptl")
    done = again(models, out)
    assert (done.exit_code, outcomes(done.stdout)) == (0, ONE_DONE)
    assert done.stdout.count("; done again: the input has changed\n") == 1
    assert (out / "old.ptl").read_bytes() == migrated(RELEASES / "torch-1.9.0" / "unicode.ptl", "2.13").data
    assert outcomes(again(models, out).stdout) == ALL_SAME


def test_a_file_that_is_broken_now_leaves_the_result_it_gave(models: Path, out: Path) -> None:
    (models / "old.ptl").write_bytes(b"PK\3\4 broken")
    for _ in range(2):
        done = again(models, out)
        assert done.exit_code == 2
        assert str(models / "old.ptl") in done.stderr
        assert as_expected(out)
    shutil.copy(OLD_ARCHIVE, models / "old.ptl")
    assert outcomes(again(models, out).stdout) == ALL_SAME


def test_files_by_name_that_are_gone_are_told(models: Path, out: Path) -> None:
    inputs = [models / "old.ptl", models / "none.ptl"]
    done = called("migrate", *inputs, "-o", out, "--to", "2.13", "-j", 1)
    assert done.exit_code == 2
    assert done.stderr == f"debug-archive: {models / 'none.ptl'}: No such file or directory\n"


@pytest.mark.parametrize(
    ("to", "options"), [("1.12", []), ("string-table", []), ("2.13", ["--no-aside"])], ids=str
)
def test_with_other_options_files_are_done_again_and_only_ours_are_replaced(
    to: str, options: list[str], models: Path, out: Path
) -> None:
    options = [*options, "--lossy"]
    (out / "old.ptl").write_bytes(b"somebody else's")
    done = again(models, out, *options, to=to)
    assert done.exit_code == 2
    assert f"{out / 'old.ptl'}: {CHANGED}" in done.stderr
    assert outcomes(done.stdout)["failed"] == 1
    assert (out / "old.ptl").read_bytes() == b"somebody else's"
    (out / "old.ptl").unlink()

    done = again(models, out, *options, to=to)
    assert (done.exit_code, done.stderr) == (0, "")
    for name, source in SOURCES.items():
        alone = models.parent / "alone" / name
        well("migrate", source, "-o", alone, "--to", to, *options)
        assert (out / name).read_bytes() == alone.read_bytes()
    assert outcomes(again(models, out, *options, to=to).stdout) == ALL_SAME


def test_what_another_command_made_is_replaced_only_by_force(models: Path, out: Path) -> None:
    before = contents(out)
    done = called("shrink", models, "-o", out, "-j", 1)
    assert (done.exit_code, outcomes(done.stdout)) == (2, {"failed": 3})
    assert done.stderr.count(EXISTS) == 3
    assert contents(out) == before


# --- the manifest


def test_a_line_that_was_cut_short_is_passed_over(models: Path, out: Path) -> None:
    path = beside(out)
    whole = path.read_bytes()
    last = whole.splitlines()[-1]
    for size in (1, len(last) // 2, len(last) - 1):
        cut = whole.removesuffix(last + b"\n") + last[:size]
        path.write_bytes(cut)
        before = times(out)
        done = again(models, out)
        assert (done.exit_code, outcomes(done.stdout)) == (0, ONE_DONE)
        assert {name: times(out)[name] for name in NAMES} == {name: before[name] for name in NAMES}
        assert path.read_bytes() == cut + b"\n" + last + b"\n"
        assert outcomes(again(models, out).stdout) == ALL_SAME
    path.write_bytes(whole[:-1])
    assert outcomes(again(models, out).stdout) == ALL_SAME


def test_a_result_that_nobody_told_of_is_taken_as_done_only_if_it_is_what_would_be(
    models: Path, out: Path
) -> None:
    path = beside(out)
    told = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in told if '"old.ptl"' not in line))
    before = (out / "old.ptl").stat().st_mtime_ns
    done = again(models, out)
    assert (done.exit_code, outcomes(done.stdout)) == (0, ONE_DONE)
    assert (out / "old.ptl").stat().st_mtime_ns == before
    assert lines(out)["old.ptl"]["outputs"][0]["digest"] == digest(out / "old.ptl")

    path.write_text("".join(line for line in told if '"old.ptl"' not in line))
    (out / "old.ptl").write_bytes(b"somebody else's")
    done = again(models, out)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"{out / 'old.ptl'}: {EXISTS}\n")
    assert (out / "old.ptl").read_bytes() == b"somebody else's"
    assert files(out) == sorted(NAMES)


def test_a_line_that_does_not_tell_of_the_sources_is_not_believed(models: Path, out: Path) -> None:
    told = [json.loads(line) for line in beside(out).read_text().splitlines()]
    for line in told:
        del line["sources"]
    beside(out).write_text("".join(f"{json.dumps(line)}\n" for line in told))
    done = again(models, out)
    assert (done.exit_code, outcomes(done.stdout)) == (0, {"done": 2, "nothing to do": 1})
    assert as_expected(out)


def test_without_a_manifest_nothing_is_known(models: Path, out: Path) -> None:
    beside(out).unlink()
    (out / "old.ptl").write_bytes(b"somebody else's")
    assert again(models, out).exit_code == 2
    assert (out / "old.ptl").read_bytes() == b"somebody else's"


GARBAGE_LINES = [
    b"\n\n\n",
    b'17\n[]\n"path"\nnull\ntrue\n1e999\nNaN\n',
    b"[" * 200_000 + b"\n",
    b'{"input":' * 100_000 + b"\n",
    b"9" * 10_000 + b"\n",
    b'{"input": {"digest": []}, "outputs": "00"}\n{"outputs": "00"}\n',
    *(
        b'{"input": "old.ptl", "verb": "migrate", "options": %b, "sources": [%b], "outputs": %b}\n'
        % (one, one, one)
        for one in (b"null", b"[]", b"7", b'"7"', b"{}", b"true", b'[{"bytes": 1, "digest": "00"}]')
    ),
    b'{"input": "old.ptl", "verb": 1, "options": {}, "sources": [], "outputs": [{"bytes": 1e999}]}\n',
]
GARBAGE = [
    b"",
    b"no json",
    b'{"input": "old.ptl"',
    b"\xff\xfe\x00\x00\n\x80",
    '{"input": "old.ptl", "outputs": []}\n'.encode("utf-16"),
    b"".join(GARBAGE_LINES),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda data: repr(data[:20]))
def test_whatever_stands_in_a_manifest_is_passed_over(garbage: bytes, tmp_path: Path) -> None:
    models, folder = tmp_path / "models", tmp_path / "new"
    models.mkdir()
    shutil.copy(OLD_ARCHIVE, models / "old.ptl")
    folder.mkdir()
    beside(folder).write_bytes(garbage)
    done = again(models, folder)
    assert (done.exit_code, done.stderr) == (0, "")
    assert contents(folder) == {"old.ptl": migrated(OLD_ARCHIVE, "2.13").data}
    assert beside(folder).read_bytes().startswith(garbage)
    assert outcomes(again(models, folder).stdout) == {"same": 1}


@pytest.mark.parametrize("kind", ["link", "pipe", "character device", "socket"])
def test_a_manifest_is_a_regular_file(kind: str, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    path = beside(folder)
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
    assert not files(folder)
    assert kind != "link" or (tmp_path / "mine").read_text() == "mine"


def test_a_folder_in_the_place_of_the_manifest_is_an_error(models: Path) -> None:
    beside(models.parent / "new").mkdir(parents=True)
    assert isinstance(again(models, models.parent / "new").exception, IsADirectoryError)


# --- interrupted


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A folder that takes some time, and what is made of it without an interruption."""
    folder = tmp_path_factory.mktemp("many")
    sources = sorted(RELEASES.glob("torch-1.[89].0/*.pt*"))
    (folder / "models" / "inner").mkdir(parents=True)
    for source in sources:
        shutil.copy(source, folder / "models" / "inner" / f"{source.parent.name}-{source.name}")
    well("migrate", folder / "models", "-o", folder / "whole", "--to", "2.13", "-j", 1)
    return folder / "models", contents(folder / "whole")


MAIN = "from archive.cli import main; main()"


def started(models: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "migrate", str(models), "-o", str(out), "--to", "2.13", "-j", "2"],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    ("number", "to_all"),
    sampled([(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGKILL, True)], most=1),
    ids=str,
)
def test_after_an_interruption_the_end_is_the_same(
    number: signal.Signals,
    to_all: bool,  # noqa: FBT001
    many: tuple[Path, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    models, expected = many
    out = tmp_path / "out"
    moments, interrupted = sampled((1, len(expected) // 2), most=1), 0
    for least in moments:
        with started(models, out) as command:
            assert becomes(lambda: _told(out) >= least or command.poll() is not None)  # noqa: B023 (called at once)
            if to_all:
                os.killpg(command.pid, number)
            else:
                command.send_signal(number)
            said = command.communicate()[1]
        interrupted += command.returncode != 0
        if command.returncode == 130:
            assert said.endswith(b"debug-archive: interrupted\n")
        made = contents(out)
        whole = {name: data for name, data in made.items() if name in expected}
        assert whole == {name: expected[name] for name in whole}
        assert number == signal.SIGKILL or whole == made  # no drafts stay behind
    assert interrupted == len(moments)
    assert 0 < len(whole) < len(expected)

    with started(models, out) as command:
        told, said = command.communicate()
    assert (command.returncode, said) == (0, b"")
    assert 0 < outcomes(told.decode())["same"] < len(expected)
    made = contents(out)
    assert {name: made[name] for name in expected} == expected
    assert number == signal.SIGKILL or made == expected
    assert outcomes(again(models, out).stdout) == {"same": len(expected)}


def _told(out: Path) -> int:
    path = beside(out)
    return path.read_bytes().count(b"\n") if path.exists() else 0
