"""The headers of an ELF file, for both widths. Fields have the names of the System V ABI, without prefix.

The file header is followed by program headers at ``phoff``, one for each segment, and section headers at
``shoff``. A section with the flag SHF_COMPRESSED begins with a compression header. The segment PT_DYNAMIC
holds dynamic entries, the section SHT_SYMTAB and the table DT_SYMTAB symbols.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeAlias

from archive.base.layout import U8, U16, U32, U64, BinaryLayout, Bytes16


class FileHeader64(NamedTuple):
    """Elf64_Ehdr."""

    ident: Bytes16
    type: U16
    machine: U16
    version: U32
    entry: U64
    phoff: U64
    shoff: U64
    flags: U32
    ehsize: U16
    phentsize: U16
    phnum: U16
    shentsize: U16
    shnum: U16
    shstrndx: U16


class FileHeader32(NamedTuple):
    """Elf32_Ehdr."""

    ident: Bytes16
    type: U16
    machine: U16
    version: U32
    entry: U32
    phoff: U32
    shoff: U32
    flags: U32
    ehsize: U16
    phentsize: U16
    phnum: U16
    shentsize: U16
    shnum: U16
    shstrndx: U16


class ProgramHeader64(NamedTuple):
    """Elf64_Phdr."""

    type: U32
    flags: U32
    offset: U64
    vaddr: U64
    paddr: U64
    filesz: U64
    memsz: U64
    align: U64


class ProgramHeader32(NamedTuple):
    """Elf32_Phdr, in which the flags stand elsewhere."""

    type: U32
    offset: U32
    vaddr: U32
    paddr: U32
    filesz: U32
    memsz: U32
    flags: U32
    align: U32


class SectionHeader64(NamedTuple):
    """Elf64_Shdr."""

    name: U32
    type: U32
    flags: U64
    addr: U64
    offset: U64
    size: U64
    link: U32
    info: U32
    addralign: U64
    entsize: U64


class SectionHeader32(NamedTuple):
    """Elf32_Shdr."""

    name: U32
    type: U32
    flags: U32
    addr: U32
    offset: U32
    size: U32
    link: U32
    info: U32
    addralign: U32
    entsize: U32


class CompressionHeader64(NamedTuple):
    """Elf64_Chdr."""

    type: U32
    reserved: U32
    size: U64
    addralign: U64


class CompressionHeader32(NamedTuple):
    """Elf32_Chdr."""

    type: U32
    size: U32
    addralign: U32


class DynamicEntry64(NamedTuple):
    """Elf64_Dyn: what the loader is to know, such as where a table is."""

    tag: U64
    value: U64


class Symbol64(NamedTuple):
    """Elf64_Sym."""

    name: U32
    info: U8
    other: U8
    shndx: U16
    value: U64
    size: U64


FileHeader: TypeAlias = FileHeader64 | FileHeader32
ProgramHeader: TypeAlias = ProgramHeader64 | ProgramHeader32
SectionHeader: TypeAlias = SectionHeader64 | SectionHeader32


DYNAMIC_64 = BinaryLayout("dynamic entry", DynamicEntry64)
SYMBOL_64 = BinaryLayout("symbol", Symbol64)


class Headers(NamedTuple):
    """The layouts of one width and byte order."""

    file: BinaryLayout[FileHeader]
    program: BinaryLayout[ProgramHeader]
    section: BinaryLayout[SectionHeader]
    compression: BinaryLayout[CompressionHeader64 | CompressionHeader32]


@cache
def headers_of(bits: int, order: str) -> Headers:
    """The layouts of files of 64 or 32 bits; ``order`` is one of :mod:`archive.base.layout`."""
    wide = bits == 64  # noqa: PLR2004 (the other width is 32)
    return Headers(
        BinaryLayout("file header", FileHeader64 if wide else FileHeader32, order=order),
        BinaryLayout("program header", ProgramHeader64 if wide else ProgramHeader32, order=order),
        BinaryLayout("section header", SectionHeader64 if wide else SectionHeader32, order=order),
        BinaryLayout("compression header", CompressionHeader64 if wide else CompressionHeader32, order=order),
    )
