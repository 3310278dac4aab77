"""``*.debug_pkl``: the source ranges of one generated code record.

The record is beside its code: ``code/<path>.py.debug_pkl`` (PyTorch 1.2: ``debug/<name>.pkl``). A row maps a
byte offset in the generated code to a range of the original source. Offsets increase; a position belongs to
the last row whose offset is not after it (``findSourceRangeThatGenerated``).

- Written by ``torch/csrc/jit/serialization/source_range_serialization.cpp``, ``SourceRangePickler::pickle``,
  which ``ScriptModuleSerializer::writeFiles`` (``export_module.cpp``) calls for each code record.
- Read by ``ConcreteSourceRangeUnpickler::unpickle`` in the same file when an error is printed, and by
  ``MobileDebugTable`` (``torch/csrc/jit/mobile/debug_info.cpp``), which takes only rows with a tag.

Four layouts are on disk:

- *pair rows*, 1.2 to 1.8: ``((offset, range), ...)``
- *tag-first rows*, only builds between 1.8 and 1.9: ``((offset, tag, range), ...)``; PyTorch 2.13 fails on
  them, because it takes the second element as the range
- *inline rows*, 1.9 to 1.11, and later with the string table switched off: ``((offset, range, tag), ...)``
- *string table*, 1.12 on: ``("FORMAT_WITH_STRING_TABLE", (str, ...), ((offset, range, tag), ...))``

A range is ``(source, start, end)``. A source is ``(text, filename or None, starting line)``, or with a string
table ``([piece, ...], filename, starting line)``. There, pieces (one per line) and filename are indices into
the table, whose first string is "". PyTorch writes index 0 for "no filename", and reads it back as "".

The null source ("no source") is ``("", "", 0)``, or ``([], 0, 0)``. A source that is merely empty is
``("", None, 0)``, or ``([0], 0, 0)``. A record without rows is the same in all layouts but the last.

``delegated_backends.debug_pkl`` (1.10 on; ``writeByteCode`` in ``export_module.cpp``) has the same grammar.
It has the ranges of lowered modules, whose code is not in the archive: all offsets are -1, and rows are
found by their tags.

Memo entries: each distinct source, and the outer tuple; with a string table, the table and the tuple of rows
instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base import memory
from archive.base.columns import column_bytes, largest_window, windows
from archive.base.errors import ArchiveError
from archive.debuginfo.model import RangeLayout
from archive.debuginfo.tables import RangeTable, SourceTable, concatenated, in_order
from archive.formats.schema.pickled import (
    Const,
    Documented,
    Gathered,
    Indexed,
    Int,
    IntList,
    Memo,
    Optional,
    Ragged,
    Sequence,
    Shared,
    String,
    Tuple,
    build,
    first_item,
    parse,
)
from archive.formats.written_ranges import MARKER as STRING_TABLE_MARKER
from archive.formats.written_ranges import written_records
from archive.pickles.ops import ValueKind
from archive.pickles.tree import read_trees

if TYPE_CHECKING:
    import collections.abc

    from archive.base.columns import Ints
    from archive.base.strings import Strings, StringTable
    from archive.formats.schema.pickled.core import Declaration
    from archive.pickles.scan import Pickle
    from archive.pickles.tree import Tree
    from archive.pickles.write import Receive

MARKER = STRING_TABLE_MARKER.decode()

ROW_BYTES, SOURCE_BYTES = 16, 96
"""Bytes of memory that a row and a source take besides the declared columns."""
PIECE_BYTES = 40
"""Bytes of memory that a piece of a source takes while its string is looked up."""

LINE = Int() * "of the file, where the text begins (starting_line_no)"
SOURCE = Shared(
    Tuple(
        text=String() * "of the whole source (text_view)",
        filename=Optional(String()) * "of the model's file",
        starting_line=LINE,
    )
)
PIECED = Shared(
    Tuple(
        text=IntList(narrow=True) * "its pieces, one per line: their numbers in the string table",
        filename=Int() * "its number in the string table; 0 for none",
        starting_line=LINE,
    )
)
OFFSET = Int() * "the first byte in the generated code that comes from the range; -1 in delegated_backends"
TAG = Int() * "the number by which other records name the range (source_range_tag)"


def _range(source: Shared) -> Documented:
    span = Tuple(
        source=source * "shared by all ranges in it",
        start=Int(low=0) * "the first byte in the source's text",
        end=Int(low=0) * "the byte after the last one",
    )
    return span * "of the original source (SourceRange)"


ROWS = {
    RangeLayout.PAIR: Tuple(offset=OFFSET, range=_range(SOURCE)),
    RangeLayout.TAG_FIRST: Tuple(offset=OFFSET, tag=TAG, range=_range(SOURCE)),
    RangeLayout.INLINE: Tuple(offset=OFFSET, range=_range(SOURCE), tag=TAG),
    RangeLayout.STRING_TABLE: Tuple(offset=OFFSET, range=_range(PIECED), tag=TAG),
}
ROWS[RangeLayout.EMPTY] = ROWS[RangeLayout.INLINE]
RANGE_SCHEMAS: dict[RangeLayout, Declaration] = {layout: Memo(Sequence(row)) for layout, row in ROWS.items()}
RANGE_SCHEMAS[RangeLayout.STRING_TABLE] = Tuple(
    marker=Const(MARKER),
    table=Memo(Sequence(String())) * "lines of sources and filenames, without duplicates; the first is empty",
    rows=RANGE_SCHEMAS[RangeLayout.STRING_TABLE],
)


def layout_of(tree: Tree, root: int) -> RangeLayout:
    """The layout of one record, by its outermost values."""
    first = first_item(tree, root)
    if first is None:
        return RangeLayout.EMPTY
    if tree.kind(first) == ValueKind.TEXT:
        return RangeLayout.STRING_TABLE
    row = tree.items(first)
    if len(row) == 2:  # noqa: PLR2004 (the pair)
        return RangeLayout.PAIR
    return (
        RangeLayout.TAG_FIRST if len(row) > 1 and tree.kind(row[1]) == ValueKind.INT else RangeLayout.INLINE
    )


def read_source_ranges(
    pickles: collections.abc.Sequence[Pickle], borrowed: collections.abc.Sequence[bool]
) -> RangeTable:
    """The rows of some records: by their shape if PyTorch 1.12 or later wrote them all, else by their values.

    Args:
        borrowed: for each record, whether its bytes are in the mapped file.
    """
    with memory.part() as part:
        written = written_records(pickles, borrowed)
        cost = part.taken if written else 0
    if written is None:
        return parse_source_ranges(read_trees(pickles, borrowed))
    memory.take(cost)
    names = tuple(pickle.name for pickle in pickles)
    return _table(names, written.strings, RangeLayout.STRING_TABLE, written.columns)


def parse_source_ranges(tree: Tree) -> RangeTable:
    """The rows of all records of a tree, in the tree's order of records."""
    layouts = [layout_of(tree, root) for root in tree.roots.tolist()]
    parts = []
    for layout in dict.fromkeys(layouts or [RangeLayout.EMPTY]):
        pickles = np.array([number for number, own in enumerate(layouts) if own is layout], np.int64)
        columns = parse(RANGE_SCHEMAS[layout], tree, pickles)
        names = tuple(tree.tokens.pickles[pickle].name for pickle in pickles.tolist())
        parts.append(_table(names, tree.strings, layout, columns))
    if len(parts) == 1:
        return parts[0]
    memory.take(2 * sum(map(column_bytes, parts)), "columns")
    order = {pickle.name: number for number, pickle in enumerate(tree.tokens.pickles)}
    return in_order(concatenated(parts), order)


