"""Source ranges with other paths and texts. Each range stays on the lines that it was on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, spread, table_of
from archive.base.errors import ArchiveError
from archive.debuginfo.frames import BYTES_CALL
from archive.debuginfo.tables import SourceTable
from archive.normalform.builder import FormBuilder
from archive.normalform.columns import VALUE_WIDTH
from archive.normalform.records import DebugRecords
from archive.privacy.redact.sources import texts_of
from archive.privacy.redact.texts import comment_of, without_comments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints
    from archive.base.strings import StringTable
    from archive.debuginfo.tables import RangeTable
    from archive.privacy.redact.names import Renamed
    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import Rules
    from archive.reader.archive import Archive

BLANK = b" "
COPIES = 4
"""Copies of a text that isn't a stack while it is rewritten."""


class _LineStrings:
    """The strings of the new texts: lines with their line feeds, each once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._ended: dict[bytes, int] = {}

    def pieces(self, lines: Sequence[bytes]) -> list[int]:
        """The strings that make up a text."""
        *whole, rest = lines
        numbers = [self._ended.get(line, -1) for line in whole]
        for at, line in enumerate(whole):
            if numbers[at] < 0:
                numbers[at] = self._ended[line] = self.number(line + b"\n")
        return [*numbers, self.number(rest)] if rest else numbers

    def number(self, string: bytes) -> int:
        return self._numbers.setdefault(string, len(self._numbers))

    def table(self) -> StringTable:
        return table_of(self._numbers)


def redacted_ranges(
    opened: Archive, rules: Rules, removed: Removed, renamed: Renamed | None
) -> dict[str, bytes]:
    """The records of source ranges, rewritten, by the names that they have in the archive.

    Args:
        removed: takes what is removed.
        renamed: the same archive with other names; None where they stay.
    """
    if not opened.range_records:
        return {}
    before = removed.memory
    with memory.part():
        table = redacted(opened.range_table, rules, removed, renamed)
        made = DebugRecords(FormBuilder.of(table).form())
        former = dict(zip(table.names, opened.range_table.names, strict=True))
        records = {}
        for new in made:
            name = former[new]
            records[name] = made[new]
            opened.allowance.take(len(records[name]), "bytes of a record", record=name)
    memory.take(removed.memory - before, "lines that are removed")
    return records


def redacted(table: RangeTable, rules: Rules, removed: Removed, renamed: Renamed | None = None) -> RangeTable:
    """The table with other paths and texts, and, for renamed code, other places and names.

    Args:
        removed: takes what is removed.
        renamed: the archive with other names; None where they stay.
    """
    sources = table.sources
    memory.take(8 * memory.NUMBER * len(table) + 10 * memory.NUMBER * len(sources), "source ranges")
    texts = texts_of(sources)
    filenames = sorted({string for string in sources.filename.tolist() if string >= 0})
    files = dict(zip(filenames, sources.strings.copies(np.array(filenames, np.int64)), strict=True))
    calls = {line for lines in texts.lines if texts.are_calls(lines) for line in lines}
    in_calls = {call["file"] for call in map(BYTES_CALL.fullmatch, calls) if call}
    names = rules.renamed({*files.values(), *in_calls})
    removed.renamed(names)
    called = {}
    for line in calls:
        called[line] = line
        if call := BYTES_CALL.fullmatch(line):
            function = call["function"] if renamed is None else renamed.function(call["function"])
            called[line] = names[call["file"]] + line[call.end("file") : call.start("function")] + function
    strings, pieces = _LineStrings(), list[list[int]]()
    start, end = table.start.copy(), table.end.copy()
    rows_of = _by_text(table.source, texts.number, len(texts.lines))
    for lines, rows in zip(texts.lines, rows_of, strict=True):
        if texts.are_calls(lines):
            new: Sequence[bytes] = [called[line] for line in lines]
        elif rules.source == "keep":
            new = lines
        else:
            memory.take(COPIES * sum(map(len, lines)) + memory.TEXT * len(lines), "lines of sources")
            marked = _marked(lines, start[rows], end[rows])
            new = _blanked(lines, marked, removed, keeps=rules.source == "lines")
        pieces.append(strings.pieces(new))
        if lines != tuple(new):
            start[rows], end[rows] = (_moved(column[rows], lines, new) for column in (start, end))
    filename = [
        strings.number(names[files[string]]) if string >= 0 else -1 for string in sources.filename.tolist()
    ]
    first, piece = _of_sources(texts.number, pieces)
    return replace(
        table if renamed is None else renamed.table(table),
        start=start,
        end=end,
        sources=SourceTable(
            strings.table(), first, piece, np.array(filename, np.int64), sources.line, sources.is_null
        ),
        table_first=np.zeros(len(table.names) + 1, np.int64),
        table=np.zeros(0, np.int64),
    )


def check_lines(before: RangeTable, after: RangeTable, renamed: Renamed | None = None) -> None:
    """Refuse a table with other rows, tags or line numbers than before.

    Args:
        renamed: the archive with other names, if they are not kept.
    """
    expected = before if renamed is None else renamed.table(before)
    same = expected.names == after.names and all(
        np.array_equal(getattr(expected, name), getattr(after, name)) for name in ("first", "offset", "tag")
    )
    old, new = (_line_numbers(table) for table in (before, after))
    if not same or not np.array_equal(old, new):
        raise ArchiveError("source ranges would be on other lines; nothing is written")


def _line_numbers(table: RangeTable) -> Ints:
    """The lines that each row's range begins and ends on (2, n)."""
    with memory.part():
        memory.take(8 * memory.NUMBER * len(table) + 10 * memory.NUMBER * len(table.sources), "source ranges")
        texts = texts_of(table.sources)
        numbers = np.stack([table.start, table.end])
        rows_of = _by_text(table.source, texts.number, len(texts.lines))
        for rows, lines in zip(rows_of, texts.lines, strict=True):
            numbers[:, rows] = np.clip(
                np.searchsorted(_bounds(lines), numbers[:, rows], "right"), 1, len(lines)
            )
    return numbers + table.sources.line[table.source]


