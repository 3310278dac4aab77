"""No command refuses an honest model under the default bounds.

What is counted is what code asks for: see ``tests/costs/shares.py``. Models are traced on the spot.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.costs.shares import COMMANDS, Share, shares
from tests.support.sampling import examples, whole_suite
from tools.models import graphs

DRAWN = 4
"""Commands of one model, of the 150."""
REFUSAL = "is limited to"


@cache
def traced(rows: int, frames: int = 0) -> bytes:
    """A traced model of about so many source ranges, whose Python stacks have so many frames more."""
    with ThreadPoolExecutor(1) as empty:  # a thread's stack does not depend on who runs the tests
        return empty.submit(called, frames, rows).result()


def called(frames: int, rows: int) -> bytes:
    return called(frames - 1, rows) if frames else graphs(rows)


def found(model: bytes, *names: str) -> list[Share]:
    with tempfile.TemporaryDirectory() as folder:
        return list(shares(Path(folder), model, traced(200), names))


@settings(max_examples=examples(8), phases=[Phase.explicit, Phase.generate])
@given(
    rows=st.integers(1, 150).map(lambda number: number * number // 4),
    frames=st.integers(0, 40),
    names=st.sets(st.sampled_from(sorted(COMMANDS)), min_size=DRAWN, max_size=DRAWN),
)
def test_no_command_refuses_a_traced_model(rows: int, frames: int, names: set[str]) -> None:
    told = [one for one in found(traced(rows, frames), *names) if one.share > 1 or REFUSAL in one.said]
    assert told == []


@whole_suite
@pytest.mark.parametrize("name", ["names", "publish", "vendor's companion", "migrate"])
def test_eight_thousand_rows_take_no_more_than_the_readme_says(name: str) -> None:
    """They ask for most. Copies that were gone counted as kept, and most of these were refused."""
    made = found(traced(8_000), name)
    assert [one for one in made if REFUSAL in one.said or one.status > 1] == []
    assert 0 < max(one.share for one in made) <= 0.4