def _table(names: tuple[str, ...], strings: StringTable, layout: RangeLayout, columns: Any) -> RangeTable:  # noqa: ANN401
    """The rows of all records of one layout."""
    if layout is RangeLayout.STRING_TABLE:
        rows, table_first, table = columns["rows"], columns["table"].first, columns["table"].items
    else:
        rows, table_first, table = columns, np.zeros(len(names) + 1, np.int64), np.zeros(0, np.int64)
    fields = rows.items
    span, offset = fields["range"], fields["offset"]
    sources = span["source"].items
    memory.take(ROW_BYTES * len(offset) + SOURCE_BYTES * len(sources["starting_line"]), "columns")
    if layout is RangeLayout.STRING_TABLE:
        with memory.lent(PIECE_BYTES * largest_window(sources["text"].first), "columns"):
            source_table = _pieced(strings, names, rows, table_first, table)
        _check_texts(names, rows, source_table)
    else:
        source_table = _inline(strings, sources)
    return RangeTable(
        names,
        (layout,) * len(names),
        rows.first,
        offset,
        span["source"].index,
        span["start"],
        span["end"],
        fields.get("tag", np.full(len(offset), -1, np.int64)),
        source_table,
        table_first,
        table,
    )


def _inline(strings: StringTable, sources: dict[str, Ints]) -> SourceTable:
    """Sources with their texts, one piece each."""
    text, filename, line = sources["text"], sources["filename"], sources["starting_line"]
    lengths = strings.length
    no_name = (filename >= 0) & (lengths[filename] == 0) if len(lengths) else filename >= 0
    is_null = no_name & (line == 0) & ((lengths[text] == 0) if len(lengths) else True)
    return SourceTable(strings, np.arange(len(text) + 1), text, filename, line, is_null)


