"""Records that are not what their headers say, or cost too much; and any bytes at all."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits
from archive.container.container import Container
from archive.container.directory import ENTRY_BYTES
from archive.container.write import Member, new_member
from tests.support.sampling import examples
from tests.support.zips import PLAIN, SMALL, put, read, refused, write_again, written


def test_other_bytes_than_the_crc_says() -> None:
    data = put(SMALL, 64, "B", 0)
    with Container.open(data, name="m.pt") as container:
        record = container.records["data/0"]
        for _ in range(2):
            with pytest.raises(ArchiveError) as raised:
                record.view()
            assert str(raised.value) == (
                "m.pt: data/0, byte 64: damaged bytes: copy or download the file again: "
                "expected crc32 0x04788a07, found 0xd83f8c18"
            )
        assert record.raw() == b"\0" + b"ensor" + b"tensor" * 9


def deflated(data: bytes, size: int, *, stream: bytes | None = None) -> bytes:
    """An archive of one deflated record that declares some size."""
    stream = zlib.compress(data, 9, -15) if stream is None else stream
    member = Member("code/m.py", memoryview(stream), size, zlib.crc32(data), deflated=True)
    return written(member)


STREAM = zlib.compress(b"text" * 100, 9, -15)
STREAMS = {
    "longer than declared": (deflated(b"text" * 100, 399), "expected 399 bytes inflated, found more"),
    "shorter than declared": (
        deflated(b"text" * 100, 401),
        "expected 401 bytes inflated, found an end after 400",
    ),
    "cut": (deflated(b"text" * 100, 400, stream=STREAM[:-1]), "expected 400 bytes inflated, found an end"),
    "followed by bytes": (
        deflated(b"text" * 100, 400, stream=STREAM + b"\0"),
        "expected only compressed bytes, found others after them",
    ),
    "followed by many bytes": (
        deflated(b"text" * 100, 400, stream=STREAM + bytes(100_000)),
        "expected only compressed bytes, found others after them",
    ),
    "none": (
        deflated(b"text" * 100, 400, stream=b"\xff" * 9),
        "damaged bytes: copy or download the file again",
    ),
    "nothing": (
        deflated(b"text" * 100, 400, stream=b""),
        "expected 400 bytes inflated, found an end after 0",
    ),
}


@pytest.mark.parametrize(("data", "message"), STREAMS.values(), ids=list(STREAMS))
def test_deflate_streams_that_do_not_give_what_is_declared(data: bytes, message: str) -> None:
    error = refused(data)
    assert str(error).startswith("m.pt: code/m.py, byte 64: ")
    assert message in str(error)


def test_a_stream_may_end_in_the_piece_behind_its_last_byte() -> None:
    data = bytes(range(256)) * 64
    data = data[: (16 << 10) - 5]  # with its header as long as a piece
    block = struct.pack("<BHH", 0, len(data), 0xFFFF - len(data)) + data
    assert len(block) == 16 << 10
    read(deflated(data, len(data), stream=block + b"\1\0\0\xff\xff"))


def test_a_bomb_costs_no_more_than_it_declares() -> None:
    data = deflated(bytes(64 << 20), 1000)
    tracemalloc.start()
    try:
        assert "expected 1000 bytes inflated, found more" in str(refused(data))
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


# --- limits


def test_a_size_that_no_stream_can_give_is_refused_unread() -> None:
    error = refused(deflated(b"text", 2**31))
    assert isinstance(error, LimitError)
    assert error.resource == "memory"
    assert error.actual == 2**31 + ENTRY_BYTES
    assert str(error).startswith("m.pt: code/m.py, byte 64: memory is limited to 67,")
    assert str(error).endswith("if you trust the file: --limit memory=8G")


@pytest.mark.parametrize(
    ("limits", "actual"),
    [
        (Limits(memory=4 * ENTRY_BYTES - 1), 4 * ENTRY_BYTES),
        (Limits(name_bytes=14), 15),
        (Limits(memory=4 * ENTRY_BYTES + 379), 4 * ENTRY_BYTES + 380),
    ],
)
def test_limits(limits: Limits, actual: int) -> None:
    error = refused(SMALL, limits)
    assert isinstance(error, LimitError)
    assert (error.limit, error.actual) == (actual - 1, actual)


def test_the_inflated_sizes_of_all_records_count_together() -> None:
    data = written(*(new_member(f"code/{index}.py", bytes(300)) for index in range(4)))
    read(data, Limits(memory=4 * ENTRY_BYTES + 1200))
    error = refused(data, Limits(memory=4 * ENTRY_BYTES + 1199))
    assert (error.record, error.place) == ("code/3.py", "byte 448")


def test_entries_and_inflated_records_are_counted_against_the_file_s_memory() -> None:
    with Container.open(SMALL) as container:
        assert container.allowance.memory == (64 << 20) + 256 * len(SMALL)
        assert container.allowance.taken == 4 * ENTRY_BYTES
        for _ in range(2):
            container.records["code/m.py"].view()
        container.records["data/0"].view()  # stored: part of the file
        assert container.allowance.taken == 4 * ENTRY_BYTES + 380


def test_a_record_that_is_broken_takes_no_memory() -> None:
    with Container.open(STREAMS["cut"][0]) as container, pytest.raises(ArchiveError):
        container.records["code/m.py"].view()
    assert container.allowance.taken == ENTRY_BYTES


def test_a_size_that_no_stream_can_give_is_a_claim() -> None:
    stream = len(STREAM)
    for size, longest in ((1032 * stream, True), (1032 * stream + 1, False)):
        with Container.open(deflated(b"text" * 100, size), name="m.pt") as container:
            if longest:
                container.check_sizes()
                continue
            with pytest.raises(ArchiveError) as raised:
                container.check_sizes()
            assert str(raised.value) == (
                f"m.pt: code/m.py, byte 64: expected at most {1032 * stream:,} bytes inflated of "
                f"{stream} stored, found a header that claims {size:,}"
            )
    with Container.open(SMALL) as container:
        container.check_sizes()


# --- anything


@given(st.data())
@settings(max_examples=examples(400), deadline=None, derandomize=True)
def test_changed_bytes_end_in_records_or_one_error(data: st.DataObject) -> None:
    changed = bytearray(data.draw(st.sampled_from([SMALL, PLAIN])))
    for _ in range(data.draw(st.integers(1, 4))):
        # The end of the file is where the structure is: let half of all changes fall there.
        at = data.draw(st.integers(0, len(changed) - 1) | st.integers(len(changed) - 300, len(changed) - 1))
        changed[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0xFF]) | st.integers(0, 255))
    accepted_or_refused(bytes(changed))


@given(st.binary(max_size=300))
@settings(max_examples=examples(200), deadline=None, derandomize=True)
def test_any_bytes_in_front_of_an_end_record(data: bytes) -> None:
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(data), 0, 0)
    accepted_or_refused(data + end)


def accepted_or_refused(data: bytes) -> None:
    refusal = None
    try:
        read(data)
    except ArchiveError as error:
        refusal = error
    assert refusal is None or (refusal.file == "m.pt" and str(refusal).isprintable())


RECORDS = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="/\\\0:"), min_size=1).filter(
        lambda name: name != ".."
    ),
    st.binary(max_size=400),
    min_size=1,
    max_size=6,
)


@given(RECORDS, st.sampled_from([None, True, False]), st.sampled_from(["", "code/", "data/"]))
@settings(max_examples=examples(150), deadline=None, derandomize=True)
def test_what_is_written_is_read_back(records: dict[str, bytes], compress: bool | None, folder: str) -> None:  # noqa: FBT001
    expected = {folder + name: data for name, data in records.items()}
    data = written(*(new_member(name, record, compress=compress) for name, record in expected.items()))
    with zipfile.ZipFile(io.BytesIO(data)) as reference:
        assert reference.testzip() is None
        assert {info.filename: reference.read(info) for info in reference.infolist()} == {
            f"m/{name}": record for name, record in expected.items()
        }
    with Container.open(data) as container:
        assert {name: bytes(record.view()) for name, record in container.records.items()} == expected
        out = io.BytesIO()
        write_again(out, container)
        assert out.getvalue() == data
