"""The source ranges of a whole archive, to columns and back.

Records repeat ranges, sources and texts by the hundreds; columns have each of them once:

- a *row* is an offset and a range;
- a *range* is a source, start, end and tag. Equal ranges are one, numbered by first appearance;
- a *source* is a text, filename and starting line, and whether it is null. Equal sources are one, unless a
  record has both: PyTorch writes equal sources twice if they were different objects;
- a *text* is a node in a tree of lines: see :mod:`archive.normalform.texts`.

String tables and memo entries are left out, for they follow from PyTorch's rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, numbered, ordinals
from archive.container.names import decoded, encoded
from archive.debuginfo.model import Layout
from archive.debuginfo.tables import RangeTable, SourceTable
from archive.normalform.columns import NO_ROW, RANGE_LAYOUTS, VALUE_BYTES
from archive.normalform.pool import Pool
from archive.normalform.texts import pack_texts, sum_over_texts, unpack_texts

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.base.strings import StringTable
    from archive.normalform.columns import Columns

LINE_BYTES = 250
"""Bytes of memory that a line costs while texts become a tree of lines, or records again."""
USE_BYTES = 24
"""The same for each further source that has the line."""


def pack_ranges(table: RangeTable, pool: Pool, allowance: Allowance) -> Columns:
    """The columns of a table's rows."""
    sources = table.sources
    text, parent, line = _text_tree(sources, pool, allowance)
    filename = pool.add(sources.strings, sources.filename)
    per_row = np.diff(table.first)
    record = np.zeros(len(sources), np.int64)
    record[table.source] = np.repeat(np.arange(len(table.names)), per_row)
    null = sources.is_null.astype(np.int64)
    # Equal sources become one, over all records; but the second equal one of a record is another source, and
    # so is equal only to the second ones of other records.
    content = (text, filename, sources.line, null)
    known, known_at = numbered(*content, ordinals(record, *content))
    span, span_at = numbered(known[table.source], table.start, table.end, table.tag)
    # Sources, and then texts, are numbered anew by the first range that needs them; what no range needs goes.
    used, used_at = numbered(known[table.source[span_at]])
    source_at = known_at[known[table.source[span_at]]][used_at]
    there = np.flatnonzero(text[source_at] >= 0)
    number, text_at = numbered(text[source_at][there])
    texts = np.full(len(source_at), NO_ROW, np.int64)
    texts[there] = number
    return {
        "record.name": pool.numbers(map(encoded, table.names)),
        "record.layout": np.array([RANGE_LAYOUTS.index(layout) for layout in table.layouts], np.int64),
        "record.rows": per_row,
        "row.offset": table.offset,
        "row.range": span,
        "range.source": used,
        "range.start": table.start[span_at],
        "range.end": table.end[span_at],
        "range.tag": table.tag[span_at],
        "source.text": texts,
        "source.filename": filename[source_at],
        "source.line": sources.line[source_at],
        "source.null": null[source_at],
        "text.node": text[source_at][there][text_at],
        "node.parent": parent,
        "node.line": line,
        "file.ordered": np.array([(table.tag[span_at][1:] >= table.tag[span_at][:-1]).all()], np.int64),
    }


def _text_tree(sources: SourceTable, pool: Pool, allowance: Allowance) -> tuple[Ints, Ints, Ints]:
    """The node of each source's text (s); parent and line of each node (k).

    Lines join the pool in the order of nodes, so that strings are numbered by first use, too.
    """
    local = Pool()
    text, parent, line = pack_texts(*_lines(sources, local, allowance))
    number, at = numbered(line)
    lines = local.strings()
    return text, parent, pool.numbers(lines[string] for string in line[at].tolist())[number]


