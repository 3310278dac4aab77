"""A shared object without what the loader never maps, and as it was again.

What is left ends behind the last segment, and its header knows of no section headers: e_shoff, e_shnum and
e_shstrndx are 0. glibc and musl load and run it as before; Android's loader asks for section headers.

A shared object stays whole where that was not tried (other machines than x86-64), and where it would break: a
compiled model of 2 GB and more looks for its weights from the end of its file (``USE_MMAP_SELF`` in
``torch/csrc/inductor/aoti_runtime/model_base.h``; ``torch/_inductor/codecache.py`` appends them).
"""

from __future__ import annotations

import struct

from archive.base.errors import ArchiveError, counted
from archive.formats.elf.model import SectionTable
from archive.formats.elf.parse import is_elf, other_object, parse_object

SHARED, X86_64 = 3, 62
"""Of e_type and e_machine."""
POSITION, COUNTS = (40, struct.Struct("<Q")), (60, struct.Struct("<HH"))
"""Where e_shoff stands, and e_shnum with e_shstrndx, in 64 bits."""


def why_whole(data: memoryview) -> str:
    """Why a shared object stays whole, in words; "" if it can be cut.

    Raises:
        ArchiveError: its headers contradict one another.
    """
    if not is_elf(data):
        return other_object(data) or "no ELF file"
    made = parse_object(data)
    if (made.bits, made.order, made.machine) != (64, "<", X86_64):
        return str(made)
    if made.kind != SHARED or not made.loads:
        return "no shared object"
    if made.end < made.size:
        return f"{counted(made.size - made.end, 'byte')} behind its end"
    return "" if made.needed < made.size else "nothing is behind its segments"


def cut(data: memoryview) -> tuple[bytes, SectionTable, memoryview]:
    """What is left of a shared object, what its header said of section headers, and what was behind.

    Args:
        data: of which :func:`why_whole` says nothing.
    """
    made = parse_object(data)
    return _with_table(data[: made.needed], SectionTable(0, 0, 0)), made.table, data[made.needed :]


def uncut(left: memoryview, table: SectionTable, behind: bytes | memoryview) -> bytes:
    """The shared object again.

    Args:
        left: of it.
        table: what its header said of section headers.
        behind: what was behind.

    Raises:
        ArchiveError: this was not left of a shared object.
    """
    if len(left) < COUNTS[0] + COUNTS[1].size:
        raise ArchiveError(expected="a shared object", found=f"{len(left)} bytes")
    return _with_table(left, table) + bytes(behind)


def _with_table(data: memoryview, table: SectionTable) -> bytes:
    changed = bytearray(data)
    (at, position), (counts_at, counts) = POSITION, COUNTS
    position.pack_into(changed, at, table.start)
    counts.pack_into(changed, counts_at, table.sections, table.names)
    return bytes(changed)
