"""Bytes that are fetched in blocks are the file's own, whatever is asked for in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archive.base.ranged import RangedBytes

PLACES = st.integers(0, 700)


class Source:
    """A file that notes what is read of it."""

    def __init__(self, size: int) -> None:
        self.data = bytes(index * 7 % 251 for index in range(size))
        self.read: list[tuple[int, int]] = []

    def __call__(self, start: int, stop: int) -> bytes:
        assert 0 <= start < stop <= len(self.data)
        self.read.append((start, stop))
        return self.data[start:stop]


@given(
    size=PLACES,
    block=st.integers(1, 300),
    kept=st.integers(1, 900),
    head=PLACES,
    asked=st.lists(st.tuples(PLACES, PLACES, st.booleans()), max_size=12),
)
def test_any_slices_in_any_order_are_the_files_own_bytes(
    size: int, block: int, kept: int, head: int, asked: list[tuple[int, int, bool]]
) -> None:
    source = Source(size)
    ranged = RangedBytes(source, size, head=source.data[:head], block=block, kept=kept)
    slices = []
    for start, stop, first in asked:
        if first:
            ranged.prefetch([(start, stop), (stop, start)])
        slices.append((start, stop, ranged[start:stop]))
    ranged.release()
    for start, stop, found in slices:
        assert found == source.data[start:stop]
        assert found.readonly


def test_negative_and_open_slices_are_as_those_of_bytes() -> None:
    source = Source(500)
    ranged = RangedBytes(source, 500, block=64)
    assert len(ranged) == 500
    assert ranged[-70:] == source.data[-70:]
    assert ranged[:5] == source.data[:5]
    assert ranged[490:9_000] == source.data[490:]
    assert bytes(ranged[20:10]) == b""


def test_blocks_next_to_each_other_are_one_request_and_are_kept() -> None:
    source = Source(640)
    ranged = RangedBytes(source, 640, block=64)
    assert ranged[70:400] == source.data[70:400]
    assert source.read == [(64, 448)]
    assert ranged[100:120] == source.data[100:120]
    assert source.read == [(64, 448)]


def test_memory_is_bounded_the_blocks_used_last_are_kept() -> None:
    source = Source(6400)
    ranged = RangedBytes(source, 6400, block=64, kept=4 * 64)
    for start in (0, 64, 128, 192):
        assert ranged[start : start + 1] == source.data[start : start + 1]
    assert ranged[0:1] == source.data[0:1]
    assert ranged[640:641] == source.data[640:641]  # block 1, used longest ago, goes
    source.read.clear()
    assert ranged[0:1] == source.data[0:1]
    assert source.read == []
    assert ranged[64:65] == source.data[64:65]
    assert source.read == [(64, 128)]
    assert len(ranged._blocks) == 4


def test_what_is_known_to_be_needed_is_fetched_in_few_requests() -> None:
    source = Source(6400)
    ranged = RangedBytes(source, 6400, block=64)
    ranged.prefetch([(1000, 1010), (1100, 1200), (5000, 5001)])
    assert source.read == [(960, 1216), (4992, 5056)]
    assert ranged[1000:1200] == source.data[1000:1200]
    assert len(source.read) == 2
