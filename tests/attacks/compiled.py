"""Packages of compiled models whose shared objects lie or ask for much, and companions of such models."""

from __future__ import annotations

import struct
import zlib

from archive.companion.codecs import Codec, compressed
from archive.companion.layout import MAPPED_LINE, CompanionLayout
from archive.companion.layout import written as companion_of_sections
from archive.normalform.columns import OBJECTS
from tests.attacks.attack import MIB, Attack
from tests.attacks.zips import entry, zipped
from tests.support.elf_files import elf_file

COMMANDS = (
    "inspect m.pt2",
    "verify m.pt2",
    "sizes m.pt2",
    "leaks m.pt2",
    "split m.pt2 -o s.pt2 -c s.ptdbg",
    "shrink m.pt2 -o c.pt2",
    "shrink m.pt2 -o e.pt2 --level embed",
)
MADE = elf_file()
MODEL = "m/data/aotinductor/model/x.wrapper"


def package(shared_object: bytes, *, deflate: bool = False) -> bytes:
    """A package of one model."""
    records = {"m/archive_format": b"pt2", "m/archive_version": b"0", f"{MODEL}_metadata.json": b"{}"}
    entries = [entry(name, data) for name, data in records.items()]
    return zipped(*entries, entry(f"{MODEL}.so", shared_object, deflate=deflate))


def changed(at: int, form: str, value: int) -> bytes:
    """A shared object with another value in a header."""
    return MADE.data[:at] + struct.pack(form, value) + MADE.data[at + struct.calcsize(form) :]


LIES = {
    "segments": changed(32, "<Q", (1 << 64) - 1),
    "count": changed(56, "<H", 0xFEFF),
    "sections": changed(40, "<Q", 1 << 62),
    "names": changed(62, "<H", 0xFFFF),
    "segment": changed(MADE.segments + 32, "<Q", (1 << 64) - 1),
    "overlap": changed(MADE.sections + 64 + 32, "<Q", 120),
    "link": changed(MADE.sections + 4 * 64 + 40, "<I", 0xFFFFFFFF),
    "name": changed(MADE.sections + 64, "<I", 0xFFFFFFF0),
}
"""Shared objects whose headers lie, by the field that does."""


def _lying() -> dict[str, bytes]:
    return {f"{name}.pt2": package(data) for name, data in LIES.items()}


def _many_headers() -> dict[str, bytes]:
    """4,096 segments, and as many sections that share a name of 1,023 bytes."""
    count, name = 4_096, b"\xff" * 1023 + b"\0"
    body = 64 + 56 * count
    places = range(body + len(name), body + len(name) + 2 * count, 2)
    segments = b"".join(struct.pack("<IIQQQQQQ", 1, 4, place, 0, 0, 1, 1, 1) for place in places)
    sections = [struct.pack("<IIQQQQIIQQ", 0, 1, 2, 0, body, len(name), 0, 0, 1, 0)]
    sections += [struct.pack("<IIQQQQIIQQ", 0, 1, 2, 0, place, 1, 0, 0, 1, 0) for place in places[1:]]
    fields = (3, 62, 1, 0, 64, places.stop, 0, 64, 56, count, 64, count, 0)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", *fields)
    return {"m.pt2": package(header + segments + name + bytes(2 * count) + b"".join(sections))}


def _inflating() -> dict[str, bytes]:
    """A section without a name of 200 MiB of zeros, which deflate to 200 KB."""
    size = 200 * MIB
    data = bytearray(MADE.data + bytes(size))
    struct.pack_into("<QQ", data, MADE.sections + 24, len(MADE.data), size)  # of section 0
    struct.pack_into("<I", data, MADE.sections + 4, 1)
    return {"m.pt2": package(bytes(data), deflate=True)}


def _many_models() -> dict[str, bytes]:
    """20,000 folders of models, each with a source."""
    records = [entry("m/archive_format", b"pt2"), entry("m/archive_version", b"0")]
    records += [entry(f"m/data/aotinductor/{number}/x.cpp", b"") for number in range(20_000)]
    return {"m.pt2": zipped(*records)}


def _companion() -> dict[str, bytes]:
    """A companion whose section of shared objects inflates to 200 MiB."""
    size = 200 * MIB
    codec, stored = compressed(bytes(size), 1, Codec.ZSTD)
    section = MAPPED_LINE.row(OBJECTS, 1, codec, 0, 0, size, len(stored), zlib.crc32(stored))
    companion = companion_of_sections(CompanionLayout.PACKED, bytes(16), [(section, stored)])
    return {"c.ptdbg": companion, "m.pt2": package(MADE.data)}


def _each(command: str) -> list[str]:
    """A command for each shared object that lies."""
    return [command.replace("m.pt2", f"{name}.pt2") + " --force" * (" -o " in command) for name in LIES]


ATTACKS = {
    "shared objects that lie": Attack(
        "Headers of shared objects state segments and sections beyond the file, or that overlap.",
        _lying,
        tuple(one for command in COMMANDS[:4] for one in _each(command)),
    ),
    "shared object of many headers": Attack(
        "4,096 sections share one long name; as many segments are one byte each.",
        _many_headers,
        COMMANDS,
        loops=2_000,
    ),
    "shared object that inflates": Attack("200 MiB of zeros that are never mapped.", _inflating, COMMANDS),
    "package of many models": Attack(
        "20,000 folders of compiled models.", _many_models, COMMANDS, loops=2_000
    ),
    "companion of a shared object that inflates": Attack(
        "200 MiB of zeros for a shared object, in one section.",
        _companion,
        ("inspect c.ptdbg", "join m.pt2 -c c.ptdbg -o j.pt2", "convert c.ptdbg -o n.ptdbg --layout mapped"),
    ),
}
