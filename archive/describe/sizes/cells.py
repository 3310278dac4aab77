"""The parts of debug records: how many of their inflated bytes are text, rows and pickle overhead.

Instructions of all records are weighed together, as columns. A *stretch* is a run of instructions about one
source file. A row's instructions begin after those of the row before it. In a string table, a text's
instructions reach to the next text, and are about the first source that uses the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from archive.base.errors import ArchiveError, LimitError
from archive.base.strings import decoded
from archive.debuginfo.frames import BYTES_CALL
from archive.debuginfo.model import RangeLayout
from archive.describe.sizes.account import Part
from archive.formats.record_kinds import KINDS_IN_COLUMNS
from archive.formats.source_ranges import parse_source_ranges
from archive.pickles.ops import BINUNICODE, BINUNICODE8, CODE_OF, IS_PUT, OPCODES, ValueKind, lookup
from archive.reader.recognition import kind_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.base.columns import Ints
    from archive.debuginfo.tables import RangeTable, SourceTable
    from archive.describe.sizes.account import Weight
    from archive.pickles.tree import Tree
    from archive.reader.archive import Archive

CellsT = TypeVar("CellsT")


class Cell(NamedTuple):
    """Bytes of a record that have all labels in common; None where they have no label in a view.

    Attributes:
        part: None for no part.
        source: a file; None for no file.
        size: inflated bytes.
        kind: None for the record's own.
        module: None for the record's own.
    """

    part: str | None
    source: str | None
    size: int
    kind: str | None = None
    module: str | None = None
    weight: Weight | None = None


RecordCells: TypeAlias = dict[str, list[Cell]]

FACTS = {
    ValueKind.INT,
    ValueKind.BOOL,
    ValueKind.NONE,
    ValueKind.FLOAT,
    ValueKind.TUPLE,
    ValueKind.LIST,
    ValueKind.DICT,
}
IS_FACT = np.zeros(256, np.bool_)
IS_FACT[[op.code for op in OPCODES if op.kind in FACTS]] = True


def debug_contents(archive: Archive) -> RecordCells:
    """The cells of each debug record, by name.

    A record that isn't a pickle is one cell. If a pickle's source ranges do not have the layout that is
    declared, its cells have no source file.
    """

    def range_cells(names: Sequence[str]) -> RecordCells:
        tree = archive.tree(names)
        return _cells(tree, range_stretches(tree, parse_source_ranges(tree)))

    def plain_cells(names: Sequence[str]) -> RecordCells:
        tree = archive.tree(names)
        return _cells(tree, record_stretches(tree))

    file = archive.recognised.kind
    debug = [name for name in archive.records if kind_in(file, name) in KINDS_IN_COLUMNS]
    found: RecordCells = {}
    ranges = [name for name in archive.range_records if archive.records[name].size]
    for some in _readable(ranges, range_cells):
        found |= some
    plain = [name for name in debug if name not in found and archive.records[name].size]
    for some in _readable(plain, plain_cells):
        found |= some
    broken = (name for name in debug if name not in found)
    return found | {name: [Cell(Part.UNREADABLE, None, archive.records[name].size)] for name in broken}


def _readable(names: Sequence[str], read: Callable[[Sequence[str]], CellsT]) -> Iterator[CellsT]:
    """Read records together. If that fails, go through them, and leave out the broken ones.

    They are read in groups, each twice as many as the one before; of a group that fails, the first is read
    on its own. So the reading of all is linear, however many are broken.
    """
    at, many = 0, len(names)
    while at < len(names):
        try:
            yield read(names[at : at + many])
        except ArchiveError as error:
            if many == 1 and isinstance(error, LimitError):
                raise
            at += many == 1
            many = 1
        else:
            at, many = at + many, 2 * many


def _cells(tree: Tree, stretches: Stretches) -> RecordCells:
    """The cells of each record: its stretches' bytes by part, summed for each source file."""
    tokens = tree.tokens
    size = np.diff(tokens.at[:], append=tokens.base[-1])
    text = np.zeros_like(size)
    text[np.flatnonzero((tokens.op == BINUNICODE) | (tokens.op == BINUNICODE8))] = tree.strings.length
    rows = size * lookup(IS_FACT, tokens.op)
    columns = {Part.TEXT: text, Part.ROWS: rows, Part.OVERHEAD: size - text - rows}

    pickle = np.searchsorted(tokens.first, stretches.start, "right") - 1
    key = pickle * len(stretches.sources) + stretches.source
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    groups = [divmod(group, len(stretches.sources)) for group in key[order][first].tolist()]
    cells: RecordCells = {record.name: [] for record in tokens.pickles}
    for part, column in columns.items():
        sums = np.add.reduceat(np.add.reduceat(column, stretches.start)[order], first)
        for (number, source), count in zip(groups, sums.tolist(), strict=True):
            if count:
                cells[tokens.pickles[number].name].append(Cell(part, stretches.sources[source], count))
    return cells


