"""Sizes, positions and counts that do not fit into a header's own fields stand in zip64 fields."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest

from archive.container.container import Container
from archive.container.directory import read_end
from archive.container.headers import possible_descriptors, zip64_values
from archive.container.write import Member, new_member, write_archive
from tests.support.zips import Sparse, zeros

if TYPE_CHECKING:
    from pathlib import Path

FULL = 0xFFFF_FFFF
"""The number that stands for one that does not fit."""

SECOND = b"second record, behind all that 32 bits can tell"


def archive_of(path: Path, size: int, *, slim: bool) -> Path:
    """An archive with a record of that many zeros, and one behind it."""
    members = [Member("data/0", zeros(size), size, 0, deflated=False), new_member("data/1", SECOND)]
    with path.open("wb") as file:
        length = write_archive(Sparse(file), "m", members, slim=slim)
    assert path.stat().st_size == length
    return path


def local_header(path: Path, start: int) -> tuple[tuple[int, ...], list[int]]:
    """The crc and both sizes of a local header, and the values of its zip64 field."""
    with path.open("rb") as file:
        file.seek(start)
        header = struct.unpack("<4s5H3I2H", file.read(30))
        assert header[0] == b"PK\3\4"
        file.seek(header[-2], 1)
        return header[6:9], zip64_values(memoryview(file.read(header[-1])))


@pytest.mark.parametrize("slim", [False, True])
@pytest.mark.parametrize("size", [FULL - 81, FULL - 80, FULL - 65, FULL - 64, FULL - 1, FULL, FULL + 7])
def test_a_record_of_4_gib_and_one_behind_it(size: int, tmp_path: Path, *, slim: bool) -> None:
    path = archive_of(tmp_path / "m.pt", size, slim=slim)
    first_crc, second_crc = 0, zlib.crc32(SECOND)
    with zipfile.ZipFile(path) as reference:
        first, second = reference.infolist()
        assert (first.file_size, first.compress_size, first.header_offset) == (size, size, 0)
        assert second.header_offset == size + 64 + (0 if slim else 24 if size >= FULL else 16)
        assert reference.read(second) == SECOND
    far = second.header_offset >= FULL
    crc, values = local_header(path, 0)
    large = size >= FULL
    if slim:
        assert crc == (first_crc, *([FULL, FULL] if large else [size, size]))
        assert values == ([size, size] if large else [])
    else:
        assert crc == (0, 0, 0)
        assert values == ([size, 0] if large else [])
    crc, values = local_header(path, second.header_offset)
    assert crc == ((second_crc, len(SECOND), len(SECOND)) if slim else (0, 0, 0))
    assert values == ([second.header_offset] if far and not slim else [])
    with Container.open(path) as container:
        entry = container.records["data/0"].entry
        assert (entry.size, entry.stored_size, entry.start) == (size, size, 0)
        assert bytes(container.records["data/1"].view()) == SECOND
        assert container.records["data/1"].entry.start == second.header_offset
        assert container.records["data/1"].place.end <= path.stat().st_size
        place = container.records["data/0"].place
        assert place.end - place.data - size == (0 if slim else 24 if large else 16)
        entry, place = container.records["data/1"].entry, container.records["data/1"].place
        assert place.end - place.data - entry.size == (0 if slim else 24 if far else 16)


@pytest.mark.parametrize("slim", [False, True])
def test_a_size_of_4_gib_that_is_deflated_is_told_by_zip64(tmp_path: Path, *, slim: bool) -> None:
    stream = zlib.compress(b"short", 9, -15)
    member = Member("code/m.py", memoryview(stream), 1 << 33, 5, deflated=True)
    path = tmp_path / "m.pt"
    with path.open("wb") as file:
        write_archive(file, "m", [member, new_member("version", b"3\n")], slim=slim)
    crc, values = local_header(path, 0)
    assert (crc, values) == (((5, FULL, FULL), [1 << 33, len(stream)]) if slim else ((0, 0, 0), [1 << 33, 0]))
    with Container.open(path) as container:
        entry = container.records["code/m.py"].entry
        assert (entry.size, entry.stored_size, entry.crc32) == (1 << 33, len(stream), 5)


def test_a_slim_archive_of_many_records_has_a_zip64_end() -> None:
    for count, wide in ((1, False), (65_535, True)):
        out = io.BytesIO()
        write_archive(out, "m", (new_member(f"{number:x}", b"") for number in range(count)), slim=True)
        data = out.getvalue()
        assert (data[-42:-38] == b"PK\6\7") == wide
        assert struct.unpack("<2H", data[-14:-10]) == (count, count)
        assert read_end(memoryview(data)).entries == count


def test_a_descriptor_of_4_gib_has_wide_sizes_alone() -> None:
    assert [len(form) for form in possible_descriptors(1, FULL, FULL)] == [16, 12, 24, 20]
    assert [len(form) for form in possible_descriptors(1, FULL + 1, 5)] == [24, 20]
    assert [len(form) for form in possible_descriptors(1, 5, FULL + 1)] == [24, 20]
    wide, bare = possible_descriptors(1, 5, FULL + 1)
    assert wide == b"PK\7\x08" + struct.pack("<IQQ", 1, 5, FULL + 1) == b"PK\7\x08" + bare
