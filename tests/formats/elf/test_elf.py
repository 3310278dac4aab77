"""Shared objects: what the loader maps, what can go, headers that lie, and texts about source."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.formats.elf.cutting import cut, uncut, why_whole
from archive.formats.elf.headers import IDENTIFICATION, headers_of
from archive.formats.elf.model import PF_W, PF_X, PT_LOAD, ObjectPart, SectionTable, Segment, SharedObject
from archive.formats.elf.parse import parse_object
from archive.formats.elf.source_texts import source_texts, without_source_texts
from tests.support.cost import loops_below
from tests.support.elf_files import AARCH64, HEADER_FORMS, OTHER_ORDERS, elf_file

if TYPE_CHECKING:
    from archive.formats.elf.cutting import Cut

COMPILED = sorted(Path(np.__file__).parent.rglob("*.so"))
"""Shared objects that a compiler made: numpy's own."""
EXTENSION = next(Path(zstandard.__file__).parent.glob("backend_c*.so"))
FORMS = [(bits, order) for bits in (64, 32) for order in "<>"]
HEADER, PHDR = 64, 56
linux = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="loads code for Linux on x86-64"
)
readelf = pytest.mark.skipif(shutil.which("readelf") is None, reason="compares with readelf")


def parsed(data: bytes) -> SharedObject:
    return parse_object(memoryview(data))


def parts(data: bytes | memoryview) -> Cut:
    made = cut(memoryview(data))
    assert made is not None
    return made


def sizes(data: bytes) -> Counter[tuple[str, bool]]:
    counted: Counter[tuple[str, bool]] = Counter()
    for one in parsed(data).stretches():
        counted[one.part, one.mapped] += one.end - one.start
    return counted


@pytest.mark.parametrize(("bits", "order"), FORMS)
def test_each_byte_is_for_one_thing_in_both_widths_and_byte_orders(bits: int, order: str) -> None:
    made = elf_file(bits, order, appended=b"weights")
    found = sizes(made.data)
    headers = {64: 64 + 2 * 56, 32: 52 + 2 * 32}[bits]
    assert found == {
        ("headers", True): headers,
        ("code", True): 100,
        ("data", True): 50,
        ("DWARF", False): 400,
        ("symbols", False): 68,
        ("other sections", False): 51,
        ("headers", False): 7 * {64: 64, 32: 40}[bits],
        ("appended", False): 7,
    }
    assert [one.name for one in parsed(made.data).sections][:3] == ["", ".text", ".data"]


# --- declarations of headers


@pytest.mark.parametrize(("bits", "order"), FORMS)
@pytest.mark.parametrize("name", HEADER_FORMS)
@given(st.data())
def test_a_header_has_the_bytes_of_the_abi_in_both_widths_and_byte_orders(
    name: str, bits: int, order: str, data: st.DataObject
) -> None:
    layout, form = getattr(headers_of(bits, order), name), order + HEADER_FORMS[name][bits]
    stored = data.draw(st.binary(min_size=struct.calcsize(form), max_size=struct.calcsize(form)))
    row = layout.read(stored)
    assert tuple(row) == struct.unpack(form, stored)
    assert layout.build(**row._asdict()) == stored


@pytest.mark.parametrize(("bits", "order"), FORMS)
@pytest.mark.parametrize("name", OTHER_ORDERS)
def test_a_header_has_the_order_of_its_width(name: str, bits: int, order: str) -> None:
    layout = getattr(headers_of(bits, order), name)
    assert " ".join(field.name for field in layout.fields) == OTHER_ORDERS[name][bits]


@pytest.mark.parametrize(("bits", "order"), FORMS)
def test_a_header_that_is_cut_is_refused_at_the_first_field_that_is_not_whole(bits: int, order: str) -> None:
    made, header = elf_file(bits, order).data, headers_of(bits, order).file
    for end in range(4, header.size):
        layout = IDENTIFICATION if end < IDENTIFICATION.size else header
        field = next(field for field in layout.fields if end < field.offset + field.size)
        with pytest.raises(ArchiveError, match=f"^byte 0, field {field.name}: .* found {end} bytes"):
            parsed(made[:end])


@pytest.mark.parametrize("path", [*COMPILED, EXTENSION], ids=lambda path: path.name.partition(".")[0])
def test_the_stretches_of_compiled_code_are_all_its_bytes(path: Path) -> None:
    data = path.read_bytes()
    found, made = list(parsed(data).stretches()), parsed(data)
    assert (found[0].start, found[-1].end) == (0, len(data))
    assert all(one.end == next_one.start for one, next_one in pairwise(found))
    assert sum(one.end - one.start for one in found if one.mapped) == made.mapped_bytes
    assert {one.part for one in found if one.name == ".text"} == {ObjectPart.CODE}


