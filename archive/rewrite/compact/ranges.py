"""Source ranges are written in few bytes.

- Equal sources are one object, and so are equal ranges, where that is shorter.
- *Inline rows* hold each text as a whole. They are often the shortest: deflate finds what texts share.
- *String tables* hold pieces: see ``texts``. Pieces used most come first, since numbers below 256 take two
  bytes.

A string table cannot say "no filename": PyTorch reads the number 0 as "", and prints that. So a record with a
filename of None has inline rows. Inline rows cannot say that a source is empty but not the null source, so it
becomes the null source. To PyTorch, which reads both as "", "" and 0, they are the same in every layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, numbered, sizes_of, spread
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import MARKER, ROWS
from archive.pickles.write import BYTE
from archive.rewrite.compact.instructions import (
    BUILDER,
    CLOSE,
    GET,
    INT,
    NEVER,
    NONE,
    PUT,
    SHARED_TEXT,
    TEXT,
    Composer,
    Instructions,
    each,
    integer_lists,
    pickled,
    tuple_of,
)
from archive.rewrite.compact.texts import PiecedTexts, own_strings, shared_pieces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.base.columns import Ints
    from archive.debuginfo.tables import RangeTable

OFTEN = 6
"""Uses of a range from which on it counts as used often."""
MANY_ROWS = 100_000
"""Rows of a record from which on fewer ways are tried."""
NAMES_SHARED_FROM = 4
"""Uses of a filename from which on memo reads, deflated, are shorter than repeating the name."""
INLINE_UP_TO = 8 << 10
"""Bytes of all texts up to which a string table was never seen to be shorter."""
INLINE_AT_MOST = 6
"""Texts longer than this many times the record with a string table do not deflate to less."""


# --- one record


@dataclass(frozen=True, slots=True, eq=False)
class RangeRecord:
    """One record: n rows, and their s distinct sources, numbered by first appearance.

    Attributes:
        offset: byte offset in the generated code; -1 in the delegated record (n).
        start: first byte in the source's text (n).
        end: the byte after the last one (n).
        tag: the range's number, or -1 (n).
        source: number of the source (n).
        texts: of the sources (s). An empty text has one empty piece; the null source's has none.
        filename: one of ``names``, or -1 (s).
        line: starting line (s).
        names: distinct filenames.
    """

    offset: Ints
    start: Ints
    end: Ints
    tag: Ints
    source: Ints
    texts: PiecedTexts
    filename: Ints
    line: Ints
    names: list[bytes]

    def __len__(self) -> int:
        return len(self.offset)


def record_of(table: RangeTable, number: int) -> RangeRecord:
    """Take one record out of a table."""
    memory.take(20 * memory.NUMBER * len(table.rows(number)), "rows that are written in fewer bytes")
    part = slice(int(table.first[number]), int(table.first[number + 1]))
    source, first = numbered(table.source[part])
    objects, sources = table.source[part][first], table.sources
    texts = _texts(table, objects)
    names, filename = own_strings(sources.strings, sources.filename[objects])
    line = sources.line[objects]
    facts = zip(texts.runs(), filename.tolist(), line.tolist(), strict=True)
    known: dict[tuple[bytes, int, int], int] = {}
    merged = np.array([known.setdefault(source_facts, len(known)) for source_facts in facts], np.int64)
    distinct = numbered(merged)[1]
    return RangeRecord(
        table.offset[part],
        table.start[part],
        table.end[part],
        table.tag[part],
        merged[source],
        texts.some(distinct),
        filename[distinct],
        line[distinct],
        names,
    )


def _texts(table: RangeTable, objects: Ints) -> PiecedTexts:
    """The texts of some sources, without empty pieces, unless the whole text is empty."""
    sources = table.sources
    counts = sizes_of(sources.first, objects)
    memory.take(8 * memory.NUMBER * int(counts.sum()), "pieces of texts")
    index = sources.piece[spread(sources.first[objects], counts)]
    strings, piece = own_strings(sources.strings, index)
    is_empty = (sources.lengths[objects] == 0) & ~sources.is_null[objects]
    stays = np.repeat(is_empty, counts) | (sources.strings.length[index] > 0)
    return PiecedTexts(strings, firsts(stays.astype(np.int64))[firsts(counts)], piece[stays])


# --- ways to write it


def range_ways(record: RangeRecord, layouts: Collection[RangeLayout]) -> Iterator[bytes]:
    """Write the record in several ways. Which one deflates best depends on its contents."""
    length, longest = record.texts.length(), NEVER
    sharings = list(_sharings(record))
    inline = [layout for layout in layouts if layout is not RangeLayout.STRING_TABLE]
    if RangeLayout.STRING_TABLE in layouts and (length > INLINE_UP_TO or not inline):
        sources, strings = _pieced_sources(record)
        for sharing in sharings if len(sharings) == 1 else (sharings[0], sharings[-1]):
            # The table has all strings but the last two: the builder's name and the marker.
            marker = len(strings) - 1
            table = tuple_of(each(TEXT, np.arange(marker - 1)))
            rows = tuple_of(_rows(record, RangeLayout.STRING_TABLE, sources, sharing))
            data = pickled(tuple_of(each(TEXT, np.array([marker])), table, rows), strings)
            longest = INLINE_AT_MOST * len(data)
            yield data
    for layout in inline if length <= longest else ():
        sources, strings = _inline_sources(record)
        for sharing in sharings:
            yield pickled(tuple_of(_rows(record, layout, sources, sharing)), strings)


class _Sharing(NamedTuple):
    """A choice of ranges that are written once and later read from the memo.

    Attributes:
        number: the range of each row (n).
        first: the first row of each range (r).
        shared: whether a range is chosen (r).
    """

    number: Ints
    first: Ints
    shared: np.ndarray


def _sharings(record: RangeRecord) -> Iterator[_Sharing]:
    """Three choices: ranges used twice, ranges used often, none. A very long record has only the first."""
    number, first = numbered(record.source, record.start, record.end)
    uses = np.bincount(number)
    last = NEVER
    for least in (2,) if len(record) > MANY_ROWS else (2, OFTEN, NEVER):
        shared = uses >= least
        if int(shared.sum()) < last:
            last = int(shared.sum())
            yield _Sharing(number, first, shared)


def _rows(record: RangeRecord, layout: RangeLayout, sources: Instructions, sharing: _Sharing) -> Instructions:
    """The instructions of the rows, each source written at its first row.

    Keys are the numbers of sources, then those of ranges.
    """
    number, first, shared = sharing
    count = len(sources)
    begins = numbered(record.source)[1]
    is_read = shared[number]
    is_read[first] = False
    is_known = ~is_read
    is_known[begins] = False
    written, read, known = (np.flatnonzero(rows) for rows in (~is_read, is_read, is_known))
    rows = Composer(len(record))
    fields = ROWS[layout].fields
    for field in fields:
        if field != "range":
            rows.add(INT, {"offset": record.offset, "tag": record.tag}[field])
            continue
        rows.insert(sources, at=begins)
        rows.add(GET, record.source[known], at=known)
        rows.add(INT, record.start[written], at=written)
        rows.add(INT, record.end[written], at=written)
        rows.add(CLOSE[3], at=written)
        rows.add(PUT, count + np.flatnonzero(shared), at=first[shared])
        rows.add(GET, count + number[read], at=read)
    rows.add(CLOSE[len(fields)])
    return rows.code()


def _inline_sources(record: RangeRecord) -> tuple[Instructions, list[bytes]]:
    """The instructions of sources with whole texts, and their strings."""
    run, begins = record.texts.numbered()
    texts = record.texts.some(begins)
    memory.take(texts.length(), "texts of sources")
    known: dict[bytes, int] = {}
    text = np.array([known.setdefault(text, len(known)) for text in texts.joined()], np.int64)[run]
    name = record.filename
    uses = np.bincount(name + 1, minlength=1)[name + 1]
    name_op = np.select([name < 0, uses < NAMES_SHARED_FROM], [NONE, TEXT], SHARED_TEXT)
    sources = Composer(len(text))
    sources.add(np.where(text == known.get(b"", -1), TEXT, SHARED_TEXT), text)
    sources.add(name_op, len(known) + name)
    sources.add(INT, record.line)
    sources.add(CLOSE[3])
    sources.add(PUT, np.arange(len(text)))
    return sources.code(), [*known, *record.names]


def _pieced_sources(record: RangeRecord) -> tuple[Instructions, list[bytes]]:
    """The instructions of sources with texts in pieces, and the strings.

    Strings are those of the table, the builder's name, and the marker. Keys of lists of pieces follow those
    that the rows need.
    """
    texts = shared_pieces(record.texts)
    known = {b"": 0} if len(record) else {}
    piece, name = (
        np.array([known.setdefault(string, len(known)) for string in strings], np.int64)[number]
        for strings, number in ((texts.strings, texts.piece), (record.names, record.filename))
    )
    table, place = _by_use(list(known), np.bincount(np.concatenate((piece, name)), minlength=len(known)))
    which, begins = texts.numbered()
    rest = np.setdiff1d(np.arange(len(which)), begins, assume_unique=True)
    distinct = PiecedTexts(table, texts.first, place[piece]).some(begins)
    integers = Instructions(distinct.first, np.full(len(distinct.piece), INT, np.uint8), distinct.piece)
    keys = len(which) + len(record)
    sources = Composer(len(which))
    sources.insert(integer_lists(integers, len(table)), at=begins)
    sources.add(PUT, keys + which[begins], at=begins)
    sources.add(GET, keys + which[rest], at=rest)
    sources.add(INT, place[name])
    sources.add(INT, record.line)
    sources.add(CLOSE[3])
    sources.add(PUT, np.arange(len(which)))
    return sources.code(), [*table, BUILDER, MARKER.encode()]


def _by_use(strings: list[bytes], uses: Ints) -> tuple[list[bytes], Ints]:
    """The first string, then those used most, then the others; and the new place of each."""
    is_later = np.ones(len(uses), np.bool_)
    is_later[:1] = False
    is_later[1 + np.argsort(-uses[1:], kind="stable")[: BYTE - 1]] = False
    order = np.argsort(is_later, kind="stable")
    return list(map(strings.__getitem__, order.tolist())), np.argsort(order)
