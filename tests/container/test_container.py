"""Archives as records: read, viewed without copies, written anew to the byte."""

from __future__ import annotations

import gc
import io
import os
import tracemalloc
import zipfile
import zlib
from dataclasses import replace
from typing import IO, TYPE_CHECKING, cast

import pytest

from archive.base.errors import ArchiveError
from archive.base.limits import Limits
from archive.container.container import Container
from archive.container.deflate import deflate, deflated_as_by_pytorch, deflated_size
from archive.container.write import (
    Member,
    deflated_by_pytorch,
    member_from,
    new_member,
    write_archive,
)
from archive.formats.record_kinds import (
    BYTECODE,
    CALLSTACK_MAP,
    CODE,
    CONSTANTS,
    DATA,
    DELEGATED,
    METHOD_HANDLES,
    PACKAGE_CODE,
)
from archive.io.mapped import Mapped
from tests.support.corpus import ARCHIVES, FIXTURES
from tests.support.zips import map_of, write_again

if TYPE_CHECKING:
    from pathlib import Path

LEGACY = ("torch-1.0.1", "torch-1.2.0")
NESTED = FIXTURES / "releases" / "torch-2.13.0" / "nested.ptl"
EIGHT_MIB = 8 << 20


def rebuilt(container: Container) -> bytes:
    out = io.BytesIO()
    assert write_again(out, container) == len(out.getvalue())
    return out.getvalue()


def written(root: str, *members: Member) -> bytes:
    out = io.BytesIO()
    write_archive(out, root, members)
    return out.getvalue()


def large_file(folder: Path) -> Path:
    path = folder / "large.pt"
    path.write_bytes(written("large", new_member("data/0", bytes(EIGHT_MIB)), new_member("version", b"3\n")))
    return path


# --- what PyTorch wrote


def test_every_archive_is_rebuilt_to_the_byte() -> None:
    exact = 0
    for path in ARCHIVES:
        with Container.open(path) as container:
            exact += rebuilt(container) == container.data
    assert exact == len(ARCHIVES) == 259


def test_every_record_is_what_zipfile_reads() -> None:
    records = 0
    for path in ARCHIVES:
        with Container.open(path) as container, zipfile.ZipFile(path) as reference:
            assert [f"{container.root}/{name}" for name in container.records] == reference.namelist()
            for info, record in zip(reference.infolist(), container.records.values(), strict=True):
                assert record.view() == reference.read(info)
                assert record.size == info.file_size
                assert record.stored_size == info.compress_size == len(record.raw())
                assert record.crc32 == info.CRC
                assert record.borrowed == (record.compression == "stored") == (info.compress_type == 0)
                records += 1
    assert records == 3596


def test_stored_bytes_lie_at_multiples_of_64_one_record_behind_the_other() -> None:
    for path in ARCHIVES:
        with Container.open(path) as container:
            end = 0
            for record in container.records.values():
                assert record.entry.start == end
                assert record.place.data % 64 == 0
                end = record.place.end


def test_the_policy_of_what_is_deflated_is_that_of_1_4_and_later() -> None:
    agreeing = 0
    for path in ARCHIVES:
        if path.parent.name not in LEGACY:
            with Container.open(path) as container:
                for record in container.records.values():
                    assert new_member(record.name, record.view()).deflated == (not record.borrowed), record
                    agreeing += 1
    assert agreeing == 3520


def test_up_to_1_5_version_comes_first_and_zip64_ends_every_archive() -> None:
    first = 0
    for path in ARCHIVES:
        with Container.open(path) as container:
            assert bytes(container.data[-98:-94]) == b"PK\6\6"
            assert bytes(container.data[-42:-38]) == b"PK\6\7"
            first += next(iter(container.records)) == "version"
    assert first == 17


# --- views


def test_a_view_of_a_stored_record_is_part_of_the_mapped_file(tmp_path: Path) -> None:
    path = large_file(tmp_path)
    tracemalloc.start()
    try:
        with Container.open(path) as container:
            record = container.records["data/0"]
            view = record.view()
            assert tracemalloc.get_traced_memory()[1] < EIGHT_MIB // 32
            assert record.borrowed
            assert view.readonly
            assert len(view) == EIGHT_MIB
    finally:
        tracemalloc.stop()


