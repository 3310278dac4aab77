r"""Shared objects: ELF files. The loader maps only their segments.

In: bytes. Out: headers as values, and what each byte is for; or the part that the loader needs.

    header           16 bytes of identification, e_type, e_machine, …, e_phoff, e_shoff, …, e_shstrndx
    program headers  e_phnum, from byte e_phoff on: which bytes of the file go where in memory (*segments*)
    section headers  e_shnum, from byte e_shoff on: the parts that linkers and debuggers know by name

The loader maps segments of kind PT_LOAD, by whole pages: the bytes around a segment come along, but nothing
refers to them. Sections without SHF_ALLOC are in no segment: DWARF, the symbol table, the compiler's comment.
Neither are the section headers. All of these come after the last segment, and nothing needs them to run:
:mod:`~archive.formats.elf.cutting`.

Sources: System V ABI, chapters 4 and 5: 32 and 64 bits, both byte orders, "no byte in a file resides in more
than one section"; the loader: ``elf/dl-load.c`` and ``elf/dl-map-segments.h`` of glibc.
"""
