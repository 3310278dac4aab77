"""Where the weights of a compiled model are in its shared object, or in the object file made for one.

PyTorch links the constants into the object between two symbols, which its own code reads, so the loader
needs their names (DT_SYMTAB)::

    _binary_constants_bin_start … _binary_constants_bin_end

Large weights are appended to the file instead; then the symbols enclose only their place. Source:
``_get_constants_start`` in ``torch/csrc/inductor/aoti_runtime/model_base.h`` and
``torch/_inductor/codecache.py`` of PyTorch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError
from archive.formats.elf.headers import SYMBOL_64
from archive.formats.elf.model import SHT_SYMTAB
from archive.formats.elf.parse import is_elf, parse_object
from archive.formats.elf.symbols import SymbolTable, loaded_symbols
from archive.formats.schema.fixed import Layout
from archive.formats.schema.words import Bytes, Int64ul, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.elf.model import SharedObject

START, END = b"_binary_constants_bin_start", b"_binary_constants_bin_end"
ALIGNED = 0x4000
"""Appended weights begin at a multiple of this."""

Span = tuple[int, int]


APPENDED = Layout(
    "place of appended weights"
    / Struct(
        "size" / Int64ul * "bytes at the end of the file: the weights, and the magic number after them",
        "magic" / Bytes(8) * "the magic number, which the file ends with",
    )
)


def weights_span(data: memoryview) -> Span | None:
    """The first byte of the weights in an object, and the byte after the last; None where none are found."""
    if not is_elf(data):
        return None
    try:
        made = parse_object(data)
    except LimitError:
        raise
    except ArchiveError:  # `verify` reports it
        return None
    if not made.has_form_of_models:
        return None
    between = next(_between(data, made), None)
    if between is None or not 0 <= between[0] <= between[1] <= len(data):
        return None
    return _appended(data, between) or between


def _between(data: memoryview, made: SharedObject) -> Iterator[Span]:
    """The bytes between both symbols, by each table of symbols that has them."""
    for table in _symbol_tables(data, made):
        first, last = table.defined(START), table.defined(END)
        if first is None or last is None:
            continue
        (section, start), (other, end) = first, last
        if made.segments:
            span = made.in_file(start, end)
            if span:
                yield span
        elif section == other < len(made.sections):
            begin = made.sections[section].offset
            yield begin + start, begin + end


def _symbol_tables(data: memoryview, made: SharedObject) -> Iterator[SymbolTable]:
    """The symbols that the loader reads, and those of an object file."""
    loaded = loaded_symbols(data, made)
    if loaded is not None:
        yield loaded
    for section in made.sections:
        if section.kind == SHT_SYMTAB:
            linked = made.sections[section.link]
            symbols = SYMBOL_64.columns(data[section.offset : section.end])
            yield SymbolTable(symbols, bytes(data[linked.offset : linked.end]))


def _appended(data: memoryview, between: Span) -> Span | None:
    """The weights after the object's own bytes; None if the weights are between the symbols."""
    if between[1] - between[0] != APPENDED.size:
        return None
    size, magic = APPENDED.read(data, between[0])
    start = len(data) - size
    end = len(data) - len(magic)
    if not 0 <= start <= end or start % ALIGNED or bytes(data[end:]) != magic:
        return None
    return start, end