def _pieced(
    strings: StringTable,
    names: tuple[str, ...],
    rows: Any,  # noqa: ANN401
    table_first: Ints,
    table: Ints,
) -> SourceTable:
    """Sources whose texts are pieces of their record's string table.

    Indices count from the beginning of each record's table; ``table_first`` makes them indices into all
    tables.
    """
    shared = rows.items["range"]["source"]
    pieces, filename, line = (shared.items[field] for field in ("text", "filename", "starting_line"))
    record = np.zeros(len(line), np.int64)
    record[shared.index] = np.repeat(np.arange(len(names)), np.diff(rows.first))
    low, size, counts = table_first[record], np.diff(table_first)[record], np.diff(pieces.first)

    def check(what: str, owner: Ints, values: Ints) -> None:
        wrong = np.flatnonzero((values < 0) | (values >= size[owner]))
        if len(wrong):
            source = int(owner[wrong[0]])
            row = int(np.flatnonzero(shared.index == source)[0])
            raise ArchiveError(
                record=names[int(record[source])],
                place=f"row {row - int(rows.first[record[source]])}, field {what}",
                expected=f"an index into a string table of {int(size[source])}",
                found=str(int(values[wrong[0]])),
            )

    for begin, end in windows(pieces.first):
        part = pieces.items[int(pieces.first[begin]) : int(pieces.first[end])]
        owner = np.repeat(np.arange(begin, end), counts[begin:end])
        check("text", owner, part)
        part[:] = table[low[owner] + part]
    check("filename", np.arange(len(line)), filename)
    is_null = (counts == 0) & (filename == 0) & (line == 0)
    return SourceTable(strings, pieces.first, pieces.items, table[low + filename], line, is_null)


def _check_texts(names: tuple[str, ...], rows: Any, sources: SourceTable) -> None:  # noqa: ANN401
    """Refuse a text longer than the limit: a text may contain one long piece many times."""
    length = sources.lengths[rows.items["range"]["source"].index]
    if not len(length):
        return
    row = int(length.argmax())
    record = int(np.searchsorted(rows.first, row, "right")) - 1
    place = f"row {row - int(rows.first[record])}, field text"
    with memory.lent(int(length[row]), "a text", record=names[record], place=place):
        pass


def build_source_ranges(table: RangeTable, record: int, *, receive: Receive | None = None) -> bytes:
    """One record of a table as PyTorch writes it.

    Args:
        receive: takes the bytes, a part at a time; without it they are returned.
    """
    layout, rows = table.layouts[record], table.rows(record)
    part = slice(rows.start, rows.stop)
    index = table.source[part]
    own = slice(int(index.min()), int(index.max()) + 1) if len(index) else slice(0, 0)
    pieced = layout is RangeLayout.STRING_TABLE
    if pieced:
        sources = _pieced_columns(table, record, own)
    else:
        sources = {
            "text": table.sources.piece[table.sources.first[own]],
            "filename": table.sources.filename[own],
            "starting_line": table.sources.line[own],
        }
    span = {
        "source": Indexed(index - own.start, sources),
        "start": table.start[part],
        "end": table.end[part],
    }
    fields = {"offset": table.offset[part], "range": span, "tag": table.tag[part]}
    own_table = _own_table(table, record) if pieced else None
    strings = table.sources.strings
    return record_of(fields, own_table, strings, layout, receive=receive)


def record_of(
    fields: dict[str, Any],
    table: Ints | None,
    strings: Strings,
    layout: RangeLayout,
    *,
    receive: Receive | None = None,
) -> bytes:
    """A record made from some columns.

    Args:
        fields: the columns of the rows.
        table: the record's string table; None for layouts without one.
        strings: what columns of texts, and the string table, refer to.
        receive: takes the bytes, a part at a time; without it they are returned.
    """
    columns: Any = Ragged(np.array([0, len(fields["offset"])]), fields)
    if table is not None:
        columns = {"marker": None, "table": Ragged(np.array([0, len(table)]), table), "rows": columns}
    return build(RANGE_SCHEMAS[layout], columns, strings, receive)


def _own_table(table: RangeTable, record: int) -> Ints:
    """A record's string table."""
    return table.table[int(table.table_first[record]) : int(table.table_first[record + 1])]


def _pieced_columns(table: RangeTable, record: int, own: slice) -> dict[str, Any]:
    """Sources as indices into their record's string table."""
    sources, strings = table.sources, _own_table(table, record)
    place = np.zeros(int(strings.max(initial=-1)) + 1, np.int64)
    place[strings[::-1]] = np.arange(len(strings))[::-1]
    bounds = sources.first[own.start : own.stop + 1]
    pieces = Gathered(place, sources.piece[int(bounds[0]) : int(bounds[-1])])
    return {
        "text": Ragged(bounds - bounds[0], pieces),
        "filename": place[sources.filename[own]],
        "starting_line": sources.line[own],
    }
