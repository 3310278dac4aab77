"""The headers of an ELF file, read and checked; and the system that any other shared object is for."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from archive.base.errors import ArchiveError, one_line
from archive.base.strings import decoded
from archive.formats.elf.headers import IDENTIFICATION, MAGIC, ORDERS, WIDTHS, headers_of, place_of
from archive.formats.elf.model import SHT_SYMTAB, ElfSection, SectionTable, Segment, SharedObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.elf.headers import Headers

_Value = TypeVar("_Value")

OTHER_MAGICS = (
    (b"\xcf\xfa\xed\xfe", "Mach-O, 64 bits"),
    (b"\xce\xfa\xed\xfe", "Mach-O, 32 bits"),
    (b"\xca\xfe\xba\xbe", "Mach-O, several machines"),
    (b"MZ", "Windows (PE)"),
)
"""Shared objects of other systems, by their first bytes."""
MOST = 1 << 12
"""Most headers of a table. Compiled models have some 40 sections; 0xFF00 and more are counted elsewhere."""
NAME_BYTES = 1024
"""Most bytes of a section's name."""


def is_elf(data: memoryview) -> bool:
    """Whether a file is an ELF file."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def other_object(data: memoryview) -> str:
    """The system whose shared object a file is, in words; "" if its first bytes are unknown."""
    head = bytes(data[:4])
    return next((words for magic, words in OTHER_MAGICS if head.startswith(magic)), "")


def parse_object(data: memoryview, *, as_loaded: bool = False) -> SharedObject:
    """An ELF file by its headers.

    Args:
        as_loaded: skip section headers, as the loader does.
    """
    if not is_elf(data):
        raise ArchiveError(place="byte 0", expected="an ELF file", found=repr(bytes(data[: len(MAGIC)])))
    identification = IDENTIFICATION.read(data)
    bits = _known("ei_class", identification.ei_class, WIDTHS, "1 (32 bits) or 2 (64 bits)")
    order = _known("ei_data", identification.ei_data, ORDERS, "1 (little-endian) or 2 (big-endian)")
    headers = headers_of(bits, order)
    head = headers.file.read(data)
    segments = _HeaderTable(data, headers, "ph", head.phoff, head.phnum, head.phentsize)
    count = 0 if as_loaded else head.shnum
    sections = _HeaderTable(data, headers, "sh", head.shoff, count, head.shentsize)
    made = SharedObject(
        len(data),
        bits,
        order,
        head.type,
        head.machine,
        ((0, headers.file.size), segments.span, sections.span),
        SectionTable(head.shoff, head.shnum, head.shstrndx),
        tuple(segments.segments()),
        tuple(sections.sections(head.shstrndx)),
    )
    _check_apart(made, sections)
    return made


class _HeaderTable:
    """Program headers or section headers.

    Args:
        headers: their layouts.
        prefix: ``ph`` or ``sh``, the prefix of the file header's fields about the table.
        start: first byte of the table.
        size: bytes of each, as the file says.
    """

    def __init__(  # noqa: PLR0917 (a table is that much)
        self, data: memoryview, headers: Headers, prefix: str, start: int, count: int, size: int
    ) -> None:
        self._data, self._headers, self._start = data, headers, start
        self._size = (headers.program if prefix == "ph" else headers.section).size

        def place(field: str) -> str:
            return place_of(headers.file, prefix + field)

        if count > MOST:
            raise ArchiveError(place=place("num"), expected=f"at most {MOST:,} headers", found=f"{count:,}")
        if count and size != self._size:
            expected = f"{self._size} bytes a header"
            raise ArchiveError(place=place("entsize"), expected=expected, found=str(size))
        self._check_within(start if count else 0, count * size, place("off"))
        self.span = (start, start + count * size) if count else (0, 0)

    def place(self, number: int) -> int:
        """The first byte of a header."""
        return self._start + number * self._size

    def segments(self) -> Iterator[Segment]:
        """The headers as those of segments."""
        for number, header in enumerate(self._headers.program.read_all(self._data[slice(*self.span)])):
            self._check_within(
                header.offset if header.filesz else 0, header.filesz, f"byte {self.place(number)}"
            )
            yield Segment(header.type, header.flags, header.offset, header.vaddr, header.filesz, header.memsz)

    def sections(self, names: int) -> Iterator[ElfSection]:
        """The headers as those of sections; ``names``: the number of the one with names."""
        listed = [
            (header.name, ElfSection("", header.type, header.flags, header.offset, header.size, header.link))
            for header in self._headers.section.read_all(self._data[slice(*self.span)])
        ]
        if listed and names >= len(listed):
            place = place_of(self._headers.file, "shstrndx")
            raise ArchiveError(place=place, expected=f"one of {len(listed)}", found=str(names))
        for number, (_, section) in enumerate(listed):
            place = f"byte {self.place(number)}"
            self._check_within(section.offset, section.end - section.offset, place)
            if section.kind == SHT_SYMTAB and section.link >= len(listed):
                expected = f"a link to one of {len(listed)}"
                raise ArchiveError(place=place, expected=expected, found=str(section.link))
        for number, (name, section) in enumerate(listed):
            yield section._replace(name=self._name(listed[names][1], name, number))

    def _name(self, names: ElfSection, at: int, number: int) -> str:
        """The name of a section; "" where none has one."""
        if names.end == names.offset:
            return ""
        head = bytes(self._data[names.offset : names.end][at : at + NAME_BYTES])
        length = head.find(0)
        if length < 0:
            expected = f"a name of less than {NAME_BYTES} bytes in the section of names"
            raise ArchiveError(place=f"byte {self.place(number)}", expected=expected, found=f"none at {at:,}")
        return one_line(decoded(head[:length]))

    def _check_within(self, start: int, size: int, place: str) -> None:
        if start + size > len(self._data):
            expected = f"bytes within the file's {len(self._data):,}"
            found = f"{size:,} from byte {start:,} on"
            raise ArchiveError(place=place, expected=expected, found=found)


def _check_apart(made: SharedObject, table: _HeaderTable) -> None:
    """Refuse sections that overlap one another or headers."""
    placed = [(begin, end, begin) for begin, end in made.headers if end > begin]
    placed += [
        (section.offset, section.end, table.place(number))
        for number, section in enumerate(made.sections)
        if section.end > section.offset
    ]
    for (_, end, _), (begin, _, place) in pairwise(sorted(placed)):
        if begin < end:
            found = f"one from byte {begin:,} on"
            raise ArchiveError(place=f"byte {place}", expected=f"a part after byte {end - 1:,}", found=found)


def _known(field: str, number: int, values: Mapping[int, _Value], expected: str) -> _Value:
    """What a number of the identification stands for."""
    if number not in values:
        place = place_of(IDENTIFICATION, field)
        raise ArchiveError(place=place, expected=expected, found=str(number))
    return values[number]
