"""Written files: whole or not at all, with the right permissions; what may be written, and what is left."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast
from unittest import mock

import pytest

from archive.base.errors import ArchiveError
from archive.io.drafts import DRAFT_NAME
from archive.io.output import check_target, replacing, replacing_all, scratch, write_all
from archive.io.places import Measured
from tests.io.killed import FORCE, write_two
from tests.support.faults import (
    PLACEHOLDER,
    SYSTEMS,
    contents,
    contents_of,
    failing,
    open_files,
    refill,
    system,
)
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def mask() -> Iterator[int]:
    """A mask of the process that is not the usual one."""
    before = os.umask(0o026)
    yield 0o026
    os.umask(before)


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_new_files_have_the_permissions_that_the_mask_leaves(mask: int, tmp_path: Path) -> None:
    for name in ("first", "second"):  # the mask is still there when the second is written
        with replacing(tmp_path / name, force=False) as file:
            file.write(b"data")
        assert permissions(tmp_path / name) == 0o666 & ~mask


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    path.chmod(0o604)
    with replacing(path, force=True) as file:
        file.write(b"after")
    assert (path.read_bytes(), permissions(path)) == (b"after", 0o604)


def test_what_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with suppress(RuntimeError), replacing(path, force=True) as file:
        file.write(b"half")
        raise RuntimeError
    with pytest.raises(ArchiveError, match="the file exists"), replacing(path, force=False):
        pass
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"before")]


def test_long_bytes_are_written_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.io.output.CHUNK", 4)
    with replacing(tmp_path / "saved", force=False) as file:
        write_all(memoryview(b"0123456789"), file)
    assert (tmp_path / "saved").read_bytes() == b"0123456789"


class Filling(io.RawIOBase):
    """A file without a buffer, which takes a part of what it is given, as the last bytes of a disk do."""

    def __init__(self, room: int | None) -> None:
        self.room = room
        self.data = b""

    def write(self, data: ReadableBuffer, /) -> int | None:
        if not self.room:
            return self.room
        taken = bytes(data)[: min(3, self.room)]
        self.room -= len(taken)
        self.data += taken
        return len(taken)


@pytest.mark.parametrize("measured", [False, True])
def test_bytes_that_a_file_takes_in_parts_are_all_written(*, measured: bool) -> None:
    file = Filling(100)
    write_all(
        memoryview(b"0123456789"), cast("BinaryIO", Measured(cast("BinaryIO", file)) if measured else file)
    )
    assert file.data == b"0123456789"


def test_a_file_that_cannot_take_more_now_is_an_error() -> None:
    with pytest.raises(BlockingIOError):
        write_all(memoryview(b"0123456789"), cast("BinaryIO", Filling(None)))


def test_a_draft_of_a_replaced_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    path.chmod(0o604)
    with system("named drafts"), replacing(path, force=True):
        (draft,) = (one for one in tmp_path.iterdir() if DRAFT_NAME.fullmatch(one.name))
        assert permissions(draft) == 0o600


@pytest.mark.parametrize("kind", SYSTEMS)
@pytest.mark.parametrize("force", [False, True])
def test_all_is_on_the_disk_before_a_file_takes_its_name(kind: str, tmp_path: Path, *, force: bool) -> None:
    path = tmp_path / "file"
    if force:
        path.write_bytes(b"before")
    real, seen = os.fsync, []

    def synced(handle: int) -> None:
        real(handle)
        seen.append((os.pread(handle, 10, 0), path.exists() and path.read_bytes()))

    with system(kind), mock.patch("os.fsync", synced), replacing(path, force=force) as file:
        file.write(b"after")
    assert seen == [(b"after", b"before" if force else False)]
    assert path.read_bytes() == b"after"


@pytest.mark.parametrize("kind", SYSTEMS)
def test_nothing_stays_open(kind: str, tmp_path: Path) -> None:
    before = open_files()
    with system(kind):
        with suppress(RuntimeError), replacing(tmp_path / "file", force=False) as failed:
            failed.write(b"half")
            raise RuntimeError
        with replacing(tmp_path / "file", force=False) as file:
            file.write(b"whole")
    assert (failed.closed, file.closed) == (True, True)
    assert open_files() == before


def test_a_file_that_is_given_is_handed_on_at_once(tmp_path: Path) -> None:
    with (tmp_path / "given").open("wb") as given:
        with replacing(given, force=False) as file:
            file.write(b"data")
        assert (tmp_path / "given").read_bytes() == b"data"


# --- scratch files


def test_a_scratch_file_lies_beside_its_target_until_the_block_ends(tmp_path: Path) -> None:
    with system("named drafts"):
        with scratch(tmp_path / "target") as file:
            file.write(b"data")
            (name,) = (path.name for path in tmp_path.iterdir())
            assert DRAFT_NAME.fullmatch(name)
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(KeyError), scratch(tmp_path / "target"):
            raise KeyError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("beside", [None, io.BytesIO()])
def test_without_a_target_s_path_it_is_in_memory(beside: io.BytesIO | None) -> None:
    with scratch(beside) as file:
        file.write(b"data")
        assert isinstance(file, io.BytesIO)
        assert file is not beside


# --- Targets and drafts: what may be written, by whom, and what is left when a write fails or is killed


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


class Killed(NamedTuple):
    """What a folder holds before processes are killed that write in it, and after each of them."""

    before: dict[str, str]
    after: list[dict[str, str]]


KILLED = crossed(SYSTEMS, [False, True], most=5)


@pytest.fixture(scope="module")
def all_killed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Killed]:
    befores, command = [], [sys.executable, "-m", "tests.io.killed"]
    for system_kind, force in KILLED:
        folder = tmp_path_factory.mktemp("killed")
        if force:
            refill(folder, {"first": b"old", "second": b"old"})
        befores.append(contents(folder))
        command += [system_kind, str(folder), FORCE if force else "no"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = zip(befores, json.loads(done.stdout), strict=True)
    return dict(zip(KILLED, itertools.starmap(Killed, found), strict=True))


@pytest.mark.parametrize(("system_kind", "force"), KILLED)
def test_whenever_a_process_is_killed_the_next_one_finds_whole_files(
    system_kind: str, all_killed: dict[tuple[str, bool], Killed], *, force: bool
) -> None:
    before, (*killed, ended) = all_killed[system_kind, force]
    assert len(killed) > 6
    assert list(ended) == ["first", "second"]
    placeholder = system_kind == PLACEHOLDER and not force
    for left in killed:
        assert left.keys() <= ended.keys()
        for name, digest in left.items():
            assert digest in (before.get(name), ended[name]) or (placeholder and digest == EMPTY)
