"""What a reader sees first, at any size of the window: the top, whole labels, nothing that leads nowhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from archive.page.report import report
from tests.page.browser import HEAD, ROOT, data_of, in_browser, opened, sizes_of, written
from tests.page.test_browser_positions import STACK
from tests.page.test_failures import LOG, page_of
from tests.support.commands import run

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = in_browser()

WIDTHS = (400, 800, 1400, 2560)
LETTERS = 10
"""Of a name in a table on each of its lines, at least."""
CHAIN: dict[str, Any] = {
    "name": ["made.ptl", "code", "__torch__", "torch", "nn", "a.py", "b.py", "weights", "w"],
    "parent": [-1, 0, 1, 2, 3, 4, 4, 0, 7],
    "stored": [0, 0, 0, 0, 0, 300, 200, 0, 500],
    "kind": [0, 1, 1, 1, 1, 1, 1, 2, 2],
    "what": [""] * 9,
    "record": [""] * 9,
    "kinds": ["file", "code", "weights"],
}
CHAIN |= {"inflated": CHAIN["stored"], "elements": [0] * 9}
PROGRAM = ROOT / "fixtures/exported/shop.pt2"
CUT = """() => [...document.querySelectorAll(".box > span")].filter((name) => {
    const box = name.parentElement;
    const isLow = name.offsetTop + name.offsetHeight > box.clientHeight + 1;
    const isLong = name.scrollWidth > name.clientWidth + 1;
    return isLow || name.querySelector("small") && isLong;
}).map((name) => name.textContent)"""
BESIDE = """() => [...document.querySelectorAll("body *")].filter((element) => {
    const {width, right} = element.getBoundingClientRect();
    return width && right > innerWidth + 1 && !element.closest("regular-table, .cm-scroller, nav, .box");
}).map((element) => element.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("file", [STACK, PROGRAM], ids=["script", "program"])
@pytest.mark.parametrize("height", [900, 1440, 3000])
def test_a_report_opens_at_its_top(browser: Browser, tmp_path: Path, file: Path, height: int) -> None:
    report(file, tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as seen:
        seen.page.set_viewport_size({"width": 1400, "height": height})
        seen.page.reload()
        seen.page.wait_for_selector("html[data-ready]", state="attached")
        for _ in range(10):
            seen.settle()
        assert seen.page.evaluate("scrollY") == 0


def test_a_link_to_a_line_still_leads_there(browser: Browser, tmp_path: Path) -> None:
    report(STACK, tmp_path / "page.html")
    record = data_of((tmp_path / "page.html").read_bytes())["sources"]["records"][0]
    first = next(row for row, file in enumerate(record["file"]) if file >= 0)
    place = f"#section=source&record={record['name']}&at={sum(record['at'][: first + 1])}"
    with opened(browser, tmp_path / "page.html", place) as seen:
        for _ in range(10):
            seen.settle()
        top = seen.page.evaluate("document.querySelector('.here').getBoundingClientRect().top")
        assert 0 < top < 900


def test_a_chain_of_one_child_each_is_one_box(browser: Browser, tmp_path: Path) -> None:
    file = written(tmp_path, {"version": 1, "head": HEAD, "sizes": CHAIN})
    with opened(browser, file) as seen:
        names = seen.page.locator(".box").evaluate_all("(boxes) => boxes.map((box) => box.ariaLabel)")
        assert names == [
            "code \u203a __torch__ \u203a torch \u203a nn, 500 B, 50.0 %",
            "weights \u203a w, 500 B, 50.0 %",
            "a.py, 300 B, 30.0 %",
            "b.py, 200 B, 20.0 %",
        ]
        assert (
            "code \u203a __torch__ \u203a torch \u203a nn 500 B"
            in seen.page.locator(".box").all_inner_texts()
        )
        seen.page.locator(".box").first.click(position={"x": 9, "y": 9})
        assert seen.text(".crumbs").split("\n")[:5] == ["made.ptl", "code", "__torch__", "torch", "nn"]
        seen.page.locator(".box").first.focus()
        seen.page.keyboard.press("Backspace")
        assert seen.count(".box") == len(names)  # out of the whole chain


@pytest.mark.parametrize("width", WIDTHS)
def test_names_in_tables_are_words_at_any_width(browser: Browser, tmp_path: Path, width: int) -> None:
    run("report", ROOT / "fixtures/fleet", "-o", tmp_path, "--force")
    inventory = run("inspect", ROOT / "fixtures/fleet", "--format", "html").stdout
    (tmp_path / "inventory.html").write_bytes(inventory)
    page_of(tmp_path, LOG)
    for name in ("index.html", "inventory.html", "failures.html"):
        with opened(browser, tmp_path / name) as seen:
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.reach_all()
            assert seen.page.evaluate(BESIDE) == []
            heights = "(all) => all.map((one) => [one.textContent, one.offsetHeight])"
            names = seen.page.locator("table.plain td:first-child").evaluate_all(heights)
            assert names
            assert [name for name, height in names if height > 24 * (1 + len(name) / LETTERS)] == []


def test_a_narrow_window_has_all_texts_of_its_rows(browser: Browser, tmp_path: Path) -> None:
    """A law over all tables: a row is a card, whose texts are whole; a wide window has the table again."""
    data = data_of(page_of(tmp_path, LOG))["failures"]
    report(STACK, tmp_path / "report.html")
    inventory = run("inspect", ROOT / "fixtures/fleet", "--format", "html").stdout
    (tmp_path / "inventory.html").write_bytes(inventory)
    for name in ("failures.html", "report.html", "inventory.html"):
        with opened(browser, tmp_path / name) as seen:
            seen.page.set_viewport_size({"width": 400, "height": 900})
            seen.reach_all()
            assert seen.page.locator(".card >> visible=true").count()
            assert seen.page.evaluate(BESIDE) == []
            cut = """(all) => all.filter((one) => one.scrollWidth > one.clientWidth)
                .map((one) => one.textContent)"""
            cells = ".card, .card > *, .grid:not(.narrow) td, .grid:not(.narrow) th"
            assert seen.page.locator(cells).evaluate_all(cut) == []
            seen.page.set_viewport_size({"width": 1400, "height": 900})
            seen.settle()
            assert not seen.page.locator(".card >> visible=true").count()
            assert seen.page.locator("regular-table td >> visible=true").count()
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.page.set_viewport_size({"width": 400, "height": 900})
        seen.reach_all()
        causes = data["causes"]
        first = seen.text("#causes .card >> nth=0")
        for words in (causes["message"][0], f"{causes['file'][0]}:{causes['line'][0]}", causes["where"][0]):
            assert words in first


def test_cards_are_searched_ordered_and_reached_by_keys(browser: Browser, tmp_path: Path) -> None:
    causes = data_of(page_of(tmp_path, LOG))["failures"]["causes"]
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.page.set_viewport_size({"width": 400, "height": 900})
        seen.reach_all()
        assert seen.count("#causes .card") < len(causes["count"])  # they are made as they are reached
        seen.page.focus("#causes .list")
        seen.page.keyboard.press("End")
        seen.settle()
        assert seen.count("#causes .card") == len(causes["count"])
        last = seen.page.locator("#causes .card[aria-selected=true]")
        assert last.get_attribute("id") == seen.page.locator("#causes .list").get_attribute(
            "aria-activedescendant"
        )
        assert last.evaluate("(one) => one.offsetTop - one.parentElement.scrollTop") >= 0
        seen.page.keyboard.press("Enter")
        assert seen.text(".cause h3") == causes["message"][-1]

        seen.page.select_option("#causes .order select", label="Message")
        shown = seen.page.locator("#causes .card .name").all_inner_texts()
        assert shown == sorted(shown)
        assert shown[0] != causes["message"][0]
        seen.page.select_option("#causes .order select", label="as listed")
        assert seen.text("#causes .card .name >> nth=0") == causes["message"][0]
        seen.page.fill("#causes input.search", "encoder.py:113")
        seen.page.wait_for_selector("text=1 of 200 rows")
        assert seen.count("#causes .card") == 1


def test_very_many_rows_are_not_very_many_cards(browser: Browser, tmp_path: Path) -> None:
    file = written(tmp_path, {"version": 1, "head": HEAD, "sizes": sizes_of(5_000)})
    with opened(browser, file) as seen:
        seen.page.set_viewport_size({"width": 400, "height": 900})
        seen.reach_all()
        seen.page.focus("#sizes .list")
        seen.page.keyboard.press("End")
        seen.settle()
        assert seen.count("#sizes .card") == 2_000
        assert seen.page.locator("#sizes .card[aria-selected=true]").count() == 1
        assert "and 3,000 more rows, which a search finds" in seen.text("#sizes")


def test_cards_of_a_tree_open_and_close(browser: Browser, tmp_path: Path) -> None:
    report(STACK, tmp_path / "report.html")
    with opened(browser, tmp_path / "report.html") as seen:
        seen.page.set_viewport_size({"width": 400, "height": 900})
        seen.reach_all()
        names = seen.page.locator("#modules .card .name")
        assert names.all_inner_texts() == ["(top)", "blocks", "head"]
        seen.page.click("#modules .card .name:text-is('blocks')")
        assert names.all_inner_texts() == ["(top)", "blocks", "0", "1", "head"]
        assert seen.page.locator("#modules .card[aria-expanded=true]").count() == 2
        seen.page.focus("#modules .list")
        seen.page.keyboard.press("ArrowLeft")
        assert names.all_inner_texts() == ["(top)", "blocks", "head"]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_label_is_cut_and_nothing_stands_beside_the_page(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    report(STACK, tmp_path / "page.html")
    page_of(tmp_path, LOG)
    for name in ("page.html", "failures.html"):
        with opened(browser, tmp_path / name) as seen:
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.reach_all()
            assert seen.page.evaluate(CUT) == []
            assert seen.page.evaluate(BESIDE) == []
            assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert (seen.count(".box small") > 0) == (name == "page.html")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_long_word_makes_a_page_of_rows_wider_than_the_screen(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    """Reasons why files were not read stand below the rows, and have paths and bytes in them."""
    folder = tmp_path / ("folder" * 20)
    folder.mkdir()
    (folder / "model.ptl").write_bytes(STACK.read_bytes())
    (folder / f"{'unread' * 20}.pt").write_bytes(bytes(range(1, 20)))
    page = tmp_path / "rows.html"
    page.write_bytes(run("leaks", folder, "--format", "html").stdout)
    drawn = browser.new_page(viewport={"width": width, "height": 900})
    drawn.goto(page.as_uri())
    assert drawn.locator("li").count() == 1
    assert drawn.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    drawn.close()


def test_tables_have_scrollbars_where_there_is_more(browser: Browser, tmp_path: Path) -> None:
    report(STACK, tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as seen:
        seen.reach_all()
        assert seen.count("regular-table") > 3
        forms = seen.page.locator("regular-table").evaluate_all(
            "(all) => all.map((one) => getComputedStyle(one).overflow)"
        )
        assert set(forms) == {"auto"}


@pytest.mark.parametrize("width", WIDTHS[2:])
def test_no_heading_of_a_table_is_cut_where_there_is_room(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    """That of the column which gives the order has an arrow, too."""
    report(STACK, tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as seen:
        seen.page.set_viewport_size({"width": width, "height": 900})
        seen.reach_all()
        assert seen.count("#handles th[aria-sort=ascending]") == 1
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        cut = """(tables) => tables.filter((table) => table.scrollWidth <= table.clientWidth)
            .flatMap((table) => [...table.querySelectorAll("th")])
            .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"""
        assert seen.page.locator("regular-table").evaluate_all(cut) == []


def test_of_a_failure_the_message_comes_first(browser: Browser, tmp_path: Path) -> None:
    page_of(tmp_path, LOG)
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.reach_all()
        headings = seen.page.locator("#causes th").all_inner_texts()
        assert headings == ["Failures", "Message", "Place", "Model", "Module or function"]
        assert seen.text(".cause h3") == seen.text("#causes [aria-selected=true] td:nth-child(2)")
        assert re.fullmatch(r"1 failure at models/\w+\.py:\d+, in top\(.*", seen.text(".cause p >> nth=0"))
        # nothing of the two columns has to be scrolled sideways
        wide = "(all) => all.map((one) => one.scrollWidth - one.clientWidth)"
        assert seen.page.locator(".cause pre, .cause .cm-scroller").evaluate_all(wide) == [0, 0]


def test_failures_without_a_message_are_told_apart(browser: Browser, tmp_path: Path) -> None:
    page_of(tmp_path, LOG)
    data = data_of((tmp_path / "failures.html").read_bytes())
    causes = data["failures"]["causes"]
    causes["message"] = [""] * len(causes["count"])
    with opened(browser, written(tmp_path, data)) as seen:
        seen.page.set_viewport_size({"width": 400, "height": 900})
        seen.reach_all()
        words = f"(no message) {causes['file'][0]}:{causes['line'][0]}"
        assert seen.text("#causes .card .name >> nth=0") == seen.text(".cause h3") == words


@pytest.mark.parametrize("width", WIDTHS)
def test_lines_that_differ_are_read_without_scrolling(browser: Browser, tmp_path: Path, width: int) -> None:
    older = STACK.with_name("plain_branches.ptl")
    report(STACK, tmp_path / "page.html", base=older)
    with opened(browser, tmp_path / "page.html") as seen:
        seen.page.set_viewport_size({"width": width, "height": 900})
        seen.reach_all()
        assert seen.page.evaluate("scrollY") == 0
        assert seen.page.evaluate(BESIDE) == []
        assert "models/plain.py changed +8 \u22127" in seen.text("#changes summary >> nth=0").replace(
            "\n", " "
        )
        lines = seen.page.locator("#changes .gone td:last-child").all_inner_texts()
        assert lines[0].startswith("\u2212     def forward(self, x, flag: int):")
        assert seen.page.locator("#changes .gone td:first-child").first.inner_text() == "61"
        assert seen.console == []
    report(STACK, tmp_path / "page.html", base=STACK, force=True)
    with opened(browser, tmp_path / "page.html") as seen:
        seen.reach_all()
        assert "Source and generated code are the same." in seen.text("#changes")