def test_a_deflated_record_is_inflated_once() -> None:
    with Container.open(NESTED) as container:
        record = container.records["callstack_debug_map.pkl"]
        assert not record.borrowed
        assert record.view() is record.view()
        assert record.view().readonly
        assert zlib.decompress(record.raw(), -15) == record.view()
        assert repr(record) == f"<Record 'callstack_debug_map.pkl', {record.size} bytes, deflated>"


def test_views_outlive_the_container() -> None:
    with Container.open(NESTED) as container:
        stored, deflated = container.records["data/0"], container.records["callstack_debug_map.pkl"]
        views = [stored.view(), deflated.view(), container.data]
        copies = [bytes(view) for view in views]
    container.close()
    del container
    gc.collect()
    assert views == copies
    with pytest.raises(ValueError, match="released"):
        stored.view()


def test_the_map_of_a_refused_file_is_closed(tmp_path: Path) -> None:
    (tmp_path / "m.pt").write_bytes(b"no archive")
    mapped = Mapped(tmp_path / "m.pt")
    with pytest.raises(ArchiveError, match=r"m\.pt: byte 10: no zip archive"):
        Container(mapped)
    with pytest.raises(ValueError, match="released"):
        len(mapped.data)


def test_a_file_that_is_written_to_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(NESTED.read_bytes())
    with Container.open(path) as container:
        container.check_unchanged()
        os.utime(path, ns=(1, 1))
        with pytest.raises(ArchiveError, match=r"m\.pt: the file changed"):
            container.check_unchanged()


def test_the_map_is_closed_when_nothing_is_in_use() -> None:
    container = Container.open(NESTED)
    mapped = map_of(container)
    assert mapped is not None
    for record in container.records.values():
        record.view()
    container.close()
    assert mapped.closed


# --- what other tools wrote


