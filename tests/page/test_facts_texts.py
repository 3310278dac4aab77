"""Positions of bytes as UTF-16 units, compared with a plain way; and what is cut from too large data."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.strings import decoded
from archive.page.bounding import _relinked, fitted
from archive.page.document import packed
from archive.page.sources import SourceFile, _Fragment, stack_lines
from archive.page.units import Units, differences, plain
from tests.page.test_facts import facts_of
from tests.support.sampling import examples
from tests.support.tampering import LOWERED, STACK

if TYPE_CHECKING:
    from pathlib import Path

PIECES = st.sampled_from(
    [b"a", b"\n", "\u00e9".encode(), "\u20ac".encode(), "\U0001f40d".encode(), b"\xff", b"\xed\xa0\x80"]
)
TEXTS = st.lists(PIECES, max_size=30).map(b"".join)


@given(TEXTS)
@settings(max_examples=examples(500))
def test_positions_are_those_of_the_shown_text(data: bytes) -> None:
    shown = Units(data)
    assert shown.text == decoded(data)
    starts, units = [], 0
    for character in data.decode("utf-8", "surrogateescape"):
        raw = character.encode("utf-8", "surrogateescape")
        starts += [units] * len(raw)
        units += len(decoded(raw).encode("utf-16-le")) // 2
    positions = np.arange(-1, len(data) + 3)
    expected = [*([*starts, units][:1]), *starts, units, units, units]
    assert shown.at(positions).tolist() == expected
    assert len(shown.text.encode("utf-16-le")) // 2 == units


def test_names_can_be_held_by_json() -> None:
    assert plain("a\udcff/\U0001f40d") == "a\\xff/\U0001f40d"
    assert differences(np.array([3, 5, 4])) == [3, 2, -1]


def test_a_fragment_that_others_hold_is_a_part_of_them() -> None:
    whole = b"class A:\n    def f(self):\n        return 1\n"
    inner, other = b"    def f(self):\n        return 1\n", b"    def f(self):\n        return 2\n"
    file = SourceFile(b"m.py", [_Fragment(0, 11, inner), _Fragment(1, 10, whole), _Fragment(2, 20, b"x")])
    assert file.text == whole + b"x\n"
    assert file.bases == {1: 0, 0: len(b"class A:\n"), 2: len(whole)}
    assert file.lines == [(0, 10), (len(whole), 20)]
    file = SourceFile(b"m.py", [_Fragment(0, 11, other), _Fragment(1, 10, whole), _Fragment(2, 13, b"y\n")])
    assert file.text == whole + other + b"y\n"
    assert file.lines == [(0, 10), (len(whole), 11)]


def test_lines_of_a_python_stack_have_the_numbers_of_their_frames() -> None:
    stack = b"/m.py(7): forward\n/torch/module.py(1787): _call_impl\n"
    assert stack_lines(stack) == [(0, 7), (18, 1787)]
    assert stack_lines(b"x = f(7): 3\ny = 1\n") == []
    file = SourceFile(b"/m.py", [_Fragment(0, 7, stack), _Fragment(1, 7, b"/m.py(7): forward\n")])
    assert file.lines == [(0, 7), (18, 1787), (len(stack), 7)]
    assert file.bases == {0: 0, 1: len(stack)}


def cut(path: Path, most: int) -> dict[str, Any]:
    facts = facts_of(path)
    before = packed(facts)
    less, data = fitted(facts, most)
    assert packed(facts) == before
    assert packed(less) == data
    assert len(data) <= most
    assert sum(less["sizes"]["stored"]) == path.stat().st_size
    return less


def test_data_that_fit_stay_as_they_are() -> None:
    facts = facts_of(STACK)
    assert fitted(facts) == (facts, packed(facts))


def test_what_is_too_large_loses_detail_and_says_how_much() -> None:
    whole = len(packed(facts_of(LOWERED)))
    for part in (0.9, 0.5, 0.3):
        less = cut(LOWERED, int(whole * part))
        assert less["left_out"]
        assert any(char.isdigit() for text in less["left_out"] for char in text)
    sizes = less["sizes"]
    assert all(parent < row for row, parent in enumerate(sizes["parent"]))
    assert {len(column) for name, column in sizes.items() if name != "kinds"} == {len(sizes["name"])}


def wholes(sizes: dict[str, Any]) -> dict[tuple[str, ...], int]:
    """The bytes of each node with all in it, by the names that lead to it."""
    paths: list[tuple[str, ...]] = []
    for name, parent in zip(sizes["name"], sizes["parent"], strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), name))
    sums = Counter[tuple[str, ...]]()
    for path, stored in zip(paths, sizes["stored"], strict=True):
        for end in range(len(path)):
            sums[path[: end + 1]] += stored
    return sums


def test_what_is_cut_stays_in_the_bytes_of_what_holds_it() -> None:
    facts = facts_of(LOWERED)
    before = wholes(facts["sizes"])
    for part in (0.5, 0.4, 0.3):
        after = wholes(cut(LOWERED, int(len(packed(facts)) * part))["sizes"])
        assert after == {path: before[path] for path in after}
    assert len(after) < len(before)


def test_links_lead_to_what_is_left() -> None:
    sources = {
        "files": [{"text": "", "lines": []}, {"text": "y", "lines": [0]}],
        "records": [{"text": ""}, {"text": "x"}],
    }
    links = [[0, 3], [1, 3], [0, 3, 1, 2], [1, 3, 0, 2], [0, 3, 0, 2], None]
    frames = [[[0, 1, 2], [1, 1, 2], [-1, -1, 2]]]
    facts = {"sources": sources, "tables": [{"links": links}], "handles": {"frames": frames}}
    less = _relinked(facts)
    assert less["tables"][0]["links"] == [None, [1, 3], [-1, 0, 1, 2], [1, 3], None, None]
    assert less["handles"]["frames"] == [[[-1, -1, 2], [1, 1, 2], [-1, -1, 2]]]
