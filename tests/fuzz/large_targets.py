"""Targets that read small inputs as if they were large: in windows, in narrow columns, in blocks.

Inputs of some KB never reach what the library does with large files. With its bounds lowered they do, and
must be read as before.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING
from unittest import mock

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS
from archive.companion import blocks, packed
from archive.formats.callstack_map import build_callstack_map, generation, parse_callstack_map
from archive.formats.source_ranges import build_source_ranges, parse_source_ranges
from archive.pickles import scan, write
from archive.pickles.ops import BINUNICODE, BINUNICODE8
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from tests.fuzz.companion_mutations import changed_companion
from tests.fuzz.companion_targets import look_up
from tests.fuzz.mutations import number
from tests.fuzz.pickle_mutations import changed_pickle
from tests.fuzz.record_targets import TARGETS as RECORDS
from tests.fuzz.record_targets import tree_of
from tests.fuzz.targets import Target
from tests.support.corpus import ARCHIVES
from tests.support.halves import facts_of
from tests.support.hostile_companions import kept, packed_of, set_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from archive.companion.contents import Contents
    from archive.companion.templates import Templates
    from archive.normalform.columns import Columns
    from archive.pickles.tree import Tree

LIMITS = DEFAULT_LIMITS
NEIGHBOUR = b"\x80\x02(K\x01X\x01\x00\x00\x00aq\x00h\x00t."
"""A pickle that stands before and behind the one that is read."""
FEW_ROWS = 4


@contextmanager
def as_if_large() -> Iterator[None]:
    """Pickles are read 48 bytes at once, in columns of 64 bits; integers are written three at once."""
    with ExitStack() as patches:
        for module, name, value in ((scan, "WINDOW", 48), (scan, "LARGE", 0), (write, "CHUNK", 3)):
            patches.enter_context(mock.patch.object(module, name, value))
        yield


@contextmanager
def in_blocks() -> Iterator[None]:
    """Columns of packed companions are stored in blocks of a few rows."""
    with (
        mock.patch.object(packed, "MUCH", 0),
        mock.patch.object(packed, "BLOCK_ROWS", FEW_ROWS),
        mock.patch.object(blocks, "BLOCK_ROWS", FEW_ROWS),
    ):
        yield


def read_in_windows(data: bytes) -> None:
    """A pickle: as one of two small ones, alone, and as if it were large."""
    refusal = None
    try:
        tree = tree_of(data)
        expected, built = columns(tree), rebuilt(tree)
    except ArchiveError as error:
        refusal = error
    with as_if_large():
        try:
            tree = tree_of(data)
            assert refusal is None, "read only as if it were large"
            assert (columns(tree), rebuilt(tree)) == (expected, built), "read otherwise as if it were large"
        except ArchiveError as error:
            assert refusal is not None, "refused only as if it were large"
            raise refusal from error
    beside = [
        Pickle(name, memoryview(one)) for name, one in zip("abc", (NEIGHBOUR, data, NEIGHBOUR), strict=True)
    ]
    together = read_trees(beside, [True] * 3, LIMITS.allowance(len(data)))
    assert columns(together, 1) == expected, "read otherwise beside other pickles"


def columns(tree: Tree, pickle: int = 0) -> list[object]:
    """A pickle's tokens and values as lists, nodes and positions counted from its own first."""
    tokens = tree.tokens
    low, high = int(tokens.first[pickle]), int(tokens.first[pickle + 1])
    nodes = range(low, high)
    return [
        tokens.op[low:high].tolist(),
        (tokens.at[low:high].astype(int) - int(tokens.base[pickle])).tolist(),
        int(tree.roots[pickle]) - low,
        [[child - low for child in tree.items(node)] if tree.count[node] else [] for node in nodes],
        {node - low: state - low for node, state in tree.states.items() if node in nodes},
        [_value(tree, node) for node in nodes],
    ]


def _value(tree: Tree, node: int) -> object:
    """A node's argument; a text instead of its number."""
    value = int(tree.value[node])
    return bytes(tree.strings.data(value)) if tree.tokens.op[node] in (BINUNICODE, BINUNICODE8) else value


def rebuilt(tree: Tree) -> bytes:
    """The record that is built of what is read, if it is one of source ranges or a call-stack map."""
    allowance = LIMITS.allowance(tree.tokens.base[1])
    with suppress(ArchiveError):
        return bytes(build_source_ranges(parse_source_ranges(tree, allowance), 0))
    try:
        table = parse_callstack_map(tree, 0, allowance)
    except ArchiveError:
        return b""
    return bytes(build_callstack_map(table, generation(table)))


def look_up_in_blocks(data: bytes) -> None:
    """A companion whose columns are in blocks, looked up and read whole."""
    with in_blocks():
        look_up(data)


def _records() -> list[bytes]:
    return [seed for name in ("ranges", "handles", "bytecode", "data") for seed in RECORDS[name].seeds[::3]]


@cache
def _parts() -> list[tuple[Contents, Columns, Templates]]:
    """Contents of small companions, with their columns as packed companions have them."""
    small = sorted(ARCHIVES, key=lambda path: path.stat().st_size)[:60:10]
    return [(facts_of(path), *kept(facts_of(path))) for path in small]


def _in_blocks() -> list[bytes]:
    with in_blocks():
        return [packed_of(*parts) for parts in _parts()]


def _changed_in_blocks(chance: Random, data: bytes) -> bytes:
    """A companion of which a column has other values; now and then, whose sections have other bytes."""
    if not chance.randrange(4):
        return changed_companion(chance, data)
    facts, columns, templates = chance.choice(_parts())
    changed = dict(columns)
    for name in chance.choices([name for name in columns if len(columns[name])], k=chance.choice((1, 1, 2))):
        row = chance.randrange(len(columns[name]))
        value = number(chance, int(columns[name][row]))
        set_to(changed, name, row, min(max(value, -1 << 63), (1 << 63) - 1))
    with in_blocks():
        return packed_of(facts, changed, templates)


TARGETS = {
    "windows": Target(read_in_windows, _records, changed_pickle),
    "blocks": Target(look_up_in_blocks, _in_blocks, _changed_in_blocks),
}
