"""Texts of zips' headers, of shared objects, and of files of tensors that are no zips.

A zip's names are names; comments, extra fields and all else between records are values. Of a shared object
the sections of read-only data and of texts are read; machine code and all other bytes are counted.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError
from archive.container.headers import CENTRAL, END, LOCAL
from archive.formats.elf.parse import parse_object
from archive.privacy.pieces.piece import ShiftedPlaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.privacy.pieces.piece import FilePiece

Placed = tuple[str, str, int]
"""A role, a text, and its position in the piece."""
RUN = re.compile(rb"[\t\n\r -~\x80-\xff]{4,}+")
"""A text between other bytes."""
PADDING = re.compile(rb"FB..Z*+", re.DOTALL)
"""The extra field with which PyTorch aligns records (``inline_container.cc``)."""
DESCRIPTOR = b"PK\x07\x08"
DESCRIPTORS = (16, 24)
"""Bytes of what may stand behind a record: its checksum and sizes once more."""
WIDE_END, LOCATOR = (b"PK\x06\x06", 56), (b"PK\x06\x07", 20)
READ_SECTIONS = (".rodata", ".dynstr", ".strtab", ".shstrtab", ".comment", ".interp", ".note", ".debug_str")
READ_SECTIONS += (".debug_line_str", ".ldata")
NAME_SECTIONS = (".dynstr", ".strtab", ".shstrtab")
"""Sections of names of symbols and sections."""


def is_between(piece: FilePiece) -> bool:
    """Whether a piece is what stands between the records of a zip."""
    return isinstance(piece.place, ShiftedPlaces) and END.magic in piece.bytes and LOCAL.magic in piece.bytes


def texts_between(piece: FilePiece) -> Iterator[Placed]:
    """The texts of a zip's headers, field by field."""
    data, place = piece.bytes, piece.place
    assert isinstance(place, ShiftedPlaces)  # noqa: S101 (is_between)
    expected: list[tuple[str, int]] = []
    for start, stop in pairwise([*place.at, len(data)]):
        chunk = data[start : max(stop - 1, start)]
        if not chunk:
            continue
        expected = [field for field in expected if field[1]]
        if expected and len(chunk) == expected[0][1]:
            role, _ = expected.pop(0)
            yield from _field(role, chunk, start)
            continue
        expected = []
        if chunk.startswith(LOCAL.magic) and len(chunk) == LOCAL.size:
            local = LOCAL.read(memoryview(chunk), 0)
            expected = [("name", local.name_length), ("value", local.extra_length)]
        elif chunk.startswith(CENTRAL.magic) and len(chunk) == CENTRAL.size:
            central = CENTRAL.read(memoryview(chunk), 0)
            expected = [("name", central.name_length), ("value", central.extra_length)]
            expected.append(("value", central.comment_length))
        else:
            yield from _rest(chunk, start)


def _field(role: str, chunk: bytes, start: int) -> Iterator[Placed]:
    if PADDING.fullmatch(chunk):
        return
    if role == "name" or RUN.fullmatch(chunk) or (chunk.isascii() and chunk.decode().isprintable()):
        yield role, chunk.decode("utf-8", "backslashreplace"), start
    else:
        yield from _runs(chunk, start)


def _rest(chunk: bytes, start: int) -> Iterator[Placed]:
    """The texts of bytes that are no header of a record: the end of the directory, with its comment."""
    at = 0
    if chunk.startswith(DESCRIPTOR):
        at = next((size for size in DESCRIPTORS if len(chunk) == size), 0)
    end = chunk.rfind(END.magic)
    if end < 0:
        yield from _runs(chunk[at:], start + at)
        return
    for magic, size in (WIDE_END, LOCATOR):
        if chunk.startswith(magic, at):
            at += size
    yield from _runs(chunk[at:end], start + at)
    behind = end + END.size
    if chunk[behind:]:
        yield "value", chunk[behind:].decode("utf-8", "backslashreplace"), start + behind


def _runs(data: bytes, start: int) -> Iterator[Placed]:
    for run in RUN.finditer(data):
        yield "value", run[0].decode("utf-8", "backslashreplace"), start + run.start()


def texts_of_object(piece: FilePiece) -> tuple[list[Placed], int]:
    """The texts in sections of a shared object that have some, and the bytes of all others.

    An object whose headers contradict one another has all texts as values.
    """
    data, found, passed = piece.bytes, list[Placed](), 0
    try:
        stretches = list(parse_object(piece.data).stretches())
    except LimitError:
        raise
    except ArchiveError:
        return list(_runs(data, 0)), 0
    for stretch in stretches:
        name = stretch.name
        if name and not name.startswith(READ_SECTIONS):
            passed += stretch.end - stretch.start
            continue
        role = "name" if name in NAME_SECTIONS else "value"
        for run in RUN.finditer(data, stretch.start, stretch.end):
            found.append((role, run[0].decode("utf-8", "backslashreplace"), run.start()))
    return found, passed


KEY_END, VALUE_END = b'="', b'"\0'


def texts_of_tensor_file(piece: FilePiece) -> Iterator[Placed]:
    """The texts of a file of tensors: a text behind a key is its value, others are names."""
    data, place = piece.bytes, piece.place
    assert isinstance(place, ShiftedPlaces)  # noqa: S101 (only these are put together)
    is_value = False
    for start, stop in pairwise([*place.at, len(data)]):
        chunk = data[start:stop]
        is_key = not is_value and chunk.endswith(KEY_END)
        end = KEY_END if is_key else VALUE_END if is_value and chunk.endswith(VALUE_END) else b"\0"
        role = "value" if is_value else "key" if is_key else "name"
        yield role, chunk.removesuffix(end).decode("utf-8", "backslashreplace"), start
        is_value = is_key
