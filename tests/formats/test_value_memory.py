"""Inert values and methods of bytecode take the memory that is asked for, whatever their shape."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from archive.base.limits import Limits
from archive.formats.bytecode import parse_bytecode, parse_operators
from archive.formats.inert_values import inert_value
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from tests.costs.pickled import ANYWHERE, BYTECODE, DATA, Repeated, text
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.limits import Allowance
    from archive.pickles.tree import Tree

UNBOUNDED = Limits(memory=1 << 40)
BYTES = 12_000
SLACK = 1 << 14
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
    assert_asked(pickle, lambda tree, allowance: inert_value(tree, int(tree.roots[0]), allowance))


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
def test_methods_take_no_more_than_is_asked_for(
    shape: str, read: Callable[[Tree, int, Allowance], object]
) -> None:
    pickle = METHODS[shape].pickle(BYTES // METHODS[shape].step)
    assert_asked(pickle, lambda tree, allowance: read(tree, 0, allowance))


def assert_asked(pickle: bytes, read: Callable[[Tree, Allowance], object]) -> None:
    """Reading a pickle takes what it asks for, at most, both meanwhile and afterwards."""
    tree = read_trees([Pickle("record", memoryview(pickle))], [False], UNBOUNDED.allowance(0))
    read(tree, UNBOUNDED.allowance(0))  # what is imported at the first time is not measured
    allowance = UNBOUNDED.allowance(0)
    tracemalloc.start()
    try:
        made = read(tree, allowance)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del made
    assert peak < allowance.peak + SLACK
    assert kept < allowance.taken + SLACK
