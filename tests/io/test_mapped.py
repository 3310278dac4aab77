"""What an archive can be read from: paths, memory, files, URLs; mapped where possible, or read by ranges."""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import mmap
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.container.container import Container
from archive.io.location import Location
from archive.io.mapped import (
    PIECE,
    UNRETURNED,
    FileInMemory,
    Mapped,
    PartsRead,
    in_memory,
    same_bytes,
    unchanged,
)
from archive.io.ranged import RangedBytes
from tests.support.commands import run
from tests.support.corpus import RELEASES
from tests.support.zips import map_of

if TYPE_CHECKING:
    from collections.abc import Callable

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"

SOURCES: dict[str, Callable[[Path], object]] = {
    "str": str,
    "bytes": Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "two dimensions": lambda path: memoryview(path.read_bytes()).cast("B", (path.stat().st_size, 1)),
    "file in memory": lambda path: io.BytesIO(path.read_bytes()),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=list(SOURCES))
def test_sources(make: Callable[[Path], object]) -> None:
    source = make(NESTED)
    with Container.open(source, name="given") as container:  # type: ignore[arg-type]
        assert container.file == "given"
        assert container.root == "nested"
        assert container.data == NESTED.read_bytes()
        assert container.data.readonly


def test_an_open_file_is_mapped_whole_wherever_it_stands() -> None:
    with NESTED.open("rb") as file:
        file.seek(100)
        with Container.open(file) as container:
            assert map_of(container) is not None
            assert container.file == str(NESTED)
            assert container.data == NESTED.read_bytes()


def test_a_temporary_file_is_mapped_with_what_was_just_written() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(NESTED.read_bytes())
        with Container.open(file) as container:
            assert map_of(container) is not None
            assert container.root == "nested"


def test_what_a_file_holds_back_is_mapped_too() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"short")
        assert bytes(Mapped(file).data) == b"short"


def test_a_compressed_file_is_read_not_mapped(tmp_path: Path) -> None:
    path = tmp_path / "nested.ptl.gz"
    path.write_bytes(gzip.compress(NESTED.read_bytes()))
    with gzip.open(path) as file, Container.open(file) as container:  # its fileno() is that of the .gz
        assert map_of(container) is None
        assert container.root == "nested"


def test_a_pipe_is_read_to_its_end() -> None:
    data = min((path.read_bytes() for path in NESTED.parent.iterdir() if path.suffix == ".ptl"), key=len)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as file:
        with os.fdopen(write, "wb") as sent:
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, len(data))
            sent.write(data)
        with Container.open(file) as container:
            assert map_of(container) is None
            assert container.data == data


def test_a_map_is_taken_as_it_is() -> None:
    with NESTED.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        with Container.open(mapped) as container:
            assert container.root == "nested"
        del container


def test_a_folder_is_refused_and_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="expected a file, found drwx"):
        Container.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        Container.open(tmp_path / "missing.pt")


class Stream(io.BytesIO):
    """A file that is read once, from here to the end."""

    def seekable(self) -> bool:
        return False


def test_a_stream_is_read_from_where_it_stands() -> None:
    stream = Stream(b"head" + NESTED.read_bytes())
    stream.read(4)
    with Container.open(stream, name="stream") as container:
        assert container.data == NESTED.read_bytes()


def test_a_file_in_memory_is_read_from_its_beginning() -> None:
    source = io.BytesIO(NESTED.read_bytes())
    source.seek(100)
    with Container.open(source) as container:
        assert container.data == NESTED.read_bytes()


def test_an_open_pipe_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as source:
        source.write(NESTED.read_bytes())  # less than a pipe holds
    with os.fdopen(reading, "rb") as file, Container.open(file, name="pipe") as container:
        assert container.data == NESTED.read_bytes()


def test_an_empty_file_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "empty.pt").touch()
    with pytest.raises(ArchiveError, match=r"empty\.pt: byte 0: no zip archive"):
        Container.open(tmp_path / "empty.pt")


# --- read, where it could be mapped


def test_a_file_on_disk_is_read_and_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"content")
    for source in (path, str(path)):
        read = in_memory(source)
        assert isinstance(read, FileInMemory)
        assert (read.name, read.getvalue()) == (str(path), b"content")
    with path.open("rb") as file:
        file.seek(3)
        read = in_memory(file)
        assert isinstance(read, FileInMemory)
        assert (read.name, read.getvalue()) == (str(path), b"content")
        mapped = Mapped(read)
        assert (mapped.name, bytes(mapped.data), mapped._map) == (str(path), b"content", None)
        mapped.check_unchanged()


