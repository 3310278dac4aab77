"""Drafts: which are removed, and what they do without where a system lacks something."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import importlib.util
import os
import sys
import threading
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from archive.base.cores import LONG
from archive.base.errors import ArchiveError
from archive.io import drafts
from archive.io.drafts import DRAFT_NAME, clear_dead, reaching_disk
from archive.io.output import replacing
from tests.support.faults import contents_of, open_files, refill, system

if TYPE_CHECKING:
    from pathlib import Path


def test_only_drafts_of_dead_processes_are_removed(tmp_path: Path) -> None:
    dead = os.fork()
    if not dead:
        os._exit(0)
    os.waitpid(dead, 0)
    names = {
        "alive": f".debug-archive-{os.getpid()}-00000000.draft",
        "locked": f".debug-archive-{dead}-11111111.draft",
        "dead": f".debug-archive-{dead}-22222222.draft",
        "another's": f".debug-archive-{dead}-22222222.draft.txt",
        "file": "file",
    }
    refill(tmp_path, dict.fromkeys(names.values(), b""))
    with (tmp_path / names["locked"]).open("rb") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)  # as a process of another machine has it
        clear_dead.__wrapped__(tmp_path)
    assert contents_of(tmp_path).keys() == set(names.values()) - {names["dead"]}


def test_without_locks_the_system_keeps_open_drafts_from_being_removed(tmp_path: Path) -> None:
    names = {".debug-archive-1-00000000.draft", ".debug-archive-2-11111111.draft"}
    refill(tmp_path, dict.fromkeys(names, b""))
    removed = []

    def unlink(path: str, *, dir_fd: int | None) -> None:
        assert dir_fd is None
        removed.append(os.path.basename(path))  # noqa: PTH119 (a text)
        raise PermissionError(errno.EACCES, "opened by another process")

    with (
        mock.patch.object(drafts, "fcntl", None),
        mock.patch("os.unlink", unlink),
        mock.patch("os.kill", side_effect=AssertionError("ends the process there")),
    ):
        clear_dead.__wrapped__(tmp_path)
    assert set(removed) == names == contents_of(tmp_path).keys()


def test_a_system_without_locks_writes_all_the_same(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("drafts_without_locks", drafts.__file__)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"fcntl": None}):
        spec.loader.exec_module(module)
    (tmp_path / "file").write_bytes(b"old")
    real, renamed = os.replace, []

    def replace(source: Path, target: Path) -> None:
        renamed.append(file.closed)  # no open file can be renamed there
        real(source, target)

    with (
        mock.patch("archive.io.drafts.Draft", module.Draft),
        system("named drafts"),
        mock.patch("os.replace", replace),
    ):
        for name in ("file", "new"):
            with replacing(tmp_path / name, force=name == "file") as file:
                file.write(b"data")
    assert renamed == [True]
    assert contents_of(tmp_path) == {"file": b"data", "new": b"data"}


def test_a_writer_removes_the_drafts_of_dead_processes_and_locks_its_own(tmp_path: Path) -> None:
    refill(tmp_path, {".debug-archive-4294967295-00000000.draft": b""})
    with system("named drafts"), replacing(tmp_path / "file", force=False):
        (draft,) = tmp_path.iterdir()
        assert f"-{os.getpid()}-" in draft.name
        with draft.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_link_with_a_draft_s_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    link = tmp_path / ".debug-archive-4294967295-00000000.draft"
    link.symlink_to("mine")
    before = open_files()
    clear_dead.__wrapped__(tmp_path)
    assert link.is_symlink()
    link.unlink()
    link.write_bytes(b"")
    clear_dead.__wrapped__(tmp_path)
    assert contents_of(tmp_path) == {"mine": b"mine"}
    assert open_files() == before


@pytest.mark.parametrize("number", [0, 1 << 31, 10**10 - 1])
def test_a_draft_whose_process_cannot_be_is_one_of_a_dead_process(number: int, tmp_path: Path) -> None:
    """Linux has no process above 2**22; 0 stands for this one's group."""
    refill(tmp_path, {f".debug-archive-{number}-00000000.draft": b""})
    clear_dead.__wrapped__(tmp_path)
    assert (contents_of(tmp_path) == {}) == (number > 0)


