"""Looks up single handles and tags in a companion, without reading whole columns.

A lookup takes these steps:

1. Find the handle's row by bisection, since ``handle.handle`` is sorted: a few reads, or one block.
2. Read the row's tag, operator and first frame, and follow ``frame.next``.
3. Find the first range with the tag. If PyTorch numbered them, range *t* has tag *t*; otherwise bisection
   finds it or, if tags are not in order (``file.ordered``), a search of all.
4. Read the range, its source, its text, and the lines of the text along ``node.parent``.

The source of a place in generated code is looked up without making the records of source ranges. Rows of a
record are in the order of their places, so bisection finds the last one that does not begin after a place;
see :meth:`~archive.debuginfo.tables.RangeTable.locate`.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from archive.base import memory
from archive.base.columns import firsts
from archive.base.errors import ArchiveError, LimitError
from archive.base.spending import Recent
from archive.base.strings import StringView, Text
from archive.debuginfo.model import (
    Handle,
    HandleEntry,
    InlinedCall,
    ModuleInstance,
    Source,
    SourceRange,
    Tag,
)
from archive.debuginfo.unique_handles import PLAIN, HandleForm, common_prefix
from archive.normalform.pool import record_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.base.strings import Strings


PIECE_BYTES = 40
"""Bytes of memory that a line of a text takes besides its own, while the text is in use."""
SHORT = 1 << 14
"""Bytes of a text whose lines are joined at once."""
TEXTS_KEPT = 1 << 16
"""Bytes of memory for the last looked-up texts of a companion: most failures are in a few files."""


class ColumnReader(Protocol):
    """A column whose values can be read one by one."""

    def __len__(self) -> int: ...

    def at(self, row: int) -> int:
        """The value of a row."""

    def find(self, value: int) -> int:
        """The first row that has a value, in a sorted column; -1 if none has."""

    def all(self) -> np.ndarray:
        """All values, checked."""


class WholeColumn:
    """A column that has been read as a whole."""

    __slots__ = ("_values",)

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def at(self, row: int) -> int:
        """The value of a row."""
        return int(self._values[inside(row, len(self._values))])

    def find(self, value: int) -> int:
        """The first row that has a value, in a sorted column; -1 if none has."""
        row = int(np.searchsorted(self._values, value))
        return row if row < len(self._values) and self._values[row] == value else -1

    def all(self) -> np.ndarray:
        """All values."""
        return self._values


def inside(row: int, rows: int) -> int:
    """Return a row number that is within bounds."""
    if not 0 <= row < rows:
        raise ArchiveError(expected=f"one of {rows} rows", found=str(row))
    return row


class TextLines(NamedTuple):
    """The lines of a text, and the text itself unless it is long."""

    strings: list[int]
    joined: bytes | None


class CompanionLookup:
    """A companion's handles, tags and their sources, each looked up separately."""

    def __init__(self, columns: Mapping[str, ColumnReader], strings: Strings) -> None:
        self._columns = columns
        self.strings = strings
        self.allowance = memory.current()
        self._texts = Recent[int, TextLines](TEXTS_KEPT)

    @cached_property
    def _handles(self) -> ColumnReader | None:
        """The debug handles in order; None without a call-stack map."""
        return self._columns["handle.handle"] if "handle.handle" in self._columns else None  # noqa: SIM401

    @cached_property
    def _in_order(self) -> bool:
        """Whether ranges are in the order of their tags."""
        return "file.ordered" in self._columns and self.at("file.ordered", 0) > 0

    @cached_property
    def handle_form(self) -> HandleForm:
        """The form of the handles in its columns, and of those that the split archive prints."""
        if "file.prefix" in self._columns:
            return HandleForm(self.at("file.prefix", 0))
        if not self._handles:
            return PLAIN
        # Handles are sorted: the first one and the last one represent all.
        ends = np.array([self._handles.at(0), self._handles.at(len(self._handles) - 1)])
        return HandleForm(common_prefix(ends), tabled=True)

    def at(self, name: str, row: int) -> int:
        """The value of a column's row."""
        try:
            return self._columns[name].at(row)
        except ArchiveError as problem:
            raise problem.within(place=f"{name}, row {row}") from problem.__cause__

    def all(self, name: str) -> np.ndarray:
        """All values of a column, checked."""
        return self._columns[name].all()

    def entry_of(self, handle: int) -> HandleEntry | None:
        """Tag, operator and call stack of a debug handle, in either form; None for an unknown one."""
        row = self._row(handle)
        if row < 0:
            return None
        calls = []
        frame = self.at("handle.stack", row)
        while frame >= 0:
            calls.append(self._call(frame))
            frame = self.at("frame.next", frame)
            if len(calls) > self.allowance.limits.frames:
                place = f"debug handle {handle}"
                raise LimitError("frames", self.allowance.limits.frames, len(calls), place=place)
        op, tag = self.at("handle.op", row), self.at("handle.tag", row)
        return HandleEntry(Handle(self.at("handle.handle", row)), Tag(tag), self._string(op), tuple(calls))

    def _call(self, frame: int) -> InlinedCall:
        module = self.at("frame.module", frame)
        instance = None
        if module >= 0:
            instance = ModuleInstance(
                self.string(self.at("module.type", module)), self.string(self.at("module.instance", module))
            )
        tag, function = self.at("frame.tag", frame), self.at("frame.function", frame)
        return InlinedCall(instance, Tag(tag), self._string(function))

    def string(self, index: int) -> StringView:
        """A string."""
        return StringView(self.strings, inside(index, len(self.strings)))

    def _string(self, index: int) -> StringView | None:
        return None if index < 0 else self.string(index)

    def range_of(self, tag: int) -> SourceRange | None:
        """The first range that has a tag; None if none has."""
        tags = self._columns["range.tag"]
        if tag < 0:
            return None
        if not self._in_order:
            rows = np.flatnonzero(tags.all() == tag)
            row = int(rows[0]) if len(rows) else -1
        elif tag < len(tags) and tags.at(tag) == tag and (not tag or tags.at(tag - 1) < tag):
            row = tag  # as PyTorch numbers them
        else:
            row = tags.find(tag)
        return None if row < 0 else self.range_at(row)

    def range_at(self, row: int) -> SourceRange:
        """The range of a row of the table ``range``."""
        number = self.at("range.source", row)
        filename, line = self._file_and_line(number)
        null = self.at("source.null", number) > 0
        source = Source(self._text(number), self._string(filename), line, null)
        return SourceRange(source, self.at("range.start", row), self._end(row, number))

    def _text(self, source: int) -> Text:
        return _Text(self, self.at("source.text", source))

    def _end(self, row: int, source: int) -> int:  # noqa: ARG002 (others decide where it is modelled)
        return self.at("range.end", row)

    def _file_and_line(self, source: int) -> tuple[int, int]:
        return self.at("source.filename", source), self.at("source.line", source)

    def lines_of(self, text: int) -> TextLines:
        """The lines of a text; none for the empty text, which is -1."""
        known = self._texts.get(text)
        if known is not None:
            return known
        pieces: list[int] = []
        lines: list[memoryview] = []
        size = 0
        node = self.at("text.node", text) if text >= 0 else -1
        with memory.charged(self.allowance), memory.part():
            while node >= 0:
                pieces.append(inside(self.at("node.line", node), len(self.strings)))
                line = self.strings.data(pieces[-1])
                memory.take(PIECE_BYTES + len(line), "lines", place="source.text")
                size += len(line)
                if size <= SHORT:
                    lines.append(line)
                parent = self.at("node.parent", node)
                if parent >= node:
                    raise ArchiveError(
                        place=f"node.parent, row {node}", expected="a row before", found=str(parent)
                    )
                node = parent
        joined = b"".join(lines) if size <= SHORT else None
        weight = PIECE_BYTES * len(pieces) + size
        return self._texts.keep(text, TextLines(pieces, joined), weight)

    def tag_of(self, handle: int) -> int:
        """The tag of a debug handle, in either form; -1 for an unknown one."""
        row = self._row(handle)
        return -1 if row < 0 else self.at("handle.tag", row)

    def _row(self, handle: int) -> int:
        """The row of a debug handle; -1 for an unknown one."""
        return self._handles.find(self.handle_form.known_as(handle)) if self._handles else -1


