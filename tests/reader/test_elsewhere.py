"""Archives by URL say what files say, fetch no more than is asked for, and never mix two versions."""

from __future__ import annotations

import gzip
import mmap
import re
from contextlib import closing
from typing import TYPE_CHECKING
from unittest import mock

import fsspec
import pytest

import archive
from archive import ArchiveError, FileKind, LimitError, Limits
from archive.check.verify import verify
from archive.describe.inspect import inspect
from archive.describe.listing import listed
from archive.io.mapped import Mapped
from archive.io.remote import WHOLE
from archive.reader.recognition import recognise
from tests.support.commands import run
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.object_store import BUCKET, s3
from tests.support.range_server import Served, served
from tests.support.sampling import sampled
from tests.support.zips import with_zeros

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from fsspec.implementations.memory import MemoryFileSystem

    from archive.io.mapped import Source

STACK = ORACLES / "plain_stack.ptl"
HANDLE = 1452
FILES = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.suffix != ".py")
MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def memory() -> Generator[MemoryFileSystem]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()


@pytest.fixture
def server() -> Generator[Served]:
    with served({"/m.ptl": STACK.read_bytes()}) as state:
        yield state


def answers(source: Source) -> object:
    """All that a file says of itself, or why it says nothing."""
    try:
        with archive.open(source, name="m") as opened:
            handles = list(opened.handles)[:2]
            return inspect(opened), [str(opened.symbolicate(handle)) for handle in handles]
    except ArchiveError as error:
        return str(error)


def test_each_file_says_the_same_by_url_as_on_disk(memory: MemoryFileSystem) -> None:
    assert len(FILES) > 300
    for path in sampled(FILES, most=60, by=[lambda path: path.suffix, lambda path: path.parent.name]):
        memory.pipe_file("/m", path.read_bytes())
        assert answers("memory://m") == answers(path), path


def test_a_file_that_fsspec_opened_is_read_by_ranges_too(server: Served) -> None:
    with fsspec.open(f"{server.url}/m.ptl") as file:
        server.requests.clear()
        with archive.open(file) as opened:
            assert answers(STACK) == answers(file)
            assert opened.container.is_elsewhere
    assert all(asked for _, asked in server.requests)


def test_a_url_of_this_machine_is_mapped() -> None:
    with archive.open(f"file://{STACK}") as opened:
        assert not opened.container.is_elsewhere
        assert opened.file == str(STACK)


