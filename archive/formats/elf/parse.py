"""The headers of an ELF file, read and checked; shared objects of other systems are told."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from archive.base.errors import ArchiveError, one_line
from archive.base.strings import decoded
from archive.formats.elf.model import SHT_SYMTAB, Section, SectionTable, Segment, SharedObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Value = TypeVar("_Value")

MAGIC = b"\x7fELF"
OTHER_MAGICS = (
    (b"\xcf\xfa\xed\xfe", "Mach-O, 64 bits"),
    (b"\xce\xfa\xed\xfe", "Mach-O, 32 bits"),
    (b"\xca\xfe\xba\xbe", "Mach-O, several machines"),
    (b"MZ", "Windows (PE)"),
)
"""Shared objects of other systems, by their first bytes."""
MOST = 1 << 12
"""Headers of a table, at most. Compiled models have some 40 sections; 0xFF00 are counted elsewhere."""
NAME_BYTES = 1024
"""Most bytes of a section's name."""
IDENTIFICATION = 16
WIDTHS, ORDERS = {1: 32, 2: 64}, {1: "<", 2: ">"}


class _Layout(NamedTuple):
    """The headers of files of one width, as :mod:`struct` has them, and where some fields stand."""

    header: str
    segment: str
    section: str
    segments_at: _Place
    sections_at: _Place
    names_at: int


class _Place(NamedTuple):
    """Where a header says where a table is: the byte of each of the three fields."""

    start_at: int
    size_at: int
    count_at: int


LAYOUTS = {
    64: _Layout("HHIQQQIHHHHHH", "IIQQQQQQ", "IIQQQQIIQQ", _Place(32, 54, 56), _Place(40, 58, 60), 62),
    32: _Layout("HHIIIIIHHHHHH", "IIIIIIII", "IIIIIIIIII", _Place(28, 42, 44), _Place(32, 46, 48), 50),
}


def is_elf(data: memoryview) -> bool:
    """Whether a file is an ELF file."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def other_object(data: memoryview) -> str:
    """The system whose shared object a file is, in words; "" if its first bytes are none's."""
    head = bytes(data[:4])
    return next((words for magic, words in OTHER_MAGICS if head.startswith(magic)), "")


def parse_object(data: memoryview) -> SharedObject:
    """An ELF file by its headers.

    Args:
        data: the file.

    Raises:
        ArchiveError: it is no ELF file, or its headers contradict one another or the file; the place is the
            byte of the field or header.
    """
    if not is_elf(data):
        raise ArchiveError(place="byte 0", expected="an ELF file", found=repr(bytes(data[: len(MAGIC)])))
    if len(data) < IDENTIFICATION:
        raise ArchiveError(place="byte 0", expected=f"{IDENTIFICATION} bytes", found=f"{len(data)} bytes")
    bits = _known(data, 4, WIDTHS, "1 (32 bits) or 2 (64 bits)")
    order = _known(data, 5, ORDERS, "1 (little-endian) or 2 (big-endian)")
    layout = LAYOUTS[bits]
    header = struct.Struct(order + layout.header)
    if len(data) < IDENTIFICATION + header.size:
        found = f"{len(data)} bytes"
        raise ArchiveError(place="byte 0", expected=f"{IDENTIFICATION + header.size} bytes", found=found)
    kind, machine, *_, phoff, shoff, _, _, phsize, phnum, shsize, shnum, names = header.unpack_from(
        data, IDENTIFICATION
    )
    segments = _Table(data, order + layout.segment, phoff, phnum, phsize, layout.segments_at)
    sections = _Table(data, order + layout.section, shoff, shnum, shsize, layout.sections_at)
    headers = (0, IDENTIFICATION + header.size), segments.span, sections.span
    made = SharedObject(
        len(data),
        bits,
        order,
        kind,
        machine,
        headers,
        SectionTable(shoff, shnum, names),
        tuple(segments.segments(bits)),
        tuple(sections.sections(names, layout.names_at)),
    )
    _check_apart(made, sections)
    return made