def test_a_process_of_another_user_lives(tmp_path: Path) -> None:
    refill(tmp_path, {".debug-archive-1-00000000.draft": b""})
    with mock.patch("os.kill", side_effect=PermissionError):
        clear_dead.__wrapped__(tmp_path)
    assert len(contents_of(tmp_path)) == 1


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_unnamed_files_gets_a_named_draft(code: int, tmp_path: Path) -> None:
    real = os.open

    def without_unnamed(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(code, os.strerror(code))
        return real(path, flags, mode)

    with mock.patch("os.open", without_unnamed), replacing(tmp_path / "file", force=False) as file:
        assert all(map(DRAFT_NAME.fullmatch, contents_of(tmp_path)))
        assert len(contents_of(tmp_path)) == 1
        file.write(b"data")
    assert contents_of(tmp_path) == {"file": b"data"}


def test_any_other_error_of_the_folder_names_the_target(tmp_path: Path) -> None:
    refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))
    with (
        mock.patch("os.open", side_effect=refused) as opened,
        pytest.raises(PermissionError) as raised,
        replacing(tmp_path / "file", force=False),
    ):
        pass
    assert raised.value.filename == str(tmp_path / "file")
    assert opened.call_count == 1


def test_without_a_path_of_its_descriptor_a_draft_needs_a_name(tmp_path: Path) -> None:
    before = open_files()
    with (
        mock.patch.object(drafts, "_path_of", return_value=tmp_path / "no proc"),
        replacing(tmp_path / "file", force=False) as file,
    ):
        assert open_files() == before + 1
        assert all(map(DRAFT_NAME.fullmatch, contents_of(tmp_path)))
        assert len(contents_of(tmp_path)) == 1
        file.write(b"data")
    assert contents_of(tmp_path) == {"file": b"data"}


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_renames_over_files_gets_an_empty_one_first(code: int, tmp_path: Path) -> None:
    def refused(*_: object) -> int:
        ctypes.set_errno(code)
        return -1

    library = mock.Mock(renameat2=refused)
    with system("no links"), mock.patch("ctypes.CDLL", return_value=library):
        with replacing(tmp_path / "file", force=False) as file:
            file.write(b"data")
        with pytest.raises(ArchiveError, match="the file exists"):
            write_twice(tmp_path / "other")
    assert contents_of(tmp_path) == {"file": b"data", "other": b"faster"}


def write_twice(path: Path) -> None:
    with replacing(path, force=False), replacing(path, force=False) as faster:
        faster.write(b"faster")


def test_a_large_draft_reaches_the_disk_while_it_is_read(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []
    with (
        mock.patch.object(os, "fsync", side_effect=lambda _: threads.append(threading.current_thread())),
        replacing(tmp_path / "file", force=False) as file,
    ):
        file.write(bytes(LONG - 1))
        with reaching_disk(file):  # a short one is brought there at its end only
            assert not threads
        assert not threads
        file.write(b"\0")
        with reaching_disk(file):
            pass
        assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
    assert threads[1:] == [threading.current_thread()]


def test_a_disk_that_fails_meanwhile_leaves_the_target(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"former")
    failures = [OSError(errno.EIO, os.strerror(errno.EIO)), None]  # a system reports a failure once
    with (
        mock.patch.object(os, "fsync", side_effect=failures),
        pytest.raises(OSError, match="Input/output error") as raised,
    ):
        write_large(target)
    assert raised.value.filename == str(target)
    assert contents_of(tmp_path) == {"file": b"former"}


def test_what_fails_within_the_block_is_raised_once_the_disk_is_reached(tmp_path: Path) -> None:
    with (
        mock.patch.object(os, "fsync", side_effect=OSError) as sync,
        pytest.raises(ArchiveError, match="another model"),
    ):
        write_large(tmp_path / "file", ArchiveError("another model"))
    assert sync.called
    assert contents_of(tmp_path) == {}


def write_large(path: Path, problem: ArchiveError | None = None) -> None:
    """Write a large file, and find a problem when it is read again."""
    with replacing(path, force=True) as file:
        file.write(bytes(LONG))
        with reaching_disk(file):
            if problem is not None:
                raise problem
