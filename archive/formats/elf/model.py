"""An ELF file's headers as values, and what each of its bytes is for."""

from __future__ import annotations

from bisect import bisect_left
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from archive.base.quick_dataclass import dataclass
from archive.formats.elf.headers import DYNAMIC_64
from archive.formats.schema.words import LITTLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PT_LOAD, PT_DYNAMIC, PF_X, PF_W = 1, 2, 1, 2
SHT_NULL, SHT_SYMTAB, SHT_NOBITS = 0, 2, 8
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
PAGE = 4096
"""Bytes of a page on x86-64."""
MACHINES = {3: "x86", 21: "PowerPC", 22: "S/390", 40: "ARM", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}
"""Names of machines, by e_machine."""


class ObjectPart(StrEnum):
    """What bytes of a shared object are for."""

    HEADERS = "headers"
    CODE = "code"
    CONSTANTS = "read-only data"
    DATA = "data"
    DWARF = "DWARF"
    SYMBOLS = "symbols"
    OTHER = "other sections"
    PADDING = "padding"
    APPENDED = "appended"


class Segment(NamedTuple):
    """A program header: bytes of the file, and where they go in memory.

    Attributes:
        kind: p_type.
        flags: p_flags.
        offset: first byte in the file.
        address: of that byte in memory, relative to the object's base.
        size: bytes in the file.
        memory: bytes in memory; those not in the file are 0.
    """

    kind: int
    flags: int
    offset: int
    address: int
    size: int
    memory: int


class ElfSection(NamedTuple):
    """A section header.

    Attributes:
        kind: sh_type.
        flags: sh_flags.
        offset: first byte in the file.
        size: bytes; those of a section without contents (SHT_NOBITS) are not in the file.
        link: number of a section that belongs to it.
    """

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int

    @property
    def end(self) -> int:
        """The byte after its last one in the file."""
        return self.offset + (0 if self.kind in (SHT_NULL, SHT_NOBITS) else self.size)


class Stretch(NamedTuple):
    """Bytes of a shared object that serve one purpose.

    Attributes:
        part: what they are for.
        name: of the section; "" if they belong to none.
        start: first byte in the file.
        end: byte after the last one.
        mapped: whether they are in a segment that the loader maps.
    """

    part: ObjectPart
    name: str
    start: int
    end: int
    mapped: bool


class SectionTable(NamedTuple):
    """Where the section headers are, according to the ELF header.

    Attributes:
        start: e_shoff.
        sections: e_shnum.
        names: e_shstrndx, the number of the section of names.
    """

    start: int
    sections: int
    names: int


