"""Targets for records: each format's bytes to a table or a value, and back; also as if they were large."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING
from unittest import mock

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS
from archive.companion import blocks, packed
from archive.debuginfo.model import Generation
from archive.formats.bytecode import parse_bytecode, parse_operators, renumber_warnings
from archive.formats.callstack_map import build_callstack_map, generation, parse_callstack_map
from archive.formats.effects import EFFECTS
from archive.formats.effects.record import build_effects, parse_effects
from archive.formats.inert_values import class_names, inert_value
from archive.formats.lowered import find_lowered
from archive.formats.method_handles import build_methods, parse_methods
from archive.formats.record_kinds import BYTECODE, DATA
from archive.formats.source_ranges import build_source_ranges, parse_source_ranges
from archive.pickles import scan, write
from archive.pickles.machine import plain_value
from archive.pickles.ops import BINUNICODE, BINUNICODE8, HOLDERS
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from archive.privacy.redact.saved_texts import check_same_but, texts_of, with_texts
from tests.fuzz.companion_targets import look_up
from tests.fuzz.mutations import changed_companion, changed_pickle, number
from tests.fuzz.second_opinions import check_slowly, check_value
from tests.fuzz.targets import Target, smallest
from tests.support import slow_reader
from tests.support.corpus import ARCHIVES, CALLSTACKS, FIXTURES, HANDLES, PATHS, raw_records
from tests.support.effect_tables import COUNTING
from tests.support.halves import facts_of
from tests.support.hostile_companions import kept, packed_of, set_to
from tests.support.plain import plain_handles, plain_methods, plain_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from archive.companion.contents import Contents
    from archive.companion.templates import Templates
    from archive.normalform.columns import Columns
    from archive.pickles.tree import Tree

LIMITS = DEFAULT_LIMITS


def tree_of(data: bytes, name: str = "m.debug_pkl") -> Tree:
    """One pickle as columns."""
    with memory.charged(LIMITS.allowance(len(data))):
        return read_trees([Pickle(name, memoryview(data))], [True])


@cache
def _by_kind() -> dict[str, list[bytes]]:
    """All pickle records of the fixtures, by name; source ranges under one name."""
    found: dict[str, list[bytes]] = {}
    for path in ARCHIVES:
        for record in raw_records(path):
            if record.is_pickle:
                name = "ranges" if record.holds_ranges else record.name
                found.setdefault(name, []).append(record.data)
    return found


def _seeds(name: str, count: int = 12) -> Callable[[], list[bytes]]:
    return lambda: smallest(_by_kind()[name], count)


def read_ranges(data: bytes) -> None:
    """Source ranges, in all layouts. A string table with equal strings is not written as it was."""
    with memory.charged(LIMITS.allowance(len(data))):
        table = parse_source_ranges(tree_of(data))
    with memory.charged(LIMITS.allowance(len(data))):
        again = parse_source_ranges(tree_of(build_source_ranges(table, 0)))
    rows = plain_ranges(table, 0)
    assert plain_ranges(again, 0) == rows
    check_slowly(rows, slow_reader.source_ranges, data)


def read_handles(data: bytes) -> None:
    """The call-stack debug map, in both layouts."""
    with memory.charged(LIMITS.allowance(len(data))):
        table = parse_callstack_map(tree_of(data, CALLSTACKS), 0)
    built = build_callstack_map(table, generation(table))
    with memory.charged(LIMITS.allowance(len(data))):
        again = parse_callstack_map(tree_of(built, CALLSTACKS), 0)
    assert build_callstack_map(again, generation(again)) == built
    rows = plain_handles(table)
    assert plain_handles(again) == rows
    check_slowly(rows, slow_reader.callstack_map, data)


def _read_methods(data: bytes, of: Generation) -> None:
    with memory.charged(LIMITS.allowance(len(data))):
        table = parse_methods(tree_of(data, HANDLES), 0, of)
    built = build_methods(table)
    with memory.charged(LIMITS.allowance(len(data))):
        again = parse_methods(tree_of(built, HANDLES), 0, of)
    assert build_methods(again) == built
    texts = of is Generation.MODULE_PATHS
    facts = plain_methods(table, texts=texts)
    assert plain_methods(again, texts=texts) == facts
    check_slowly(facts, slow_reader.methods, data)


def read_methods(data: bytes) -> None:
    """Handles of instructions."""
    _read_methods(data, Generation.METHOD_HANDLES)


def read_paths(data: bytes) -> None:
    """Module paths of operators."""
    _read_methods(data, Generation.MODULE_PATHS)


def read_bytecode(data: bytes) -> None:
    """Methods of the lite interpreter."""
    tree = tree_of(data, BYTECODE)
    with memory.charged(LIMITS.allowance(len(data))):
        known = parse_bytecode(tree, 0)
    with memory.charged(LIMITS.allowance(len(data))):
        called = parse_operators(tree, 0)
    assert {name: len(calls) for name, calls in called.items()} == known.instructions
    check_slowly((known.version, called), slow_reader.bytecode, data)
    numbered = renumber_warnings(tree, 0)
    assert renumber_warnings(tree_of(numbered, BYTECODE), 0) == numbered


def read_value(data: bytes) -> None:
    """The module tree, and constants."""
    tree = tree_of(data, DATA)
    with memory.charged(LIMITS.allowance(len(data))):
        value = inert_value(tree, int(tree.roots[0]))
    check_value(value, data)
    class_names(value)
    with memory.charged(LIMITS.allowance(len(data))):
        find_lowered(value)


def read_effects(data: bytes) -> None:
    """Effects of methods. A table that is read is written to the same bytes as one that was built."""
    with memory.charged(LIMITS.allowance(len(data))):
        table = parse_effects(tree_of(data, EFFECTS), 0)
    try:
        built = build_effects(table)
    except ArchiveError as error:
        raise AssertionError("read, and cannot be written") from error
    with memory.charged(LIMITS.allowance(len(data))):
        again = parse_effects(tree_of(built, EFFECTS), 0)
    assert again == table
    assert build_effects(again) == built


def read_plain(data: bytes) -> None:
    """A pickle of Python's own, as it is and with longer texts."""
    view = memoryview(data)
    with memory.charged(LIMITS.allowance(len(data))):
        plain_value(view, 0)
    with memory.charged(LIMITS.allowance(len(data))):
        saved = texts_of(view)
    texts = {text.at: f"{text} and more" for text in saved.texts if not text.obstacle}
    made = with_texts(view, saved, texts)
    try:
        check_same_but(view, memoryview(made), texts)
    except ArchiveError as error:
        raise AssertionError(str(error)) from error