def test_what_is_no_file_on_disk_is_taken_as_it_is() -> None:
    for source in (b"content", io.BytesIO(b"content"), Stream(b"content")):
        assert in_memory(source) is source


def test_a_folder_is_not_read_either(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="expected a file, found drwx"):
        in_memory(tmp_path)
    with pytest.raises(FileNotFoundError):
        in_memory(tmp_path / "missing")


def test_a_read_that_fails_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"content")
    with Failing(str(path)) as file, pytest.raises(OSError, match="Input/output error") as raised:
        in_memory(file)
    assert (raised.value.errno, raised.value.filename) == (errno.EIO, str(path))
    failure = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    with mock.patch("mmap.mmap", side_effect=failure), pytest.raises(OSError, match="memory") as raised:
        Mapped(path)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOMEM, str(path))


class Failing(io.FileIO):
    """A file on a disk that is broken."""

    def read(self, _: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


# --- files that change


def test_files_that_stay_as_they_are_pass(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"content")
    with path.open("rb") as file, unchanged(path, file, b"bytes", io.BytesIO(b"bytes")):
        pass
    with path.open("rb") as file, unchanged(file):
        os.utime(path, ns=(1, path.stat().st_mtime_ns))  # reading it changes the time of access alone


CHANGES: dict[str, Callable[[Path], object]] = {
    "longer": lambda path: path.write_bytes(b"content and more"),
    "later": lambda path: os.utime(path, ns=(7, 7)),
    "another": lambda path: path.with_name("other").replace(path),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_file_that_changes_meanwhile_is_refused(change: Callable[[Path], object], tmp_path: Path) -> None:
    for name in ("m.pt", "other"):
        (tmp_path / name).write_bytes(b"content")
    with (
        pytest.raises(ArchiveError) as raised,
        unchanged(b"bytes", tmp_path / "m.pt"),
    ):
        change(tmp_path / "m.pt")
    assert str(raised.value) == f"{tmp_path / 'm.pt'}: the file changed while it was read; nothing is written"


def broken_while_changing(path: Path) -> None:
    path.unlink()
    path.with_name("again").unlink()


def test_the_block_s_own_error_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"content")
    with pytest.raises(FileNotFoundError, match="again"), unchanged(path):
        broken_while_changing(path)
    with pytest.raises(FileNotFoundError), unchanged(path):
        pass


def test_a_file_that_was_closed_meanwhile_cannot_be_vouched_for(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"content")
    file = path.open("rb")
    with pytest.raises(ArchiveError, match="the file changed"), unchanged(file):
        file.close()


def test_a_closed_map_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"content")
    mapped = Mapped(path)
    mapped.check_unchanged()
    os.utime(path, ns=(7, 7))
    with pytest.raises(ArchiveError, match=r"m\.pt: the file changed"):
        mapped.check_unchanged()
    for _ in range(2):
        mapped.close()
    mapped.check_unchanged()


# --- Bytes that are fetched in blocks are the file's own, whatever is asked for in whatever order


PLACES = st.integers(0, 700)


class Source:
    """A file that notes what is read of it."""

    def __init__(self, size: int) -> None:
        self.data = bytes(index * 7 % 251 for index in range(size))
        self.read: list[tuple[int, int]] = []

    def __call__(self, start: int, stop: int) -> bytes:
        assert 0 <= start < stop <= len(self.data)
        self.read.append((start, stop))
        return self.data[start:stop]


@given(
    size=PLACES,
    block=st.integers(1, 300),
    kept=st.integers(1, 900),
    head=PLACES,
    asked=st.lists(st.tuples(PLACES, PLACES, st.booleans()), max_size=12),
)
def test_any_slices_in_any_order_are_the_files_own_bytes(
    size: int, block: int, kept: int, head: int, asked: list[tuple[int, int, bool]]
) -> None:
    source = Source(size)
    ranged = RangedBytes(source, size, head=source.data[:head], block=block, kept=kept)
    slices = []
    for start, stop, first in asked:
        if first:
            ranged.prefetch([(start, stop), (stop, start)])
        slices.append((start, stop, ranged[start:stop]))
    ranged.release()
    for start, stop, found in slices:
        assert found == source.data[start:stop]
        assert found.readonly


def test_negative_and_open_slices_are_as_those_of_bytes() -> None:
    source = Source(500)
    ranged = RangedBytes(source, 500, block=64)
    assert len(ranged) == 500
    assert ranged[-70:] == source.data[-70:]
    assert ranged[:5] == source.data[:5]
    assert ranged[490:9_000] == source.data[490:]
    assert bytes(ranged[20:10]) == b""


