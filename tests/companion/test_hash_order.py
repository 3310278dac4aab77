"""The order of call-stack maps: PyTorch's rules, against maps that it wrote and one that is made here."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.base.errors import ArchiveError
from archive.companion import hash_order
from archive.companion.hash_order import FIBONACCI, GROWN, REVERSED, is_rule, places_by, rule_of
from archive.reader.collect import collect
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

SINCE = (1, 11)
"""The first release whose maps are in an order that a rule gives."""
NESTED = sorted((FIXTURES / "releases").glob("torch-*/nested.ptl"))


def release_of(path: Path) -> tuple[int, ...]:
    return tuple(map(int, path.parent.name.removeprefix("torch-").split(".")[:2]))


@pytest.mark.parametrize("path", NESTED, ids=lambda path: path.parent.name)
def test_the_maps_of_all_releases_since_1_11_have_a_rule(path: Path) -> None:
    with archive.open(path) as opened:
        columns = collect(opened).columns
    if "handle.place" not in columns:
        assert release_of(path) < SINCE
        return
    handles, places = columns["handle.handle"], columns["handle.place"]
    stored = rule_of(handles, places)
    assert is_rule(stored) == (release_of(path) >= SINCE)
    assert places_by(stored, handles).tolist() == places.tolist()


HANDLES = st.one_of(
    st.tuples(st.integers(0, 1 << 62), st.integers(2, 700)).map(lambda run: [*range(run[0], sum(run))]),
    st.lists(st.integers(-1 << 63, (1 << 63) - 1), min_size=2, max_size=99, unique=True).map(sorted),
)


@given(HANDLES)
def test_a_map_that_grew_is_the_list_that_libstdcxx_makes(handles: list[int]) -> None:
    keys = np.array(handles, np.int64)
    put_in = sorted(range(len(handles)), key=lambda row: handles[row] * int(FIBONACCI) % (1 << 64))
    listed = grown([handles[row] % (1 << 64) for row in put_in])
    rows = {handle % (1 << 64): row for row, handle in enumerate(handles)}
    places = [rows[key] for key in listed]
    assert places_by(np.array([GROWN]), keys).tolist() == places
    assert places_by(np.array([REVERSED]), keys).tolist() == put_in[::-1]
    assert is_rule(rule_of(keys, np.array(places)))


def grown(keys: list[int]) -> list[int]:
    """The keys as they stand in the list of a map into which they were put one by one."""
    listed: list[int] = []
    sizes = iter(hash_order.BUCKETS)
    buckets = next(sizes)
    for key in keys:
        if len(listed) == buckets:
            before, buckets, listed = listed, next(sizes), []
            for again in before:
                put(listed, again, buckets)
        put(listed, key, buckets)
    return listed


def put(listed: list[int], key: int, buckets: int) -> None:
    same = (at for at, other in enumerate(listed) if other % buckets == key % buckets)
    listed.insert(next(same, 0), key)


@given(st.permutations(range(20)))
def test_any_other_order_is_kept_as_it_is(places: list[int]) -> None:
    handles, order = np.arange(20), np.array(places)
    assert places_by(rule_of(handles, order), handles).tolist() == places


def test_a_rule_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ArchiveError, match=r"handle\.place: expected a known order of rows, found -3"):
        places_by(np.array([-3]), np.arange(5))


def test_what_is_in_the_largest_map_is_there_once() -> None:
    with mock.patch.object(hash_order, "BUCKETS", (13, 29)):
        assert sorted(places_by(np.array([GROWN]), np.arange(40)).tolist()) == [*range(40)]


@pytest.mark.parametrize("count", [0, 1])
def test_few_handles_have_no_rule(count: int) -> None:
    assert not is_rule(rule_of(np.arange(count), np.arange(count)))
