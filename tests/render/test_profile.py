"""Profiles of every kind fit a terminal, and keep their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from archive.debuginfo.profiles.saved import SavedProfile, compared, saved_profile
from archive.render.fitted_table import RULE, lines_of
from archive.render.profile import comparison_text, rows_text, run_text
from tests.support.profiles import one_run

if TYPE_CHECKING:
    from archive.render.fitted_table import Printed

VIEWS = ("module", "line", "operator")
PATH = "models/backbones/a_residual_network_with_a_long_name.py"
CODE = "return self.activation(self.norm(self.convolution(x))) + residual"


def saved(*times: int) -> SavedProfile:
    """A saved profile whose names and texts are long."""
    rows = [
        {"name": f"{PATH}:{line}", "text": CODE, "self_ns": time, "calls": 12_345, "allocated": 123_456_789}
        for line, time in enumerate(times)
    ]
    facts = {"backend": "lite interpreter", "runs": 1, "total_ns": sum(times), "peak_bytes": 5}
    return saved_profile(facts | dict.fromkeys(VIEWS, rows))


def changed(view: str, most: int) -> Printed:
    before, after = saved(138_166_000, 5_000), saved(276_332_000, 5_000, 7_000)
    return comparison_text(before, after, compared(before, after, view), view, most)


KINDS = {
    "run": lambda view, most: run_text(one_run(), view, most),
    "saved": lambda view, most: rows_text(saved(138_166_000, 5_000), view, most),
    "compared": changed,
}


def lines(kind: str, view: str, width: int, most: int = 20) -> list[str]:
    printed = KINDS[kind](view, most)
    return ["".join(text for text, _ in line) for line in lines_of(printed, width)]


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_profile_fits_a_terminal(kind: str, view: str, width: int) -> None:
    shown = lines(kind, view, width)
    assert max(map(cell_len, shown)) <= width
    assert any(line.startswith(RULE) for line in shown) == (width == 80), "a table where there is room"


def test_numbers_and_lines_stay_and_code_loses_its_end() -> None:
    row = lines("saved", "line", 80)[4]
    assert row.split()[0].endswith("…ame.py:0")
    assert row.split()[1:6] == ["138,166.0", "µs", "100.0%", "12,345", "123,456,789"]
    assert row.endswith("  return self.activ…")


def test_a_pipe_gets_whole_names() -> None:
    assert f"{PATH}:0 ({CODE})" in lines("saved", "module", 1 << 16)[4]


def test_the_last_row_sums_up_the_others() -> None:
    shown = lines("run", "module", 80, most=2)
    assert " ".join(shown[4].split()) == "blocks.0.fc (Linear) 4.000 µs 50.0% 4.000 µs 1 4.0 KiB 4.0 KiB"
    assert shown[-1].split() == ["[5", "others]", "2.000", "µs", "25.0%", "3", "1.0", "KiB", "1.0", "KiB"]