@dataclass(frozen=True, slots=True)
class SharedObject:
    """An ELF file. :func:`~archive.formats.elf.parse.parse_object` makes it.

    Attributes:
        size: bytes of the file.
        bits: 64 or 32.
        order: byte order, as :mod:`struct` writes it: ``<`` or ``>``.
        kind: e_type.
        machine: e_machine.
        headers: first byte, and the byte after the last, of the header, program headers and section headers.
        table: where section headers are.
        segments: in the file's order.
        sections: in the file's order; empty if they were taken out.
    """

    size: int
    bits: int
    order: str
    kind: int
    machine: int
    headers: tuple[tuple[int, int], ...]
    table: SectionTable
    segments: tuple[Segment, ...]
    sections: tuple[ElfSection, ...]

    def __str__(self) -> str:
        machine = MACHINES.get(self.machine, f"machine {self.machine}")
        return f"ELF for {machine}, {self.bits} bits, {'little' if self.order == LITTLE else 'big'}-endian"

    @property
    def has_form_of_models(self) -> bool:
        """Whether it has the form of compiled models' objects: 64 bits, little-endian."""
        return (self.bits, self.order) == (64, LITTLE)

    @property
    def loads(self) -> list[tuple[int, int]]:
        """First byte and the byte after the last of the segments that the loader maps, joined, in order."""
        return _joined(
            (segment.offset, segment.offset + segment.size)
            for segment in self.segments
            if segment.kind == PT_LOAD and segment.size
        )

    def in_file(self, start: int, end: int) -> tuple[int, int] | None:
        """The bytes of the file that are loaded to some addresses; None if they are in no segment."""
        for segment in self.segments:
            if segment.kind == PT_LOAD and segment.address <= start <= end <= segment.address + segment.size:
                return start - segment.address + segment.offset, end - segment.address + segment.offset
        return None

    def dynamic(self, data: memoryview) -> dict[int, int]:
        """What the loader must know of a 64-bit little-endian object: values by DT number."""
        entries: dict[int, int] = {}
        for segment in self.segments:
            if segment.kind == PT_DYNAMIC:
                whole = segment.size - segment.size % DYNAMIC_64.size
                entries |= DYNAMIC_64.read_all(data[segment.offset : segment.offset + whole])
        return entries

    @property
    def mapped_bytes(self) -> int:
        """Bytes of the segments that the loader maps."""
        return sum(end - start for start, end in self.loads)

    @property
    def needed(self) -> int:
        """The number of leading bytes that hold all segments, the header and the program headers."""
        used = [end for _, end in self.headers[:2]]
        return max(used + [segment.offset + segment.size for segment in self.segments if segment.size])

    @property
    def end(self) -> int:
        """The byte after the last one that a header mentions; bytes from there on were appended."""
        return max(
            self.needed, *(end for _, end in self.headers), *(section.end for section in self.sections), 0
        )

    def stretches(self) -> Iterator[Stretch]:
        """All bytes of the file, in order, each once."""
        known = [(start, end, ObjectPart.HEADERS, "") for start, end in self.headers]
        known += self._named() if self.sections else self._unnamed()
        at, loads = 0, self.loads
        for start, end, part, name in sorted(known):
            if end > max(at, start):
                yield from _divided(loads, at, max(at, start), ObjectPart.PADDING, "")
                yield from _divided(loads, max(at, start), end, part, name)
                at = end
        yield from _divided(loads, at, self.size, ObjectPart.APPENDED, "")

    def _named(self) -> Iterator[_Known]:
        """The sections that have bytes in the file."""
        tables = {number for number, section in enumerate(self.sections) if section.kind == SHT_SYMTAB}
        symbols = tables | {self.sections[number].link for number in tables}
        for number, section in enumerate(self.sections):
            if section.flags & SHF_ALLOC:
                part = _mapped_part(section.flags & SHF_EXECINSTR, section.flags & SHF_WRITE)
            elif section.name.startswith((".debug_", ".zdebug_")):
                part = ObjectPart.DWARF
            else:
                part = ObjectPart.SYMBOLS if number in symbols else ObjectPart.OTHER
            yield section.offset, section.end, part, section.name

    def _unnamed(self) -> Iterator[_Known]:
        """The segments that the loader maps, in place of sections; the first one begins with headers."""
        for segment in self.segments:
            if segment.kind == PT_LOAD:
                part = _mapped_part(segment.flags & PF_X, segment.flags & PF_W)
                at, last = segment.offset, segment.offset + segment.size
                for start, end in sorted(self.headers):
                    yield at, min(start, last), part, ""
                    at = max(at, end)
                yield at, last, part, ""


_Known = tuple[int, int, ObjectPart, str]
"""First byte and the byte after the last, what they are for, and the section's name."""


def _mapped_part(executable: int, writable: int) -> ObjectPart:
    if executable:
        return ObjectPart.CODE
    return ObjectPart.DATA if writable else ObjectPart.CONSTANTS


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order; those that touch or overlap become one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _divided(
    loads: list[tuple[int, int]], start: int, end: int, part: ObjectPart, name: str
) -> Iterator[Stretch]:
    """A stretch, split where mapped bytes begin and end."""
    near = loads[max(bisect_left(loads, (start,)) - 1, 0) : bisect_left(loads, (end,))]
    edges = {start, end} | {edge for load in near for edge in load if start < edge < end}
    for low, high in pairwise(sorted(edges)):
        yield Stretch(part, name, low, high, any(first <= low < last for first, last in near))
