"""The page for everyone: axe-core finds nothing, keys reach everything, paper shows tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from archive.page.report import report
from tests.page.browser import AXE, ROOT, in_browser, opened, written
from tests.page.test_browser_costs import data_of_rows
from tests.page.test_failures import LOG, page_of
from tests.support.commands import run

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = in_browser()

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
NAME = """() => {
    const element = document.activeElement;
    const name = element.ariaLabel || element.labels?.[0]?.textContent || element.textContent;
    return (name || element.tagName).trim().replace(/\\s+/g, " ");
}"""


def page_of_kind(folder: Path, kind: str) -> Path:
    """A page of each kind."""
    file = folder / "page.html"
    if kind == "made":
        return written(folder, data_of_rows(24))
    if kind == "failures":
        page_of(folder, LOG)
        return folder / "failures.html"
    if kind == "inventory":
        file.write_bytes(run("inspect", ROOT / "fixtures/kinds", "--verify", "--format", "html").stdout)
        return file
    if kind == "folder":
        run("report", ROOT / "fixtures/fleet", "-o", folder / "pages")
        return folder / "pages" / "index.html"
    archive, _, older = kind.partition(" from ")
    report(ROOT / "fixtures" / archive, file, base=ROOT / "fixtures" / older if older else None)
    return file


KINDS = (
    *("made", "failures", "inventory", "folder"),
    *("oracles/plain_stack.ptl", "oracles/plain_stack.ptl from oracles/plain_branches.ptl"),
    *("exported/shop.pt2", "executorch/framed.pte", "kinds/checkpoint.pt", "canaries/lowered.pt"),
)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core, which `python -m tools.page` installs, is not here")
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(browser: Browser, tmp_path: Path, kind: str) -> None:
    file = page_of_kind(tmp_path, kind)
    for scheme in ("light", "dark"):
        with opened(browser, file, color_scheme=scheme, bypass_csp=True) as seen:
            seen.reach_all()
            seen.page.add_script_tag(path=str(AXE))
            found = seen.page.evaluate("(rules) => axe.run({runOnly: {type: 'tag', values: rules}})", RULES)
            wrong = [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]
            assert wrong == []
            assert len(found["passes"]) > 30


def test_tab_goes_through_the_page_in_order(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path, data_of_rows(1_000))) as seen:
        seen.reach_all()
        names: list[str] = []
        while len(names) < 70:
            seen.page.keyboard.press("Tab")
            name = seen.page.evaluate(NAME)
            if name in {"BODY", "HTML"} or (names and name == names[0]):
                break
            names.append(name)
        wanted = [
            "To the content",
            "1 Where the bytes are",
            "? Keys",
            "made.ptl",
            "Treemap",
            "Stored bytes",
            "Search",
            "Sizes, row by row",
            "Modules",
            "Find in all texts",
            "Source of the model",
            "Generated code",
            "Debug handles",
            "Findings",
        ]
        places = [next(n for n, name in enumerate(names) if name.startswith(start)) for start in wanted]
        assert places == sorted(places)
        assert len([name for name in names if name.startswith("weights")]) <= 1  # one stop for all boxes


def test_the_tree_of_modules_follows_arrows(browser: Browser, tmp_path: Path) -> None:
    data = data_of_rows(1_000)
    data["modules"] |= {
        "path": ["", "a", "a.b", "a.b.c", "d"],
        "parent": [-1, 0, 1, 2, 0],
        **{name: data["modules"][name][:5] for name in ("class", "elements", "bytes", "effects", "methods")},
    }
    with opened(browser, written(tmp_path, data), "#section=modules") as seen:
        tree = seen.page.locator("#modules [role=treegrid]")
        tree.focus()

        def state() -> tuple[list[str], str]:
            seen.settle()
            rows = seen.page.locator("#modules tbody tr td:first-child").all_inner_texts()
            current = seen.page.inner_text("#modules tr[aria-selected=true] td:first-child")
            assert tree.get_attribute("aria-activedescendant") == seen.page.get_attribute(
                "#modules tr[aria-selected=true]", "id"
            )
            return rows, current

        assert state() == (["(top)", "a", "d"], "(top)")
        seen.page.keyboard.press("ArrowDown")
        seen.page.keyboard.press("ArrowRight")
        assert state() == (["(top)", "a", "b", "d"], "a")
        seen.page.keyboard.press("ArrowRight")
        assert state()[1] == "b"
        seen.page.keyboard.press("ArrowLeft")
        assert state()[1] == "a"
        seen.page.keyboard.press("ArrowLeft")
        assert state() == (["(top)", "a", "d"], "a")
        seen.page.keyboard.press("End")
        seen.page.keyboard.press("Enter")
        assert state()[1] == "d"
        assert "module=d" in seen.page.url
        seen.page.click("#modules .methods button")
        seen.settle()
        assert "section=source" in seen.page.url
        assert seen.page.evaluate("document.activeElement.id") == "source-title"


def test_keys_are_told_and_work(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path, data_of_rows(1_000))) as seen:
        seen.page.keyboard.press("?")
        assert "search in the section" in seen.text("dialog")
        seen.page.keyboard.press("Escape")
        assert seen.count("dialog[open]") == 0
        seen.page.keyboard.press("4")
        seen.settle()
        seen.page.keyboard.press("/")
        assert seen.page.evaluate("document.activeElement.closest('section').id") == "handles"
        seen.page.keyboard.type("1 nothing")
        assert seen.page.input_value("#handles input") == "1 nothing"


def printed(browser: Browser, file: Path) -> str:
    """What is on paper."""
    with opened(browser, file) as seen:
        seen.page.emulate_media(media="print")
        seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        seen.settle()
        text = seen.text("body")
        seen.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert seen.count(".paper") == 0
        return text


def test_paper_shows_tables_instead_of_boxes(browser: Browser, tmp_path: Path) -> None:
    text = printed(browser, written(tmp_path, data_of_rows(1_000)))
    for words in (
        "Sizes of made.ptl",
        "weights/layer0",
        "Debug handles",
        "more rows are not printed",
        "a tuple was expected",
    ):
        assert words in text
    assert "Treemap" not in text


@pytest.mark.parametrize(
    "option", [{"forced_colors": "active"}, {"color_scheme": "dark"}, {"java_script_enabled": False}]
)
def test_other_ways_of_looking(browser: Browser, tmp_path: Path, option: dict[str, Any]) -> None:
    file = written(tmp_path, data_of_rows(1_000))
    if option.get("java_script_enabled") is False:
        context = browser.new_context(**option)
        page = context.new_page()
        page.goto(file.as_uri())
        assert "drawn by a script" in page.inner_text("main")
        assert "Size\n1000 B" in page.inner_text("#top")
        assert page.locator("main tr").all_inner_texts() == [
            "Part\tStored bytes\tShare",
            f"weights\t{sum(data_of_rows(1_000)['sizes']['stored']):,}\t100.0 %",
            "From\tSeverity\tWhat\tRecord\tMessage",
            "verify\twarning\tmissing\tconstants.pkl\ta tuple was expected",
        ]
        context.close()
        return
    with opened(browser, file, **option) as seen:
        seen.reach_all()
        assert seen.console == []
        ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground != "rgb(255, 255, 255)" or "forced_colors" in option