@readelf
@pytest.mark.parametrize("path", [*COMPILED[:3], EXTENSION], ids=lambda path: path.name.partition(".")[0])
def test_headers_are_those_that_readelf_shows(path: Path) -> None:
    shown = subprocess.run(["readelf", "-lSW", path], check=True, capture_output=True, text=True).stdout
    made = parsed(path.read_bytes())
    loads = re.findall(r"^ +LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x(\w+)", shown, re.MULTILINE)
    found = [one for one in made.segments if one.kind == 1]
    assert [tuple(int(field, 16) for field in line) for line in loads] == [
        (one.offset, one.address, one.size, one.memory) for one in found
    ]
    sections = re.findall(r"^ +\[ *\d+\] (\S+) +\S+ +\w+ (\w+) (\w+)", shown, re.MULTILINE)
    assert [(name, int(start, 16), int(size, 16)) for name, start, size in sections] == [
        (one.name, one.offset, one.size) for one in made.sections[1:]
    ]


def mapped(path: Path) -> set[int]:
    """The pages of a file that are in this process's memory, as the system tells."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text("utf-8").splitlines()]
    found = set()
    for span, _, offset, _, _, *name in lines:
        if name == [str(path)]:
            first, last = (int(end, 16) for end in span.split("-"))
            found |= set(range(int(offset, 16), int(offset, 16) + last - first, 4096))
    return found


@linux
@pytest.mark.parametrize("small", [False, True], ids=["whole", "cut"])
def test_the_loader_maps_these_pages_and_no_others(tmp_path: Path, *, small: bool) -> None:
    path, data = tmp_path.resolve() / "copy.so", EXTENSION.read_bytes()
    path.write_bytes(parts(data).left if small else data)
    ctypes.CDLL(str(path))
    loads = parsed(path.read_bytes()).loads
    assert mapped(path) == {page for start, end in loads for page in range(start // 4096 * 4096, end, 4096)}


@pytest.mark.parametrize("path", [*COMPILED, EXTENSION], ids=lambda path: path.name.partition(".")[0])
def test_what_is_left_ends_behind_the_last_segment_and_comes_back_to_the_byte(path: Path) -> None:
    data = memoryview(path.read_bytes())
    if why_whole(data):  # patchelf leaves a byte after them
        assert why_whole(data) == "1 byte after its end, where a model may look for weights"
        return
    left, table, tail = parts(data).left, parts(data).table, parts(data).tail
    made = parsed(left)
    assert parts(data).size == len(left) == made.needed == parse_object(data).needed < len(data)
    assert not made.sections
    assert made.segments == parse_object(data).segments
    assert why_whole(memoryview(left)) == "nothing follows its segments"
    assert cut(memoryview(left)) is None
    assert uncut(memoryview(left), table, tail) == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (elf_file(machine=AARCH64).data, "ELF for AArch64, 64 bits, little-endian"),
        (elf_file(32, machine=3).data, "ELF for x86, 32 bits, little-endian"),
        (elf_file(order=">", machine=22).data, "ELF for S/390, 64 bits, big-endian"),
        (elf_file(kind=2).data, "not a shared object"),
        (elf_file(appended=b"weights!").data, "8 bytes after its end"),
        (struct.pack("<I", 0xFEEDFACF) + bytes(100), "Mach-O, 64 bits"),
        (struct.pack("<I", 0xFEEDFACE) + bytes(100), "Mach-O, 32 bits"),
        (struct.pack(">I", 0xCAFEBABE) + bytes(100), "Mach-O, several machines"),
        (b"MZ\x90\0" + bytes(100), "Windows (PE)"),
        (b"", "no ELF file"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_code_of_other_machines_and_appended_weights_stay_whole(data: bytes, why: str) -> None:
    assert why_whole(memoryview(data)).startswith(why)


def changed(data: bytes, at: int, form: str, value: int) -> bytes:
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form) :]


MADE = elf_file()
TEXT = MADE.sections + 64
FORGED = [
    (MADE.data[:63], "byte 0, field shstrndx: expected a file header of 64 bytes, found 63 bytes"),
    (MADE.data[:4], "byte 0, field ei_class: expected a file identification of 16 bytes, found 4 bytes"),
    (changed(MADE.data, 4, "B", 9), r"byte 4: expected 1 \(32 bits\) or 2 \(64 bits\), found 9"),
    (changed(MADE.data, 5, "B", 0), "byte 5: expected 1 .* found 0"),
    (changed(MADE.data, 32, "<Q", 1 << 63), "byte 32: expected bytes within the file's .* 112 from byte 9,2"),
    (changed(MADE.data, 40, "<Q", 1200), "byte 40: expected bytes within the file's"),
    (changed(MADE.data, 54, "<H", 1), "byte 54: expected 56 bytes a header, found 1"),
    (changed(MADE.data, 56, "<H", 0xFFFF), "byte 56: expected at most 4,096 headers, found 65,535"),
    (changed(MADE.data, 56, "<H", 4096), "byte 32: expected bytes within"),
    (changed(MADE.data, 58, "<H", 0), "byte 58: expected 64 bytes a header, found 0"),
    (changed(MADE.data, 60, "<H", 0xFF00), "byte 60: expected at most 4,096 headers, found 65,280"),
    (changed(MADE.data, 62, "<H", 7), "byte 62: expected one of 7, found 7"),
    (changed(MADE.data, HEADER + 8, "<Q", (1 << 64) - 1), f"byte {HEADER}: expected bytes within"),
    (changed(MADE.data, HEADER + PHDR + 32, "<Q", 1 << 62), f"byte {HEADER + PHDR}: expected bytes within"),
    (changed(MADE.data, TEXT + 24, "<Q", 1 << 40), f"byte {TEXT}: expected bytes within"),
    (changed(MADE.data, TEXT + 32, "<Q", 101), f"byte {TEXT + 64}: expected a part after byte 276, found"),
    (changed(MADE.data, TEXT, "<I", 1 << 31), f"byte {TEXT}: expected a name of less than 1024 bytes"),
    (changed(MADE.data, TEXT + 3 * 64 + 40, "<I", 7), f"byte {TEXT + 3 * 64}: expected a link to one of 7"),
]


@pytest.mark.parametrize(("data", "message"), FORGED, ids=[message[:40] for _, message in FORGED])
def test_headers_that_lie_are_refused_at_their_byte(data: bytes, message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        parsed(data)


@given(st.data())
def test_whatever_headers_say_all_bytes_are_labelled_or_the_file_is_refused(data: st.DataObject) -> None:
    made = data.draw(st.sampled_from([elf_file(bits, order) for bits, order in FORMS]))
    headers = [*range(made.segments + 112), *range(made.sections, len(made.data))]
    file = bytearray(made.data)
    for at in data.draw(st.lists(st.sampled_from(headers), min_size=1, max_size=4)):
        file[at] = data.draw(st.integers(0, 255))
    try:
        found = list(parsed(bytes(file)).stretches())
    except ArchiveError:
        return
    assert found[0].start == 0
    assert found[-1].end == len(file)
    assert all(one.end == next_one.start for one, next_one in pairwise(found))
    made_of = cut(memoryview(file))
    if made_of is not None:
        assert uncut(memoryview(made_of.left), made_of.table, made_of.tail) == file


def test_many_headers_take_time_in_proportion() -> None:
    count = 4_096
    body = 64 + 56 * count
    segments = b"".join(
        struct.pack("<IIQQQQQQ", 1, 4, body + 2 * number, 0, 0, 1, 1, 1) for number in range(count)
    )
    sections = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, 1, 2, 0, body + 2 * number, 1, 0, 0, 1, 0) for number in range(count)
    )
    fields = (3, 62, 1, 0, 64, body + 2 * count, 0, 64, 56, count, 64, count, 0)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", *fields)
    with loops_below(200):
        found = list(parsed(header + segments + bytes(2 * count) + sections).stretches())
    assert len(found) == 2 * count + 3


def test_segments_that_are_not_mapped_stay_too() -> None:
    noted = changed(MADE.data, HEADER + PHDR, "<I", 4)  # the second one is a note
    assert parsed(noted).needed == parsed(MADE.data).needed
    assert parsed(noted).mapped_bytes == parsed(MADE.data).mapped_bytes - 50
    assert parts(noted).left[64:] == noted[64 : parsed(noted).needed]


def test_without_section_headers_segments_say_what_bytes_are_for() -> None:
    left = parts(MADE.data).left
    assert sizes(left) == {("headers", True): HEADER + 2 * PHDR, ("code", True): 100, ("data", True): 50}
    constant = changed(left, HEADER + PHDR + 4, "<I", 4)  # the second one is read only
    assert sizes(constant)["read-only data", True] == 50


# --- Paths of source files and stack traces in the read-only data of shared objects


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
