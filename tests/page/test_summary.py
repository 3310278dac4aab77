"""What a page says without its script: facts of strangers as texts, and rows of what counts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from archive.page.folder import FolderPage
from archive.page.summary import MOST_ROWS, summary_of
from tests.page.test_browser_failures import hostile
from tests.page.test_browser_safety import HOSTILE, data_with
from tests.page.test_failures import LOG, page_of
from tests.support.commands import called, well
from tests.support.corpus import KINDS
from tests.support.tampering import STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path

TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "header",
    "h1",
    "dl",
    "div",
    "dt",
    "dd",
    "span",
}
TAGS |= {"code", "details", "summary", "ul", "li", "svg", "rect", "p", "main", "noscript", "script"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}


class Read(HTMLParser):
    """The tags of a page or a piece of one, the rows of its tables, and all its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags = set[str]()
        self.rows: list[list[str]] = []
        self.text, self._is_cell = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag == "tr":
            self.rows.append([])
        self._is_cell = tag == "td"
        if self._is_cell:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_cell = self._is_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._is_cell:
            self.rows[-1][-1] += data


def folder_of(texts: list[str]) -> dict[str, Any]:
    page = FolderPage(texts[0], where=texts[0])
    for text in texts:
        page.refuse(text, text)
    return page.facts(notes=texts)


@pytest.mark.parametrize("make", [data_with, hostile, folder_of])
def test_nothing_of_strangers_is_markup(make: Any) -> None:  # noqa: ANN401 (three makers)
    summary = summary_of(make(HOSTILE))
    for part in (summary.head, summary.rows):
        read = Read(part)
        assert read.tags <= TAGS - {"script", "style"}
        assert HOSTILE[0] in read.text


def test_a_report_says_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "ill.ptl").write_bytes(tampered(STACK, {"callstack_debug_map.pkl": lambda data: data[:20]}))
    well("report", tmp_path / "ill.ptl", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    read = Read(page)
    assert read.tags <= TAGS
    assert "<h1>ill.ptl</h1>" in page
    assert re.search(r"<dt>Kind</dt><dd>a lite archive</dd>", page)
    assert re.search(r'verify">(?=<span class="badge error">1 error)', page)
    assert next(row[0] for row in read.rows if len(row) == 3) == "container"
    found = [row for row in read.rows if row[:2] == ["verify", "error"]]
    assert [row[3] for row in found] == ["callstack_debug_map.pkl"]
    assert {row[1] for row in read.rows if len(row) == 5} == {"error", "warning"}


def test_failures_are_rows_with_their_models(tmp_path: Path) -> None:
    page_of(tmp_path, LOG)
    rows = Read((tmp_path / "failures.html").read_text("utf-8")).rows
    assert len([row for row in rows if row]) == MOST_ROWS
    assert {row[4] for row in rows if row} == {"Detector.ptdbg", "Encoder.ptdbg", "Ranker.ptdbg"}
    assert all(re.fullmatch(r"models/\w+\.py:\d+", row[3]) for row in rows if row)
    assert {row[1] for row in rows if row} <= {"yes", "no"}


def test_an_inventory_counts_what_is_not_well(tmp_path: Path) -> None:
    zoo = tmp_path / "zoo"
    for name in ("a", "b"):
        (zoo / name).mkdir(parents=True)
        (zoo / name / "well.ptl").write_bytes(STACK.read_bytes() if name == "a" else STACK.read_bytes()[:-40])
    (zoo / "b" / "ill.ptl").write_bytes(tampered(STACK, {"callstack_debug_map.pkl": lambda data: data[:20]}))
    (zoo / "b" / "fine.pt").write_bytes((KINDS / "checkpoint.pt").read_bytes())
    page = called("inspect", zoo / "a", zoo / "b", "--verify", "--format", "html").stdout
    states = {row[0]: row[1] for row in Read(page).rows if row}
    assert states == {
        "a/well.ptl": "verify: well",
        "b/fine.pt": "verify: nothing found",
        "b/ill.ptl": "1 error",
        "b/well.ptl": "not read",
    }
    assert '<dt>With errors</dt><dd><a href="#section=files&amp;find=error">1</a>' in page
    assert '<dt>Not read</dt><dd><a href="#section=refused">1</a>' in page
