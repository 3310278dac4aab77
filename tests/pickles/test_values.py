"""Values of pickles: what they hold, once; and calls that cannot be."""

from __future__ import annotations

import pytest

from archive.base.errors import ArchiveError
from archive.pickles.machine import plain_value
from archive.pickles.values import Global, Inert, walked


def first(data: bytes) -> object:
    return plain_value(memoryview(data), 0)[0]


def test_all_that_a_value_holds_is_walked_outer_values_first() -> None:
    made = Inert(Global("m", "C"), ("argument",), {"key": "state"}, ["item"], [("left", "right")])
    parts = list(walked([made, {"a": (1,)}]))
    assert parts[0] == [made, {"a": (1,)}]
    assert parts[1:7] == [made, Global("m", "C"), "argument", "item", "left", "right"]
    assert parts[7:] == [{"key": "state"}, "key", "state", {"a": (1,)}, "a", (1,), 1]


def test_what_holds_others_comes_once_even_if_it_holds_itself() -> None:
    shared: list[object] = ["x"]
    shared.append(shared)
    assert [part for part in walked((shared, shared)) if part is shared] == [shared]
    assert list(walked(("x", "x"))) == [("x", "x"), "x", "x"]


def test_a_walk_goes_on_from_what_others_have_seen() -> None:
    seen: set[int] = set()
    inner = [1]
    assert list(walked(inner, seen=seen)) == [[1], 1]
    assert list(walked([inner, 2], seen=seen)) == [[[1], 2], 2]


def test_a_list_may_hold_itself_and_a_call_may_have_a_list_of_arguments() -> None:
    looped = first(b"]q\0h\0a.")
    assert isinstance(looped, list)
    assert looped[0] is looped
    called = first(b"cm\nC\n]K\1aR.")
    assert isinstance(called, Inert)
    assert list(called.arguments) == [1]


@pytest.mark.parametrize(
    "opcodes", [b"cm\nC\nK\1R.", b"cm\nC\nX\1\0\0\0aR.", b"cm\nC\n}R.", b"cm\nC\n}}\x92."]
)
def test_a_call_without_a_tuple_of_arguments_is_refused(opcodes: bytes) -> None:
    with pytest.raises(ArchiveError, match="expected a pickle, found a call with arguments in a"):
        first(opcodes)


@pytest.mark.parametrize("opcodes", [b")K\1a.", b"K\1K\2a.", b"]K\1K\2s.", b"]K\1b."])
def test_what_a_value_cannot_take_is_refused(opcodes: bytes) -> None:
    with pytest.raises(ArchiveError, match="expected a pickle"):
        first(opcodes)
