"""The page of failures: causes, their counts over time, and their lines in the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.page.browser import in_browser, opened, sources_of, written

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = in_browser()

EXCERPT = (
    'Traceback of TorchScript (most recent call last):\n  File "model.py", line 8, in forward\n    <b>\u202e'
)
FAILURES: dict[str, Any] = {
    "log": "field.log",
    "models": ["one.ptl", "two.ptl"],
    "causes": {
        "count": [12, 3],
        "file": ["model.py", ""],
        "line": [8, None],
        "where": ["forward", ""],
        "message": ["shapes cannot be multiplied", "out of memory"],
        "models": [[0], [0, 1]],
        "first": ["2026-01-01", ""],
        "last": ["2026-01-03", ""],
        "times": [[1, 9, 2], None],
        "excerpt": [EXCERPT, "out of memory"],
        "link": [[0, 0, 22], None],
    },
    "unexplained": 4,
    "notes": ["a note"],
}


def test_a_cause_opens_at_its_line(browser: Browser, tmp_path: Path) -> None:
    models = [{"sources": sources_of(8)}, {}]
    file = written(tmp_path, {"version": 1, "failures": FAILURES, "models": models})
    with opened(browser, file) as seen:
        assert seen.text("h1") == "field.log"
        assert "4 lines" in seen.text("header")
        assert seen.text(".excerpt") == EXCERPT.replace("\u202e", r"\u202e")
        assert seen.page.get_attribute(".times", "aria-label") == "Over time: 1, 9, 2"
        assert seen.page.eval_on_selector(".where", "(output) => output.value").startswith(
            "model.py:8, columns 9\u201313"
        )
        assert seen.text(".side:nth-child(1) .here") == "y + z"
        seen.page.locator("#causes tbody td", has_text="out of memory").click()
        seen.settle()
        assert "cause=2" in seen.page.url
        assert seen.count(".cm-editor") == 0
        assert "in one.ptl, two.ptl" in seen.text(".detail")
        assert seen.console == []
    with opened(browser, file, "#cause=2") as seen:
        assert seen.text(".excerpt") == "out of memory"


def test_a_log_without_failures_says_so(browser: Browser, tmp_path: Path) -> None:
    causes: dict[str, list[Any]] = {name: [] for name in FAILURES["causes"]}
    failures = {**FAILURES, "causes": causes}
    with opened(browser, written(tmp_path, {"version": 1, "failures": failures, "models": []})) as seen:
        assert "No failure of these models" in seen.text("#causes")
        assert seen.console == []