def test_blocks_next_to_each_other_are_one_request_and_are_kept() -> None:
    source = Source(640)
    ranged = RangedBytes(source, 640, block=64)
    assert ranged[70:400] == source.data[70:400]
    assert source.read == [(64, 448)]
    assert ranged[100:120] == source.data[100:120]
    assert source.read == [(64, 448)]


def test_memory_is_bounded_the_blocks_used_last_are_kept() -> None:
    source = Source(6400)
    ranged = RangedBytes(source, 6400, block=64, kept=4 * 64)
    for start in (0, 64, 128, 192):
        assert ranged[start : start + 1] == source.data[start : start + 1]
    assert ranged[0:1] == source.data[0:1]
    assert ranged[640:641] == source.data[640:641]  # block 1, used longest ago, goes
    source.read.clear()
    assert ranged[0:1] == source.data[0:1]
    assert source.read == []
    assert ranged[64:65] == source.data[64:65]
    assert source.read == [(64, 128)]
    assert len(ranged._blocks) == 4


def test_what_is_known_to_be_needed_is_fetched_in_few_requests() -> None:
    source = Source(6400)
    ranged = RangedBytes(source, 6400, block=64)
    ranged.prefetch([(1000, 1010), (1100, 1200), (5000, 5001)])
    assert source.read == [(960, 1216), (4992, 5056)]
    assert ranged[1000:1200] == source.data[1000:1200]
    assert len(source.read) == 2


# --- URLs that lead to no file end in one sentence that a user understands


@pytest.mark.parametrize("url", ["data://", "data://x", "DATA://text/plain;base64,AAAA", "data://?a,b"])
def test_urls_that_hold_bytes_name_no_place(url: str) -> None:
    with pytest.raises(ArchiveError, match=r"no such place: \w+:// names no file$"):
        Location(url)


@pytest.mark.parametrize("command", ["inspect", "verify", "sizes", "digest", "leaks"])
@pytest.mark.parametrize(
    "url",
    ["data://", "data://text/plain;base64,AAAA", "unknown://x", "dir://x", "reference://", "http://[::1"],
)
def test_a_command_ends_in_one_line(command: str, url: str) -> None:
    done = run(command, url)
    text = (done.stderr + done.stdout).decode()
    assert done.returncode == 2
    assert text.count("\n") == 1
    assert url in text
    assert not any(error in text for error in ("IndexError", "AttributeError", "TypeError", "internal"))


def test_a_short_path_is_not_sought_in_other_words() -> None:
    place = Location("memory://e")
    with (
        pytest.raises(OSError, match="cannot be read: ValueError: the letter") as told,
        place.naming_errors(),
    ):
        raise ValueError("the letter")
    assert "memory://" not in str(told.value.strerror)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts the pages of a process here")
def test_a_mapped_file_gives_its_memory_back(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * (1 << 24))

    def of_files() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile"))

    mapped = Mapped(path)
    assert mapped.data.tobytes() == path.read_bytes()
    before = of_files()
    parts = PartsRead()
    parts.add(mapped.data[5:9])
    assert before - of_files() < 1 << 20
    parts.add(mapped.data[9 : UNRETURNED + 5])
    assert before - of_files() > 1 << 23
    assert mapped.data.tobytes() == path.read_bytes()
    mapped.close()
    parts.add(memoryview(b"in memory"))


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_bytes_are_the_same_if_all_of_them_are(size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert same_bytes(memoryview(data), data)
    assert not same_bytes(data, data + b"x")
    assert not same_bytes(memoryview(data + b"x"), data)
    for place in {0, PIECE - 1, PIECE, size - 1} & {*range(size)}:
        other = bytearray(data)
        other[place] ^= 1
        assert not same_bytes(data, memoryview(other))


def test_small_parts_of_several_files_are_given_back_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Giving back is a call of the system, and drops pages that are still in use."""
    given_back = []

    class Counted(mmap.mmap):
        def madvise(self, *args: int) -> None:
            given_back.append(self)
            super().madvise(*args)

    monkeypatch.setattr(mmap, "mmap", Counted)
    path = tmp_path / "small"
    path.write_bytes(b"x" * 64)
    files = [Mapped(path), Mapped(path)]
    parts = PartsRead()
    for _ in range(UNRETURNED // 128 - 1):
        for file in files:
            parts.add(file.data)
    parts.add(files[0].data)
    assert not given_back
    parts.add(files[1].data)
    assert given_back == [file.data.obj for file in files]
    for file in files:
        file.close()
