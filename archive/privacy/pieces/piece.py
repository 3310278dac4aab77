"""A piece of a file: bytes that can be read, and where they stand."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from archive.formats.elf.parse import is_elf
from archive.formats.record_kinds import RecordKind
from archive.privacy.pieces.parts import json_parts, object_parts
from archive.privacy.pieces.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.base.limits import Allowance

SHORTEST = {RecordKind.PROGRAM: 4}
"""Bytes of strings of JSON that may tell something, by kind of record: names in module trees have fewer."""


class Piece:
    """Bytes of a file.

    Args:
        record: the name of their record; of a record of a zip in a record both, with ``!`` between, and so
            of what is unpacked: ``extra/notes!gzip``. "" for none.
        kind: of the record.
        data: the bytes.
        allowance: takes the memory that their strings cost.
        place: the byte of the record, or of the file, that a position in the bytes stands for.
        is_packed: whether what they hold comes as pieces of its own.
        in_numbers: whether they are numbers, which have short strings by chance.

    Attributes: as arguments.
    """

    def __init__(
        self,
        record: str,
        kind: RecordKind,
        data: memoryview,
        allowance: Allowance,
        *,
        place: Callable[[int], int] = int,
        is_packed: bool = False,
        in_numbers: bool = False,
    ) -> None:
        self.record = record
        self.kind = kind
        self.data = data
        self.place = place
        self.is_packed = is_packed
        self.in_numbers = in_numbers
        self.allowance = allowance

    @cached_property
    def bytes(self) -> bytes:
        """The bytes in memory of their own, where they can be searched.

        Raises:
            LimitError: they would take more memory than allowed.
        """
        self.allowance.take(len(self.data), "bytes of a record")
        return bytes(self.data)

    @cached_property
    def strings(self) -> Strings:
        """The strings in the bytes.

        Raises:
            LimitError: they would take more memory than allowed.
        """
        shortest = SHORTEST.get(self.kind, 1)
        return Strings(self.bytes, self.allowance, shortest, in_numbers=self.in_numbers)

    @cached_property
    def part(self) -> Callable[[int], str]:
        """Tells what part of the record a byte of the piece is in; "" where no parts are known.

        Raises:
            LimitError: that would take more memory than allowed.
        """
        if is_elf(self.data) or self.strings.json is None:
            return object_parts(self.data)
        return json_parts(self.strings.json, self.allowance)


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


@dataclass(frozen=True, slots=True)
class Places:
    """Where bytes that were put together come from.

    Attributes:
        at: positions from which on places are shifted, ascending.
        source: the places that those positions stand for.
    """

    at: Sequence[int]
    source: Sequence[int]

    def __call__(self, position: int) -> int:
        """The place that a position stands for."""
        piece = bisect_right(self.at, position) - 1
        return self.source[piece] + position - self.at[piece]
