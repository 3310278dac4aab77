"""Source ranges read by the shape in which PyTorch 1.12 and later write them: one pattern for a row.

``source_ranges`` declares the record, and reads one of any shape instruction by instruction. Here a row is a
match, and numbers are looked up in columns. Nothing is refused: a record that isn't just what PyTorch's
pickler writes is left to the declaration.
"""

from __future__ import annotations

import re
from array import array
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.columns import firsts
from archive.base.patterns import pattern_of
from archive.base.strings import StringTable
from archive.formats.schema.pickled import Indexed, Ragged
from archive.pickles.ops import BINPUT, BINUNICODE, GLOBAL, LONG_BINPUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.columns import Ints
    from archive.pickles.scan import Pickle

MARKER = b"FORMAT_WITH_STRING_TABLE"
HEAD = b"\x80\x02X" + len(MARKER).to_bytes(4, "little")
BEGINNING = HEAD + MARKER + b"q\0"
INT, PUT, GET = rb"(?:K.|M..|J.{4})", rb"(?:q.|r.{4})", rb"(?:h.|j.{4})"
BUILD_INTLIST = b"ctorch.jit._pickle\nbuild_intlist\n"
OPENING, CLOSING = b"(](", b"etR"
"""Stand around the pieces of a source."""
NEW = rb"(?:%b%b|%b)(%b(?:%b)*+)%b%b%b\x87%b" % (
    *(re.escape(BUILD_INTLIST), PUT, GET),  # the function that makes the list of pieces, or its memo entry
    *(re.escape(OPENING), INT, CLOSING),
    *(INT, INT, PUT),  # file and line
)
ROW = pattern_of(rb"(%b(?:%b|%b)%b%b\x87%b\x87)" % (INT, NEW, GET, INT, INT, INT), re.DOTALL)
"""Offset, a new source or one that was there, start, end and tag."""
OPEN, CLOSED = b"(", b"t"
"""Around a tuple of more than three; instead of both, a shorter one ends with its size."""
CLOSED_SHORT = {b")": 0, b"\x85": 1, b"\x86": 2, b"\x87": 3}
STRINGS_END = pattern_of(rb"([t)\x85-\x87])%b(\(?)" % PUT, re.DOTALL)
"""Ends the strings, and begins the rows."""
ROWS_END = pattern_of(rb"([t)\x85-\x87])%b\x87\.\Z" % PUT, re.DOTALL)
STRING_SIZE, END_SIZE = 7, 5
"""Bytes of the shortest string, and of what stands after the last row."""
RUNS = pattern_of(rb"(?:K.)++|(?:M..)++|(?:J.{4})++", re.DOTALL)
WIDTH = np.zeros(256, np.int64)
WIDTH[[*b"Kqh"]], WIDTH[[*b"M"]], WIDTH[[*b"Jrj"]] = 1, 2, 4
"""Bytes of the number after an opcode."""
MASK = np.array([0, 0xFF, 0xFFFF, 0, 0xFFFFFFFF], np.uint32)
SHORT_ENTRIES = 1 << 8
"""Memo entries whose numbers take one byte."""
AT_ONCE, WINDOW = 1 << 12, 1 << 16
"""Strings, and bytes of rows, for which memory is asked at once."""
STRING_BYTES, WINDOW_COPIES, ROW_COPIES = 64, 32, 10
"""Bytes of memory of a string's place, of a byte of a window, and what a byte of a row leaves."""
_u32 = Struct("<I").unpack_from


class WrittenRecords(NamedTuple):
    """Some records.

    Attributes:
        strings: those of all of them, markers, too.
        columns: as ``RANGE_SCHEMAS`` has them.
    """

    strings: StringTable
    columns: dict[str, Ragged]


