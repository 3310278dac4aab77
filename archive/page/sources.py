"""Source ↔ generated code as columns: the fragments of each file stitched, and where each range of code lies.

An archive keeps a source for each function, often for each row. Equal sources are one *fragment*. The
fragments of a file come in the order of their lines; one that has another's text at the same lines is part of
it. Where lines are missing in between, ``lines`` has a new entry.

Sources of traced operations are Python stacks, innermost frame first, which have the name of that frame's
file, or none. Each of their lines has the number of its own frame.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from archive.base import memory
from archive.base.strings import decoded
from archive.debuginfo.frames import BYTES_CALL
from archive.formats.record_kinds import code_of
from archive.page.shown import Shown
from archive.page.units import Units, differences, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.base.columns import Ints
    from archive.debuginfo.tables import SourceTable
    from archive.reader.archive import Archive


class SourceFileFacts(TypedDict):
    """A file of the model's source, stitched from its fragments.

    Attributes:
        name: of the file; "" for sources without one, as those of traced operations.
        text: of the fragments, in the order of their lines.
        lines: pairs of a byte of the text and the number of the line that begins there; those in between
            follow.
    """

    name: bytes
    text: bytes
    lines: Sequence[Sequence[int]]


class SourceRecordFacts(TypedDict):
    """A record of generated code, and where each of its source ranges comes from: columns of equal length.

    Attributes:
        record: the record's name.
        offset: the byte of the record where the code from this range begins.
        file: the number of the file; -1 without a source.
        start: the range's first byte in the file's text; 0 where there is none.
        end: the byte after its last.
        line: the line of its first byte in the file; 0 where there is none.
        tag: the range's number in the archive; -1 in layouts without.
    """

    record: str
    offset: Sequence[int]
    file: Sequence[int]
    start: Sequence[int]
    end: Sequence[int]
    line: Sequence[int]
    tag: Sequence[int]


class SourcesFacts(TypedDict):
    """The model's source, the code generated from it, and which byte of one is which of the other.

    All positions are bytes of UTF-8; other text is shown escaped.

    Attributes:
        file: the archive.
        files: the files of the source.
        records: the records of generated code.
    """

    file: str
    files: Sequence[SourceFileFacts]
    records: Sequence[SourceRecordFacts]


MOST_TEXT = 64 << 20
"""Bytes of source text that a page holds; what is beyond has no text there."""
SHARE = 8
"""The part of a file's memory that source text may take: it is copied, stitched and shown."""


class _Fragment(NamedTuple):
    """A text of a file.

    Attributes:
        line: its first line in the file.
    """

    number: int
    line: int
    text: bytes


class SourceFile:
    """A file of the model's source, stitched from its fragments.

    Attributes:
        lines: where a line begins that does not follow the one before it, in bytes, and its number.
        bases: the first byte of each fragment, by number.
        sizes: how many bytes each has, in the same order.
    """

    def __init__(self, name: bytes, fragments: Iterable[_Fragment]) -> None:
        self.name = name
        self.lines: list[tuple[int, int]] = []
        self.bases: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        stitched, size, following = [], 0, -1
        cover = _Cover(0, 0, b"")
        for number, line, text in sorted(fragments, key=lambda one: (one.line, -len(one.text), one.number)):
            at = cover.place(line, text)
            self.sizes[number] = len(text)
            if at >= 0:
                self.bases[number] = at
                continue
            whole = text if text.endswith(b"\n") else text + b"\n"
            self.bases[number] = size
            calls = stack_lines(text)
            if calls:
                self.lines += ((size + at, own) for at, own in calls)
                cover, following = _Cover(0, 0, b""), -1
            else:
                self.lines += [] if line == following else [(size, line)]
                cover, following = _Cover(size, line, whole), line + whole.count(b"\n")
            stitched.append(whole)
            size += len(whole)
        self.text = b"".join(stitched)


def stack_lines(text: bytes) -> list[tuple[int, int]]:
    """Where each frame of a Python stack begins, and its line; none for other texts."""
    lines, at = [], 0
    for line in text.removesuffix(b"\n").split(b"\n"):
        call = BYTES_CALL.fullmatch(line)
        if call is None:
            return []
        lines.append((at, int(call["line"])))
        at += len(line) + 1
    return lines


def _without_folders(text: bytes, shown: Shown) -> bytes:
    """A text as it is shown: the frames of a Python stack, where paths are not, without folders."""
    if shown.has_paths or not stack_lines(text):
        return text
    return b"\n".join(map(shown.shown, text.split(b"\n")))