def test_only_a_scheme_makes_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a:b", "C:x", "s3:x", "s3:"):
        (tmp_path / name).write_bytes(STACK.read_bytes())
        with archive.open(name) as opened:
            assert not opened.container.is_elsewhere


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of 4 GB, of which a few KB are on disk."""
    return with_zeros(STACK, tmp_path_factory.mktemp("large") / "large.ptl", 4 * GIB)


def test_a_look_up_in_4_gb_fetches_the_directory_and_the_records_that_it_needs(large: Path) -> None:
    with (
        large.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
        served({"/m.ptl": view}) as state,
    ):
        assert len(view) > 4 * GIB
        with archive.open(f"{state.url}/m.ptl") as opened, archive.open(STACK) as small:
            assert str(opened.symbolicate(HANDLE)) == str(small.symbolicate(HANDLE))
        assert state.sent < MIB // 2
        assert len(state.requests) <= 4
        state.requests.clear()
        state.sent = 0
        with archive.open(f"{state.url}/m.ptl") as opened:
            facts = inspect(opened)
        assert facts.size == len(view)
        assert facts.archive_id is None
        assert state.sent < MIB // 2
        del view


def test_a_small_file_is_one_request(server: Served) -> None:
    with archive.open(f"{server.url}/m.ptl") as opened:
        assert inspect(opened).handles
    assert [asked for _, asked in server.requests] == ["bytes=0-65535"]


def test_a_server_without_ranges_sends_small_files_whole_and_large_ones_are_refused(server: Served) -> None:
    server.ranges = False
    assert answers(f"{server.url}/m.ptl") == answers(STACK)
    server.files["/large"] = memoryview(bytes(WHOLE + 1))
    with pytest.raises(ArchiveError, match=r"sends whole files only, and this one has 67,108,865 bytes"):
        archive.open(f"{server.url}/large")


def test_an_answer_that_is_cut_short_is_refused(server: Served) -> None:
    for server.ranges in (True, False):
        server.cut = 10
        with pytest.raises(OSError, match="cannot be read: ClientPayloadError") as raised:
            archive.open(f"{server.url}/m.ptl")
        assert raised.value.filename == f"{server.url}/m.ptl"


@pytest.mark.parametrize("tags", [True, False])
def test_a_file_that_changes_between_requests_is_refused(server: Served, large: Path, *, tags: bool) -> None:
    data = bytearray(with_zeros(STACK, large.with_name("m"), 4 * MIB).read_bytes())
    server.tags = tags
    server.files["/m.ptl"] = bytes(data)
    opened = archive.open(f"{server.url}/m.ptl")
    server.files["/m.ptl"] = bytes(data) + b"\0" if not tags else bytes(data[:-1]) + b"\1"
    with pytest.raises(ArchiveError, match="the file changed while it was read"):
        _ = opened.container.records["data/a"].view()


def test_a_folder_and_a_file_that_is_not_there(memory: MemoryFileSystem, server: Served) -> None:
    memory.mkdir("/folder")
    with pytest.raises(OSError, match="cannot be read: IsADirectoryError"):
        archive.open("memory://folder")
    for url in ("memory://folder/n", f"{server.url}/n"):
        with pytest.raises(FileNotFoundError) as raised:
            archive.open(url)
        assert raised.value.filename == url


def test_no_message_tells_a_password_or_a_token(server: Served) -> None:
    server.status = 403
    url = f"{server.url}/m.ptl?token=SECRET".replace("//", "//user:SECRET@")
    with pytest.raises(OSError, match="403") as raised:
        archive.open(url)
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is None
    server.status = None
    with archive.open(url) as opened:
        assert opened.file == f"{server.url}/m.ptl?…"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nowhere://m", "no such place: Protocol not known: nowhere"),
        ("gs://bucket/m", "gs:// needs a package: Please install gcsfs"),
        ("http://127.0.0.1:1/m", "cannot be read: ClientConnectorError: Cannot connect to host 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_reached_is_one_error_with_the_url(url: str, message: str) -> None:
    done = run("symbolicate", url, 42)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(f"debug-archive: {url}: {message}".encode())
    assert done.stderr.count(b"\n") == 1


def test_without_fsspec_the_extra_is_named() -> None:
    with (
        mock.patch.dict("sys.modules", {"fsspec.core": None}),
        pytest.raises(ArchiveError, match=re.escape("pip install '.[fleet]' in the checkout")),
    ):
        archive.open("s3://models/m")


def test_a_damaged_name_does_not_hide_a_record(memory: MemoryFileSystem) -> None:
    with archive.open(STACK) as opened:
        names = list(opened.records)
    for name in names:
        data = bytearray(STACK.read_bytes())
        data[data.rindex(f"archive/{name}".encode()) + len("archive/")] ^= 2  # in the directory
        memory.pipe_file("/m", bytes(data))
        for source in (bytes(data), "memory://m"):
            with pytest.raises(ArchiveError, match="expected the same name in both headers"):
                archive.open(source)


def test_a_record_behind_the_directory_is_refused(memory: MemoryFileSystem) -> None:
    data = bytearray(STACK.read_bytes())
    at = data.rindex(b"archive/data/0") - 4
    data[at : at + 4] = len(data).to_bytes(4, "little")
    memory.pipe_file("/m", bytes(data))
    with pytest.raises(ArchiveError, match="expected its bytes to end before what follows"):
        archive.open("memory://m")


def test_no_record_reaches_into_the_next_one(memory: MemoryFileSystem) -> None:
    data = bytearray(STACK.read_bytes())
    with archive.open(STACK) as opened:
        at = opened.container.records["data.pkl"].entry.start + 28
    data[at : at + 2] = (60_000).to_bytes(2, "little")  # extra fields that are longer than the record
    memory.pipe_file("/m", bytes(data))
    with pytest.raises(ArchiveError, match="expected its bytes to end before what follows"):
        archive.open("memory://m")


def test_an_archive_and_its_companion_may_be_at_different_places(
    memory: MemoryFileSystem, server: Served
) -> None:
    archive.split(STACK, "memory://small.ptl", "memory://small.ptdbg")
    server.files["/m.ptdbg"] = memory.cat("/small.ptdbg")
    with (
        archive.open("memory://small.ptl", companion=f"{server.url}/m.ptdbg") as opened,
        archive.open(f"{server.url}/m.ptdbg") as companion,
        archive.open(STACK) as whole,
    ):
        expected = str(whole.symbolicate(HANDLE))
        assert str(opened.symbolicate(HANDLE)) == str(companion.symbolicate(HANDLE)) == expected


@pytest.mark.usefixtures("memory")
def test_a_companion_of_another_archive_is_refused() -> None:
    for handles in ("unique", "drop"):
        archive.split(STACK, "memory://a.ptl", "memory://a.ptdbg", handles=handles, force=True)
        archive.split(ORACLES / "lowered_ok.ptl", "memory://b.ptl", "memory://b.ptdbg", force=True)
        with pytest.raises(ArchiveError, match="is the companion of another model"):
            archive.open("memory://a.ptl", companion="memory://b.ptdbg")


def test_unique_handles_tell_the_companion_without_all_tensors(large: Path, server: Served) -> None:
    folder = large.parent
    some = with_zeros(STACK, folder / "some.ptl", 17 * MIB)
    archive.split(some, folder / "out.ptl", folder / "out.ptdbg", force=True)
    server.files["/m.ptl"] = (folder / "out.ptl").read_bytes()
    with archive.open(f"{server.url}/m.ptl", companion=folder / "out.ptdbg") as opened:
        assert opened.symbolicate(HANDLE).entries
    assert server.sent < MIB


def test_an_embedded_companion_is_checked_against_all_records(large: Path, server: Served) -> None:
    folder = large.parent
    some = with_zeros(STACK, folder / "some.ptl", 17 * MIB)
    archive.shrink(some, folder / "out.ptl", level="embed", force=True)
    server.files["/m.ptl"] = (folder / "out.ptl").read_bytes()
    with archive.open(f"{server.url}/m.ptl") as opened, archive.open(STACK) as whole:
        assert str(opened.symbolicate(HANDLE)) == str(whole.symbolicate(HANDLE))
    assert server.sent > 17 * MIB


def test_what_reads_all_of_a_file_copies_it(server: Served) -> None:
    assert verify(f"{server.url}/m.ptl") == verify(STACK) == []
    account, local = archive.sizes(f"{server.url}/m.ptl"), archive.sizes(STACK)
    assert account.pieces == local.pieces


def test_a_file_that_is_read_twice_is_copied_once_while_it_is_the_same(server: Served) -> None:
    data = b"version https://git-lfs.github.com/spec/v1" + bytes(MIB)
    for content in (data, data[:-1] + b"x", data):
        server.files["/m.ptl"] = content
        for _ in range(2):
            with closing(Mapped(f"{server.url}/m.ptl")) as mapped:
                assert mapped.data == content
    assert server.sent < 2 * len(data) + 6 * 70_000
    server.tags = False  # whether it is the same cannot be told
    server.sent = 0
    for _ in range(2):
        Mapped(f"{server.url}/m.ptl").close()
    assert server.sent > 2 * len(data)


def test_memory_does_not_follow_from_what_a_server_claims(large: Path) -> None:
    with (
        large.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
        served({"/m.ptl": view}) as state,
        archive.open(f"{state.url}/m.ptl", limits=Limits(memory=GIB)) as opened,
    ):
        with pytest.raises(LimitError, match="found 2,147,"):
            opened.container.records["data/a"].view()
        assert state.sent < MIB
        assert archive.open(f"{state.url}/m.ptl").allowance.memory == 64 * MIB + 256 * 16 * MIB


def test_other_files_are_recognised(memory: MemoryFileSystem) -> None:
    memory.pipe_file("/page", b"<!doctype html><html>")
    memory.pipe_file("/packed", gzip.compress(STACK.read_bytes()))
    memory.pipe_file("/empty", b"")
    assert recognise("memory://page").what == "a web page (HTML)"
    assert recognise("memory://packed").what == "a gzip file around a zip"
    assert recognise("memory://empty").what == "an empty file"
    for path in FILES:
        if path.parent.name != "kinds":
            continue
        memory.pipe_file("/m", path.read_bytes())
        assert recognise("memory://m") == recognise(path)


def test_an_empty_file_of_a_server(server: Served) -> None:
    server.files["/empty"] = b""
    assert recognise(f"{server.url}/empty").what == "an empty file"


def test_s3_is_read_by_ranges_of_one_version() -> None:
    with s3() as store:
        store.pipe_file("models/m.ptl", STACK.read_bytes())
        assert answers(f"{BUCKET}/m.ptl") == answers(STACK)
        large = bytes(STACK.read_bytes())
        opened = archive.open(f"{BUCKET}/m.ptl")
        store.pipe_file("models/m.ptl", large + b"\0")
        opened.container.by_place.release()
        with pytest.raises(ArchiveError, match="the file changed while it was read"):
            _ = opened.handle_table
        with pytest.raises(FileNotFoundError):
            archive.open(f"{BUCKET}/n.ptl")


def test_a_model_elsewhere_opens_without_the_file_beside_it(memory: MemoryFileSystem) -> None:
    memory.pipe_file("/m.onnx", (FIXTURES / "zoo" / "outside.onnx").read_bytes())
    with archive.open("memory://m.onnx") as opened:
        assert opened.tensor_file is not None
        assert [*opened.tensor_file.missing] == ["outside.bin"]


def test_a_listing_of_a_state_dict(memory: MemoryFileSystem) -> None:
    path = next(path for path in FILES if recognise(path).kind is FileKind.STATE_DICT)
    memory.pipe_file("/m", path.read_bytes())
    assert listed("memory://m").tensors == listed(path).tensors