def written_records(pickles: Sequence[Pickle], borrowed: Sequence[bool]) -> WrittenRecords | None:
    """Records with string tables and rows; None if one isn't just as PyTorch writes it.

    Args:
        borrowed: for each record, whether its bytes are in the mapped file.
    """
    found = list[_Columns]()
    for pickle in pickles:
        columns = _columns(pickle)
        if columns is None:
            return None
        found.append(columns)
    if not found:
        return None
    counts = np.array([len(record.start) for record in found])
    known = firsts(np.array([len(record.sources[0]) for record in found]))[:-1]
    memory.take(sum(column.nbytes for record in found for column in record), "columns")
    start, length, rows, sources, pieces, piece_counts = (
        np.concatenate(columns, axis=-1) for columns in zip(*found, strict=True)
    )
    row_counts = np.array([record.rows.shape[1] for record in found])
    offset, source, low, high, tag = rows
    file, line = sources
    source += np.repeat(known, row_counts)
    fields = {"text": Ragged(firsts(piece_counts), pieces), "filename": file, "starting_line": line}
    span = {"source": Indexed(source, fields), "start": low, "end": high}
    buffer = np.repeat(np.arange(len(found)), counts)
    strings = StringTable([pickle.data for pickle in pickles], borrowed, buffer, start, length)
    is_marker = np.zeros(len(start), np.bool_)
    is_marker[firsts(counts)[:-1]] = True
    return WrittenRecords(
        strings,
        {
            "table": Ragged(firsts(counts - 1), np.flatnonzero(~is_marker)),
            "rows": Ragged(firsts(row_counts), {"offset": offset, "range": span, "tag": tag}),
        },
    )


class _Columns(NamedTuple):
    """The columns of a record.

    Attributes:
        start: the first byte of each string, the marker's too (t).
        length: bytes of each (t).
        rows: offset, number of the source, start, end and tag of each row (5, n).
        sources: file and line of each source (2, s).
        pieces: of all sources, one after another (p).
        counts: how many pieces each source has (s).
    """

    start: Ints
    length: Ints
    rows: np.ndarray
    sources: np.ndarray
    pieces: Ints
    counts: Ints


