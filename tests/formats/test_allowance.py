"""What parsing costs is asked for before: memory that is traced against memory that was asked for."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.ma  # np.unique imports it when it is first called
import pytest

from archive import ArchiveError
from archive.base import memory
from archive.base.limits import Limits
from archive.debuginfo.model import Generation
from archive.formats.bytecode import InstructionTable, parse_bytecode, parse_operators
from archive.formats.callstack_map import parse_callstack_map
from archive.formats.effects.record import parse_effects
from archive.formats.inert_values import inert_value
from archive.formats.method_handles import parse_methods
from archive.formats.schema.pickled import (
    Chain,
    Const,
    Int,
    IntList,
    NextInChain,
    Opening,
    Optional,
    Sequence,
    Shared,
    String,
    Tuple,
    Value,
)
from archive.formats.source_ranges import parse_source_ranges
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from tests.costs import pickled
from tests.costs.pickled import (
    ANYWHERE,
    BYTECODE,
    DATA,
    HEAD,
    MARK,
    NONE,
    STOP,
    ZERO,
    Repeated,
    integers,
    sequence,
    text,
)
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.limits import Allowance
    from archive.formats.schema.pickled import Declaration
    from archive.pickles.tree import Tree

    Parse = Callable[[Tree], object]

TIMES = 1_250
SLACK = 1 << 13
"""Bytes for what does not grow with the record."""


def methods(generation: Generation) -> Parse:
    return lambda tree: parse_methods(tree, 0, generation)


RECORDS: dict[str, tuple[Parse, dict[str, Repeated]]] = {
    "ranges": (parse_source_ranges, pickled.RANGES),
    "call stacks": (lambda tree: parse_callstack_map(tree, 0), pickled.HANDLES),
    "handles": (methods(Generation.METHOD_HANDLES), pickled.METHODS),
    "paths": (methods(Generation.MODULE_PATHS), pickled.PATHS),
    "effects": (lambda tree: parse_effects(tree, 0), pickled.EFFECTS),
}
CASES = [
    pytest.param(parse, repeated, id=f"{record}: {name}")
    for record, (parse, cases) in RECORDS.items()
    for name, repeated in cases.items()
]


def tree_of(data: bytes) -> tuple[Tree, Allowance]:
    """The values of a pickle, and what is left of an allowance that suffices."""
    with memory.charged(Limits(memory=1 << 40, frames=TIMES + 1).allowance(0)) as allowance:
        return read_trees([Pickle("r", memoryview(data))], [True]), allowance


def check_asked(allowance: Allowance, run: Callable[[], object]) -> None:
    """Run something that takes no more memory than it asks for, if it ends in an error, too."""
    before = allowance.peak = allowance.taken
    tracemalloc.start()
    try:
        with suppress(ArchiveError), memory.charged(allowance):
            run()
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken <= allowance.peak - before + SLACK


@pytest.mark.parametrize(("parse", "repeated"), CASES)
def test_a_record_asks_for_what_it_costs(parse: Parse, repeated: Repeated) -> None:
    tree, allowance = tree_of(repeated.pickle(TIMES))
    check_asked(allowance, lambda: parse(tree))


def test_looking_through_bytecode_asks_for_what_it_costs() -> None:
    named = sequence(text(b"m"), sequence(text(b"i") + b"\x85" * TIMES))
    tree, allowance = tree_of(HEAD + MARK + b"X\1\0\0\0m)\x86" * TIMES + named + b"t" + STOP)
    check_asked(allowance, lambda: InstructionTable(tree, 0).at(b"m", 0))


PAIR, EMPTY = ZERO + ZERO + b"\x86", b")"
CHAIN = Chain(Tuple(tag=Int(), inner=NextInChain()), link="inner")
DECLARED: list[tuple[Declaration, bytes]] = [
    (Int(), ZERO),
    (String(), text(b"")),
    (Const("x"), text(b"x")),
    (Optional(Int()), ZERO),
    (Optional(Int()), NONE),
    (Tuple(value=NextInChain()), NONE + b"\x85"),
    (Tuple(one=Int(), other=Int()), PAIR),
    (Opening(one=Int(), other=Value()), PAIR),
    (Sequence(Int()), EMPTY),
    (Sequence(Int(), head=Int()), ZERO + b"\x85"),
    (Sequence(NextInChain()), MARK + ZERO * 20 + b"t"),
    (IntList(), integers(b"")),
    (IntList(), integers(ZERO * 20)),
    (Shared(Tuple(one=Int(), other=Int())), PAIR),
    (CHAIN, ZERO + NONE + b"\x86"),
]


@pytest.mark.parametrize(("schema", "value"), DECLARED)
def test_a_declaration_asks_for_what_it_costs(schema: Declaration, value: bytes) -> None:
    tree, allowance = tree_of(HEAD + MARK + value * TIMES + b"t" + STOP)
    nodes = np.array(tree.items(int(tree.roots[0])))
    check_asked(allowance, lambda: schema.take(tree, nodes))


# --- Inert values and methods of bytecode take the memory that is asked for, whatever their shape


UNBOUNDED = Limits(memory=1 << 40)
BYTES = 12_000
VALUE_SLACK = 1 << 14
VALUES = {
    **{
        name: ANYWHERE[name]
        for name in (
            *("nones", "empty lists", "empty dicts", "small integers", "floats", "empty texts", "globals"),
            *("memo reads", "set items", "appends", "objects", "states", "tensors"),
        )
    },
    "attributes": DATA["attributes"],
    "dicts of one": Repeated(b"](", b"}NNs", after=b"e"),
    "keys": Repeated(b"}(", b"J\x01\x02\x03\x04N", after=b"u"),
    "text of few letters": Repeated(b"](", text("é".encode()), after=b"e"),
    "wide text": Repeated(b"](", text("😀".encode() + b"x" * 100), after=b"e"),
    "text that is none": Repeated(b"](", text("😀".encode() + b"\xff" * 100), after=b"e"),
    "persistent ids": Repeated(b"](", b"NQ", after=b"e"),
    "calls": Repeated(b"](ca\nb\nq\0", b"h\0)R", after=b"e"),
}


@pytest.mark.parametrize("shape", sampled(VALUES, most=12))
def test_values_take_no_more_than_is_asked_for(shape: str) -> None:
    pickle = VALUES[shape].pickle(BYTES // VALUES[shape].step)
    assert_asked(pickle, lambda tree: inert_value(tree, int(tree.roots[0])))


_TABLE, _OPERATORS = BYTECODE["called methods"].before.removesuffix(b"\x86q\0"), BYTECODE["operators"]
METHODS = {
    "called methods": BYTECODE["called methods"],
    "lite instructions": BYTECODE["lite instructions"],
    "operators": BYTECODE["operators"],
    "methods of one table": Repeated(_TABLE + b"q\1\x86", b"X\4\0\0\0wideh\1\x86", after=b"t"),
    "names of one text": Repeated(
        _OPERATORS.before + text(b"x" * 1_000) + b"q\0N\x86", b"h\0N\x86", after=_OPERATORS.after
    ),
}


@pytest.mark.parametrize("read", [parse_bytecode, parse_operators])
@pytest.mark.parametrize("shape", METHODS)
def test_methods_take_no_more_than_is_asked_for(shape: str, read: Callable[[Tree, int], object]) -> None:
    pickle = METHODS[shape].pickle(BYTES // METHODS[shape].step)
    assert_asked(pickle, lambda tree: read(tree, 0))


def assert_asked(pickle: bytes, read: Callable[[Tree], object]) -> None:
    """Reading a pickle takes what it asks for, at most, both meanwhile and afterwards."""
    with memory.charged(UNBOUNDED.allowance(0)):
        tree = read_trees([Pickle("record", memoryview(pickle))], [False])
    with memory.charged(UNBOUNDED.allowance(0)):
        read(tree)  # what is imported at the first time is not measured
    with memory.charged(UNBOUNDED.allowance(0)):
        tracemalloc.start()
        try:
            made = read(tree)
            kept, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        del made
        assert peak < memory.current().peak + VALUE_SLACK
        assert kept < memory.current().taken + VALUE_SLACK
