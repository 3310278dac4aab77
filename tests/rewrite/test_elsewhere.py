"""Files written by URL have the same bytes as on disk; they are whole or absent, and replace none unasked."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any
from unittest import mock

import fsspec
import pytest

import archive
from archive import ArchiveError
from archive.io.location import Location
from archive.io.output import EXISTS, replacing, replacing_all
from tests.support.corpus import ORACLES
from tests.support.object_store import BUCKET, s3
from tests.support.range_server import served

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from fsspec import AbstractFileSystem

STACK = ORACLES / "plain_stack.ptl"


@pytest.fixture(scope="module")
def s3_store() -> Generator[AbstractFileSystem]:
    with s3() as store:
        yield store


@pytest.fixture(params=["memory://models", BUCKET])
def root(request: pytest.FixtureRequest) -> Generator[str]:
    """A folder elsewhere, with an archive in it."""
    url: str = request.param
    store = request.getfixturevalue("s3_store") if url == BUCKET else fsspec.filesystem("memory")
    store.pipe_file(f"{url}/in.ptl", STACK.read_bytes())
    yield url
    for path in store.find(url, refresh=True):
        store.rm_file(path)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path) -> Generator[Path]:
    """The folder for temporary files, in which none is left."""
    with mock.patch.object(tempfile, "tempdir", str(tmp_path)):
        yield tmp_path
    assert list(tmp_path.glob("debug-archive-*")) == []


def content(url: str) -> bytes:
    with fsspec.open(url) as file:
        data = file.read()
    assert isinstance(data, bytes)
    return data


def test_each_verb_writes_the_same_bytes_elsewhere_as_here(root: str, tmp_path: Path) -> None:
    for place in (root, str(tmp_path)):
        archive.split(f"{root}/in.ptl", f"{place}/small.ptl", f"{place}/c.ptdbg")
        assert archive.join(f"{place}/small.ptl", f"{place}/c.ptdbg", f"{place}/back.ptl").exact
        archive.shrink(f"{root}/in.ptl", f"{place}/embedded.ptl", level="embed")
        archive.restore(f"{place}/embedded.ptl", f"{place}/restored.ptl")
        archive.migrate(f"{root}/in.ptl", f"{place}/old.ptl", to="1.9", lossy=True)
        archive.migrate(f"{place}/old.ptl", f"{place}/original.ptl", to="original")
        archive.convert(f"{place}/c.ptdbg", f"{place}/mapped.ptdbg", layout="mapped")
    made = sorted(path.name for path in tmp_path.iterdir())
    assert len(made) == 8
    for name in made:
        assert content(f"{root}/{name}") == (tmp_path / name).read_bytes()
    for name in ("back.ptl", "restored.ptl", "original.ptl"):
        assert content(f"{root}/{name}") == STACK.read_bytes()


def test_nothing_is_overwritten_unasked(root: str) -> None:
    with pytest.raises(ArchiveError, match="the file exists; pass --force") as raised:
        archive.shrink(f"{root}/in.ptl", f"{root}/in.ptl")
    assert raised.value.file == f"{root}/in.ptl"
    assert content(f"{root}/in.ptl") == STACK.read_bytes()
    archive.shrink(f"{root}/in.ptl", f"{root}/in.ptl", force=True)
    assert len(content(f"{root}/in.ptl")) < STACK.stat().st_size


def test_a_folder_is_not_replaced_by_a_file(root: str) -> None:
    store, path = fsspec.url_to_fs(f"{root}/folder/file")
    store.mkdirs(f"{root}/folder", exist_ok=True)
    store.pipe_file(path, b"in it")
    with pytest.raises(ArchiveError, match="is a folder, and only files are written"):
        archive.shrink(f"{root}/in.ptl", f"{root}/folder", force=True)
    store.rm_file(path)


def test_an_object_that_came_meanwhile_is_not_overwritten_by_s3(s3_store: AbstractFileSystem) -> None:
    target = f"{BUCKET}/raced"
    with mock.patch.object(Location, "exists", return_value=False):  # the last look was before it came
        writing = replacing(target, force=False)
        writing.__enter__().write(b"mine")
        s3_store.pipe_file(target, b"theirs")
        with pytest.raises(ArchiveError, match=EXISTS):
            writing.__exit__(None, None, None)
    assert content(target) == b"theirs"


@pytest.mark.parametrize("before", [b"", b"the old one"])
def test_of_two_targets_the_first_is_what_it_was_if_the_second_cannot_be_written(
    root: str, before: bytes
) -> None:
    first, second = f"{root}/first", f"{root}/second"
    store, path = fsspec.url_to_fs(first)
    if before:
        store.pipe_file(path, before)
    ask = Location.ask

    def failing(place: Location, method: str, *paths: str, **how: Any) -> object:  # noqa: ANN401 (of any method)
        if method == "put_file" and place.path.endswith("second"):
            raise OSError("no more space there")
        return ask(place, method, *paths, **how)

    writing = replacing_all(first, second, force=True)
    for file in writing.__enter__():
        file.write(b"the new one")
    with (
        mock.patch.object(Location, "ask", failing),
        pytest.raises(OSError, match="cannot be written: OSError: no more space there"),
    ):
        writing.__exit__(None, None, None)
    assert (content(first) if store.exists(path) else b"") == before


def test_an_error_in_the_block_writes_nothing(root: str) -> None:
    writing = replacing(f"{root}/new", force=False)
    writing.__enter__().write(b"half")
    writing.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    store, path = fsspec.url_to_fs(f"{root}/new")
    assert not store.exists(path)


def test_http_takes_no_files() -> None:
    with served({}) as server, pytest.raises(ArchiveError, match="HTTP is for reading"):
        archive.shrink(STACK, f"{server.url}/small.ptl")
    assert server.requests == []


def test_a_url_of_this_machine_is_a_path(tmp_path: Path) -> None:
    archive.shrink(f"file://{STACK}", f"file://{tmp_path}/small.ptl")
    archive.shrink(STACK, tmp_path / "same.ptl")
    assert (tmp_path / "small.ptl").read_bytes() == (tmp_path / "same.ptl").read_bytes()
