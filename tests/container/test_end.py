"""The end of a zip: found behind comments, told from look-alikes, and what follows it counted."""

from __future__ import annotations

import io
import zipfile

import pytest

from archive.container.end import bytes_behind, has_end, read_end
from archive.container.headers import END, EndRecord, padding_field, widened, zip64_field, zip64_values
from tests.support.zips import PLAIN, SMALL, put, read


def commented(comment: bytes) -> bytes:
    out = io.BytesIO(PLAIN)
    with zipfile.ZipFile(out, "a") as file:
        file.comment = comment
    return out.getvalue()


@pytest.mark.parametrize("data", [SMALL, PLAIN, commented(b"about"), commented(b"a" * 65_535)])
def test_whole_zips_have_an_end_and_nothing_behind_it(data: bytes) -> None:
    assert has_end(memoryview(data))
    assert bytes_behind(memoryview(data)) == 0


@pytest.mark.parametrize("data", [b"", b"PK", SMALL[:-1], SMALL[: len(SMALL) // 2], b"text" * 100])
def test_anything_else_has_none(data: bytes) -> None:
    assert not has_end(memoryview(data))
    assert bytes_behind(memoryview(data)) == 0


def test_the_magic_of_an_end_record_inside_of_a_comment_is_no_end() -> None:
    data = commented(b"before " + END.magic + b" and eighteen bytes behind it" * 2)
    assert read_end(memoryview(data)) == read_end(memoryview(PLAIN))._replace(
        comment_length=len(data) - len(PLAIN)
    )


@pytest.mark.parametrize("behind", [b"\0", b"trailing text", b"a" * 1000])
@pytest.mark.parametrize("zip_", [SMALL, PLAIN, commented(b"about")])
def test_bytes_behind_a_whole_zip_are_counted(zip_: bytes, behind: bytes) -> None:
    assert bytes_behind(memoryview(zip_ + behind)) == len(behind)
    assert not has_end(memoryview(zip_ + behind))


def test_bytes_behind_what_is_no_whole_zip_are_not() -> None:
    """Those behind a cut end record; an end record that contradicts its zip."""
    assert bytes_behind(memoryview(END.magic + bytes(10))) == 0
    assert bytes_behind(memoryview(b"missing" + SMALL[-END.size :] + b"behind")) == 0


def test_bytes_behind_a_zip_of_no_records_are_counted() -> None:
    assert bytes_behind(memoryview(END.pack(EndRecord(*[0] * 7)) + b"behind")) == 6


ALL = {8: "HH", 12: "I", 16: "I"}
"""Fields of the end record, by their place in it: both counts, the size and the position of the directory."""


@pytest.mark.parametrize("fields", [(8,), (12,), (16,), (8, 12, 16)])
def test_saturated_fields_of_the_end_record_are_those_of_zip64(fields: tuple[int, ...]) -> None:
    saturated = SMALL
    for at in fields:
        most = 0xFFFF if ALL[at] == "HH" else 0xFFFF_FFFF
        saturated = put(saturated, at - END.size, ALL[at], *[most] * len(ALL[at]))
    assert saturated != SMALL
    assert read_end(memoryview(saturated)) == read_end(memoryview(SMALL))
    read(saturated)


def test_the_zip64_field_is_found_behind_other_fields() -> None:
    field = zip64_field(1 << 40, 7)
    for extra in (field, padding_field(10) + field, padding_field(0) + padding_field(50) + field):
        assert zip64_values(memoryview(extra)) == [1 << 40, 7]
    long = b"FB" + (300).to_bytes(2, "little") + bytes(300)
    assert zip64_values(memoryview(long + field)) == [1 << 40, 7]
    assert zip64_values(memoryview(padding_field(10))) == []
    assert widened((3, 0xFFFF_FFFF, 5), memoryview(padding_field(10) + field)) == (3, 1 << 40, 5)
