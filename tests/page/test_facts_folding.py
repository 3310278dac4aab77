"""Folded data are the same data, in fewer bytes."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.io.mapped import Mapped
from archive.page.document import packed
from archive.page.facts import page_facts
from archive.page.folding import LEAST, folded
from tests.page.unfolding import unfolded

FIXTURES = Path(__file__).parents[2] / "fixtures"

texts = st.sampled_from(["", "a", "b", "__proto__", "once", "of"])
frames = st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 3), texts).map(list), max_size=4)
columns = st.one_of(
    st.lists(st.one_of(st.none(), texts), max_size=3 * LEAST),
    st.lists(st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=2, max_size=2)), max_size=3 * LEAST),
    st.lists(st.one_of(st.integers(), texts), max_size=3 * LEAST),
)


@given(
    st.fixed_dictionaries(
        {"handles": st.fixed_dictionaries({"frames": st.lists(frames, max_size=2 * LEAST), "path": columns})}
        | {
            "tables": st.lists(
                st.fixed_dictionaries({"rows": st.lists(columns, max_size=3), "links": columns})
            )
        }
    )
)
def test_what_is_folded_unfolds(data: dict[str, Any]) -> None:
    assert unfolded(json.loads(json.dumps(folded(data)))) == data


@pytest.mark.parametrize(
    "name", ["oracles/plain_stack.ptl", "exported/decoder.pt2", "oracles/lowered_two.ptl"]
)
def test_facts_of_archives_unfold(name: str) -> None:
    with closing(Mapped(FIXTURES / name)) as mapped:
        facts = page_facts(mapped.data, name)
    assert unfolded(json.loads(json.dumps(folded(facts)))) == json.loads(json.dumps(facts))
    assert unfolded(json.loads(gzip.decompress(packed(facts)))) == json.loads(json.dumps(facts))


def test_what_repeats_is_told_once() -> None:
    outer = [[0, row, f"in outer {row}"] for row in range(20)]
    stacks = [[*outer, [1, row, "in inner"]] for row in range(1_000)]
    tree = folded({"frames": stacks})["frames"]
    assert len(tree["parent"]) == 20 + 1_000
    assert folded(["aten::add"] * LEAST) == {"once": ["aten::add"], "of": [0] * LEAST}
    assert folded(["aten::add"] * (LEAST - 1)) == ["aten::add"] * (LEAST - 1)
    assert folded(different := [str(number) for number in range(LEAST)]) == different
