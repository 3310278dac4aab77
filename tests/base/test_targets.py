"""Targets and drafts: what may be written, by whom, and what is left when a write fails or is killed."""

from __future__ import annotations

import errno
import io
import os
import socket
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from archive.base.drafts import DRAFT_NAME
from archive.base.errors import ArchiveError
from archive.base.output import check_target, replacing, replacing_all
from tests.support.faults import PLACEHOLDER, SYSTEMS, contents, contents_of, deaths, failing, refill, system
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable

EMPTY = sha256(b"").hexdigest()[:16]
"""The digest of a file that only holds a name."""


# --- targets


def made(path: Path, kind: str) -> None:
    """Make something at a path that is no regular file."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.path.relpath(path))


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["folder", "pipe", "socket"])
def test_only_regular_files_are_replaced(kind: str, tmp_path: Path, *, force: bool) -> None:
    made(tmp_path / "target", kind)
    (tmp_path / "link").symlink_to("target")
    for name in ("target", "link"):
        before = (tmp_path / name).stat()
        with (
            pytest.raises(ArchiveError, match=f"{name}: is a {kind}, and only regular files are written"),
            replacing(tmp_path / name, force=force),
        ):
            pass
        assert os.path.samestat((tmp_path / name).stat(), before)


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="the null device is no device here")
def test_a_device_is_refused() -> None:
    with pytest.raises(ArchiveError, match="/dev/null: is a character device"):
        check_target("/dev/null", force=True)


@pytest.mark.parametrize("system_kind", SYSTEMS)
def test_a_link_stays_and_the_file_that_it_names_is_written(system_kind: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"before")
    (tmp_path / "link").symlink_to("elsewhere/file")
    (tmp_path / "to nothing").symlink_to("elsewhere/new")
    for name in ("link", "to nothing"):
        with pytest.raises(ArchiveError, match="the file exists"), replacing(tmp_path / name, force=False):
            pass
        with system(system_kind), replacing(tmp_path / name, force=True) as file:
            file.write(b"after")
        assert (tmp_path / name).is_symlink()
    assert contents_of(tmp_path / "elsewhere") == {"file": b"after", "new": b"after"}


@pytest.mark.parametrize("system_kind", SYSTEMS)
def test_of_two_writers_one_fails_unless_both_replace(system_kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with system(system_kind):
        with pytest.raises(ArchiveError, match="file: the file exists"):
            write_while_another_writes(path, force=False)
        assert contents_of(tmp_path) == {"file": b"faster"}
        write_while_another_writes(path, force=True)
    assert contents_of(tmp_path) == {"file": b"slower"}


def write_while_another_writes(path: Path, *, force: bool) -> None:
    with replacing(path, force=force) as slower:
        slower.write(b"slower")
        with replacing(path, force=force) as faster:
            faster.write(b"faster")


def test_if_the_second_name_is_taken_meanwhile_the_first_file_is_taken_back(tmp_path: Path) -> None:
    paths = tmp_path / "first", tmp_path / "second"
    with pytest.raises(ArchiveError, match="second: the file exists"), replacing_all(*paths, force=False):
        paths[1].write_bytes(b"another's")
    assert contents_of(tmp_path) == {"second": b"another's"}


@pytest.mark.parametrize("system_kind", SYSTEMS)
def test_if_the_second_file_cannot_be_replaced_the_first_is_as_it_was(
    system_kind: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"old")
    first.chmod(0o640)
    with system(system_kind), pytest.raises(IsADirectoryError) as raised:
        write_two(tmp_path, True, second.mkdir)  # noqa: FBT003
    assert raised.value.filename == str(second)
    second.rmdir()
    assert contents_of(tmp_path) == {"first": b"old"}
    assert first.stat().st_mode & 0o777 == 0o640


def test_a_file_that_cannot_be_given_back_is_named(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"old")
    real, calls = os.replace, []

    def replace(source: Path, target: Path) -> None:
        calls.append(target.name)
        if len(calls) > 1:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        real(source, target)

    with mock.patch("os.replace", replace), pytest.raises(OSError, match="Read-only") as raised:
        write_two(tmp_path, True, lambda: second.write_bytes(b"another's"))  # noqa: FBT003
    assert calls == ["first", "second", "first"]
    assert raised.value.filename == str(first)
    assert contents_of(tmp_path) == {"first": b"new", "second": b"another's"}


@pytest.mark.parametrize("force", [False, True])
def test_an_interruption_after_all_have_their_names_changes_nothing(tmp_path: Path, *, force: bool) -> None:
    second = tmp_path / "second"
    if force:
        refill(tmp_path, {"first": b"old", "second": b"old"})
    name = "os.replace" if force else "os.link"
    real = os.replace if force else os.link

    def interrupted(source: Path, target: Path, **options: object) -> None:
        real(source, target, **options)  # type: ignore[arg-type]
        if target == second:
            raise KeyboardInterrupt

    with mock.patch(name, interrupted), suppress(KeyboardInterrupt):
        write_two(tmp_path, force)
        pytest.fail("not interrupted")
    assert contents_of(tmp_path) == {"first": b"new", "second": b"new"}


def test_a_binary_file_is_written_only_if_the_block_ends_well() -> None:
    out = io.BytesIO()
    with suppress(RuntimeError), replacing(out, force=False) as file:
        file.write(b"half")
        raise RuntimeError
    assert out.getvalue() == b""
    with replacing(out, force=False) as file:
        file.write(b"whole")
    assert out.getvalue() == b"whole"


# --- drafts


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="no unnamed files on this system")
def test_a_draft_has_no_name(tmp_path: Path) -> None:
    with replacing(tmp_path / "file", force=False) as file:
        file.write(b"data")
        file.flush()
        assert contents_of(tmp_path) == {}
    assert contents_of(tmp_path) == {"file": b"data"}


def write_two(folder: Path, force: bool, meanwhile: Callable[[], object] = lambda: None) -> None:  # noqa: FBT001
    with replacing_all(folder / "first", folder / "second", force=force) as files:
        for file in files:
            file.write(b"new")
        meanwhile()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("system_kind", SYSTEMS)
def test_whichever_call_fails_nothing_is_half_written(
    system_kind: str, tmp_path: Path, *, force: bool
) -> None:
    before = {"first": b"old", "second": b"old"} if force else {}
    number, reached = 0, True
    while reached:
        refill(tmp_path, before)
        problem = None
        with system(system_kind), failing(number) as calls:
            try:
                write_two(tmp_path, force)
            except OSError as error:
                problem = error
        reached, number = len(calls) > number, number + 1
        left = contents_of(tmp_path)
        if problem is not None:
            assert problem.filename in (str(tmp_path / "first"), str(tmp_path / "second"))
        named = {name for name in left if DRAFT_NAME.fullmatch(name)}
        assert not named or calls[number - 1] == "os.unlink"
        files = {name: left[name] for name in left.keys() - named}
        assert files == (before if problem else {"first": b"new", "second": b"new"})
    assert number > 6


@pytest.mark.parametrize(("system_kind", "force"), crossed(SYSTEMS, [False, True], most=6))
def test_whenever_a_process_is_killed_the_next_one_finds_whole_files(
    system_kind: str, tmp_path: Path, *, force: bool
) -> None:
    if force:
        refill(tmp_path, {"first": b"old", "second": b"old"})
    before = contents(tmp_path)
    with system(system_kind):
        *killed, ended = deaths(lambda: write_two(tmp_path, force), tmp_path)
    assert len(killed) > 6
    assert list(ended) == ["first", "second"]
    placeholder = system_kind == PLACEHOLDER and not force
    for left in killed:
        assert left.keys() <= ended.keys()
        for name, digest in left.items():
            assert digest in (before.get(name), ended[name]) or (placeholder and digest == EMPTY)
