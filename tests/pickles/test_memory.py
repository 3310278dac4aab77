"""Reading a pickle takes the memory that is asked for, whatever its shape, and no more."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from archive.base.limits import Limits
from archive.pickles import scan as scanning
from archive.pickles.scan import Pickle
from archive.pickles.tree import Tree, read_trees
from tests.costs.pickled import ANYWHERE, Repeated
from tests.support.cost import MIB
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from archive.base.limits import Allowance

UNBOUNDED = Limits(memory=1 << 40)
BYTES = 60_000
SHAPES = {
    **{
        name: ANYWHERE[name]
        for name in (
            *("nones", "small integers", "marks", "nested tuples", "nested lists", "empty texts", "globals"),
            *("memo reads", "doubling", "appends", "set items", "states", "objects"),
        )
    },
    "entries written twice": Repeated(b"](N", b"q\0h\0", after=b"e"),
    "objects with states": Repeated(b"](ca\nb\nq\0", b"h\0)\x81Nb", after=b"e"),
    "lists inside pairs": Repeated(b"](", b"]N\x86", after=b"e"),
    "floats": Repeated(b"](", b"G\x3f" + bytes(7), after=b"e"),
}


@pytest.mark.parametrize(
    ("shape", "bits", "pickles"),
    [(shape, *how) for shape, how in crossed(SHAPES, [(32, 1), (32, 2), (64, 1)])],
)
def test_what_is_asked_for_is_what_a_tree_takes(
    shape: str, bits: int, pickles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "LARGE", scanning.LARGE if bits == 32 else 0)
    data = SHAPES[shape].pickle(BYTES // SHAPES[shape].step // pickles)
    records = [Pickle(f"record {number}", memoryview(data)) for number in range(pickles)]
    allowance = UNBOUNDED.allowance(0)
    tree, kept, peak = measured(records, allowance)
    assert tree.first.dtype.itemsize * 8 == bits
    assert 0.4 * allowance.peak < peak < allowance.peak + MIB // 4
    assert 0.8 * allowance.taken < kept < allowance.taken + MIB // 16


def measured(records: list[Pickle], allowance: Allowance) -> tuple[Tree, int, int]:
    """A tree, the memory that it takes, and the most that reading it took."""
    tracemalloc.start()
    try:
        tree = read_trees(records, [False] * len(records), allowance)
        return tree, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
