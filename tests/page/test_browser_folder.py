"""The pages of folders: what is wrong with a file stands beside its name, all that is known is in reach."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.page.browser import AXE, in_browser, opened
from tests.page.test_browser_access import RULES
from tests.support.commands import called, well
from tests.support.corpus import KINDS
from tests.support.tampering import STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.page.browser import Seen

pytestmark = in_browser()

WIDTHS = (400, 800, 1400, 2560)
LONG = "a-model-under-a-name-that-is-so-long-that-no-column-of-a-narrow-window-has-room-for-it.ptl"
BEYOND = """() => [...document.querySelectorAll("regular-table")].map((table) =>
    table.scrollWidth - table.clientWidth)"""
TO_THE_RIGHT = """async () => {
    const table = document.querySelector("regular-table");
    for (let n = 0; n < 5; n++) {
        table.scrollLeft = table.scrollWidth;
        await new Promise((done) => setTimeout(done, 50));
    }
}"""
LAST = """() => [...document.querySelectorAll("regular-table th")].findLast((cell) =>
    cell.getBoundingClientRect().right <= cell.closest("regular-table").getBoundingClientRect().right + 1
    )?.textContent"""
AT_END = "scrollY + innerHeight >= document.documentElement.scrollHeight - 2"
UNMARKED = """() => [...document.querySelectorAll("regular-table td, regular-table th")].filter((cell) =>
    cell.scrollWidth > cell.clientWidth + 1 && getComputedStyle(cell).textOverflow !== "ellipsis"
    || cell.getBoundingClientRect().right > cell.closest("regular-table").getBoundingClientRect().right + 1
    ).map((cell) => [cell.textContent, cell.getBoundingClientRect().right])"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A model, the same again, one that is broken, one with a broken record, and one with a label."""
    folder = tmp_path / "zoo"
    (folder / "sub").mkdir(parents=True)
    shutil.copy(STACK, folder / "a.ptl")
    shutil.copy(STACK, folder / "sub" / LONG)
    shutil.copy(KINDS / "cut.pt", folder / "cut.pt")
    (folder / "ill.ptl").write_bytes(tampered(STACK, {"callstack_debug_map.pkl": lambda data: data[:20]}))
    out = tmp_path / "small.ptl"
    well("split", STACK, "-o", out, "-c", folder / "a.ptdbg", "--label", "1.4.2")
    return folder


def inventory(models: Path, *options: str) -> Path:
    """The page of an inventory."""
    page = models.parent / "inventory.html"
    page.write_text(called("inspect", models, "--format", "html", *options).stdout, "utf-8")
    return page


def states(seen: Seen) -> dict[str, str]:
    """What the list says of each file."""
    rows = seen.page.locator("#files tbody tr").all()
    return {row.locator("td").nth(0).inner_text(): row.locator("td").nth(1).inner_text() for row in rows}


def test_what_is_wrong_with_a_file_stands_beside_its_name(browser: Browser, models: Path) -> None:
    with opened(browser, inventory(models, "--verify")) as seen:
        assert seen.text("h1") == "zoo"
        seen.page.click("#top a:text-is('1') >> nth=0")
        seen.settle()
        assert [*states(seen)] == ["ill.ptl"]
        seen.page.fill("#files input", "")
        seen.page.wait_for_selector("#files td:text-is('cut.pt')")
        seen.reach_all()
        marks = states(seen)
        assert marks["cut.pt"] == "not read"
        assert marks["ill.ptl"].endswith("error")
        assert (marks["a.ptl"], marks["a.ptdbg"]) == ("verify: well", "verify: well")
        assert "the same verified checksums as a.ptl" in marks.values()
        seen.page.click("#largest .badge .link:text-is('the same verified checksums as a.ptl')")
        assert seen.text("#files h3") == "a.ptl well"
        assert "ill.ptl 1 error" in seen.text("#largest").replace("\u00a0", " ")
    with opened(browser, inventory(models)) as seen:
        seen.reach_all()
        assert "verify: well" not in states(seen).values()  # nobody has looked
        assert "was not checked: --verify does that" in seen.text("#top")
        assert states(seen)["a.ptl"] == "not checked"


def test_what_was_not_read_leads_to_why_and_a_double_to_the_first(browser: Browser, models: Path) -> None:
    with opened(browser, inventory(models)) as seen:
        seen.page.click("#top a:text-is('1')")
        assert "without its end" in seen.text("#refused tr:has-text('cut.pt')")
        top = "document.querySelector('#refused').getBoundingClientRect().top"
        assert abs(seen.page.evaluate(top)) < 100 or seen.page.evaluate(AT_END)
        seen.page.click("#refused .link")
        seen.settle()
        assert seen.text("#files h3") == "cut.pt not read"
        assert "without its end" in seen.text("#files .whole")
        assert "row=cut.pt" in seen.page.url
        seen.page.click(f"#largest .link:text-is('sub/{LONG}')")
        seen.settle()
        assert seen.text("#files h3").startswith(f"sub/{LONG}")
        seen.page.click("#files .whole .link")
        seen.settle()
        assert seen.text("#files h3") == "a.ptl"
    with opened(browser, inventory(models), "#section=files&row=a.ptdbg") as seen:
        assert seen.text("#files h3") == "a.ptdbg"
        assert "Label\n1.4.2" in seen.text("#files .whole")
        assert seen.console == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_of_a_folder_is_cut_at_any_width(browser: Browser, models: Path, width: int) -> None:
    called("report", models, "-o", models.parent / "pages")
    pages = models.parent / "pages" / "index.html", inventory(models, "--digest")
    for page in pages:
        with opened(browser, page) as seen:
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.reach_all()
            assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            if width in WIDTHS[:2]:  # a row is a card
                continue
            (beyond,) = seen.page.evaluate(BEYOND)
            if beyond <= 0:
                assert seen.page.evaluate(UNMARKED) == []
            else:  # what has no room is scrolled to
                seen.page.evaluate(TO_THE_RIGHT)
                seen.settle()
                assert seen.page.evaluate(LAST) == "Not read"
            # a row is a line, whatever its name
            heights = "(all) => all.map((one) => one.offsetHeight)"
            assert set(seen.page.locator("#files tbody td").evaluate_all(heights)) == {24}


@pytest.mark.skipif(not AXE.exists(), reason="axe-core, which `python -m tools.page` installs, is not here")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_list_of_a_folder(browser: Browser, models: Path, scheme: str) -> None:
    page = inventory(models, "--verify", "--digest")
    with opened(browser, page, "#section=files&row=cut.pt", color_scheme=scheme, bypass_csp=True) as seen:
        seen.reach_all()
        seen.page.add_script_tag(path=str(AXE))
        found = seen.page.evaluate("(rules) => axe.run({runOnly: {type: 'tag', values: rules}})", RULES)
        assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]] == []


def test_keys_reach_all_that_is_known_of_a_file(browser: Browser, models: Path) -> None:
    with opened(browser, inventory(models)) as seen:
        seen.reach_all()
        seen.page.focus("#files [role=grid]")
        seen.page.keyboard.press("End")
        seen.page.keyboard.press("Enter")
        seen.settle()
        facts = seen.text("#files .whole")
        assert facts.startswith(f"sub/{LONG}")
        for words in (
            "Kind\nlite archive",
            "Same as\nthe same directory as a.ptl",
            "Looked at\ndirectory",
        ):
            assert words in facts
