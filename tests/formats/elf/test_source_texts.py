"""Paths of source files and stack traces in the read-only data of shared objects."""

from __future__ import annotations

import struct

import pytest

from archive.formats.elf.model import PF_W, PF_X, PT_LOAD, SectionTable, Segment, SharedObject
from archive.formats.elf.source_texts import source_texts, without_source_texts
from tests.support.cost import loops_below

FILE, TRACE = (
    b"/home/ann/net/x.cpp",
    b'\nFile "net.py", line 2, in forward\n    a = b\n    ^\n  File "m.py", line 3, in f',
)
NAMES = b"\0/home/ann/lib.c\0"
STRTAB, STRSZ, DYNAMIC = 5, 10, 2


def made(*parts: tuple[int, bytes], bits: int = 64, named: int | None = 0) -> tuple[memoryview, SharedObject]:
    """An object with a segment for each part, whose flags are given; one of them has the loader's names."""
    segments, data = [], b""
    for flags, part in parts:
        segments.append(Segment(PT_LOAD, flags, len(data), len(data) + 4096, len(part), len(part)))
        data += part
    if named is not None:
        at, size = segments[named].address, segments[named].size
        dynamic = struct.pack("<QQQQ", STRTAB, at, STRSZ, size)
        segments.append(Segment(DYNAMIC, 0, len(data), 0, len(dynamic), len(dynamic)))
        data += dynamic
    table = SectionTable(0, 0, 0)
    return memoryview(data), SharedObject(len(data), bits, "<", 3, 62, (), table, tuple(segments), ())


def texts(data: memoryview, found: SharedObject) -> list[bytes]:
    return [bytes(data[start:end]) for start, end, _ in source_texts(data, found)]


def test_paths_and_frames_are_found_in_read_only_data_alone() -> None:
    strings = b"\0".join([b"", b"name.cpp", FILE, b"see " + FILE, TRACE, b""])
    parts = (4, NAMES), (4, strings), (4 | PF_X, strings), (4 | PF_W, strings)
    wanted = [FILE, b"net.py", b"\n    a = b\n    ^", b"m.py"]
    assert texts(*made(*parts)) == wanted
    assert texts(*made(*parts, bits=32)) == []
    assert texts(*made(*parts, named=None)) == [], "the loader's names may be anywhere"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (b"./////////x.cpp", True),
        (b".//////////?", True),
        (b"C:\\\\ann\\\\x.hpp", True),
        (b"/lib/libgomp.so.1", False),
        (b"/x.c", False),
        (b"/home/a\nb/x.cpp", False),
        (b"torch.ops.aten.py", False),
    ],
)
def test_what_is_a_path_of_a_source_file(text: bytes, *, is_one: bool) -> None:
    assert texts(*made((4, b"\0"), (4, b"\0" + text + b"\0"))) == [text] * is_one
    assert texts(*made((4, b"\0"), (4, b"\0" + text + b"!\0"))) == []


def test_names_between_other_data_of_a_segment_stay() -> None:
    data = b"\0" + FILE + b"\0" + NAMES + FILE + b"\0"
    view, found = made((4, data), named=None)
    at = 4096 + len(FILE) + 2
    dynamic = struct.pack("<QQQQ", STRTAB, at, STRSZ, len(NAMES))
    segment = Segment(DYNAMIC, 0, len(view), 0, len(dynamic), len(dynamic))
    whole = memoryview(bytes(view) + dynamic)
    found = SharedObject(len(whole), 64, "<", 3, 62, (), found.table, (*found.segments, segment), ())
    assert texts(whole, found) == [FILE, FILE]
    left = without_source_texts(whole, found)
    assert len(left) == len(whole)
    assert NAMES in left
    assert FILE not in left


@pytest.mark.parametrize("filler", [b"/", b"\0/", b'File "', b'File "a", line 1, in f\n    ', b"./a/", b"\0"])
def test_no_data_takes_long(filler: bytes) -> None:
    view, found = made((4, b"\0"), (4, filler * ((1 << 21) // len(filler))))
    with loops_below(1_000):
        source_texts(view, found)
