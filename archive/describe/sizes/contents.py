"""The parts of debug records: how many of their inflated bytes are text, rows and pickle overhead.

Instructions of all records are weighed together, as columns. A *stretch* is a run of instructions about one
source file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from archive.base.errors import ArchiveError
from archive.describe.sizes.account import Part
from archive.describe.sizes.stretches import Stretches, range_stretches, record_stretches
from archive.formats.record_kinds import KINDS_IN_COLUMNS, kind_of
from archive.formats.source_ranges import parse_source_ranges
from archive.pickles.ops import BINUNICODE, BINUNICODE8, OPCODES, ValueKind, lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.pickles.tree import Tree
    from archive.reader.archive import Archive

T = TypeVar("T")


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


Contents: TypeAlias = dict[str, list[Cell]]

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


def debug_contents(archive: Archive) -> Contents:
    """The cells of each debug record, by name.

    A record that is no pickle is one cell. If a pickle's source ranges do not have the layout that is
    declared, its cells have no source file.
    """

    def range_cells(names: Sequence[str]) -> Contents:
        tree = archive.tree(names)
        return _cells(tree, range_stretches(tree, parse_source_ranges(tree, archive.allowance)))

    def plain_cells(names: Sequence[str]) -> Contents:
        tree = archive.tree(names)
        return _cells(tree, record_stretches(tree))

    debug = [name for name in archive.records if kind_of(name) in KINDS_IN_COLUMNS]
    found: Contents = {}
    for some in _readable(archive.range_records, range_cells):
        found |= some
    for some in _readable([name for name in debug if name not in found], plain_cells):
        found |= some
    broken = (name for name in debug if name not in found)
    return found | {name: [Cell(Part.UNREADABLE, None, archive.records[name].size)] for name in broken}


def _readable(names: Sequence[str], read: Callable[[Sequence[str]], T]) -> Iterator[T]:
    """Read records together. If that fails, read each half of them, so that broken ones end up alone."""
    if not names:
        return
    try:
        yield read(names)
    except ArchiveError:
        middle = len(names) // 2
        for half in (names[:middle], names[middle:]) if middle else ():
            yield from _readable(half, read)


def _cells(tree: Tree, stretches: Stretches) -> Contents:
    """The cells of each record: its stretches' bytes by part, summed for each source file."""
    tokens = tree.tokens
    size = np.diff(tokens.at, append=tokens.base[-1])
    text = np.zeros_like(size)
    text[np.flatnonzero((tokens.op == BINUNICODE) | (tokens.op == BINUNICODE8))] = tree.strings.length
    rows = size * lookup(IS_FACT, tokens.op)
    columns = {Part.TEXT: text, Part.ROWS: rows, Part.OVERHEAD: size - text - rows}

    pickle = np.searchsorted(tokens.first, stretches.start, "right") - 1
    key = pickle * len(stretches.sources) + stretches.source
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    groups = [divmod(group, len(stretches.sources)) for group in key[order][first].tolist()]
    cells: Contents = {one.name: [] for one in tokens.pickles}
    for part, column in columns.items():
        sums = np.add.reduceat(np.add.reduceat(column, stretches.start)[order], first)
        for (number, source), count in zip(groups, sums.tolist(), strict=True):
            if count:
                cells[tokens.pickles[number].name].append(Cell(part, stretches.sources[source], count))
    return cells
