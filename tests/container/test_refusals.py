"""What is no archive, or contradicts itself, is refused with its place; the end of a zip is found."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import pytest

from archive.base.errors import ArchiveError
from archive.container.container import Container
from archive.container.directory import bytes_after, has_end, read_end
from archive.container.headers import END, padding_field, widened, zip64_field, zip64_values
from archive.container.write import new_member
from archive.io.mapped import Mapped
from tests.support.zips import PLAIN, SMALL, put, read, refused, write_again, written, zipped

# Positions of fields, from PKWARE's APPNOTE.TXT, independent of the code under test.
LOCAL_FLAGS, LOCAL_METHOD, LOCAL_CRC, LOCAL_STORED, LOCAL_SIZE = 6, 8, 14, 18, 22
FLAGS, METHOD, CRC, STORED, SIZE, NAME_LENGTH, COMMENT_LENGTH = 8, 10, 16, 20, 24, 28, 32
DISK, POSITION = 34, 42
END_AT, LOCATOR_AT, ZIP64_END_AT = -22, -42, -98


def local(data: bytes, index: int = 0) -> int:
    """Position of a local header."""
    (position,) = struct.unpack_from("<I", data, central(data, index) + POSITION)
    assert isinstance(position, int)
    return position


def central(data: bytes, index: int = 0) -> int:
    """Position of a central header."""
    at = data.index(b"PK\1\2")
    for _ in range(index):
        at = data.index(b"PK\1\2", at + 4)
    return at


def test_the_archives_to_be_broken_are_whole() -> None:
    read(SMALL)
    read(PLAIN)


# --- no archive


@pytest.mark.parametrize("data", [b"", b"PK", b"\x80\x02}q\x00.", b"PK\5\6" * 50, b"\0" * 200_000])
def test_what_is_no_zip(data: bytes) -> None:
    assert "no zip archive, or one cut short: expected an end record" in str(refused(data))


def test_every_prefix() -> None:
    for length in range(len(SMALL)):
        refused(SMALL[:length])


def test_every_suffix() -> None:
    for length in range(1, len(SMALL)):
        refused(SMALL[length:])


def test_bytes_behind_the_end() -> None:
    refused(SMALL + b"\0")


def test_an_archive_without_records() -> None:
    assert "expected at least one record, found none" in str(refused(zipped()))
    assert "expected at least one record, found none" in str(refused(zipped(m__=b"", m__data__=b"")))


# --- headers that contradict the file or each other

FORGED: dict[str, tuple[bytes, str]] = {
    "stored bytes beyond the directory": (
        put(SMALL, central(SMALL) + STORED, "II", 10**6, 10**6),
        r"m.pt: data/0, byte 0: expected its bytes to end before what follows, at byte \d+, found 1000064",
    ),
    "sizes of a stored record": (
        put(PLAIN, central(PLAIN) + SIZE, "I", 51),
        "data, byte 0: expected a stored size of 51, found 50",
    ),
    "size unlike that of the descriptor": (
        put(SMALL, central(SMALL, 1) + SIZE, "I", 51),
        r"code/m.py, byte \d+: expected a descriptor with the directory's crc and sizes, found other bytes",
    ),
    "crc unlike that of the local header": (
        put(PLAIN, local(PLAIN) + LOCAL_CRC, "I", 1),
        r"data, byte 0: expected the crc to be \d+, found 1",
    ),
    "size unlike that of the local header": (
        put(PLAIN, local(PLAIN) + LOCAL_SIZE, "I", 7),
        "data, byte 0: expected the size to be 50, found 7",
    ),
    "stored size unlike that of the local header": (
        put(PLAIN, local(PLAIN) + LOCAL_STORED, "I", 7),
        "data, byte 0: expected the stored size to be 50, found 7",
    ),
    "another name in the local header": (
        SMALL.replace(b"m/version", b"m/VERSION", 1),
        r"version, byte \d+: expected the same name in both headers, found m/VERSION",
    ),
    "another method in the local header": (
        put(SMALL, local(SMALL, 1) + LOCAL_METHOD, "H", 0),
        r"code/m.py, byte \d+: expected the method to be 8, found 0",
    ),
    "no local header": (
        put(SMALL, central(SMALL) + POSITION, "I", 5),
        "data/0, byte 5, field signature: expected a local header, found b",
    ),
    "a local header behind the directory": (
        put(SMALL, central(SMALL) + POSITION, "I", len(SMALL) - 10),
        r"data/0, byte \d+, field signature: expected a local header of 30 bytes, found 0 bytes",
    ),
    "saturated without a zip64 field": (
        put(SMALL, central(SMALL) + SIZE, "I", 0xFFFFFFFF),
        r"data/0, byte \d+: expected a zip64 field of 1 values, found 0 of them",
    ),
    "a position beyond all bounds": (
        put(SMALL, ZIP64_END_AT + 48, "Q", 2**64 - 1),
        r"byte \d+: expected directory position 18446744073709551615, found \d+",
    ),
    "a directory that ends elsewhere": (
        put(put(SMALL, ZIP64_END_AT + 40, "Q", 7), END_AT + 12, "I", 7),
        r"byte \d+: expected the directory to end at byte \d+, found \d+",
    ),
    "fewer entries than there are": (
        put(put(SMALL, ZIP64_END_AT + 24, "QQ", 3, 3), END_AT + 8, "HH", 3, 3),
        r"byte \d+: expected the directory to end at byte \d+, found \d+",
    ),
    "more entries than there are": (
        put(put(SMALL, ZIP64_END_AT + 24, "QQ", 9, 9), END_AT + 8, "HH", 9, 9),
        r"byte \d+, field signature: expected a central header of 46 bytes, found 0 bytes",
    ),
    "counts that differ": (
        put(SMALL, END_AT + 8, "HH", 5, 5),
        r"byte \d+: expected number of entries 4, found 5",
    ),
    "a comment beyond the directory": (
        put(SMALL, central(SMALL, 3) + COMMENT_LENGTH, "H", 9),
        r"byte \d+: expected the directory to end at byte \d+, found \d+",
    ),
    "another zip before it": (
        PLAIN + PLAIN,
        f"several concatenated zips, the last one from byte {len(PLAIN):,}: torch.distributed",
    ),
    "another zip with a zip64 end record before it": (
        SMALL + SMALL,
        f"several concatenated zips, the last one from byte {len(SMALL):,}: torch.distributed",
    ),
    "other bytes before it": (
        b"x" * 9 + SMALL,
        "a zip after 9 other bytes: this tool wants it without them",
    ),
    "a zip64 end record elsewhere": (
        put(SMALL, LOCATOR_AT + 8, "Q", 2**64 - 1),
        "byte 18446744073709551615, field signature: expected a zip64 end record of 56 bytes, found 0 bytes",
    ),
    "a zip64 end record of another length": (
        put(SMALL, ZIP64_END_AT + 4, "Q", 45),
        r"byte \d+: expected the zip64 end record to end at byte \d+, found \d+",
    ),
    "a zip64 locator with nothing before it": (
        SMALL[LOCATOR_AT:],
        r"byte \d+, field signature: expected a zip64 end record of 56 bytes, found 0 bytes",
    ),
    "several disks in the end record": (put(PLAIN, END_AT + 4, "H", 1), "expected an archive in one part"),
    "several disks in the locator": (put(SMALL, LOCATOR_AT + 16, "I", 2), "expected an archive in one part"),
    "several disks in the directory": (
        put(SMALL, central(SMALL) + DISK, "H", 1),
        "data/0, byte 0: expected an archive in one part",
    ),
    "encryption": (
        put(SMALL, central(SMALL) + FLAGS, "H", 0x0809),
        "data/0, byte 0: expected no encryption, found flags 0x0809",
    ),
    "encryption in the local header": (
        put(SMALL, local(SMALL) + LOCAL_FLAGS, "H", 0x0809),
        "data/0, byte 0: expected encryption flags to be 0, found 1",
    ),
    "an unknown method": (
        put(SMALL, central(SMALL) + METHOD, "H", 93),
        r"data/0, byte 0: expected method 0 \(stored\) or 8 \(deflated\), found 93",
    ),
    "a folder with bytes in it": (
        zipped(m__data__=b"bytes", m__version=b"3\n"),
        "data/, byte 0: expected a folder's size to be 0, found 5",
    ),
    "the same name twice": (
        written(new_member("aa", b"1"), new_member("ab", b"2")).replace(b"m/ab", b"m/aa"),
        r"aa, byte \d+: expected every name once, found 'aa'",
    ),
}


@pytest.mark.parametrize(("data", "message"), FORGED.values(), ids=list(FORGED))
def test_contradictions(data: bytes, message: str) -> None:
    error = refused(data)
    with pytest.raises(ArchiveError, match=message):
        raise error


CRC_OF_FIRST = zlib.crc32(b"tensor" * 10)


def test_what_a_local_header_leaves_to_the_descriptor_is_zero_or_true() -> None:
    read(put(SMALL, local(SMALL) + LOCAL_CRC, "I", CRC_OF_FIRST))
    read(put(SMALL, local(SMALL) + LOCAL_SIZE, "I", 60))
    for field, what in ((LOCAL_CRC, "crc"), (LOCAL_STORED, "stored size"), (LOCAL_SIZE, "size")):
        error = refused(put(SMALL, local(SMALL) + field, "I", 1))
        assert f"expected the {what} to be " in str(error)


def test_a_local_header_without_descriptor_leaves_nothing_out() -> None:
    for field, form, values in (
        (LOCAL_CRC, "I", [0]),
        (LOCAL_STORED, "I", [0]),
        (LOCAL_SIZE, "I", [0]),
        (LOCAL_CRC, "3I", [0] * 3),
    ):
        assert str(refused(put(PLAIN, local(PLAIN) + field, form, *values))).endswith(", found 0")


def test_a_record_inside_of_another() -> None:
    inner = written(new_member("inner", b"inner"))
    data = written(new_member("outer", inner[: inner.index(b"PK\1\2")]), new_member("inner", b"inner"))
    with Container.open(data) as container:
        hidden = container.records["outer"].place.data
    message = f"inner, byte {hidden}: expected to start after outer, at byte "
    assert message in str(refused(put(data, central(data, 1) + POSITION, "I", hidden)))


def test_records_that_hold_one_another_are_refused_at_the_third() -> None:
    records, directory = b"bytes", b""
    for index in range(50):
        facts = (0, 0x0800, 0, 0, zlib.crc32(records), len(records), len(records), 4, 0)
        records = struct.pack("<4s3H4I2H", b"PK\3\4", *facts) + b"m/%02d" % index + records
        line = (0, *facts, 0, 0, 0, 0, 34 * (49 - index))
        directory = struct.pack("<4s4H4I5H2I", b"PK\1\2", *line) + b"m/%02d" % index + directory
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 50, 50, len(directory), len(records), 0)
    error = refused(records + directory + end)
    assert str(error) == "m.pt: 48, byte 34: expected records of 1705 bytes together, found 3376"


# --- names

NAMES = {
    "no root folder": b"versions",
    "another root folder": b"n/ersion",
    "absolute": b"/version",
    "up": b"m/../ion",
    "up at once": b"../rsion",
    "up at the end": b"m/ersi/..",
    "up in Windows": b"m/..\\ion",
    "absolute below the root": b"m//rsion",
    "absolute below the root in Windows": b"m/\\rsion",
    "a drive": b"m/C:rsion",
    "a NUL": b"m/vers\0on",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_names_that_lead_elsewhere(name: bytes) -> None:
    data = written(new_member("data", b""), new_member("v" * (len(name) - 2), b"3\n"))
    error = refused(data.replace(b"m/" + b"v" * (len(name) - 2), name))
    assert "expected a name inside the folder 'm'" in str(error)
    assert str(error).isprintable()


def test_a_first_name_without_root_folder() -> None:
    assert "expected a name inside a root folder, found 'data'" in str(refused(zipped(data=b"")))


def test_a_zip_without_one_root_folder_is_read_where_none_is_needed() -> None:
    for names, root, records in (
        (("data", "m/version"), "", ["data", "m/version"]),
        (("m/data", "n/version"), "", ["m/data", "n/version"]),
        (("m/data", "m/version"), "m", ["data", "version"]),
    ):
        data = zipped(**dict.fromkeys((name.replace("/", "__") for name in names), b"3"))
        mapped = Mapped(data)
        with Container(mapped, rooted=False) as container:
            assert (container.root, list(container.records)) == (root, records)
    for name in (b"/ata", b"../a"):
        mapped = Mapped(zipped(data=b"3").replace(b"data", name))
        with pytest.raises(ArchiveError, match="expected a name inside"):
            Container(mapped, rooted=False)


def test_names_that_are_no_utf8_are_kept() -> None:
    data = written(new_member("extra/\udcff", b"1"), root=" a root\udcfe")
    assert b" a root\xfe/extra/\xff" in data
    with Container.open(data) as container:
        assert container.root == " a root\udcfe"
        assert list(container.records) == ["extra/\udcff"]
        out = io.BytesIO()
        write_again(out, container)
        assert out.getvalue() == data


def test_messages_can_be_printed_whatever_the_names() -> None:
    data = put(written(new_member("\x1b[31m\udcff", b"123")), 64, "B", 0)
    with pytest.raises(ArchiveError) as raised:
        Container.open(data, name="\x1b\udcff.pt").records["\x1b[31m\udcff"].view()
    str(raised.value).encode("utf-8")
    assert str(raised.value).isprintable()


# --- The end of a zip: found behind comments, told from look-alikes, and what follows it counted


def commented(comment: bytes) -> bytes:
    out = io.BytesIO(PLAIN)
    with zipfile.ZipFile(out, "a") as file:
        file.comment = comment
    return out.getvalue()


@pytest.mark.parametrize("data", [SMALL, PLAIN, commented(b"about"), commented(b"a" * 65_535)])
def test_whole_zips_have_an_end_and_nothing_behind_it(data: bytes) -> None:
    assert has_end(memoryview(data))
    assert bytes_after(memoryview(data)) == 0


@pytest.mark.parametrize("data", [b"", b"PK", SMALL[:-1], SMALL[: len(SMALL) // 2], b"text" * 100])
def test_anything_else_has_none(data: bytes) -> None:
    assert not has_end(memoryview(data))
    assert bytes_after(memoryview(data)) == 0


def test_the_magic_of_an_end_record_inside_of_a_comment_is_no_end() -> None:
    data = commented(b"before " + END.magic + b" and eighteen bytes behind it" * 2)
    assert read_end(memoryview(data)) == read_end(memoryview(PLAIN))._replace(
        comment_length=len(data) - len(PLAIN)
    )


@pytest.mark.parametrize("behind", [b"\0", b"trailing text", b"a" * 1000])
@pytest.mark.parametrize("zip_", [SMALL, PLAIN, commented(b"about")])
def test_bytes_behind_a_whole_zip_are_counted(zip_: bytes, behind: bytes) -> None:
    assert bytes_after(memoryview(zip_ + behind)) == len(behind)
    assert not has_end(memoryview(zip_ + behind))


def test_bytes_behind_what_is_no_whole_zip_are_not() -> None:
    """Those behind a cut end record; an end record that contradicts its zip."""
    assert bytes_after(memoryview(END.magic + bytes(10))) == 0
    assert bytes_after(memoryview(b"missing" + SMALL[-END.size :] + b"behind")) == 0


def test_bytes_behind_a_zip_of_no_records_are_counted() -> None:
    assert bytes_after(memoryview(END.pack(END.row(*[0] * 7)) + b"behind")) == 6


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
