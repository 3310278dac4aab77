"""Unique debug handles: ten digits of prefix in front of eight digits of handle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.debuginfo.unique_handles import (
    DIGITS,
    LEAST_PREFIX,
    PLAIN,
    SPAN,
    HandleForm,
    common_prefix,
    prefix_at_end,
    prefix_for,
    unique,
)
from tests.support.corpus import RELEASES

PREFIXES = st.integers(10**9, 10**10 - 1)
HANDLES = st.integers(0, 10**8 - 1)


def test_the_prefix_follows_from_archive_id_debug_records_and_salt() -> None:
    """Ten digits that every archive written so far prints: they never change."""
    assert prefix_for(bytes(16)) == 2_125_469_266
    assert prefix_for(bytes(range(16))) == 8_985_087_732
    assert prefix_for(bytes(16), salt="2") == 2_914_110_366
    records = [("b", memoryview(b"2")), ("a", memoryview(b"1"))]
    assert prefix_for(bytes(16), records) == prefix_for(bytes(16), records[::-1])
    lines = [("b", memoryview(b"3")), ("a", memoryview(b"1"))]
    named = [("c", memoryview(b"2")), ("a", memoryview(b"1"))]
    assert len({prefix_for(bytes(16), one) for one in ((), records, lines, named)}) == 4


@given(st.binary(min_size=16, max_size=16), st.text())
def test_every_prefix_has_ten_digits(archive_id: bytes, salt: str) -> None:
    assert len(str(prefix_for(archive_id, (), salt))) == 10


@given(PREFIXES, st.lists(st.one_of(HANDLES, st.just(-1)), min_size=1))
def test_unique_handles_have_eighteen_digits_and_fit_64_bits(prefix: int, handles: list[int]) -> None:
    made = unique(np.array(handles, np.int64), prefix).tolist()
    assert made == [handle if handle < 0 else int(f"{prefix}{handle:08}") for handle in handles]
    assert {len(str(handle)) for handle in made if handle >= 0} <= {DIGITS}
    there = any(handle >= 0 for handle in handles)
    assert common_prefix(np.array(made, np.int64)) == (prefix if there else 0)


@pytest.mark.parametrize(
    "handles",
    [
        [],
        [-1],
        [0, 17],
        [10**8],
        [10**17 - 1],
        [10**18],
        [10**17, 2 * 10**17],
        [5, 10**17 + 5],
    ],
)
def test_other_handles_have_no_prefix(handles: list[int]) -> None:
    assert common_prefix(np.array(handles, np.int64)) == 0


@given(PREFIXES, HANDLES)
def test_either_form_is_known_by_the_number_that_tables_have(prefix: int, handle: int) -> None:
    both = handle, prefix * SPAN + handle
    assert {HandleForm(prefix).known_as(one) for one in both} == {handle}
    assert {HandleForm(prefix, tabled=True).known_as(one) for one in both} == {both[1]}
    other = (prefix - 1 if prefix > LEAST_PREFIX else prefix + 1) * SPAN + handle
    for form in (HandleForm(prefix), HandleForm(prefix, tabled=True), PLAIN):
        assert form.known_as(other) == other
        assert form.known_as(-1) == -1


@given(PREFIXES, st.from_regex(r"[0-9]{0,40}", fullmatch=True), st.lists(HANDLES, max_size=4))
def test_printed_handles_are_split_from_the_end(prefix: int, inner: str, handles: list[int]) -> None:
    form = HandleForm(prefix)
    digits = inner + "".join(f"{prefix}{handle:08}" for handle in handles)
    assert form.split(digits)[1][-len(handles) :] == tuple(handles) or not handles
    assert PLAIN.split(digits) == (digits, ())
    if prefix_at_end(inner) != prefix:
        assert form.split(digits) == (inner, tuple(handles))


def test_digits_that_may_be_another_archives_handles_are_told() -> None:
    form = HandleForm(1_734_509_921)
    other = "as unique handles they name the archive 2734509921"
    assert form.foreign("1273450992100001494") == f"{other}, and this one is 1734509921"
    assert PLAIN.foreign("273450992100001494") == other
    for digits in ("", "1494", "034509921000014940", "173450992100001494", "-1" * 12):
        assert form.foreign(digits) == ""


@pytest.mark.parametrize("release", ["1.8.0", "2.13.0"])
def test_an_archive_with_unique_handles_says_the_same_otherwise(release: str) -> None:
    with archive.open(RELEASES / f"torch-{release}" / "nested.ptl") as opened:
        renumbered = opened.with_unique_handles(1_234_567_890)
        record = opened.range_records[0].removesuffix(".debug_pkl")
        places = range(0, len(opened.records[record].view()), 50)
        found = [opened.locate(record, place) for place in places]
        assert any(found)
        assert [renumbered.locate(record, place) for place in places] == found
        assert renumbered.range_records == opened.range_records
        assert renumbered.range_table is opened.range_table
        assert renumbered.path_table is opened.path_table
        assert len(renumbered.handles) == len(opened.handles)
        assert not set(renumbered.handles) & set(opened.handles)
