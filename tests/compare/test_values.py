"""Two values are compared part by part: what differs is a row, at the path of the part."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.compare.values import PATH_PARTS, Values

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80)
TREES = st.recursive(
    LEAVES,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=4), parts, max_size=4),
)
LONG = "a" * 1000


def rows(old: object, new: object, root: str = "") -> list[tuple[str, str]]:
    """The name of each part that differs, and how, in words."""
    return [(row.name, row.in_words) for row in Values("value").changes(old, new, root)]


def shared() -> dict[str, list[int]]:
    """A list that is held at two places."""
    part = [1]
    return {"a": part, "b": part}


def circle() -> list[Any]:
    """A list that holds itself."""
    part: list[Any] = [1]
    part.append(part)
    return part


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("a.b.1", "2 → 3")]),
        ({"a": 1}, {"a": 1, "b": 2}, [("b", "added, 2")]),
        ({"a": 1, "b": 2}, {"a": 1}, [("b", "gone, 2")]),
        ({"a": 1}, {"a": True}, [("a", "1 → True")]),
        ({"a": -0.0}, {"a": 0.0}, [("a", "-0.0 → 0.0")]),
        ({"a": math.nan}, {"a": math.nan}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [("(value)", "keys in one order → keys in another")]),
        ({1: "x"}, {"1": "x"}, [("1", "a key of int → of str")]),
        ({1: "x", "b": 2}, {"1": "y", "b": 2}, [("1", "a key of int → of str"), ("1", "'x' → 'y'")]),
        (shared(), shared(), []),
        (shared(), {"a": [1], "b": [1]}, [("b", "held at other places, too → held at others")]),
        ({"a": [1], "b": [1]}, shared(), [("b", "held at other places, too → held at others")]),
        (circle(), circle(), []),
        (circle(), [1, [1]], [("1", "held at other places, too → held at others")]),
        ([1, 2], (1, 2), [("(value)", "a list of 2 → a tuple of 2")]),
    ],
)
def test_a_part_that_differs_is_a_row(old: object, new: object, expected: list[tuple[str, str]]) -> None:
    assert rows(old, new) == expected


def test_of_a_long_text_the_part_that_differs_is_shown() -> None:
    ((_, words),) = rows(f"{LONG}x{LONG}", f"{LONG}y{LONG}")
    assert words.startswith("from character 980: 'aaaa")
    assert "x" in words.partition(" → ")[0]
    assert "y" in words.partition(" → ")[2]


def test_the_root_begins_each_name_and_a_deep_path_is_cut() -> None:
    old: Any = 1
    new: Any = 2
    for _ in range(2 * PATH_PARTS):
        old, new = {"p": old}, {"p": new}
    ((name, _),) = rows(old, new, "data")
    assert name == "… " + ".".join(["p"] * PATH_PARTS)
    assert rows({"a": 1}, {"a": 2}, "data") == [("data.a", "1 → 2")]


@given(TREES)
def test_a_copy_has_no_differences_and_one_more_part_is_one(tree: object) -> None:
    assert rows(tree, copy.deepcopy(tree)) == []
    assert [name for name, _ in rows([tree], [copy.deepcopy(tree), 1])] == ["1"]
