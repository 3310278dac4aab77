"""A normal form under construction: from tables, or while it is changed.

The source ranges of a whole archive, to columns. :mod:`~archive.normalform.form` is the inverse.

Records repeat ranges, sources and texts hundreds of times; columns have each of them once:

- a *row* is an offset and a range;
- a *range* is a source, start, end and tag. Equal ranges are merged, and numbered by first appearance;
- a *source* is a text, filename and starting line, and whether it is null. Equal sources are merged, unless a
  record has both: PyTorch writes equal sources twice if they were different objects;
- a *text* is a node in a tree of lines: see :mod:`archive.normalform.texts`.

String tables and memo entries are left out: they follow from PyTorch's rules.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, numbered, ordinals
from archive.base.quick_dataclass import dataclass
from archive.container.names import as_bytes
from archive.normalform.columns import NO_ROW, RANGE_LAYOUTS
from archive.normalform.form import NormalForm
from archive.normalform.handles import pack_handles, pack_methods, pack_paths
from archive.normalform.pool import Pool
from archive.normalform.texts import pack_texts

if TYPE_CHECKING:
    from typing import Self

    from archive.base.columns import Ints
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.tables import RangeTable, SourceTable
    from archive.normalform.columns import Columns

# --- ranges


def pack_ranges(table: RangeTable, pool: Pool) -> Columns:
    """The columns of a table's rows."""
    sources = table.sources
    text, parent, line = _text_tree(sources, pool)
    filename = pool.add(sources.strings, sources.filename)
    per_row = np.diff(table.first)
    record = np.zeros(len(sources), np.int64)
    record[table.source] = np.repeat(np.arange(len(table.names)), per_row)
    null = sources.is_null.astype(np.int64)
    # Equal sources are merged, over all records; but a second equal one in a record is a different source,
    # equal only to the second ones of other records.
    content = (text, filename, sources.line, null)
    known, known_at = numbered(*content, ordinals(record, *content))
    span, span_at = numbered(known[table.source], table.start, table.end, table.tag)
    # Sources, then texts, are renumbered by the first range that needs them; unneeded ones are dropped.
    used, used_at = numbered(known[table.source[span_at]])
    source_at = known_at[known[table.source[span_at]]][used_at]
    there = np.flatnonzero(text[source_at] >= 0)
    number, text_at = numbered(text[source_at][there])
    texts = np.full(len(source_at), NO_ROW, np.int64)
    texts[there] = number
    return {
        "record.name": pool.numbers(map(as_bytes, table.names)),
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


def _text_tree(sources: SourceTable, pool: Pool) -> tuple[Ints, Ints, Ints]:
    """The node of each source's text (s); parent and line of each node (k).

    Lines join the pool in the order of nodes, so that strings are numbered by first use, too.
    """
    local = Pool()
    with memory.part():
        text, parent, line = pack_texts(*_lines(sources, local))
        number, at = numbered(line)
        lines = local.strings()
        return text, parent, pool.numbers(lines[string] for string in line[at].tolist())[number]


def _lines(sources: SourceTable, pool: Pool) -> tuple[Ints, Ints]:
    """The lines of each source's text: where each source's begin (s + 1), and their numbers in the pool."""
    piece, first = sources.piece, sources.first
    length = sources.strings.length[piece] if len(piece) else piece
    number, at = numbered(piece)
    memory.take(int(sources.strings.length[piece[at]].sum()), "texts of sources")
    texts = sources.strings.copies(piece[at])
    ends = np.array([text[-1:] == b"\n" for text in texts], np.bool_)
    ended, single = ends[number], b"".join(texts).count(b"\n") == ends.sum()
    kept = length > 0
    # The fast path: each piece is already a line, as in string tables.
    owner = np.repeat(np.arange(len(sources)), np.diff(first))[kept]
    last = np.diff(owner, append=-1) != 0
    if single and (ended[kept] | last).all():
        memory.take(memory.TEXT * len(at) + 3 * memory.NUMBER * len(piece), "lines of sources")
        return firsts(np.bincount(owner, minlength=len(sources))), pool.numbers(texts)[number][kept]
    # The general path: texts are joined and cut into lines, each list of pieces once.
    newlines = np.array([text.count(b"\n") for text in texts], np.int64)[number]
    counts, numbers = [], []
    known: dict[bytes, list[int]] = {}
    for start, stop in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        pieces = piece[start:stop].tobytes()
        most = int(newlines[start:stop].sum()) + 1
        if pieces not in known:
            memory.take(memory.TEXT * most, "lines of sources")
            text = b"".join([sources.strings.data(string) for string in piece[start:stop].tolist()])
            *whole, rest = text.split(b"\n")
            known[pieces] = [pool.number(line + b"\n") for line in whole] + [pool.number(rest)] * bool(rest)
        memory.take(3 * memory.NUMBER * most, "lines of sources")
        counts.append(len(known[pieces]))
        numbers += known[pieces]
    return firsts(np.array(counts, np.int64)), np.array(numbers, np.int64)


# --- builder

ROW_BYTES, HANDLE_BYTES, FRAME_BYTES, METHOD_BYTES, VALUE_BYTES = 60, 220, 120, 180, 60
"""Bytes of memory while a row, handle, frame, method, and a method's handle or path become columns."""


@dataclass(eq=False)
class FormBuilder:
    """The columns of a normal form and the pool of its strings; both may grow.

    Attributes:
        pool: the strings that columns refer to.
    """

    columns: Columns
    pool: Pool = field(default_factory=Pool)

    @classmethod
    def of(
        cls,
        ranges: RangeTable,
        handles: HandleTable | None = None,
        methods: MethodTable | None = None,
        paths: MethodTable | None = None,
    ) -> Self:
        """A form from an archive's tables.

        Args:
            ranges: the source ranges of all records.
            handles: the call-stack map, if there is one.
            methods: the debug handles of each method's instructions, if they are recorded.
            paths: the module paths of each method's operators, if they are recorded.
        """
        pool = Pool()
        cost = ROW_BYTES * len(ranges)
        if handles is not None:
            cost += HANDLE_BYTES * len(handles) + FRAME_BYTES * len(handles.next)
        cost += sum(
            METHOD_BYTES * len(table) + VALUE_BYTES * len(table.value) for table in (methods, paths) if table
        )
        with memory.lent(cost, "rows of tables"):
            columns = pack_ranges(ranges, pool)
            if handles is not None:
                columns |= pack_handles(handles, pool)
            if methods is not None:
                columns |= pack_methods(methods, pool)
            if paths is not None:
                columns |= pack_paths(paths, pool)
        memory.take(sum(values.nbytes for values in columns.values()), "columns")
        return cls(columns, pool)

    def drop(self, *prefixes: str) -> None:
        """Drop tables (``handle.``) or single columns (``file.callstacks``)."""
        self.columns = {
            name: values for name, values in self.columns.items() if not name.startswith(prefixes)
        }

    def form(self) -> NormalForm:
        """The form as it is now."""
        return NormalForm(self.columns, self.pool.table())
