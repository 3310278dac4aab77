"""A shared object without what the loader never maps, and the original again.

What is left ends after the last segment, and its header knows of no section headers: e_shoff, e_shnum and
e_shstrndx are 0. glibc loads and runs it as before; other loaders were not tried.

A shared object stays whole where that was not tried (machines other than x86-64), and where it would break: a
compiled model with more than 2 GB of weights looks for them from the end of its file (``USE_MMAP_SELF`` in
``torch/csrc/inductor/aoti_runtime/model_base.h``; ``torch/_inductor/codecache.py`` appends them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, counted
from archive.formats.elf.headers import headers_of
from archive.formats.elf.model import SectionTable
from archive.formats.elf.parse import is_elf, other_object, parse_object
from archive.formats.schema.words import LITTLE

if TYPE_CHECKING:
    from archive.formats.elf.model import SharedObject

SHARED, X86_64 = 3, 62
"""Of e_type and e_machine."""
_FILE_HEADER = headers_of(64, LITTLE).file

UNTRIED = "; only ELF for x86-64 is cut"
NOTHING_BEHIND = "nothing follows its segments"
"""Why a shared object that was already cut stays whole."""


class Cut(NamedTuple):
    """A shared object in two parts.

    Attributes:
        header: of what is left, without section headers.
        rest: of what is left.
        table: what the original header says of section headers.
        tail: the bytes cut off.
    """

    header: bytes
    rest: memoryview
    table: SectionTable
    tail: memoryview

    @property
    def size(self) -> int:
        """Bytes of what is left."""
        return len(self.header) + len(self.rest)

    @property
    def left(self) -> bytes:
        """What is left, in one piece."""
        return self.header + self.rest


def why_whole(data: memoryview) -> str:
    """Why a shared object stays whole, in words; "" if it can be cut."""
    if not is_elf(data):
        other = other_object(data)
        return f"{other}{UNTRIED}" if other else "no ELF file"
    return _why_whole(parse_object(data))


def _why_whole(made: SharedObject) -> str:
    if not made.has_form_of_models or made.machine != X86_64:
        return f"{made}{UNTRIED}"
    if made.kind != SHARED or not made.loads:
        return "not a shared object"
    if made.end < made.size:
        return f"{counted(made.size - made.end, 'byte')} after its end, where a model may look for weights"
    return "" if made.needed < made.size else NOTHING_BEHIND


def cut(data: memoryview) -> Cut | None:
    """A shared object in two parts; None if it stays whole."""
    if not is_elf(data) or _why_whole(made := parse_object(data)):
        return None
    header = _with_table(data, SectionTable(0, 0, 0))
    return Cut(header, data[_FILE_HEADER.size : made.needed], made.table, data[made.needed :])


def uncut(left: memoryview, table: SectionTable, tail: memoryview) -> bytes:
    """The original shared object.

    Args:
        table: what the original header says of section headers.
        tail: the bytes cut off.
    """
    if len(left) < _FILE_HEADER.size:
        raise ArchiveError(expected="a shared object", found=counted(len(left), "byte"))
    return b"".join((_with_table(left, table), left[_FILE_HEADER.size :], tail))


def _with_table(data: memoryview, table: SectionTable) -> bytes:
    """The file header of an object, with another table of section headers."""
    head = _FILE_HEADER.read(data)
    return _FILE_HEADER.pack(head._replace(shoff=table.start, shnum=table.sections, shstrndx=table.names))
