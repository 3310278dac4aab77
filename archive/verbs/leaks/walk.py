"""Every text of a file as stored and inflated: of its records, of zips and companions in them, and between.

The bytes of tensors are passed over, unless all are asked for; they are counted.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError, one_line
from archive.base.mapped import Mapped
from archive.companion.magic import is_companion
from archive.container.container import Container
from archive.container.end import has_end
from archive.formats.record_kinds import RecordKind
from archive.reader.recognition import kind_in, recognise_zip
from archive.verbs.leaks.forms import TO_NUL, Form, forms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Allowance
    from archive.container.record import Record
    from archive.reader.recognition import FileKind

INSIDE = "!"
"""Stands between the record that a zip is in and the zip's own record."""
DEEPEST = 4
"""Zips within zips so deep are opened."""
ZIP_HEAD = b"PK\3\4"
OBJECTS = ("custom_obj", "opaque_obj")
"""Parts of the names of records that lie among tensors and are pickles: ``data/constants/custom_obj_0``."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Texts of a record.

    Attributes:
        record: its name; of a record of a zip in a record both, with ``!`` between; "" for none.
        kind: of the record.
        form: the texts.
    """

    record: str
    kind: RecordKind
    form: Form


@dataclass(frozen=True, slots=True)
class Member:
    """A record, whose bytes are read or passed over.

    Attributes:
        record: its name, as in :class:`Piece`.
        kind: its kind.
        size: inflated bytes.
        modified: MS-DOS time and date; 0 for none.
    """

    record: str
    kind: RecordKind
    size: int
    modified: int


class Walker:
    """Goes through a file.

    Args:
        allowance: the memory that the file may cost.
        deep: whether the bytes of tensors are read, too.

    Attributes:
        members: the records that were met.
        roots: the folders that all records of a zip are in.
        read: inflated bytes that were read.
        passed_over: bytes of tensors that were not.
        problems: what could not be read as it should, and was read as plain bytes.
    """

    def __init__(self, allowance: Allowance, *, deep: bool = False) -> None:
        self._allowance = allowance
        self._deep = deep
        self.members: list[Member] = []
        self.roots: set[str] = set()
        self.read = 0
        self.passed_over = 0
        self.problems: list[str] = []

    def file(self, mapped: Mapped) -> Iterator[Piece]:
        """The texts of a file.

        Raises:
            ArchiveError: it is a zip that contradicts itself, or a broken companion.
            LimitError: it asks for more memory than allowed.
        """
        if is_companion(mapped.data):
            yield from self._companion(mapped.data, "", RecordKind.COMPANION)
        elif has_end(mapped.data):
            yield from self._zip(mapped.data, mapped.name, "", 0)
        else:
            yield from self._plain(mapped.data, "", RecordKind.OTHER)

    def _zip(self, data: memoryview, file: str, inside: str, depth: int) -> Iterator[Piece]:
        with Container(Mapped(data, file), self._allowance, rooted=False) as container:
            kind = recognise_zip(container, look=False).kind
            yield Piece(inside.removesuffix(INSIDE), RecordKind.OTHER, _between(container))
            self.roots.add(container.root)
            for record in container.records.values():
                yield from self._record(record, kind, inside, depth)

    def _record(self, record: Record, file: FileKind, inside: str, depth: int) -> Iterator[Piece]:
        kind = kind_in(file, record.name)
        name = inside + record.name
        self.members.append(Member(name, kind, record.size, record.entry.modified))
        if kind is RecordKind.TENSOR and not self._deep and not _is_object(record):
            self.passed_over += record.size
            return
        try:
            data = record.view()
        except LimitError:
            raise
        except ArchiveError as problem:  # damaged: what is stored is read all the same
            self.problems.append(one_line(f"{name}: {problem.found or problem}; its stored bytes were read"))
            data = record.raw()
        yield from self._content(data, name, kind, depth)

    def _content(self, data: memoryview, name: str, kind: RecordKind, depth: int) -> Iterator[Piece]:
        """The texts of a record: of the zip or companion that it is, or of its bytes."""
        try:
            if is_companion(data):
                yield from self._companion(data, name, kind)
                return
            if has_end(data) and depth < DEEPEST:
                yield from self._zip(data, name, name + INSIDE, depth + 1)
                return
        except LimitError:
            raise
        except ArchiveError as problem:
            self.problems.append(one_line(f"{name}: {problem}; it was read as plain bytes"))
        yield from self._plain(data, name, kind)

    def _plain(self, data: memoryview, name: str, kind: RecordKind) -> Iterator[Piece]:
        self.read += len(data)
        for form in forms(data, self._allowance):
            yield Piece(name, kind, form)

    def _companion(self, data: memoryview, name: str, kind: RecordKind) -> Iterator[Piece]:
        """The strings of a companion, its raw records, and what stood behind shared objects."""
        from archive.companion.parse import parse_companion  # noqa: PLC0415 (most archives have none)

        self.read += len(data)
        contents = parse_companion(data, self._allowance)
        strings = b"\0".join(contents.strings.copies())
        with self._allowance.lent(2 * len(strings), "strings of a companion"):
            yield Piece(name, kind, Form(strings.translate(TO_NUL)))
        for record, raw in contents.raw_records.items():
            yield from self._plain(memoryview(raw), f"{name}{INSIDE}{record}", kind)
        if contents.behind:
            yield from self._plain(memoryview(contents.behind), f"{name}{INSIDE}behind segments", kind)


def _is_object(record: Record) -> bool:
    """Whether a record among tensors is a zip or a pickle, by its first bytes and its name."""
    if any(word in record.name for word in OBJECTS):
        return True
    head = record.raw()[:64]
    if record.entry.deflated:
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(head, len(ZIP_HEAD)) == ZIP_HEAD
        except zlib.error:
            return True
    return bytes(head[: len(ZIP_HEAD)]) == ZIP_HEAD


def _between(container: Container) -> Form:
    """The bytes of a zip that are no record's: headers with names, padding, directory, comment."""
    whole = container.data
    pieces, at, source, end, length = [], [0], [0], 0, 0
    places = sorted((one.place.data, one.stored_size) for one in container.records.values())
    for start, size in [*places, (len(whole), 0)]:
        if start > end:
            at.append(length)
            source.append(end)
            pieces += [bytes(whole[end:start]), b"\0"]
            length += start - end + 1
        end = max(end, start + size)
    return Form(b"".join(pieces).translate(TO_NUL), at, source)
