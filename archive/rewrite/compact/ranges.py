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

from archive.base.columns import numbered
from archive.debuginfo.model import Layout
from archive.formats.source_ranges import MARKER
from archive.pickles.write import BYTE
from archive.rewrite.compact.encoding import pickled
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
    tuple_of,
)
from archive.rewrite.compact.texts import Pieces, shared_pieces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.rewrite.compact.range_record import RangeRecord

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


def ways(record: RangeRecord, layouts: Collection[Layout], allowance: Allowance) -> Iterator[bytes]:
    """Write the record in several ways. Which one deflates best depends on its contents.

    Args:
        record: the rows.
        layouts: the layouts that may be used: the string table, one without, or both.
        allowance: the memory that writing may cost.

    Raises:
        LimitError: it would cost more.
    """
    length, longest = record.texts.length(), NEVER
    sharings = list(_sharings(record))
    inline = [layout for layout in layouts if layout is not Layout.STRING_TABLE]
    if Layout.STRING_TABLE in layouts and (length > INLINE_UP_TO or not inline):
        sources, strings = _pieced_sources(record, allowance)
        for sharing in sharings if len(sharings) == 1 else (sharings[0], sharings[-1]):
            rows = _rows(record, Layout.STRING_TABLE, sources, sharing)
            data = _with_table(rows, strings, allowance)
            longest = INLINE_AT_MOST * len(data)
            yield data
    for layout in inline if length <= longest else ():
        sources, strings = _inline_sources(record, allowance)
        for sharing in sharings:
            yield pickled(tuple_of(_rows(record, layout, sources, sharing)), strings, allowance)


def _with_table(rows: Instructions, strings: list[bytes], allowance: Allowance) -> bytes:
    """A record with a string table, of all strings but the last two: the builder's name and the marker."""
    marker = len(strings) - 1
    table = tuple_of(each(TEXT, np.arange(marker - 1)))
    return pickled(tuple_of(each(TEXT, np.array([marker])), table, tuple_of(rows)), strings, allowance)


class _Sharing(NamedTuple):
    """A choice of ranges that are written once and read from the memo elsewhere.

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


def _rows(record: RangeRecord, layout: Layout, sources: Instructions, sharing: _Sharing) -> Instructions:
    """The instructions of the rows, each source written at its first row.

    Keys are the numbers of sources, and behind them those of ranges.
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
    rows.add(INT, record.offset)
    if layout is Layout.TAG_FIRST:
        rows.add(INT, record.tag)
    rows.insert(sources, at=begins)
    rows.add(GET, record.source[known], at=known)
    rows.add(INT, record.start[written], at=written)
    rows.add(INT, record.end[written], at=written)
    rows.add(CLOSE[3], at=written)
    rows.add(PUT, count + np.flatnonzero(shared), at=first[shared])
    rows.add(GET, count + number[read], at=read)
    if layout in (Layout.INLINE, Layout.STRING_TABLE):
        rows.add(INT, record.tag)
    rows.add(CLOSE[2 if layout is Layout.PAIR else 3])
    return rows.code()


def _inline_sources(record: RangeRecord, allowance: Allowance) -> tuple[Instructions, list[bytes]]:
    """The instructions of sources with whole texts, and their strings."""
    run, begins = record.texts.numbered()
    texts = record.texts.some(begins)
    allowance.take(texts.length(), "texts of sources")
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


def _pieced_sources(record: RangeRecord, allowance: Allowance) -> tuple[Instructions, list[bytes]]:
    """The instructions of sources with texts in pieces, and the strings.

    Strings are those of the table, the builder's name, and the marker. Keys of lists of pieces follow those
    that the rows need.
    """
    texts = shared_pieces(record.texts, allowance)
    known = {b"": 0} if len(record) else {}
    piece, name = (
        np.array([known.setdefault(string, len(known)) for string in strings], np.int64)[number]
        for strings, number in ((texts.strings, texts.piece), (record.names, record.filename))
    )
    table, place = _by_use(list(known), np.bincount(np.concatenate((piece, name)), minlength=len(known)))
    which, begins = texts.numbered()
    rest = np.setdiff1d(np.arange(len(which)), begins, assume_unique=True)
    distinct = Pieces(table, texts.first, place[piece]).some(begins)
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