class _Table:
    """Program headers or section headers.

    Args:
        data: the file.
        form: of a header.
        start: first byte of the table.
        count: how many headers it has.
        size: bytes of each, as the file says.
        fields: where the file says so.

    Raises:
        ArchiveError: they are not in the file, of another size, or too many.
    """

    def __init__(  # noqa: PLR0917 (a table is that much)
        self, data: memoryview, form: str, start: int, count: int, size: int, fields: _Place
    ) -> None:
        self._data = data
        self._form = struct.Struct(form)
        self._start = start
        if count > MOST:
            raise ArchiveError(
                place=f"byte {fields.count_at}", expected=f"at most {MOST:,} headers", found=f"{count:,}"
            )
        if count and size != self._form.size:
            raise ArchiveError(
                place=f"byte {fields.size_at}", expected=f"{self._form.size} bytes a header", found=str(size)
            )
        self._check_within(start if count else 0, count * size, fields.start_at)
        self.span = (start, start + count * size) if count else (0, 0)

    def place(self, number: int) -> int:
        """The first byte of a header."""
        return self._start + number * self._form.size

    def segments(self, bits: int) -> Iterator[Segment]:
        """The headers as those of segments."""
        for number, values in enumerate(self._values()):
            if bits == 64:  # noqa: PLR2004 (the order of fields)
                kind, flags, offset, address, _, size, memory, _ = values
            else:
                kind, offset, address, _, size, memory, flags, _ = values
            self._check_within(offset if size else 0, size, self.place(number))
            yield Segment(kind, flags, offset, address, size, memory)

    def sections(self, names: int, names_at: int) -> Iterator[Section]:
        """The headers as those of sections; ``names``: the number of the one with names."""
        listed = [
            (name, Section("", kind, flags, offset, size, link))
            for name, kind, flags, _, offset, size, link, *_ in self._values()
        ]
        if listed and names >= len(listed):
            raise ArchiveError(place=f"byte {names_at}", expected=f"one of {len(listed)}", found=str(names))
        for number, (_, one) in enumerate(listed):
            self._check_within(one.offset, one.end - one.offset, self.place(number))
            if one.kind == SHT_SYMTAB and one.link >= len(listed):
                expected = f"a link to one of {len(listed)}"
                raise ArchiveError(place=f"byte {self.place(number)}", expected=expected, found=str(one.link))
        for number, (name, one) in enumerate(listed):
            yield one._replace(name=self._name(listed[names][1], name, number))

    def _values(self) -> Iterator[tuple[int, ...]]:
        return self._form.iter_unpack(self._data[slice(*self.span)])

    def _name(self, names: Section, at: int, number: int) -> str:
        """The name of a section; "" where none has one."""
        if names.end == names.offset:
            return ""
        head = bytes(self._data[names.offset : names.end][at : at + NAME_BYTES])
        length = head.find(0)
        if length < 0:
            expected = f"a name of less than {NAME_BYTES} bytes in the section of names"
            raise ArchiveError(place=f"byte {self.place(number)}", expected=expected, found=f"none at {at:,}")
        return one_line(decoded(head[:length]))

    def _check_within(self, start: int, size: int, place: int) -> None:
        if start + size > len(self._data):
            expected = f"bytes within the file's {len(self._data):,}"
            found = f"{size:,} from byte {start:,} on"
            raise ArchiveError(place=f"byte {place}", expected=expected, found=found)


def _check_apart(made: SharedObject, table: _Table) -> None:
    """Refuse sections that overlap one another or headers."""
    placed = [(begin, end, begin) for begin, end in made.headers if end > begin]
    placed += [
        (one.offset, one.end, table.place(number))
        for number, one in enumerate(made.sections)
        if one.end > one.offset
    ]
    for (_, end, _), (begin, _, place) in pairwise(sorted(placed)):
        if begin < end:
            found = f"one from byte {begin:,} on"
            raise ArchiveError(place=f"byte {place}", expected=f"a part behind byte {end - 1:,}", found=found)


def _known(data: memoryview, at: int, values: Mapping[int, _Value], expected: str) -> _Value:
    if data[at] not in values:
        raise ArchiveError(place=f"byte {at}", expected=expected, found=str(data[at]))
    return values[data[at]]