class Unseekable(io.RawIOBase):
    """A file that zipfile cannot go back in, so that it writes descriptors."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(data)  # type: ignore[call-overload]
        return len(data)  # type: ignore[arg-type]


def repack(
    source: Container, out: IO[bytes], method: int, *, zip64: bool = False, comment: bytes = b""
) -> None:
    with zipfile.ZipFile(out, "w", method) as target:
        target.comment = comment
        target.mkdir(source.root)
        target.mkdir(f"{source.root}/data")
        for name, record in source.records.items():
            with target.open(f"{source.root}/{name}", "w", force_zip64=zip64) as file:
                file.write(record.view())
        with target.open(f"{source.root}/code/empty.py", "w") as file:
            file.write(b"")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_repacked_archive_has_the_same_records(method: int, *, zip64: bool, stream: bool) -> None:
    out = Unseekable() if stream else io.BytesIO()
    with Container.open(NESTED) as source:
        repack(source, cast("IO[bytes]", out), method, zip64=zip64, comment=b"repacked PK\5\6")
        data = out.data if isinstance(out, Unseekable) else out.getvalue()
        with Container.open(data) as container:
            assert container.root == source.root
            assert {name: record.view() for name, record in container.records.items()} == {
                name: record.view() for name, record in source.records.items()
            } | {"code/empty.py": b""}
            again = rebuilt(container)
            with Container.open(again) as second:
                assert rebuilt(second) == again
                assert all(record.place.data % 64 == 0 for record in second.records.values())


def test_pytorch_can_be_told_to_leave_crcs_at_zero() -> None:
    data = written("m", Member("data/0", memoryview(b"12345"), 5, 0, deflated=False))
    with Container.open(data) as container:
        assert container.records["data/0"].view().tobytes() == b"12345"


# --- writing


def test_members_are_handed_through_without_a_copy(tmp_path: Path) -> None:
    with Container.open(large_file(tmp_path)) as container, (tmp_path / "again.pt").open("wb") as out:
        tracemalloc.start()
        try:
            write_again(out, container)
            assert tracemalloc.get_traced_memory()[1] < 200_000
        finally:
            tracemalloc.stop()
    assert (tmp_path / "again.pt").read_bytes() == (tmp_path / "large.pt").read_bytes()


def test_a_record_is_replaced_and_all_others_stay() -> None:
    with Container.open(NESTED) as container:
        kept = [member_from(record) for record in container.records.values() if record.name != "data.pkl"]
        data = written(container.root, *kept, new_member("data.pkl", b"new" * 100))
        with Container.open(data) as changed:
            assert changed.records["data.pkl"].view() == b"new" * 100
            assert changed.records["data.pkl"].borrowed
            for member in kept:
                assert changed.records[member.name].raw() == member.data


def test_a_slim_archive_aligns_all_but_the_members_that_need_no_alignment() -> None:
    members = [new_member(f"data/{number}", bytes(number)) for number in (5, 6, 7)]
    for aligned, remainders in ((True, {0}), (False, {38, 17, 61})):
        out = io.BytesIO()
        write_archive(out, "m", (replace(one, aligned=aligned) for one in members), slim=True)
        with Container.open(out.getvalue()) as container:
            places = [record.place.data for record in container.records.values()]
        assert {place % 64 for place in places} == remainders
    slim = io.BytesIO()
    write_archive(slim, "m", members, slim=True)
    with Container.open(slim.getvalue()) as container:
        assert not any(record.place.data % 64 for record in container.records.values())


def test_what_is_deflated_may_be_chosen() -> None:
    assert new_member("data/0", bytes(1000), compress=True).deflated
    assert not new_member("code/m.py", bytes(1000), compress=False).deflated
    assert new_member("code/m.py", bytes(201)).deflated
    assert not new_member("code/m.py", bytes(200)).deflated


def test_miniz_stores_up_to_three_bytes() -> None:
    assert not new_member("data/0", b"abc", compress=True).deflated
    assert new_member("data/0", b"abcd", compress=True).deflated


def test_a_new_member_has_no_time() -> None:
    with Container.open(written("m", new_member("data/0", b"1"))) as container:
        assert container.records["data/0"].entry.modified == 0


def test_streams_are_deflated_as_by_pytorch() -> None:
    with Container.open(NESTED) as container:
        streams = {one.name: one for one in container.records.values() if not one.borrowed}
        assert len(streams) == 3
        for record in streams.values():
            assert deflated_as_by_pytorch(record.view()) == record.raw()


def test_a_size_in_an_archive_is_that_of_the_shortest_stream() -> None:
    text = NESTED.read_bytes()[:20_000]
    assert len(deflate(text, 6)) > len(deflate(text))
    assert deflated_size(text) == len(deflate(text))
    assert deflated_size(b"ab") == 2
    assert zlib.decompress(deflate(text), -15) == text


@pytest.mark.parametrize("name", ["../up", "/absolute", "nul\0", "a/../../b", "x" * 65534])
def test_names_that_no_reader_would_take_are_not_written(name: str) -> None:
    with pytest.raises(ArchiveError):
        written("m", new_member(name, b""))


def test_the_longest_name_that_a_zip_can_hold_is_written() -> None:
    name = "x" * 65_533
    with Container.open(written("m", new_member(name, b"1")), limits=Limits(name_bytes=65_535)) as container:
        assert list(container.records) == [name]


def test_a_name_is_not_written_twice() -> None:
    with pytest.raises(ArchiveError, match=r"version: expected a new name"):
        written("m", new_member("version", b"3\n"), new_member("version", b"3\n"))


def test_a_stored_member_is_as_long_as_it_says() -> None:
    with pytest.raises(ValueError, match="version: 3 stored bytes cannot have size 4"):
        Member("version", memoryview(b"123"), 4, 0, deflated=False)
    with pytest.raises(ValueError, match="version: an empty record is stored"):
        Member("version", memoryview(b"\3\0"), 0, 0, deflated=True)
    with pytest.raises(ValueError, match="version: an empty record is stored"):
        Member("version", memoryview(b"\3\0"), 0, 0, deflated=True)


def test_an_unbuffered_file_may_take_part_of_what_it_is_given() -> None:
    class Slow(io.BytesIO):
        def write(self, data: object) -> int:
            return super().write(memoryview(data)[:7])  # type: ignore[arg-type]

    with Container.open(NESTED) as container:
        slow = Slow()
        write_again(slow, container)
        assert slow.getvalue() == container.data


def test_up_to_three_bytes_are_stored_even_where_deflating_is_asked_for() -> None:
    """As miniz does."""
    assert not new_member("code/m.py", b"abc", compress=True).deflated
    assert new_member("code/m.py", b"abcd", compress=True).deflated


def test_pytorch_deflates_code_source_ranges_and_call_stacks() -> None:
    code = [f"{folder}a.py.debug_pkl" for folder in (CODE[0], PACKAGE_CODE)]
    for name in (*code, CALLSTACK_MAP, DELEGATED):
        assert deflated_by_pytorch(name)
    for name in (DATA, CONSTANTS, BYTECODE, METHOD_HANDLES):
        assert not deflated_by_pytorch(name)
