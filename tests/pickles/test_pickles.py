"""Any pickle of PyTorch's opcodes: the same instructions, values and sharing, for the memory asked for."""

from __future__ import annotations

import pickletools
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base import memory
from archive.base.limits import Limits
from archive.pickles import scan as scanning
from archive.pickles.scan import Pickle, scan
from archive.pickles.tree import Tree, read_trees
from tests.costs.pickled import ANYWHERE, Repeated
from tests.support import slow_reader
from tests.support.cost import MIB
from tests.support.plain import assert_same, tree_of
from tests.support.sampling import crossed, examples
from tests.support.strategies import OPCODES, PROTO, STOP, patient, program, put, text

if TYPE_CHECKING:
    from collections.abc import Sequence


def positions(records: Sequence[bytes]) -> list[list[int]]:
    """Where the library sees instructions, by record."""
    found = scan([Pickle("", memoryview(data)) for data in records]).tokens
    return [
        (found.at[found.first[number] : found.first[number + 1]] - found.base[number]).tolist()
        for number in range(len(records))
    ]


def slow_positions(records: Sequence[bytes]) -> list[list[int]]:
    return [[at for _, _, at in slow_reader.instructions(data)] for data in records]


@settings(patient, max_examples=examples(300))
@given(st.integers(0, 1 << 40), st.integers(1, 400))
def test_any_pickle_is_read_as_by_the_stack_machine(seed: int, steps: int) -> None:
    data = program(seed, steps)
    tree = tree_of(data)
    assert_same(tree, int(tree.roots[0]), slow_reader.load(data))


@settings(patient, max_examples=examples(20))
@given(st.integers(0, 1 << 40))
def test_large_pickles_are_read_together(seed: int) -> None:
    records = [program(seed, 6_000, (0, 3)), program(seed + 1, 300), program(seed + 2, 3_000, (1, 300))]
    tree = tree_of(*records)
    for root, data in zip(tree.roots.tolist(), records, strict=True):
        assert_same(tree, root, slow_reader.load(data))


@pytest.mark.parametrize(
    ("start", "step", "end"),
    [
        (b"N", b"\x85", b""),
        (b"N", b"K\x01\x86", b""),
        (b"N", b"K\x01K\x02", b"\x87" * 80),
        (b"", b"](K\x01", b"e" * 80),
        (b"]", b"(K\x01K\x02e", b""),
        (b"]", b"K\x01a", b""),
        (b"", b"]", b"a" * 79),
        (b"}", b"(NK\x01u", b""),
        (b"}", b"NK\x01s", b""),
        (b"", b"}N", b"Ns" + b"s" * 79),
        (b"cm\nC\n)\x81", b"K\x01b", b""),
        (b"", b"cm\nC\n", b")R" + b"\x85R" * 79),
        (b"N", b"Q", b""),
        (b"", b"(", b"t" * 80),
        (b"K\x05N", b"\x85", b"\x86"),
        (b"K\x05]", b"(K\x01K\x02e", b"\x86"),
        (b"K\x05}", b"(NK\x01u", b"\x86"),
        (b"K\x05]", b"K\x01a", b"\x86"),
        (b"K\x05}", b"NK\x01s", b"\x86"),
        (b"K\x05cm\nC\n)\x81", b"K\x01b", b"\x86"),
    ],
)
def test_values_nested_deeply(start: bytes, step: bytes, end: bytes) -> None:
    data = PROTO + b"(" + start + step * 80 + end + b"t" + STOP
    tree = tree_of(data)
    assert_same(tree, int(tree.roots[0]), slow_reader.load(data))


@settings(patient, max_examples=examples(100))
@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 60)), min_size=1, max_size=6),
    st.sampled_from([1, 40, 512, 1 << 22]),
    st.sampled_from([1, 64, 700, 1 << 16]),
    st.sampled_from([1, 7, 1 << 12]),
)
def test_bounds_of_windows_and_groups_may_fall_anywhere(
    seeds: list[tuple[int, int]], window: int, joined: int, numbered: int
) -> None:
    records = [program(seed, steps) + OPCODES[: seed % 3] for seed, steps in seeds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "WINDOW", window)
        patch.setattr(scanning, "JOINED", joined)
        patch.setattr(scanning, "NUMBERED", numbered)
        assert positions(records) == slow_positions(records)
        tree = tree_of(*records)
        for root, data in zip(tree.roots.tolist(), records, strict=True):
            assert_same(tree, root, slow_reader.load(data))


@pytest.mark.parametrize("bound", [scanning.WINDOW, scanning.JOINED, scanning.NUMBERED])
def test_every_instruction_may_straddle_a_true_bound(bound: int) -> None:
    body = program(7, 40, (0, 1, 9))
    for shift in range(1, len(body), 11):
        filler = text(b"(" * max(0, bound - len(PROTO) - 5 - shift)) + put(9)
        data = PROTO + b"(" + filler + body[len(PROTO) : -1] + b"t" + STOP
        assert positions([data, body]) == slow_positions([data, body])


def test_a_text_may_reach_across_windows() -> None:
    window = scanning.WINDOW
    long = [text(STOP * window + b"X"), put(0), text(b"(" * (2 * window), long=True)]
    data = PROTO + b"(" + b"".join(long) + b"t" + STOP + b"behind STOP"
    assert positions([data]) == slow_positions([data])
    tree = tree_of(data)
    assert_same(tree, int(tree.roots[0]), slow_reader.load(data))


@settings(patient, max_examples=examples(50))
@given(st.integers(0, 1 << 40))
def test_the_slow_reader_sees_what_pickletools_sees(seed: int) -> None:
    data = program(seed, 100, ascii_only=True)  # pickletools decodes what it reads
    assert [at for _, _, at in pickletools.genops(data)] == slow_positions([data])[0] == positions([data])[0]


# --- Reading a pickle takes the memory that is asked for, whatever its shape, and no more


UNBOUNDED = Limits(memory=1 << 40)
BYTES = 15_000
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
    with memory.charged(UNBOUNDED.allowance(0)):
        tree, kept, peak = measured(records)
        assert tree.children.dtype.itemsize * 8 == bits
        assert 0.4 * memory.current().peak < peak < memory.current().peak + MIB // 8
        assert 0.8 * memory.current().taken < kept < memory.current().taken + MIB // 32


def measured(records: list[Pickle]) -> tuple[Tree, int, int]:
    """A tree, the memory that it takes, and the most that reading it took."""
    tracemalloc.start()
    try:
        tree = read_trees(records, [False] * len(records))
        return tree, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
