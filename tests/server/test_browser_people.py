"""The server's pages in a browser: at four widths, in both schemes, by keys, on paper, by axe-core."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from archive.store.store import Store
from tests.page.browser import AXE, in_browser, started
from tests.page.test_browser_access import RULES
from tests.server.test_people import FLEET, MODEL, PAGES
from tests.support.servers import FILES, Running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = in_browser()

WIDTHS = (400, 800, 1400, 2560)
ASKED = (*PAGES, "/?example=1", "/models?name=none", "/nowhere")
LONG = "a_model_with_a_long_name_that_has_no_place_to_break_" * 3


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as one:
        yield one


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose models have long names and many releases."""
    folder = tmp_path_factory.mktemp("labelled") / "store"
    with Store.open(folder, create=True) as store:
        for number in range(12):
            store.add(FILES[0], label=f"2.0.{number}")
        store.add(FILES[1], name=f"{LONG}.ptl")
        store.add(FILES[2])
    with Running(folder, "--workers", 1) as running:
        yield running


def shown(browser: Browser, server: Running, path: str, width: int = 1400, scheme: str = "light") -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        bypass_csp=True,
    )
    page = context.new_page()
    page.goto(f"{server.url}{path}")
    return page


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", ASKED)
def test_nothing_is_cut_at_any_width(browser: Browser, labelled: Running, path: str, width: int) -> None:
    page = shown(browser, labelled, path, width)
    wide: list[str] = page.evaluate(
        "() => [...document.querySelectorAll('body *')].filter((one) => !one.matches('.skip, .skip *') &&"
        " (one.getBoundingClientRect().right > innerWidth + 1 || one.getBoundingClientRect().left < -1))"
        ".map((one) => one.outerHTML.slice(0, 80))"
    )
    assert wide == []
    spilling: list[str] = page.eval_on_selector_all(
        "td, th",
        "(cells) => cells.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML)",
    )
    assert spilling == []
    if button := page.query_selector("button.primary"):
        box = button.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900  # seen without scrolling
    page.context.close()


def test_bytes_stand_on_the_right(browser: Browser, labelled: Running) -> None:
    page = shown(browser, labelled, "/models")
    ends: list[float] = page.eval_on_selector_all(
        "[data-title^=Bytes]",
        """(cells) => cells.map((cell) => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return Math.round(range.getBoundingClientRect().right);
        })""",
    )
    assert len(ends) == 3
    assert len(set(ends)) == 1
    page.context.close()


def test_keys_lead_to_the_content_and_explain_the_example(browser: Browser, labelled: Running) -> None:
    page = shown(browser, labelled, "/?example=1")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    assert page.locator(".skip").bounding_box() is not None
    page.keyboard.press("Enter")
    seen = []
    for _ in range(4):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.tagName"))
    assert seen == ["TEXTAREA", "INPUT", "SELECT", "BUTTON"]
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready]", state="attached")
    assert re.search(r"Explained\s+1 failure", page.inner_text("body"))
    page.context.close()


@pytest.mark.skipif(not AXE.exists(), reason="axe-core, which `python -m tools.page` installs, is not here")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ASKED)
def test_axe_finds_nothing(browser: Browser, labelled: Running, path: str, scheme: str) -> None:
    page = shown(browser, labelled, path, scheme=scheme)
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("(rules) => axe.run({runOnly: {type: 'tag', values: rules}})", RULES)
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]] == []
    assert len(found["passes"]) > 15
    page.context.close()


@pytest.mark.skipif(not AXE.exists(), reason="axe-core, which `python -m tools.page` installs, is not here")
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize(("path", "file"), [("/", FLEET / "unique.log"), ("/report", MODEL)])
def test_an_answer_leads_back_and_axe_finds_nothing(
    browser: Browser, labelled: Running, path: str, file: Path, width: int
) -> None:
    page = shown(browser, labelled, path, width)
    page.set_input_files("input[type=file]", file)
    page.click("button.primary")
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("(rules) => axe.run({runOnly: {type: 'tag', values: rules}})", RULES)
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]] == []
    page.click("nav.site a:text-is('Models')")
    assert page.inner_text("h1") == "Models"
    page.context.close()


def test_paper_has_no_navigation(browser: Browser, labelled: Running, tmp_path: Path) -> None:
    page = shown(browser, labelled, "/models")
    page.emulate_media(media="print")
    assert not page.is_visible("nav")
    assert page.is_visible("table")
    page.pdf(path=tmp_path / "models.pdf")
    assert (tmp_path / "models.pdf").read_bytes().startswith(b"%PDF")
    page.context.close()
