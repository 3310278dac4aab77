"""``verify`` of packages of AOTInductor, compared with what PyTorch 2.13 says when it loads them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import pytest

import archive
from archive.check.program_loader.objects import FUNCTIONS, RUN
from archive.check.verify import verification, verify
from archive.container.write import new_member
from tests.support.broken_programs import rewritten
from tests.support.elf_files import AARCH64
from tests.support.exported import EXPORTED, PACKAGES, package_halves, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[bytes], bytes] | None


class Broken(NamedTuple):
    """A change of a package.

    Attributes:
        ending: of the record that is changed.
        change: gives its new bytes; None takes it out.
        record: a part of the name of the record that is told; "" for the archive.
        told: what ``verify`` says.
        message: what PyTorch says; "" where it is not asked.
    """

    ending: str
    change: Change
    record: str
    told: str
    message: str


def metadata(text: bytes) -> Change:
    """Other metadata."""
    return lambda _: text


def header(at: int, *values: int) -> Change:
    """Other bytes in an ELF header."""
    return lambda data: data[:at] + struct.pack(f"<{len(values)}B", *values) + data[at + len(values) :]


def segment(kind: int, field: int, value: int) -> Change:
    """Another value in the first program header of a kind, for 32 bits from a field on."""

    def change(data: bytes) -> bytes:
        (start,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
        places = range(start, start + 56 * count, 56)
        at = next(place for place in places if struct.unpack_from("<I", data, place)[0] == kind) + field
        return data[:at] + struct.pack("<I", value) + data[at + 4 :]

    return change


def dynamic(*tags: int) -> Change:
    """Dynamic entries of other kinds than these: the loader passes over what it does not know."""

    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        (start,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
        for place in range(start, start + 56 * count, 56):
            kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, place)
            for at in range(offset, offset + size, 16) if kind == PT_DYNAMIC else ():
                if struct.unpack_from("<Q", data, at)[0] in tags:
                    struct.pack_into("<Q", changed, at, 0x6FFFFFEF)
        return bytes(changed)

    return change


def without(function: str) -> Change:
    """Another name of a function."""
    name = f"\0{function}\0".encode()
    return lambda data: data.replace(name, name.replace(b"\0AOT", b"\0ZOT"))


PT_LOAD, PT_DYNAMIC = 1, 2
WRAPPER, KERNEL, OBJECT = "wrapper_metadata.json", "kernel_metadata.json", ".so"
BROKEN = {
    "no metadata": Broken(
        WRAPPER,
        None,
        "",
        "expected a file *wrapper_metadata.json in data/aotinductor/model/, found none",
        "Failed to find wrapper metadata for model",
    ),
    "no metadata of a source": Broken(KERNEL, None, "", ".kernel_metadata.json in data", "File not found: "),
    "no JSON": Broken(WRAPPER, metadata(b"{"), WRAPPER, "expected JSON", ""),
    "a number": Broken(
        WRAPPER,
        metadata(b'{"AOTI_DEVICE_KEY": 5}'),
        WRAPPER,
        "expected a text, found a number",
        "type must be string",
    ),
    "no device": Broken(
        WRAPPER,
        metadata(b"{}"),
        WRAPPER,
        "expected a field AOTI_DEVICE_KEY, found none",
        "KeyError: 'AOTI_DEVICE_KEY'",
    ),
    "no object": Broken(
        OBJECT, None, "", "kernel_compile_flags.json in data/aotinductor/model/", "File not found: "
    ),
    "no ELF": Broken(OBJECT, lambda _: b"abc", OBJECT, "expected an ELF file", ""),
    "no segments": Broken(
        OBJECT, header(56, 0, 0), OBJECT, "expected a segment to load", "object file has no loadable segments"
    ),
    "no dynamic entries": Broken(
        OBJECT,
        segment(PT_DYNAMIC, 0, 0),
        OBJECT,
        "expected a segment of dynamic entries",
        "object file has no dynamic section",
    ),
    "32 bits": Broken(OBJECT, header(4, 1), OBJECT, "", ""),
    "big-endian": Broken(OBJECT, header(5, 2), OBJECT, "", ""),
    "other identification": Broken(
        OBJECT,
        header(6, 2),
        OBJECT,
        "expected version 1, found 2",
        "ELF file version ident does not match current",
    ),
    "other system": Broken(OBJECT, header(7, 9), OBJECT, "the ABI of System V", "ELF file OS ABI invalid"),
    "padding": Broken(OBJECT, header(9, 1), OBJECT, "expected zeros", "nonzero padding in e_ident"),
    "executable": Broken(
        OBJECT, header(16, 2, 0), OBJECT, "expected a shared object (type 3), found type 2", ""
    ),
    "other version": Broken(
        OBJECT,
        header(20, 2),
        OBJECT,
        "expected version 1, found 2",
        "ELF file version does not match current one",
    ),
    "off its page": Broken(
        OBJECT,
        segment(PT_LOAD, 16, 16),
        OBJECT,
        "expected segment 0 as far from the beginning",
        "page-aligned",
    ),
    "no symbols": Broken(OBJECT, dynamic(6), OBJECT, "expected symbols", ""),  # which ends PyTorch's process
    "no names": Broken(OBJECT, dynamic(5), OBJECT, "expected symbols and their names", ""),  # likewise
    "no hashes": Broken(
        OBJECT, dynamic(4, 0x6FFFFEF5), OBJECT, "expected a table of hashes", "undefined symbol: "
    ),
    **{
        name: Broken(OBJECT, without(name), OBJECT, f"found no {name}", "undefined symbol: ")
        for name in FUNCTIONS
    },
    RUN: Broken(OBJECT, without(RUN), OBJECT, f"{RUN}, found none; PyTorch 2.13 loads it, and ends", ""),
    "cut": Broken(OBJECT, lambda data: data[:100_000], OBJECT, "", ""),  # which ends PyTorch's process
    "kernels": Broken("kernel_information.json", lambda _: b"[]", "kernel_inf", "expected an object", ""),
}


def broken(one: Broken, folder: Path) -> bytes:
    """The package with the change."""
    path = written("compiled", folder)
    with archive.open(path) as source:
        (name,) = [name for name in source.records if name.endswith(one.ending)]
        data = bytes(source.records[name].view())
    member = None if one.change is None else new_member(name, one.change(data), compress=False)
    return rewritten(path, {name: member})


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_of_pytorch_are_well(name: str, tmp_path: Path) -> None:
    found = verify(written(name, tmp_path))
    assert [one.severity for one in found] == ["note"] * (name == "several")


@pytest.mark.parametrize("what", BROKEN)
def test_what_the_loader_lacks_is_an_error_with_its_place(what: str, tmp_path: Path) -> None:
    one = BROKEN[what]
    found = [told for told in verify(broken(one, tmp_path)) if told.severity == "error"]
    assert found
    assert all(one.record in told.record and one.told in told.message for told in found)


@pytest.mark.torch
@pytest.mark.parametrize("what", [what for what, one in BROKEN.items() if one.message])
def test_pytorch_refuses_it_with_the_message_that_is_told(what: str, tmp_path: Path) -> None:
    from tests.support.running_exported import refusal  # noqa: PLC0415 (needs PyTorch)

    data = broken(BROKEN[what], tmp_path)
    assert BROKEN[what].message in refusal(data)
    assert any(f'"{BROKEN[what].message.strip()}' in one.message for one in verify(data))


def test_code_for_another_machine_than_the_metadata_say_is_a_warning(tmp_path: Path) -> None:
    (found,) = verify(broken(Broken(OBJECT, header(18, AARCH64), "", "", ""), tmp_path))
    assert (found.severity, found.place) == ("warning", "byte 18")
    assert "expected code for x86_64, as the metadata say, found an ELF for AArch64" in found.message


@pytest.mark.torch
def test_pytorch_loads_an_object_whose_section_headers_are_wrong(tmp_path: Path) -> None:
    from tests.support.running_exported import refusal  # noqa: PLC0415 (needs PyTorch)

    data = broken(Broken(OBJECT, header(40, *b"\xff" * 8), "", "", ""), tmp_path)
    (found,) = verify(data)
    assert found.severity == "warning"
    assert "PyTorch 2.13 may accept it all the same: the loader passes section headers over" in found.message
    assert not refusal(data)


def test_a_model_for_another_system_is_not_said_to_be_looked_into(tmp_path: Path) -> None:
    (found,) = verify(broken(Broken(OBJECT, lambda _: b"MZ" + bytes(100), "", "", ""), tmp_path))
    assert (found.severity, found.message) == (
        "note",
        "a shared object for Windows (PE), which is not looked into",
    )


def test_what_is_not_checked_of_an_object_is_told(tmp_path: Path) -> None:
    assert verification(written("compiled", tmp_path)).checked[-2:] == [
        "1 compiled model checked for what PyTorch 2.13 finds in it before the model's code runs",
        "1 shared object looked into as its loader and PyTorch 2.13 do; the libraries that it needs were not",
    ]


def test_an_object_of_a_header_alone_is_refused() -> None:
    (found,) = verify(EXPORTED.parent / "kinds" / "compiled.pt2")
    assert 'PyTorch 2.13 refuses it: "object file has no loadable segments"' in found.message


def test_two_wrappers_are_one_too_many(tmp_path: Path) -> None:
    path = written("compiled", tmp_path)
    with archive.open(path) as source:
        (name,) = [name for name in source.records if name.endswith(OBJECT)]
        data = bytes(source.records[name].view())
    more = new_member(name.replace(".wrapper", "x.wrapper"), data, compress=False)
    found = verify(rewritten(path, {"byteorder": more}))
    assert [one.severity for one in found] == ["error"]
    assert 'PyTorch 2.13 refuses it: "Multiple wrapper shared libraries found"' in found[0].message


def test_what_is_left_of_a_package_and_its_companion_are_well(tmp_path: Path) -> None:
    embedded = tmp_path / "embedded.pt2"
    archive.shrink(written("profiled", tmp_path), embedded, level="embed")
    assert [verify(one) for one in (*package_halves("compiled"), embedded)] == [[], [], []]
