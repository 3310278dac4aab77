"""A sample is the same everywhere, has each kind of case in it, and is no sample where all is asked for."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.corpus import ARCHIVES, ORACLES
from tests.support.sampling import FEWER, MOST, Suite, crossed, examples, name_of, sampled

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = list(range(200))
axis = st.lists(st.text(max_size=3), min_size=1, max_size=12, unique=True)


@pytest.fixture(autouse=True)
def sample() -> Iterator[None]:
    """Sample here even if the suite is run whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Suite, "whole", False)
        yield


def test_the_cases_are_the_same_on_every_machine_and_in_every_python() -> None:
    assert sampled(NUMBERS, most=6) == [18, 22, 38, 58, 162, 181]
    assert [path.name for path in sampled(ARCHIVES, most=2)] == [
        "lowered_wrapper_on_top.pt",
        "lowered-host-nostringtable.pt",
    ]


def test_small_tables_are_run_whole() -> None:
    assert sampled(NUMBERS[:MOST]) == NUMBERS[:MOST]
    assert len(sampled(NUMBERS[: MOST + 1])) == MOST


def test_one_case_more_takes_the_place_of_one_at_most() -> None:
    for number in range(MOST + 1, len(NUMBERS)):
        before, after = sampled(NUMBERS[:number]), sampled(NUMBERS[: number + 1])
        assert set(after) - set(before) <= {number}


def test_each_value_of_a_trait_is_taken() -> None:
    releases = {path.parent.name for path in ARCHIVES}
    taken = sampled(ARCHIVES, most=1, by=[lambda path: path.parent.name, lambda path: path.suffix])
    assert {path.parent.name for path in taken} == releases
    assert {path.suffix for path in taken} == {".pt", ".ptl"}
    assert len(taken) == len(releases)


@given(axes=st.lists(axis, min_size=1, max_size=3), most=st.integers(1, 40))
def test_each_value_of_each_axis_is_in_a_combination(axes: list[list[str]], most: int) -> None:
    taken, everything = crossed(*axes, most=most), list(product(*axes))
    assert [set(values) for values in zip(*taken, strict=True)] == list(map(set, axes))
    assert [one for one in everything if one in taken] == taken
    assert len(taken) >= min(most, len(everything))


def test_all_is_all(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    assert (examples(100), examples(1)) == (100 // FEWER, 1)
    monkeypatch.setattr(Suite, "whole", True)
    assert sampled(NUMBERS) == NUMBERS
    assert crossed("ab", [1, 2], most=1) == list(product("ab", [1, 2]))
    assert examples(100) == 100
    assert request.config.getoption("--all") in {True, False}


def test_names_tell_cases_apart_and_hold_no_address_or_path_of_a_machine() -> None:
    cases = [1, "1", b"1", True, None, (1, 2), ((1,), "2"), len, test_all_is_all, ORACLES / "a", Suite]
    names = list(map(name_of, cases))
    assert not [pair for pair in combinations(names, 2) if pair[0] == pair[1]]
    assert name_of(ORACLES / "a") == "oracles/a"
    with pytest.raises(TypeError, match="a case of object has no name"):
        name_of(object())
