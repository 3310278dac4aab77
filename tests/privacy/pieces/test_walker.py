"""What is packed in a file is read within bounds, and what is not read is told."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import pickle
import random
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard

from archive import ArchiveError, LeakKind, Limits, leaks
from archive.privacy.pieces import walker
from tests.support.canaries import with_records
from tests.support.corpus import ORACLES
from tests.support.cost import loops_below
from tests.support.elf_files import elf_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive import Leaks

PATH = b"/home/ann/secret/model.py"
MODEL = ORACLES / "plain_unicode.ptl"
SECTION_HEADER, DWARF, FLAGS_AT, SIZE = 64, 3, 8, 400
"""In files of :func:`elf_file`: bytes of a section header, DWARF's number, its flags' place, its bytes."""


def of_record(data: bytes) -> Leaks:
    return leaks(with_records(MODEL, {"extra/x": data}))


def homes(found: Leaks) -> list[str]:
    return [str(one.places[0]) for one in found.findings if one.kind is LeakKind.HOME]


def elf_with(section: bytes, flags: int) -> bytes:
    """A shared object whose DWARF is some bytes."""
    made = elf_file()
    data = bytearray(made.data.replace(b"W" * SIZE, section.ljust(SIZE, b"\0")))
    struct.pack_into("<Q", data, made.sections + DWARF * SECTION_HEADER + FLAGS_AT, flags)
    return bytes(data)


@pytest.mark.parametrize("level", [1, 6, 9])
@pytest.mark.parametrize("text", [PATH, pickle.dumps([bytes(range(256)) * 9, PATH.decode()], 2)])
def test_zlib_is_read_wherever_it_stands(level: int, text: bytes) -> None:
    found = of_record(b"\xff\0size" + zlib.compress(text, level) + b"\xffbehind")
    assert homes(found)[0].startswith("extra/x!zlib at byte 6")
    assert found.problems == ()


IN_LETTERS = (base64.b64encode, base64.b32encode, base64.b85encode, base64.a85encode, base64.b16encode)


@pytest.mark.parametrize("level", [1, 6, 9])
def test_zlib_is_read_in_base64_whatever_its_third_byte(level: int) -> None:
    texts = [str(list(range(count))).encode() + b" " + PATH for count in (0, 20, 50, 99)]
    letters = [base64.b64encode(zlib.compress(text, level)) for text in texts]
    assert len({some[:3] for some in letters}) > 1, "several kinds of blocks"
    for text, some in zip(texts, letters, strict=True):
        assert homes(of_record(b"note: " + some)) == [f"extra/x!base64!zlib, byte {text.index(PATH)}"]


@pytest.mark.parametrize("inner", IN_LETTERS)
@pytest.mark.parametrize("outer", IN_LETTERS)
def test_letters_in_letters_are_read(
    inner: Callable[[bytes], bytes], outer: Callable[[bytes], bytes]
) -> None:
    for text in (PATH, b"a note: %s\n" % PATH):
        assert homes(of_record(outer(inner(text))))


def test_letters_too_deep_are_named() -> None:
    data, found = PATH, []
    for _ in range(8):
        data = base64.b64encode(data)
        found.append(of_record(data))
    assert [bool(homes(one)) for one in found] == [True] * 5 + [False] * 3
    assert [bool(one.problems) for one in found] == [False] * 5 + [True] * 3


@pytest.mark.parametrize(
    ("section", "flags"),
    [
        (struct.pack("<IIQQ", 1, 0, len(PATH), 1) + zlib.compress(PATH), 0x800),
        (struct.pack("<IIQQ", 2, 0, len(PATH), 1) + zstandard.compress(PATH), 0x800),
    ],
    ids=["zlib", "zstd"],
)
def test_a_compressed_section_is_read(section: bytes, flags: int) -> None:
    found = of_record(elf_with(section, flags))
    assert homes(found)[0].startswith("extra/x")
    assert not found.problems


def test_a_section_compressed_in_an_unknown_way_is_told() -> None:
    found = of_record(elf_with(struct.pack("<IIQQ", 9, 0, 1, 1), 0x800))
    assert found.problems == ("extra/x!.debug_info: compressed in a way that is not known",)


def test_a_place_in_a_shared_object_names_its_section_and_whether_it_is_mapped() -> None:
    mapped = elf_file().data.replace(b"C" * 50, b" " + PATH + b"\0" * 24, 1)
    for data, part in ((elf_with(b"\0" + PATH, 0), ".debug_info, not mapped"), (mapped, ".text, mapped")):
        (place,) = homes(of_record(data))
        assert place.endswith(part)


def test_what_no_directory_lists_is_read() -> None:
    hidden = io.BytesIO()
    with zipfile.ZipFile(hidden, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("model/gone", PATH * 3)
    data = bytearray(hidden.getvalue()[: hidden.getvalue().index(b"PK\1\2")])
    whole = io.BytesIO(bytes(data))
    whole.seek(0, io.SEEK_END)
    with zipfile.ZipFile(whole, "a") as made:
        made.writestr("model/kept", b"nothing")
    assert PATH not in whole.getvalue()
    assert homes(leaks(whole.getvalue()))[0].startswith("between records!deflate at byte")


def test_a_comment_in_the_directory_is_none_of_the_name() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        info = zipfile.ZipInfo("model/version")
        info.comment = PATH
        made.writestr(info, b"3")
    assert len(homes(leaks(out.getvalue()))) == 1


def test_random_base64_tells_nothing() -> None:
    old = {one.text for one in leaks(MODEL).findings}
    letters = base64.b64encode(random.Random(1).randbytes(150_000))  # noqa: S311 (no secret)
    lines = b"\n".join(letters[at : at + 76] for at in range(0, len(letters), 76))
    for data in (letters, lines, json.dumps({"a": letters.decode()}).encode()):
        found = of_record(data)
        assert {one.text for one in found.findings if one.kind.counts} - old == {"extra/x"}


def test_a_tensor_that_begins_like_a_stream_is_no_problem() -> None:
    for head in (b"\x78\x9c", b"\x78\xda"):
        found = leaks(with_records(MODEL, {"data/99": head + bytes(range(256))}), deep=True)
        assert not found.problems


def bomb(depth: int) -> bytes:
    """Zeros that are compressed again and again."""
    data = bytes(4 << 20)
    for _ in range(depth):
        data = gzip.compress(data)
    return data


def nested(depth: int) -> bytes:
    data = b"note: %s %s" % (b" ".join(b"%d" % number for number in range(99)), PATH)
    for _ in range(depth):
        data = bz2.compress(data)  # zlib would store what is packed as it is, and it would be met there, too
    return data


def test_streams_in_streams_are_read_so_deep_and_told_beyond() -> None:
    assert homes(of_record(nested(walker.DEEPEST)))
    deeper = of_record(nested(walker.DEEPEST + 1))
    assert not homes(deeper)
    assert deeper.problems[0].endswith("packed too deep, not read")


@pytest.mark.parametrize(
    "data",
    [
        bomb(2) * 4,
        b"\x1f\x8b\x08\x08" * 50_000,
        b"x\x9c" * 50_000,
        b"PK\3\4" * 100_000,
        b"PK\3\4PK\5\6" * 10_000,
        b"\x28\xb5\x2f\xfd" * 50_000,
        b'"' + base64.b64encode(b"\x80\x02}.") * 100_000,
        b" ".join([base64.b64encode(b"\x80\x02" + b"a" * 20)] * 1_500),
        pickle.dumps([bomb(1)] * 2 + [b"\x1f\x8b\x08" * 9] * 9_000, 2),
        b"[" * 200_000,
        b'["' + b'\\"' * 200_000 + b'"]',
        json.dumps([json.dumps([json.dumps(['"'])])] * 20_000).encode(),
        b"A" * 300_000,
        b"\0a" * 300_000,
        b"a@b." * 50_000,
        b"https://" * 15_000,
        b"secret=" * 30_000,
    ],
    ids=range(17),
)
def test_what_is_packed_costs_bounded_time_and_memory(data: bytes) -> None:
    with loops_below(700):
        try:
            found = leaks(with_records(MODEL, {"extra/x": data}), limits=Limits(memory=256 << 20))
        except ArchiveError:
            found = None
    assert found is None or found.findings


def test_so_many_streams_are_unpacked_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walker, "MOST_STREAMS", 3)
    data = b"".join(b" " + gzip.compress(PATH + b"%d" % at) for at in range(9))
    found = of_record(data)
    assert len(homes(found)) == 3
    assert found.problems == (
        "extra/x!gzip at byte 142: packed, not read, nor is any after it: too much in one file",
    )