def _blanked(lines: Sequence[bytes], marked: set[int], removed: Removed, *, keeps: bool) -> list[bytes]:
    """A text without its lines, or with the code of those that a range is on and that reveal nobody.

    Those keep their lengths, so that ranges stay apart, as their tags do. Others become one blank.

    Args:
        lines: of the text.
        marked: those that a range is on.
        removed: takes what is gone.
        keeps: whether these stay.
    """
    made = [BLANK if line else b"" for line in lines]  # PyTorch prints a last line that is not empty
    bare = without_comments(lines) if keeps and marked else lines
    revealing = removed.revealing.lines(bare) if keeps and marked else set()
    for at, line in enumerate(lines):
        if keeps and at in marked - revealing:
            made[at] = bare[at]
            removed.line(bare[at], kept=True)
            removed.line(comment_of(line, bare[at]), kept=False)
        else:
            made[at] = BLANK * len(line) if at in marked else made[at]
            removed.line(line, kept=False)
    return made


def _bounds(lines: Sequence[bytes]) -> Ints:
    """Where each line begins, and where another would after the last."""
    return firsts(np.array([len(line) + 1 for line in lines]))


def _marked(lines: Sequence[bytes], start: Ints, end: Ints) -> set[int]:
    """The lines that ranges are on: from the first byte to the last, or the only one of an empty range."""
    bounds = _bounds(lines)
    first, past = (
        np.searchsorted(bounds, positions, "right") - at
        for positions, at in ((start, 1), (np.maximum(start, end - 1), 0))
    )
    begun, ended = (np.bincount(at, minlength=len(bounds) + 1) for at in (first, past))
    return set(np.flatnonzero(np.cumsum(begun - ended)).tolist())


def _moved(positions: Ints, before: Sequence[bytes], after: Sequence[bytes]) -> Ints:
    """Positions in one text mapped to another: on the same line, at most at its end."""
    old, new = _bounds(before), _bounds(after)
    line = np.clip(np.searchsorted(old, positions, "right") - 1, 0, len(before) - 1)
    beyond = np.maximum(positions - (old[-1] - 1), 0)  # of a range past its text
    moved: Ints = new[line] + np.minimum(positions - old[line], np.diff(new)[line] - 1) + beyond
    return moved


def _of_sources(number: Ints, pieces: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """The pieces of each source's text: where each one's begin (s + 1), and all of them.

    Args:
        number: the text of each source (s).
        pieces: of each text.
    """
    counts = np.array([len(piece) for piece in pieces], np.int64)
    first = firsts(counts[number])
    memory.take(VALUE_WIDTH * int(first[-1]), "pieces of texts")
    with memory.lent(4 * VALUE_WIDTH * int(first[-1]), "pieces of texts"):
        every = np.array([piece for some in pieces for piece in some], np.int64)
        return first, every[spread(firsts(counts)[number], counts[number])]


def _by_text(source: Ints, number: Ints, count: int) -> list[Ints]:
    """The rows of each text.

    Args:
        source: of each row (n).
        number: the text of each source (s).
        count: of texts.
    """
    text = number[source]
    order = np.argsort(text, kind="stable")
    return np.split(order, np.searchsorted(text[order], np.arange(1, count))) if count else []
