"""The headers of an ELF file, each declared once, in terms of the number types of its width and byte order.

The System V ABI does the same; fields have its names, without prefix. Files of 32 bits have the fields of
program headers, compression headers and symbols in another order; their symbols aren't read.

The file header, which begins with the identification, is followed by program headers at ``phoff``, one for
each segment, and section headers at ``shoff``. A section with the flag SHF_COMPRESSED begins with a
compression header. The segment PT_DYNAMIC holds dynamic entries; the section SHT_SYMTAB and the table
DT_SYMTAB hold symbols.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import BIG, LITTLE, Bytes, Const, FormatField, Int8ul, Struct

MAGIC = b"\x7fELF"
WIDTHS, ORDERS = {1: 32, 2: 64}, {1: LITTLE, 2: BIG}
"""What a file says in ``ei_class`` and ``ei_data``."""

IDENTIFICATION = Layout(
    "file identification"
    / Struct(
        "ei_mag" / Const(MAGIC),
        "ei_class" / Int8ul * "1: 32 bits, 2: 64 bits",
        "ei_data" / Int8ul * "1: little-endian, 2: big-endian",
        "ei_version" / Int8ul * "1",
        "ei_osabi" / Int8ul * "whose ABI: 0 System V, 3 GNU",
        "ei_abiversion" / Int8ul,
        "ei_pad" / Bytes(7) * "zeros",
    )
)


def place_of(header: Layout, field: str) -> str:
    """The place of a field of the identification or the file header, for errors."""
    return f"byte {header.offset(field)}"


class NumberTypes:
    """The number types of one width and byte order.

    Attributes:
        half: 16 bits.
        word: 32 bits.
        addr: an address in memory, of the file's width.
        off: a place in the file, of the file's width.
        xword: any other number of the file's width: Elf64_Xword or Elf32_Word.
    """

    def __init__(self, bits: int, order: str) -> None:
        self.is_wide = bits == 64  # noqa: PLR2004 (the other width is 32)
        self.half, self.word = FormatField(order, "H"), FormatField(order, "L")
        self.addr = self.off = self.xword = FormatField(order, "Q" if self.is_wide else "L")


def file_header(types: NumberTypes) -> Struct:
    """Elf64_Ehdr, Elf32_Ehdr."""
    return "file header" / Struct(
        "ident" / Bytes(IDENTIFICATION.size) * "the file identification",
        "type" / types.half * "3: a shared object",
        "machine" / types.half * "62: x86-64",
        "version" / types.word * "1",
        "entry" / types.addr * "where a program starts",
        "phoff" / types.off * "where the program headers begin",
        "shoff" / types.off * "where the section headers begin",
        "flags" / types.word * "of the machine",
        "ehsize" / types.half * "bytes of this header",
        "phentsize" / types.half * "bytes of a program header",
        "phnum" / types.half * "program headers",
        "shentsize" / types.half * "bytes of a section header",
        "shnum" / types.half * "section headers",
        "shstrndx" / types.half * "number of the section that has the names of sections",
    )


def program_header(types: NumberTypes) -> Struct:
    """Elf64_Phdr; Elf32_Phdr, in which the flags come later."""
    flags = "flags" / types.word * "1 executed, 2 written, 4 read"
    return "program header" / Struct(
        "type" / types.word * "1: to load, 2: dynamic entries",
        *((flags,) if types.is_wide else ()),
        "offset" / types.off * "first byte of the segment in the file",
        "vaddr" / types.addr * "address of that byte in memory, from the object's base",
        "paddr" / types.addr * "physical address, where that matters",
        "filesz" / types.xword * "bytes in the file",
        "memsz" / types.xword * "bytes in memory; those not in the file are 0",
        *(() if types.is_wide else (flags,)),
        "align" / types.xword * "vaddr and offset are the same modulo this",
    )


def section_header(types: NumberTypes) -> Struct:
    """Elf64_Shdr, Elf32_Shdr."""
    return "section header" / Struct(
        "name" / types.word * "where its name begins in the section of names",
        "type" / types.word * "2: symbols, 8: no bytes in the file",
        "flags" / types.xword * "1 written, 2 loaded, 4 executed, 0x800 compressed",
        "addr" / types.addr * "address of its first byte in memory",
        "offset" / types.off * "its first byte in the file",
        "size" / types.xword * "its bytes",
        "link" / types.word * "number of a section that belongs to it",
        "info" / types.word,
        "addralign" / types.xword,
        "entsize" / types.xword * "bytes of an entry, where it is a table",
    )


def compression_header(types: NumberTypes) -> Struct:
    """Elf64_Chdr; Elf32_Chdr, which lacks the padding."""
    reserved = "reserved" / types.word * "padding"
    return "compression header" / Struct(
        "type" / types.word * "1: zlib, 2: zstd",
        *((reserved,) if types.is_wide else ()),
        "size" / types.xword * "inflated bytes",
        "addralign" / types.xword * "alignment of the inflated bytes",
    )


def dynamic_entry(types: NumberTypes) -> Struct:
    """Elf64_Dyn, Elf32_Dyn: what the loader must know, such as where a table is."""
    return "dynamic entry" / Struct("tag" / types.xword, "value" / types.xword * "d_un")


def wide_symbol(types: NumberTypes) -> Struct:
    """Elf64_Sym. Elf32_Sym has value and size before info."""
    return "symbol" / Struct(
        "name" / types.word * "where its name begins in the table of names",
        "info" / Int8ul * "type and binding",
        "other" / Int8ul * "visibility",
        "shndx" / types.half * "number of its section; 0: it isn't defined here",
        "value" / types.addr,
        "size" / types.xword,
    )


class Headers(NamedTuple):
    """The layouts of one width and byte order."""

    file: Layout
    program: Layout
    section: Layout
    compression: Layout


@cache
def headers_of(bits: int, order: str) -> Headers:
    """The layouts of files of 64 or 32 bits; ``order`` is LITTLE or BIG."""
    types = NumberTypes(bits, order)
    declared = (file_header, program_header, section_header, compression_header)
    return Headers(*(Layout(declare(types)) for declare in declared))


MODELS = NumberTypes(64, LITTLE)
"""The layouts of compiled models' objects."""
DYNAMIC_64 = Layout(dynamic_entry(MODELS))
SYMBOL_64 = Layout(wide_symbol(MODELS))
