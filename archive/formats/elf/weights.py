"""Where the weights of a compiled model lie in its shared object, or in the object file made for one.

PyTorch links the constants into the object between two symbols, which its own code reads, so the loader
needs their names (DT_SYMTAB)::

    _binary_constants_bin_start … _binary_constants_bin_end

Many weights are appended to the file instead. Then 16 bytes stand between the symbols: how long they are
with a magic number at their end, and that number. Source: ``_get_constants_start`` in
``torch/csrc/inductor/aoti_runtime/model_base.h`` and ``torch/_inductor/codecache.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.formats.elf.model import PT_LOAD, SHT_SYMTAB, Segment, SharedObject
from archive.formats.elf.parse import is_elf, parse_object
from archive.formats.elf.source_texts import DT_STRSZ, DT_STRTAB, PAIR, PT_DYNAMIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START, END = b"_binary_constants_bin_start", b"_binary_constants_bin_end"
DT_SYMTAB = 6
SYMBOL = np.dtype("<u4, u1, u1, <u2, <u8, <u8")
SYMBOL.names = "name", "info", "other", "section", "value", "size"
APPENDED = struct.Struct("<QQ")
"""Bytes behind the object's own, and the number in the last 8 of them."""
ALIGNED = 0x4000
"""Appended weights begin at a multiple of this."""
MAGIC_BYTES = 8

Span = tuple[int, int]


def weights_span(data: memoryview) -> Span | None:
    """The first byte of the weights in an object, and the one behind the last; None where none are found.

    Args:
        data: a shared object or an object file.
    """
    if not is_elf(data):
        return None
    try:
        made = parse_object(data)
    except ArchiveError:  # `verify` tells
        return None
    if (made.bits, made.order) != (64, "<"):
        return None
    between = next(_between(data, made), None)
    if between is None or not 0 <= between[0] <= between[1] <= len(data):
        return None
    return _appended(data, between) or between


def _between(data: memoryview, made: SharedObject) -> Iterator[Span]:
    """The bytes between both symbols, by each table of symbols that has them."""
    for symbols, names in (*_loaded(data, made), *_linked(data, made)):
        first, last = _symbol(symbols, names, START), _symbol(symbols, names, END)
        if first is None or last is None:
            continue
        (section, start), (other, end) = first, last
        if made.segments:
            found = _in_file(made.segments, start, end)
            if found:
                yield found
        elif section == other < len(made.sections):
            begin = made.sections[section].offset
            yield begin + start, begin + end


def _loaded(data: memoryview, made: SharedObject) -> Iterator[tuple[np.ndarray, bytes]]:
    """The symbols that the loader reads, and their names. The table of names ends that of symbols."""
    for one in made.segments:
        if one.kind != PT_DYNAMIC:
            continue
        told = dict(PAIR.iter_unpack(data[one.offset : one.offset + one.size // PAIR.size * PAIR.size]))
        address, names, size = (told.get(key, 0) for key in (DT_SYMTAB, DT_STRTAB, DT_STRSZ))
        at = _in_file(made.segments, names, names + size), _in_file(made.segments, address, names)
        if at[0] and at[1] and at[1][1] > at[1][0]:
            yield _table(data, at[1]), bytes(data[slice(*at[0])])


def _linked(data: memoryview, made: SharedObject) -> Iterator[tuple[np.ndarray, bytes]]:
    """The symbols of an object file, and their names."""
    for one in made.sections:
        if one.kind == SHT_SYMTAB:
            names = made.sections[one.link]
            yield _table(data, (one.offset, one.end)), bytes(data[names.offset : names.end])


def _table(data: memoryview, span: Span) -> np.ndarray:
    return np.frombuffer(data, SYMBOL, (span[1] - span[0]) // SYMBOL.itemsize, span[0])


def _symbol(symbols: np.ndarray, names: bytes, name: bytes) -> tuple[int, int] | None:
    """The section and value of a symbol that is defined in the object."""
    at = names.find(b"\0" + name + b"\0")
    is_it = (symbols["name"] == at + 1) & (symbols["section"] != 0)
    if at < 0 or not is_it.any():
        return None
    number = int(is_it.argmax())
    return int(symbols["section"][number]), int(symbols["value"][number])


def _in_file(segments: Sequence[Segment], start: int, end: int) -> Span | None:
    """The bytes of the file that are loaded to some addresses."""
    for one in segments:
        if one.kind == PT_LOAD and one.address <= start <= end <= one.address + one.size:
            return start - one.address + one.offset, end - one.address + one.offset
    return None


def _appended(data: memoryview, between: Span) -> Span | None:
    """The weights behind the object's own bytes; None where those between the symbols are the weights."""
    if between[1] - between[0] != APPENDED.size:
        return None
    size, magic = APPENDED.unpack_from(data, between[0])
    start = len(data) - size
    end = len(data) - MAGIC_BYTES
    if not 0 <= start <= end or start % ALIGNED or bytes(data[end:]) != magic.to_bytes(MAGIC_BYTES, "little"):
        return None
    return start, end