class _Cover:
    """The fragment whose lines may hold the next one.

    Args:
        base: its first byte in the file.
    """

    def __init__(self, base: int, line: int, text: bytes) -> None:
        self._base, self._line, self._text = base, line, text
        self._starts: list[int] | None = None

    def place(self, line: int, text: bytes) -> int:
        """Where a text that begins in one of these lines stands in the file; -1 where others stand there."""
        if not self._text or not self._line <= line:
            return -1
        if self._starts is None:
            newlines = np.flatnonzero(np.frombuffer(self._text, np.uint8) == ord("\n"))
            self._starts = [0, *(newlines + 1).tolist()]
        if line - self._line >= len(self._starts):
            return -1
        at = self._starts[line - self._line]
        return self._base + at if text and self._text.startswith(text, at) else -1


class CodeRecord(NamedTuple):
    """A record of generated code: its name, its bytes, and the rows of its source ranges."""

    name: str
    data: bytes
    rows: range


class ArchiveSources:
    """The files and the code of an archive, with the places of all n rows of its source ranges.

    Args:
        shown: whether files, also those in Python stacks, are shown with their folders.

    Attributes:
        files: the files, in the order of their names.
        records: the code records that have source ranges, and the rows of each.
        file: each row's file, or -1 (n).
        start: its first byte in the file (n).
        end: the byte after its last (n).
        line: the line of its start; 0 without a file (n).
        record: its code record, or -1 (n).
        at: where each row's code begins in the shown text of its record; 0 before :meth:`facts` (n).
        shown: the shown text of each code record; none before :meth:`facts`.
        file_start: where each row begins in the shown text of its file, likewise (n).
        left_out: bytes of source text that the page has no room for.
    """

    def __init__(self, archive: Archive, shown: Shown = Shown.FULL) -> None:
        self._name = archive.file
        self._table = archive.range_table
        memory.take(memory.TEXT * len(self._table), "places of source ranges")
        memory.take(memory.TEXT * len(self._table.sources), "sources")
        self.left_out = 0
        self.files, number = self._files(shown)
        self.file, self.start, self.end, self.line = self._places(number)
        self.records: list[CodeRecord] = []
        self.record = np.full(len(self._table), -1, np.int64)
        self.at, self.file_start = (np.zeros(len(self._table), np.int64) for _ in range(2))
        self.shown: list[Units] = []
        self._named = [decoded(file.name) for file in self.files]
        for index, name in enumerate(self._table.names):
            code, rows = code_of(name), self._table.rows(index)
            if name != code and code in archive.records:
                self.record[rows.start : rows.stop] = len(self.records)
                self.records.append(CodeRecord(code, bytes(archive.records[code].view()), rows))

    def _files(self, shown: Shown) -> tuple[list[SourceFile], Ints]:
        """The files, and the fragment of each source, or -1 (s)."""
        sources = self._table.sources
        fragments: dict[tuple[bytes, int, bytes], int] = {}
        number = np.full(len(sources), -1, np.int64)
        size, read = 0, 0
        most = min(MOST_TEXT, memory.current().memory // SHARE)
        for source, same in _sources_once(sources):
            if same >= 0:
                number[source] = number[same]
                continue
            length = int(sources.lengths[source])
            read += length
            if size + length > most or read > memory.limits().compared_bytes:
                self.left_out += length
                continue
            with memory.lent(2 * length, "texts of sources"):
                fact = sources[source]
                longest = memory.limits().name_bytes
                name = b"" if fact.filename is None else bytes(fact.filename.data[-longest:])
                key = shown.shown(name), fact.starting_line, _without_folders(bytes(fact.text), shown)
                if key not in fragments:
                    size += length
                    cost = memory.ROW + 2 * length + memory.NUMBER * key[2].count(b"\n")
                    memory.take(cost, "texts of sources")
                number[source] = fragments.setdefault(key, len(fragments))
        by_name: dict[bytes, list[_Fragment]] = {}
        for (name, line, data), fragment in fragments.items():
            by_name.setdefault(name, []).append(_Fragment(fragment, line, data))
        return [SourceFile(name, by_name[name]) for name in sorted(by_name)], number

    def _places(self, number: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """The file, first and last byte, and line of each row."""
        count = int(number.max(initial=-1)) + 1
        file_of, base, size = (np.full(count + 1, -1, np.int64) for _ in range(3))
        line_of = np.zeros(count + 1, np.int64)
        line_of[number] = self._table.sources.line
        newlines = []
        for index, one in enumerate(self.files):
            fragments = np.fromiter(one.bases, np.int64, len(one.bases))
            file_of[fragments] = index
            base[fragments] = np.fromiter(one.bases.values(), np.int64, len(one.bases))
            size[fragments] = np.fromiter(one.sizes.values(), np.int64, len(one.sizes))
            newlines.append(np.flatnonzero(np.frombuffer(one.text, np.uint8) == ord("\n")))
        fragment = number[self._table.source]
        file, low = file_of[fragment], base[fragment]
        within = [np.clip(column, 0, size[fragment]) for column in (self._table.start, self._table.end)]
        start, end = low + within[0], low + np.maximum(*within)
        line = np.zeros(len(fragment), np.int64)
        for own, breaks in zip(_rows_of_each(file, len(newlines)), newlines, strict=True):
            before = np.searchsorted(breaks, start[own]) - np.searchsorted(breaks, low[own])
            line[own] = line_of[fragment[own]] + before
        known = file >= 0
        return file, np.where(known, start, 0), np.where(known, end, 0), line

    def facts(self) -> dict[str, Any]:
        """Files and records as the page has them: see :mod:`archive.page.facts`."""
        units = [Units(file.text) for file in self.files]
        start, end = self._in_units(units, self.start), self._in_units(units, self.end)
        self.file_start = start
        records = []
        for code in self.records:
            shown, rows = Units(code.data), slice(code.rows.start, code.rows.stop)
            self.shown.append(shown)
            self.at[rows] = shown.at(self._table.offset[rows])
            records.append(
                {
                    "name": plain(code.name),
                    "text": shown.text,
                    "at": differences(self.at[rows]),
                    "file": self.file[rows].tolist(),
                    "from": differences(start[rows]),
                    "length": (end - start)[rows].tolist(),
                }
            )
        return {
            "files": [
                {
                    "name": decoded(file.name),
                    "text": shown.text,
                    "lines": _lines_in_units(file.lines, shown),
                }
                for file, shown in zip(self.files, units, strict=True)
            ],
            "records": records,
        }

    def rows_with(self, tags: Ints) -> Ints:
        """The row of each tag, or -1 (n)."""
        return self._table.rows_with(tags)

    def file_and_line(self, row: int) -> tuple[str, int]:
        """The file and the line of a row, as they are shown; "" and 0 where they are not known."""
        file = int(self.file[row]) if row >= 0 else -1
        return (self._named[file], int(self.line[row])) if file >= 0 else ("", 0)

    def links(self, rows: Ints) -> list[list[int] | None]:
        """Where rows begin in the shown files: the file's number, and the position there (n)."""
        file, start = np.where(rows >= 0, self.file[rows], -1), self.file_start[rows]
        places = zip(file.tolist(), start.tolist(), strict=True)
        return [[number, position] if number >= 0 else None for number, position in places]

    def columns(self) -> SourcesFacts:
        """Files and records with all positions in bytes, for JSON."""
        return {
            "file": self._name,
            "files": [
                {"name": file.name, "text": file.text, "lines": [*map(list, file.lines)]}
                for file in self.files
            ],
            "records": [self._record_facts(code) for code in self.records],
        }

    def _record_facts(self, code: CodeRecord) -> SourceRecordFacts:
        rows = slice(code.rows.start, code.rows.stop)
        return {
            "record": code.name,
            "offset": self._table.offset[rows].tolist(),
            "file": self.file[rows].tolist(),
            "start": self.start[rows].tolist(),
            "end": self.end[rows].tolist(),
            "line": self.line[rows].tolist(),
            "tag": self._table.tag[rows].tolist(),
        }

    def _in_units(self, units: Sequence[Units], bytes_: Ints) -> Ints:
        """Bytes of files as positions of their shown texts; 0 without a file (n)."""
        positions = np.zeros(len(bytes_), np.int64)
        for own, shown in zip(_rows_of_each(self.file, len(units)), units, strict=True):
            positions[own] = shown.at(bytes_[own])
        return positions


def _rows_of_each(file: Ints, count: int) -> Iterator[Ints]:
    """The rows of each of so many files, all sorted once: there may be a file for every few rows."""
    order = np.argsort(file, kind="stable")
    bounds = np.searchsorted(file[order], np.arange(count + 1)).tolist()
    yield from (order[low:high] for low, high in pairwise(bounds))


def _sources_once(sources: SourceTable) -> Iterator[tuple[int, int]]:
    """Each source but null ones, and the first with the same strings; -1 where that is itself."""
    known: dict[tuple[bytes, int, int], int] = {}
    columns = zip(sources.filename.tolist(), sources.line.tolist(), sources.is_null.tolist(), strict=True)
    bounds = pairwise(sources.first.tolist())
    for source, ((low, high), (filename, line, is_null)) in enumerate(zip(bounds, columns, strict=True)):
        if is_null:
            continue
        first = known.setdefault((sources.piece[low:high].tobytes(), filename, line), source)
        yield source, first if first < source else -1


def _lines_in_units(lines: Sequence[tuple[int, int]], shown: Units) -> list[list[int]]:
    positions = shown.at(np.array([at for at, _ in lines], np.int64)).tolist()
    return [[at, line] for at, (_, line) in zip(positions, lines, strict=True)]
