"""Lines that differ are the fewest, and edits of operators in straight code are told and nothing besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.compare.alignment import differing, unified
from archive.compare.pairing import instructions_in_terms_of

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTERS = st.text("abc", max_size=30).map(list)
EDITS = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["", "x", "a", "bc"])), max_size=8)


def common(was: Sequence[str], now: Sequence[str]) -> int:
    """The length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(now) + 1)
    for line in was:
        before, row = row, [0]
        for at, other in enumerate(now):
            row.append(before[at] + 1 if line == other else max(before[at + 1], row[-1]))
    return row[-1]


@given(LETTERS, st.integers(1, 30), EDITS)
def test_as_few_lines_differ_as_can(part: list[str], times: int, edits: list[tuple[int, str]]) -> None:
    was = list("aabbcc") + part * times  # no line is unique
    now = list(was)
    for at, text in edits:
        now[at % len(now) : at % len(now) + 1] = [*text] or ["a"] * 2
    now = list("aabbccxx") + now
    was = list("aabbccxx") + was
    blocks = differing(was, now)
    made, last = list[str](), 0
    for block in blocks:
        made += was[last : block.old] + now[block.new : block.new_end]
        last = block.old_end
    assert made + was[last:] == now
    lines = sum(block.old_end - block.old + block.new_end - block.new for block in blocks)
    assert lines == len(was) + len(now) - 2 * common(was, now)


@pytest.mark.parametrize("blocks", [3, 40, 400])
@given(st.data())
def test_edits_of_operators_in_straight_code_are_as_many_differences(
    blocks: int, data: st.DataObject
) -> None:
    was = []
    for block in range(blocks):
        was += [
            f"LOAD %{block} 0",
            "LOADC 1 0",
            f"LOAD %{max(block - 3, 0)} 0",
            f"OP aten::f{block % 3} of 2 0",
        ]
        was += [f"MOVE %{block} 0", "OP aten::relu of 1 0", f"STORE %{block + 1} 0"]
    operators = [at for at, line in enumerate(was) if line.startswith("OP")]
    edited = data.draw(st.lists(st.sampled_from(operators), unique=True, min_size=1, max_size=8))
    now = [line.replace("aten", "new") if at in edited else line for at, line in enumerate(was)]
    old, new = "\n".join(was), "\n".join(now)
    lines = unified(old, instructions_in_terms_of(old, new))
    assert (lines.added, lines.gone) == (len(edited), len(edited))