class _Text(Text):
    """A text whose lines are looked up on demand."""

    __slots__ = ("_joined", "_lookup", "_number")

    def __init__(self, lookup: CompanionLookup, number: int) -> None:
        self.table = lookup.strings
        self._lookup = lookup
        self._number = number

    def __getattr__(self, name: str) -> object:
        if name not in {"_joined", "indices"}:
            raise AttributeError(name)
        self.indices, self._joined = self._lookup.lines_of(self._number)
        return getattr(self, name)

    def __bytes__(self) -> bytes:
        return super().__bytes__() if self._joined is None else self._joined

    def __len__(self) -> int:
        return super().__len__() if self._joined is None else len(self._joined)


# --- places

K = TypeVar("K", int, tuple[int, int])


class CodePlaces:
    """The places of a companion's source ranges in generated code; its columns are not modelled."""

    def __init__(self, lookup: CompanionLookup) -> None:
        self._lookup = lookup
        self.allowance = memory.current()

    @cached_property
    def records(self) -> Mapping[str, range]:
        """The rows of each record of source ranges, by its name."""
        numbers, rows = self._lookup.all("record.name").tolist(), self._lookup.all("record.rows")
        with memory.charged(self.allowance):
            names = record_names(self._lookup.strings, numbers)
        return dict(zip(names, starmap(range, pairwise(firsts(rows).tolist())), strict=True))

    def of_byte(self, name: str, position: int) -> SourceRange | None:
        """The source of a byte of the generated code that a record is for; None if unknown."""
        return self._of(name, position, lambda row: self._lookup.at("row.offset", row))

    def of_line(self, name: str, line: int, column: int) -> SourceRange | None:
        """The source of a place in code, if known: a line, from 1, and a column in bytes, from 0."""
        at = self._lookup.at
        return self._of(name, (line - 1, column), lambda row: (at("row.line", row), at("row.column", row)))

    def _of(self, name: str, place: K, place_of: Callable[[int], K]) -> SourceRange | None:
        """The source of the last row that does not begin after a place."""
        rows = self.records.get(name, range(0))
        row = rows.start + bisect_right(rows, place, key=place_of) - 1
        unknown = row < rows.start or self._lookup.at("row.offset", row) < 0
        return None if unknown else self._lookup.range_at(self._lookup.at("row.range", row))
