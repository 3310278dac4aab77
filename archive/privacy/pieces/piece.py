"""A piece of a file: bytes that can be read, and where they stand.

A piece says what part of its record a byte is in: the path in JSON, like
``graph_module.graph.nodes[3].metadata.stack_trace``, or the section of a shared object. Brackets, commas and
colons of JSON outside of strings are found in columns. What encloses a byte at some depth is the last bracket
of that depth before it: an earlier one has been closed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.quick_dataclass import dataclass
from archive.formats.elf.parse import is_elf, parse_object
from archive.formats.record_kinds import RecordKind
from archive.privacy.pieces.escaped_layers import unescaped
from archive.privacy.pieces.stretches import ascii_words
from archive.privacy.pieces.strings import PieceStrings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.base.columns import Ints

MAPPED = ", mapped"
"""Ends the name of a part of a shared object that the loader maps: without it, the object would not run."""
SHORTEST = {RecordKind.PROGRAM: 4}
"""Bytes of strings of JSON that may reveal something, by kind of record: names in module trees have fewer."""


def nowhere(_: int) -> bool:
    """Of no byte."""
    return False


def everywhere(_: int) -> bool:
    """Of each byte."""
    return True


@memory.kept
class FilePiece:
    """Bytes of a file.

    Args:
        record: the name of their record; for a record of a zip in a record both, with ``!`` between, and
            likewise for what is unpacked: ``extra/notes!gzip``. "" for none.
        kind: of the record.
        data: the bytes.
        place: the byte of the record, or of the file, that a position in the bytes stands for.
        is_packed: whether what they hold comes as pieces of its own.
        in_numbers: whether they are numbers, which have short strings by chance.
        in_id: whether a byte is part of a name in a model: what looks like a path there is one only below a
            known root: a home, a temporary folder, site-packages.

    Attributes: as arguments.
    """

    def __init__(
        self,
        record: str,
        kind: RecordKind,
        data: memoryview,
        *,
        place: Callable[[int], int] = int,
        is_packed: bool = False,
        in_numbers: bool = False,
        in_id: Callable[[int], bool] = nowhere,
    ) -> None:
        self.record = record
        self.kind = kind
        self.data = data
        self.place = place
        self.is_packed = is_packed
        self.in_numbers = in_numbers
        self.in_id = in_id
        self.allowance = memory.current()

    @cached_property
    def bytes(self) -> bytes:
        """The bytes, copied into memory where they can be searched."""
        memory.take(len(self.data), "bytes of a record")
        return bytes(self.data)

    @cached_property
    def strings(self) -> PieceStrings:
        """The strings in the bytes."""
        shortest, data = SHORTEST.get(self.kind, 1), self.data if self.in_numbers else self.bytes
        return PieceStrings(data, shortest, in_numbers=self.in_numbers, words=self.ascii_words)

    @cached_property
    def ascii_words(self) -> Ints | None:
        """The words of ASCII in bytes of numbers, where they are few: see :func:`stretches.ascii_words`."""
        return ascii_words(self.data) if self.in_numbers else None

    @cached_property
    def part(self) -> Callable[[int], str]:
        """The part of the record that a byte of the piece is in; "" where no parts are known."""
        if not is_elf(self.data):
            json = self.strings.json
            return (lambda _: "") if json is None else JsonPlaces(json).path
        try:
            stretches = list(parse_object(self.data).stretches())
        except LimitError:
            raise
        except ArchiveError:  # contradictory headers name no section
            return lambda _: ""

        def section(position: int) -> str:
            number = bisect_right(stretches, position, key=lambda stretch: stretch.start) - 1
            if number < 0:
                return ""
            stretch = stretches[number]
            return f"{stretch.name or stretch.part}{MAPPED if stretch.mapped else ', not mapped'}"

        return section


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """A record that is read or passed over.

    Attributes:
        record: its name, as in :class:`FilePiece`.
        kind: its kind.
        size: inflated bytes.
        modified: MS-DOS time and date; 0 for none.
    """

    record: str
    kind: RecordKind
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class ShiftedPlaces:
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


# --- places in JSON

QUOTE = ord('"')
OPEN, CLOSE, OPEN_LIST = b"{[", b"}]", ord("[")
STRUCTURE = bytes(code in OPEN + CLOSE + b':,"' for code in range(256))
STEP = np.array([(code in OPEN) - (code in CLOSE) for code in range(256)], np.int8)
MARK_KINDS = 4
"""Kinds of marks: 0 for brackets that open, 1 for commas, 2 for colons, 3 for brackets that close."""
KIND = np.array([max(b",:}".find(code) + 1, 3 * (code in CLOSE)) for code in range(256)], np.uint16)
MOST_DEEP = 64
"""Nested values; a path names the outer ones."""
MOST_KEY = 80
"""Characters of a key that a path shows."""
COST = 2
"""Bytes of memory that a byte of JSON takes; a mark or a quote takes 5 numbers more."""


class JsonPlaces:
    """Paths in some JSON."""

    def __init__(self, data: bytes) -> None:
        memory.take(COST * len(data), "places in JSON")
        codes = np.frombuffer(data, np.uint8)
        marks = np.flatnonzero(np.frombuffer(data.translate(STRUCTURE), np.bool_))
        memory.take(5 * memory.NUMBER * len(marks), "places in JSON")
        is_quote = codes[marks] == QUOTE
        quotes = marks[is_quote]
        cuts = unescaped(codes, quotes)
        quotes = quotes[cuts]
        outside = ~is_quote
        is_quote[is_quote] = cuts
        outside &= np.cumsum(is_quote, dtype=np.uint8) % 2 == 0
        marks = marks[outside]
        code = codes[marks]
        depth = np.cumsum(STEP[code], dtype=np.int64)
        self._data, self._quotes, self._marks, self._depth = data, quotes.data, marks.data, depth.data
        group = np.clip(depth, 0, MOST_DEEP + 1).astype(np.uint16) * MARK_KINDS + KIND[code]
        self._by_group = np.argsort(group, kind="stable")
        self._groups = np.append(
            0, np.cumsum(np.bincount(group, minlength=MARK_KINDS * (MOST_DEEP + 2)))
        ).tolist()

    def path(self, position: int) -> str:
        """The path to the value that a byte is in; in a key, to the key's object."""
        number = bisect_right(self._marks, position) - 1
        deep = min(self._depth[number] if number >= 0 else 0, MOST_DEEP)
        return "".join(self._step(depth, number) for depth in range(1, deep + 1)).removeprefix(".")

    def _step(self, depth: int, number: int) -> str:
        """The key or index, within the value that encloses it at some depth, of what is before a mark."""
        opens, commas, colons = (  # the numbers of the marks of each kind in values of that depth
            self._by_group[self._groups[group] : self._groups[group + 1]].data
            for group in range(depth * MARK_KINDS, depth * MARK_KINDS + MARK_KINDS - 1)
        )
        begin = opens[bisect_right(opens, number) - 1]
        commas_before = bisect_right(commas, number)
        if self._data[self._marks[begin]] == OPEN_LIST:
            return f"[{commas_before - bisect_right(commas, begin)}]"
        colon = bisect_right(colons, number) - 1
        if colon < 0 or colons[colon] < begin or commas_before > bisect_right(commas, colons[colon]):
            return ""  # no colon in this object, or the value after it has ended
        end = bisect_left(self._quotes, self._marks[colons[colon]]) - 1
        if end < 1:  # not a key of JSON
            return ""
        key = self._data[self._quotes[end - 1] + 1 : self._quotes[end]]
        return "." + key[:MOST_KEY].decode(errors="replace")