def _lines(sources: SourceTable, pool: Pool, allowance: Allowance) -> tuple[Ints, Ints]:
    """The lines of each source's text: where each source's begin (s + 1), and their numbers in the pool."""
    piece, first = sources.piece, sources.first
    length = sources.strings.length[piece] if len(piece) else piece
    number, at = numbered(piece)
    allowance.take(int(sources.strings.length[piece[at]].sum()), "texts of sources")
    texts = sources.strings.copies(piece[at])
    ends = np.array([text[-1:] == b"\n" for text in texts], np.bool_)
    ended, single = ends[number], b"".join(texts).count(b"\n") == ends.sum()
    kept = length > 0
    # The quick way: each piece is a line already, as in string tables.
    owner = np.repeat(np.arange(len(sources)), np.diff(first))[kept]
    last = np.diff(owner, append=-1) != 0
    if single and (ended[kept] | last).all():
        allowance.take(LINE_BYTES * len(at) + USE_BYTES * len(piece), "lines of sources")
        return firsts(np.bincount(owner, minlength=len(sources))), pool.numbers(texts)[number][kept]
    # The plain way: texts are put together and cut into lines, each list of pieces once.
    newlines = np.array([text.count(b"\n") for text in texts], np.int64)[number]
    counts, numbers = [], []
    known: dict[tuple[int, ...], list[int]] = {}
    for start, stop in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        pieces = tuple(piece[start:stop].tolist())
        most = int(newlines[start:stop].sum()) + 1
        if pieces not in known:
            allowance.take(LINE_BYTES * most, "lines of sources")
            text = b"".join([sources.strings.data(string) for string in pieces])
            *whole, rest = text.split(b"\n")
            known[pieces] = [pool.number(line + b"\n") for line in whole] + [pool.number(rest)] * bool(rest)
        allowance.take(USE_BYTES * most, "lines of sources")
        counts.append(len(known[pieces]))
        numbers += known[pieces]
    return firsts(np.array(counts, np.int64)), np.array(numbers, np.int64)


def unpack_ranges(columns: Columns, strings: StringTable, allowance: Allowance) -> RangeTable:
    """The source ranges of some columns, with all texts in lines, whatever a record's layout.

    Raises:
        LimitError: texts are repeated so often that they would take more memory than allowed.
    """
    names = tuple(decoded(bytes(strings.data(name))) for name in columns["record.name"].tolist())
    layouts = tuple(RANGE_LAYOUTS[layout] for layout in columns["record.layout"].tolist())
    span = columns["row.range"]
    first = firsts(columns["record.rows"])
    record = np.repeat(np.arange(len(names)), columns["record.rows"])
    own, own_at = numbered(record, columns["range.source"][span])
    source = columns["range.source"][span[own_at]]
    node = np.append(columns["text.node"], -1)[columns["source.text"][source]]
    _check_lengths(columns, strings, node, np.array(columns["record.layout"])[record[own_at]], allowance)
    lines_first, lines = unpack_texts(node, columns["node.parent"], columns["node.line"])
    sources = SourceTable(
        strings,
        lines_first,
        lines,
        columns["source.filename"][source],
        columns["source.line"][source],
        columns["source.null"][source] > 0,
    )
    return RangeTable(
        names,
        layouts,
        first,
        columns["row.offset"],
        own,
        columns["range.start"][span],
        columns["range.end"][span],
        columns["range.tag"][span],
        sources,
        np.zeros(len(names) + 1, np.int64),
        np.zeros(0, np.int64),
    )


def _check_lengths(
    columns: Columns, strings: StringTable, node: Ints, layout: Ints, allowance: Allowance
) -> None:
    """Refuse texts that share lines so often that each for itself they would take too much memory.

    Sources of one node share its text, which inline layouts have in one piece.
    """
    parent = columns["node.parent"]
    lines = np.append(sum_over_texts(parent, np.ones(len(parent), np.int64)), 0)[node]
    allowance.take(VALUE_BYTES * int(lines.sum()), "lines", place="source.text")
    joined = layout != RANGE_LAYOUTS.index(Layout.STRING_TABLE)
    size = np.append(sum_over_texts(parent, strings.length[columns["node.line"]]), 0)
    allowance.take(int(size[np.unique(node[joined])].sum()), "texts", place="source.text")
