"""Local headers that are read at once say what each says by itself, whatever bytes stand in them."""

from __future__ import annotations

import io
import struct
import zipfile
from functools import cache
from random import Random
from typing import TYPE_CHECKING

import pytest

from archive.base.errors import ArchiveError
from archive.container import directory
from archive.container.container import Container
from archive.container.directory import (
    MANY,
    DirectoryEntry,
    central_headers,
    ordinary_places,
    read_directory,
    read_end,
    read_place,
)
from archive.container.headers import CENTRAL, DEFLATED, DESCRIPTOR, LOCAL
from archive.container.names import as_text
from archive.container.write import new_member, write_archive
from tests.support.corpus import ARCHIVES

if TYPE_CHECKING:
    from archive.container.directory import StoredSpan

FILES = 3
ODD = 4_000


class Stream(io.BytesIO):
    """A file into which nothing can be written twice: zip tools write descriptors then."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation


def by_pytorch() -> bytes:
    out = io.BytesIO()
    write_archive(out, "model", [new_member(f"data/{at}", bytes(range(at))) for at in range(FILES)])
    return out.getvalue()


def by_zip_tools(file: io.BytesIO, compression: int) -> bytes:
    with zipfile.ZipFile(file, "w", compression) as made:
        for at in range(FILES):
            made.writestr(f"model/{at}", bytes(200 * at))
    return file.getvalue()


@cache
def kinds() -> dict[str, bytes]:
    return {
        "PyTorch's": by_pytorch(),
        "stored": by_zip_tools(io.BytesIO(), zipfile.ZIP_STORED),
        "deflated": by_zip_tools(io.BytesIO(), zipfile.ZIP_DEFLATED),
        "streamed": by_zip_tools(Stream(), zipfile.ZIP_DEFLATED),
    }


def one_by_one(data: memoryview) -> list[StoredSpan | None]:
    """The places by each local header; None where it cannot be read."""
    places: list[StoredSpan | None] = []
    end = read_end(data)
    for _, header, path, _ in central_headers(data, end):
        sizes = header.uncompressed_size, header.compressed_size
        is_deflated, name = header.method == DEFLATED, as_text(path)
        facts = (header.header_offset, *sizes, header.crc32, is_deflated, header.modified)
        try:
            places.append(read_place(data, DirectoryEntry(name, path, *facts), end.directory_offset))
        except ArchiveError:
            places.append(None)
    return places


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_every_archive_is_read_at_once(path: object) -> None:
    with Container.open(path) as container:  # type: ignore[arg-type]
        data = container.data
        expected = one_by_one(data)
        assert None not in expected
        assert ordinary_places(data, read_end(data)) == expected


@pytest.mark.parametrize("kind", ["PyTorch's", "stored", "deflated", "streamed"])
def test_every_kind_is_read_at_once(kind: str) -> None:
    data = memoryview(kinds()[kind])
    expected = one_by_one(data)
    assert None not in expected
    assert ordinary_places(data, read_end(data)) == expected


@pytest.mark.parametrize("kind", ["PyTorch's", "stored", "deflated", "streamed"])
def test_of_odd_headers_none_is_read_otherwise(kind: str) -> None:
    whole, random, refused = kinds()[kind], Random(kind), 0  # noqa: S311 (no secret)
    end = read_end(memoryview(whole))
    places = [header.header_offset for _, header, _, _ in central_headers(memoryview(whole), end)]
    spans = [(at, LOCAL.size + 12) for at in places] + [
        (at - DESCRIPTOR.size, DESCRIPTOR.size) for at in places[1:]
    ]
    spans.append((end.directory_offset, CENTRAL.size + 12))
    for _ in range(ODD):
        data = bytearray(whole)
        begin, length = random.choice(spans)
        data[begin + random.randrange(length)] = random.choice((0, 1, 8, 0xFF, random.randrange(256)))
        try:
            expected = one_by_one(memoryview(data))
        except ArchiveError:  # the directory itself cannot be walked
            continue
        found = ordinary_places(memoryview(data), read_end(memoryview(data)))
        assert all(place in (None, true) for place, true in zip(found, expected, strict=True))
        refused += None in found
    assert refused > ODD / 10


def test_many_files_are_read_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    write_archive(out, "model", [new_member(f"data/{at}", bytes(at)) for at in range(MANY)])
    data = memoryview(out.getvalue())
    read: list[int] = []
    monkeypatch.setattr(directory, "read_place", lambda _, entry, __: read.append(entry.start))
    at_once = read_directory(data, rooted=True)
    assert not read
    monkeypatch.undo()
    monkeypatch.setattr(directory, "MANY", MANY + 1)
    assert read_directory(data, rooted=True) == at_once


def test_a_wrong_header_among_many_is_named() -> None:
    out = io.BytesIO()
    write_archive(out, "model", [new_member(f"data/{at}", bytes(at)) for at in range(MANY)])
    data = bytearray(out.getvalue())
    at = data.index(b"model/data/7") - LOCAL.size
    struct.pack_into("<H", data, at + LOCAL.offset("method"), 8)
    with pytest.raises(ArchiveError, match=r"data/7, .*the method to be 0"):
        read_directory(memoryview(data), rooted=True)
