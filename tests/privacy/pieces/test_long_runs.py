"""Runs of letters are those that are found one by one, wherever they begin, and however long they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.privacy.pieces import encoded, long_runs

PART = st.builds(
    bytes.__mul__,
    st.sampled_from([b"a", b"7", b"+", b"z", b"!", b"~", b" ", b"\0", b"\xff"]),
    st.integers(1, 40),
)
TEXT = st.lists(PART, max_size=12).map(b"".join)


@given(TEXT, st.sampled_from([1, 3, 1 << 15]))
def test_runs_in_columns_are_those_found_one_by_one(text: bytes, block: int) -> None:
    one_by_one = [(way, at, end) for way in encoded.WAYS for at, end in way.stretches(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_runs, "BLOCK", block)
        patch.setattr(encoded, "FEWEST_IN_COLUMNS", 0)
        assert list(encoded._stretches(text)) == one_by_one


def test_all_ways_fit() -> None:
    assert len(encoded.WAYS) <= long_runs.WORD
    assert min(way.shortest for way in encoded.WAYS) >= long_runs.SHORTEST