def _columns(pickle: Pickle) -> _Columns | None:
    name, data = pickle
    if data[: len(BEGINNING)] != BEGINNING:
        return None
    is_open = bytes(data[len(BEGINNING) :][: len(OPEN)]) == OPEN
    start, at, last = array("q", [len(HEAD)]), len(BEGINNING) + is_open, len(data) - END_SIZE
    while at < last and data[at] == BINUNICODE:
        if len(start) % AT_ONCE == 1:
            most = min(AT_ONCE, (last - at) // STRING_SIZE + 1)
            memory.take(STRING_BYTES * most, "strings", record=name, place=f"byte {at}")
        start.append(at + 5)
        at += 5 + _u32(data, at + 1)[0] + (2 if len(start) <= SHORT_ENTRIES else 5)
    end = STRINGS_END.match(data, at)
    if end is None or not _closes(end[1], len(start) - 1, is_open=is_open):
        return None
    record, starts = _Record(data), np.array(start)
    length = record.word[starts - 4].astype(np.int64)
    puts = record.code[starts + length]
    if (puts[:SHORT_ENTRIES] != BINPUT).any() or (puts[SHORT_ENTRIES:] != LONG_BINPUT).any():
        return None
    rows = _rows(record, end.end(), name, is_open=bool(end[2]))
    return None if rows is None else _Columns(starts, length, *rows)


def _closes(code: bytes, size: int, *, is_open: bool) -> bool:
    """Whether an opcode makes a tuple of some values, before which there was a MARK or none."""
    return code == CLOSED if is_open else CLOSED_SHORT.get(code) == size


class _Record:
    """A record's bytes, and the numbers in them."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.code = np.frombuffer(data, np.uint8)
        self.word = np.ndarray((len(data) - 3,), "<u4", data, 0, (1,))

    def numbers(self, at: Ints) -> tuple[Ints, Ints]:
        """The numbers of some instructions, and where the next ones begin."""
        width = WIDTH[self.code[at]]
        words: np.ndarray = self.word[at + 1] & MASK[width]
        return words.view(np.int32).astype(np.int64), at + 1 + width


def _rows(
    record: _Record, at: int, name: str, *, is_open: bool
) -> tuple[np.ndarray, np.ndarray, Ints, Ints] | None:
    """The rows from a byte on, their sources' files and lines, and the pieces of these."""
    rows, sources = [np.zeros((5, 0), np.int64)], [np.zeros((2, 0), np.int64)]
    pieces: list[np.ndarray] = [np.zeros(0, np.int32)]
    counts = [np.zeros(0, np.int64)]
    known, builder = 0, -1
    for begin, end, texts, lists in _windows(record.data, at, name):
        is_new = _lengths(lists) > 0
        offset, place = record.numbers(begin + firsts(_lengths(texts))[:-1])
        is_first = record.code[place] == GLOBAL
        entry, place = record.numbers(place + len(BUILD_INTLIST) * is_first)
        if not known:
            builder = int(entry[0])
        source = entry - builder - 1
        place[is_new] += _lengths(lists)[is_new] + len(CLOSING)
        file, new = record.numbers(place[is_new])
        line, new = record.numbers(new)
        put, place[is_new] = record.numbers(new + 1)
        number = known + np.cumsum(is_new)
        if (
            not (known or is_first[0])
            or (entry[is_new] != builder).any()
            or (put - builder != number[is_new]).any()
            or ((source < 0) | (source >= number))[~is_new].any()
        ):
            return None
        source[is_new] = number[is_new] - 1
        low, place = record.numbers(place)
        high, place = record.numbers(place)
        tag, _ = record.numbers(place + 1)
        if (low < 0).any() or (high < 0).any():
            return None
        known, at = int(number[-1]), end
        rows.append(np.array([offset, source, low, high, tag]))
        sources.append(np.array([file, line]))
        count, some = _integers([text[len(OPENING) :] for text in lists if text])
        counts.append(count)
        pieces.append(some)
    closed = ROWS_END.match(record.data, at)
    if closed is None or not _closes(closed[1], sum(len(part[0]) for part in rows), is_open=is_open):
        return None
    columns = np.concatenate(rows, axis=1), np.concatenate(sources, axis=1)
    return *columns, np.concatenate(pieces), np.concatenate(counts)


def _windows(data: memoryview, at: int, name: str) -> Iterator[tuple[int, int, list[bytes], list[bytes]]]:
    """Rows that follow one another: the first byte, the one after the last, each row, and its pieces."""
    size = WINDOW
    while at < len(data):
        size = min(size, len(data) - at)
        leaves = ROW_COPIES * size
        memory.take(leaves, "rows", record=name, place=f"byte {at}")
        with memory.lent(WINDOW_COPIES * size, "rows", record=name, place=f"byte {at}"):
            found = ROW.findall(data, at, at + size)
            texts, lists = [text for text, _ in found], [text for _, text in found]
            whole = b"".join(texts)
            end = at + len(whole)
            if whole != data[at:end].tobytes():  # something stands between
                return
            if found:
                yield at, end, texts, lists
            elif at + size >= len(data):
                return
            memory.give(leaves - ROW_COPIES * len(whole))
            at, size = end, WINDOW if found else 2 * size


def _integers(texts: Sequence[bytes]) -> tuple[Ints, Ints]:
    """How many integers there are in each of some texts, and all of them."""
    joined = b"".join(texts)
    runs = RUNS.findall(joined)
    first = firsts(_lengths(runs))[:-1]
    width = WIDTH[np.frombuffer(joined, np.uint8)[first]]
    width = np.repeat(width, _lengths(runs) // (width + 1))
    ends = np.cumsum(width + 1)
    words = np.ndarray((len(joined) + 1,), "<u4", joined + bytes(4), 0, (1,))
    values: np.ndarray = words[ends - width] & MASK[width]
    return np.diff(np.searchsorted(ends, firsts(_lengths(texts)), "right")), values.view(np.int32)


def _lengths(texts: Sequence[bytes]) -> Ints:
    return np.fromiter(map(len, texts), np.int64, len(texts))
