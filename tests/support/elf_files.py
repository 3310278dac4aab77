"""Small ELF files, built header by header, in both widths and byte orders."""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = {64: "HHIQQQIHHHHHH", 32: "HHIIIIIHHHHHH"}
SEGMENT = {64: "IIQQQQQQ", 32: "IIIIIIII"}
SECTION = {64: "IIQQQQIIQQ", 32: "IIIIIIIIII"}
HEADER_FORMS = {
    "file": {bits: f"16s{form}" for bits, form in HEADER.items()},
    "program": SEGMENT,
    "section": SECTION,
    "compression": {64: "IIQQ", 32: "III"},
}
"""The numbers of each header after the System V ABI, as :mod:`struct` writes them, for either width."""
OTHER_ORDERS = {
    "program": {
        64: "type flags offset vaddr paddr filesz memsz align",
        32: "type offset vaddr paddr filesz memsz flags align",
    },
    "compression": {64: "type reserved size addralign", 32: "type size addralign"},
}
"""The fields of headers whose order differs by width, after the same."""
NAMES = b"\0.text\0.debug_info\0.symtab\0.strtab\0.shstrtab\0.data\0"
X86_64, AARCH64 = 62, 183
ALLOC, WRITE, EXECUTE = 2, 1, 4


class Made(NamedTuple):
    """A file, and where its parts begin."""

    data: bytes
    segments: int
    sections: int


def elf_file(
    bits: int = 64, order: str = "<", machine: int = X86_64, appended: bytes = b"", kind: int = 3
) -> Made:
    """A file of code and data in two segments, DWARF and a table of symbols behind them."""
    head, size = struct.calcsize("<" + HEADER[bits]) + 16, struct.calcsize("<" + SEGMENT[bits])
    code = head + 2 * size
    parts = (b"C" * 100, b"D" * 50, b"W" * 400, b"S" * 48, b"N" * 20, NAMES)
    starts = [code + sum(map(len, parts[:i])) for i in range(len(parts) + 1)]
    segments = (_segment(bits, 5, 0, starts[1]), _segment(bits, 6, starts[1], 50))
    linked = (
        (".text", 1, ALLOC | EXECUTE, 0),
        (".data", 1, ALLOC | WRITE, 0),
        (".debug_info", 1, 0, 0),
        (".symtab", 2, 0, 5),
        (".strtab", 3, 0, 0),
        (".shstrtab", 3, 0, 0),
    )
    sections = [(0,) * 10]
    for (name, sort, flags, link), start, part in zip(linked, starts, parts, strict=False):
        at = NAMES.index(name.encode() + b"\0")
        sections.append((at, sort, flags, 0, start, len(part), link, 0, 1, 0))
    table = struct.calcsize("<" + SECTION[bits])
    fields = (kind, machine, 1, 0, head, starts[-1], 0, head, size, 2, table, len(sections), 6)
    data = b"\x7fELF" + bytes([bits // 32, "<>".index(order) + 1, 1]) + bytes(9)
    data += struct.pack(order + HEADER[bits], *fields)
    data += b"".join(struct.pack(order + SEGMENT[bits], *one) for one in segments) + b"".join(parts)
    data += b"".join(struct.pack(order + SECTION[bits], *one) for one in sections) + appended
    return Made(data, head, starts[-1])


def _segment(bits: int, flags: int, start: int, size: int) -> tuple[int, ...]:
    """The values of a program header of kind PT_LOAD."""
    if bits == 64:
        return 1, flags, start, start, start, size, size, 4096
    return 1, start, start, start, size, size, flags, 4096