# --- stretches

TUPLE = CODE_OF["TUPLE"]
UNNAMED_FILE = "(none)"
FIRST_PIECES, FIRST_BYTES = 8, 4096
"""Pieces of a text, and bytes of each, that are searched for the text's first stack frame."""


class Stretches(NamedTuple):
    """Runs of instructions that are about one source file: g stretches, none empty or across records.

    Attributes:
        start: the first token of each, increasing (g).
        source: index of its file in ``sources`` (g).
        sources: the files; the first one is None, for instructions about no file.
    """

    start: Ints
    source: Ints
    sources: list[str | None]


def record_stretches(tree: Tree) -> Stretches:
    """Each record as one stretch, about no source file."""
    start = tree.tokens.first[:-1]
    return Stretches(start, np.zeros_like(start), [None])


def range_stretches(tree: Tree, table: RangeTable) -> Stretches:
    """The stretches of all records of a tree, whose rows are in the table."""
    files, sources = _files(table.sources)
    owners = _owners(table.sources, files)
    parts = [_stretches(tree, pickle, table, files, owners) for pickle in range(len(tree.roots))]
    start, source = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    there = np.diff(start, append=len(tree.tokens.op)) > 0
    return Stretches(start[there], source[there], sources)


def _stretches(tree: Tree, pickle: int, table: RangeTable, files: Ints, owners: Ints) -> tuple[Ints, Ints]:
    """The first token and the source file of each stretch of a record; some stretches may be empty."""
    tokens = tree.tokens
    number = table.numbers[tokens.pickles[pickle].name]
    before, stop = tokens.first[pickle : pickle + 2].tolist()
    starts, sources = [np.array([before])], [np.zeros(1, np.int64)]
    outer = int(tree.roots[pickle])
    if table.layouts[number] is RangeLayout.STRING_TABLE:
        _, before, outer = tree.items(outer)
        own = slice(int(table.table_first[number]), int(table.table_first[number + 1]))
        starts += [tree.parts(before), np.array([before])]
        sources += [owners[table.table[own]], np.zeros(1, np.int64)]
    rows = table.rows(number)
    if rows:
        begin = _token_after(tree, np.array([before])) + (tokens.op[outer] == TUPLE)  # its MARK
        starts += [begin, _token_after(tree, tree.parts(outer))]
        sources += [files[table.source[rows.start : rows.stop]], np.zeros(1, np.int64)]
    start = np.clip(np.concatenate(starts), int(tokens.first[pickle]), stop)
    return np.maximum.accumulate(start), np.concatenate(sources)  # memo reads may lead back


def _token_after(tree: Tree, nodes: Ints) -> Ints:
    """For each value, the token after it and its memo write."""
    after: Ints = nodes + 1
    after += IS_PUT[tree.tokens.op[after]]
    return after


def _files(sources: SourceTable) -> tuple[Ints, list[str | None]]:
    """The number of each source's file (s), and the files; the first one is None."""
    numbers: dict[str | None, int] = {None: 0}

    def number(file: str) -> int:
        return numbers.setdefault(file, len(numbers))

    strings, name = sources.strings, sources.filename
    files = np.zeros(len(sources), np.int64)
    named = np.flatnonzero((name >= 0) & (strings.length[name] > 0))
    distinct, back = np.unique(name[named], return_inverse=True)
    known = [number(decoded(strings.data(string))) for string in distinct.tolist()]
    files[named] = np.array(known, np.int64)[back]
    for source in np.flatnonzero(files == 0).tolist():
        first, stop = sources.first[source : source + 2].tolist()
        pieces = sources.piece[first : min(stop, first + FIRST_PIECES)].tolist()
        frame = BYTES_CALL.match(b"".join([sources.strings.data(piece)[:FIRST_BYTES] for piece in pieces]))
        files[source] = number(decoded(frame[1]) if frame else UNNAMED_FILE)
    return files, list(numbers)


def _owners(sources: SourceTable, files: Ints) -> Ints:
    """For each string, the number of the file of the first source that it is a piece or the name of, or 0."""
    owners = np.zeros(len(sources.strings), np.int64)
    named = np.flatnonzero(sources.filename >= 0)[::-1]
    owners[sources.filename[named]] = files[named]
    owners[sources.piece[::-1]] = np.repeat(files, np.diff(sources.first))[::-1]
    return owners
