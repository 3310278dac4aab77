"""Written files: whole or not at all, with the permissions that the user's mask leaves or that they had."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast
from unittest import mock

import pytest

from archive.base.drafts import DRAFT_NAME
from archive.base.errors import ArchiveError
from archive.base.output import replacing, scratch, write_all
from archive.batches.places import Measured
from tests.support.faults import SYSTEMS, open_files, system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _typeshed import ReadableBuffer


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
    monkeypatch.setattr("archive.base.output.CHUNK", 4)
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
