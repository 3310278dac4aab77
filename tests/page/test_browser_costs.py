"""What a page costs who opens it: CPU, memory, elements; and that it asks for nothing and says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.page.browser import FINDINGS, HEAD, in_browser, opened, sizes_of, sources_of, written

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = in_browser()

MOST_ELEMENTS, MOST_BOXES, MOST_HEAP, MOST_CPU = 3_000, 600, 60_000_000, 1.0
ROWS = [1_000, 100_000]


def data_of_rows(rows: int) -> dict[str, Any]:
    """A page in which each table has about that many rows."""
    sizes, sources = sizes_of(rows * 3 // 4), sources_of(rows)
    modules = len(sizes["name"]) - rows * 3 // 4
    return {
        "version": 1,
        "head": HEAD,
        "sizes": sizes,
        "modules": {
            "path": [
                "",
                *(
                    f"layer{row // 30}.{row % 30}" if row % 31 else f"layer{row // 31}"
                    for row in range(modules)
                ),
            ],
            "parent": [-1] + [0] * modules,
            "class": ["Top"] + ["Linear"] * modules,
            "elements": [1] * (modules + 1),
            "bytes": [4] * (modules + 1),
            "effects": [0] * (modules + 1),
            "methods": [[["forward", 0, 9]]] * (modules + 1),
        },
        "sources": sources,
        "handles": {
            "handle": list(range(rows)),
            "operator": ["aten::add"] * rows,
            "path": ["top(Top)::forward"] * rows,
            "file": ["model.py"] * rows,
            "line": list(range(rows)),
            "frames": [[[0, 9, "model.py:7"]]] * rows,
        },
        "findings": FINDINGS,
        "left_out": [],
    }


@pytest.mark.parametrize("rows", ROWS)
def test_it_opens_within_its_bounds_and_silently(browser: Browser, tmp_path: Path, rows: int) -> None:
    file = written(tmp_path, data_of_rows(rows))
    seconds = []
    for _ in range(3):
        with opened(browser, file) as seen:
            metrics = seen.metrics()
            seconds.append(metrics["TaskDuration"])
            assert metrics["JSHeapUsedSize"] < MOST_HEAP
            assert seen.count() < MOST_ELEMENTS
    assert min(seconds) < MOST_CPU
    with opened(browser, file) as seen:
        seen.reach_all()
        metrics = seen.metrics()
        assert metrics["JSHeapUsedSize"] < MOST_HEAP
        assert seen.count() < MOST_ELEMENTS
        assert 1 < seen.count(".box") <= MOST_BOXES
        assert seen.console == []
        assert seen.requests == [file.as_uri()]


def test_sections_are_made_when_they_are_reached(browser: Browser, tmp_path: Path) -> None:
    file = written(tmp_path, data_of_rows(1_000))
    with opened(browser, file) as seen:
        assert seen.count("#source .cm-editor") == 0
        seen.page.keyboard.press("3")
        seen.settle()
        assert seen.count("#source .cm-editor") == 2
        assert seen.page.evaluate("document.activeElement.id") == "source-title"
    with opened(browser, file, "#section=findings") as seen:
        assert "missing" in seen.text("#findings")
