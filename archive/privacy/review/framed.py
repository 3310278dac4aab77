"""Texts of zips' headers, of shared objects, and of files of tensors that aren't zips.

A zip's names are names; comments, extra fields and all else between records are values. In a shared object,
the sections of read-only data and of texts are read; machine code and all other bytes are counted.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError
from archive.container.headers import CENTRAL, END, LOCAL
from archive.formats.elf.model import DT_STRSZ, DT_STRTAB, ObjectPart
from archive.formats.elf.parse import parse_object
from archive.privacy.pieces.piece import ShiftedPlaces
from archive.privacy.review.binary import LETTER, MOST_SHORT, is_binary, texts_of_binary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.elf.model import SharedObject
    from archive.privacy.pieces.piece import FilePiece

Placed = tuple[str, str, int]
"""A role, a text, and its position in the piece."""
RUN = re.compile(rb"[\t\n\r -~\x80-\xff]{4,}+")
"""A text between few other bytes."""
PADDING = re.compile(rb"FB..Z*+", re.DOTALL)
"""The extra field with which PyTorch aligns records (``inline_container.cc``)."""
DESCRIPTOR = b"PK\x07\x08"
DESCRIPTORS = (16, 24)
"""Bytes that may follow a record: its checksum and sizes again."""
WIDE_END, LOCATOR = (b"PK\x06\x06", 56), (b"PK\x06\x07", 20)
TEXT_SECTIONS: tuple[str, ...] = (
    ".rodata",
    ".lrodata",
    ".dynstr",
    ".strtab",
    ".shstrtab",
    ".comment",
    ".interp",
    ".note",
)
TEXT_SECTIONS += (".debug_str", ".debug_line_str")
"""Sections in which any run of letters is a text."""
NAME_SECTIONS = (".dynstr", ".strtab", ".shstrtab")
"""Sections of names of symbols and sections."""
C_TEXT = re.compile(LETTER + rb"{6,}+")
"""A text with its NUL, among other bytes: with fewer letters they stand there by chance."""
MANGLED = re.compile(r"\*?(?:_?Z|N?St|N\d|St\d)[\w.$]{3,}")
"""A name of C++ as the Itanium ABI writes it, or that of a type."""
SOURCE_NAME = re.compile(r"S[0-9A-Z]{0,4}_|T\d{0,4}_|L[a-z]n?\d{1,20}E|(\d{1,3})")
"""The length of a name, or what has digits of its own: a substitution, a parameter, a literal."""
NO_CODE = re.compile(r"[a-z]{5}")
"""Letters that aren't codes of types and operators."""


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
    """The texts of bytes that aren't a record's header: the end of the directory, with its comment."""
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
    comment = end + END.size
    has_length = len(chunk) >= comment
    after = comment + END.read(memoryview(chunk), end).comment_length if has_length else comment
    for begin, part in ((comment, chunk[comment:after]), (after, chunk[after:])):
        if part and is_binary(part):
            yield from _runs(part, start + begin)
        elif part:
            yield "value", part.decode(), start + begin


def _runs(data: bytes, start: int) -> Iterator[Placed]:
    if len(data) > MOST_SHORT:
        yield from (("value", text, start + at) for text, at in texts_of_binary(data))
        return
    for run in RUN.finditer(data):
        yield "value", run[0].decode("utf-8", "backslashreplace"), start + run.start()


def texts_of_object(piece: FilePiece) -> tuple[list[Placed], int]:
    """The texts of a shared object without its machine code, and the bytes of that.

    All texts of an object with contradictory headers are values.
    """
    data, found, passed = piece.bytes, list[Placed](), 0
    try:
        made = parse_object(piece.data)
        symbols = _symbols(made, piece.data)
    except LimitError:
        raise
    except ArchiveError:
        return list(_runs(data, 0)), 0
    begin, end = symbols
    for stretch in made.stretches():
        if stretch.part is ObjectPart.CODE:
            passed += stretch.end - stretch.start
            continue
        has_names = stretch.name in NAME_SECTIONS
        has_texts = stretch.name.startswith(TEXT_SECTIONS)
        for run in (RUN if has_texts else C_TEXT).finditer(data, stretch.start, stretch.end):
            if not has_texts and run.end() < stretch.end and data[run.end()]:
                continue
            text = run[0].decode("utf-8", "backslashreplace")
            names = _names_of_cpp(text) if MANGLED.fullmatch(text) else []
            role = "name" if has_names or begin <= run.start() < end else "value"
            found += [("name", name, run.start()) for name in names] or [(role, text, run.start())]
    return found, passed


def _symbols(made: SharedObject, data: memoryview) -> tuple[int, int]:
    """First byte of the names by which the loader links, and the one after the last; 0 and 0 for none."""
    entries = made.dynamic(data) if made.has_form_of_models else {}
    if DT_STRTAB not in entries or DT_STRSZ not in entries:
        return 0, 0
    return made.in_file(entries[DT_STRTAB], entries[DT_STRTAB] + entries[DT_STRSZ]) or (0, 0)


def _names_of_cpp(mangled: str) -> list[str]:
    """The identifiers in a name of C++, each after its length; none if it has other words."""
    names, rest, at = [], [], 0
    while (match := SOURCE_NAME.search(mangled, at)) is not None:
        rest.append(mangled[at : match.start()])
        at = match.end()
        if match[1]:
            names.append(mangled[at : at + int(match[1])])
            at += int(match[1])
    rest.append(mangled[at:])
    return [] if any(map(NO_CODE.search, rest)) else names


KEY_END, VALUE_END = b'="', b'"\0'


def texts_of_tensor_file(piece: FilePiece) -> Iterator[Placed]:
    """The texts of a file of tensors: a text after a key is its value, others are names."""
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