def _effect_seeds() -> list[bytes]:
    records = [one for path in (FIXTURES / "effects").rglob("*.pt") for one in raw_records(path)]
    return [build_effects(COUNTING), *(one.data for one in records if one.name == EFFECTS)]


def _plain_seeds() -> list[bytes]:
    names = ("object.pt", "tensor.pt", "state_dict.pt", "checkpoint.pt", "module.pt")
    records = [one for name in names for one in raw_records(FIXTURES / "kinds" / name)]
    return smallest([one.data for one in records if one.name == DATA], 8, 4000)


TARGETS = {
    "ranges": Target(read_ranges, _seeds("ranges", 20), changed_pickle),
    "handles": Target(read_handles, _seeds(CALLSTACKS), changed_pickle),
    "methods": Target(read_methods, _seeds(HANDLES), changed_pickle),
    "paths": Target(read_paths, _seeds(PATHS), changed_pickle),
    "bytecode": Target(read_bytecode, _seeds(BYTECODE), changed_pickle),
    "data": Target(read_value, _seeds(DATA), changed_pickle),
    "constants": Target(read_value, _seeds("constants.pkl"), changed_pickle),
    "effects": Target(read_effects, _effect_seeds, changed_pickle),
    "plain": Target(read_plain, _plain_seeds, changed_pickle),
}


# --- Targets that read small inputs as if they were large: in windows, in narrow columns, in blocks


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
    with memory.charged(LIMITS.allowance(len(data))):
        together = read_trees(beside, [True] * 3)
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
        [[child - low for child in tree.items(node)] for node in nodes],
        {node - low: state - low for node, state in tree.states.items() if node in nodes},
        [_value(tree, node) for node in nodes],
    ]


def _value(tree: Tree, node: int) -> object:
    """A node's argument; a text instead of its number, and of a value with children none."""
    if tree.kind(node) in HOLDERS:
        return None
    value = int(tree.value[node])
    return bytes(tree.strings.data(value)) if tree.tokens.op[node] in (BINUNICODE, BINUNICODE8) else value


def rebuilt(tree: Tree) -> bytes:
    """The record that is built of what is read, if it is one of source ranges or a call-stack map."""
    with memory.charged(LIMITS.allowance(tree.tokens.base[1])):
        with suppress(ArchiveError):
            return bytes(build_source_ranges(parse_source_ranges(tree), 0))
        try:
            table = parse_callstack_map(tree, 0)
        except ArchiveError:
            return b""
        return bytes(build_callstack_map(table, generation(table)))


def look_up_in_blocks(data: bytes) -> None:
    """A companion whose columns are in blocks, looked up and read whole."""
    with in_blocks():
        look_up(data)


def _records() -> list[bytes]:
    return [seed for name in ("ranges", "handles", "bytecode", "data") for seed in TARGETS[name].seeds[::3]]


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


TARGETS |= {
    "windows": Target(read_in_windows, _records, changed_pickle),
    "blocks": Target(look_up_in_blocks, _in_blocks, _changed_in_blocks),
}
