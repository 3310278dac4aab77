"""The section of values in a browser: the length and colour of bars, and links to the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.page.report import report
from tests.page.browser import in_browser, opened
from tests.page.test_values import STACK, diff_of, pair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.page.browser import Seen

pytestmark = in_browser()


@pytest.fixture(scope="module")
def seen(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    page = tmp_path_factory.mktemp("page") / "page.html"
    report(STACK, page, values=diff_of(pair(25, 0.4), pair(28, 0.1), pair(40, 0.0, odd=1)))
    with opened(browser, page) as there:
        yield there


def test_bars_are_as_long_as_the_numbers_and_red_where_something_is_wrong(seen: Seen) -> None:
    seen.to("#section=values")
    bars = seen.page.evaluate(
        """[...document.querySelectorAll("#values .bars")].map((bars) =>
            [bars.firstChild.className, Math.round(100 * bars.firstChild.offsetWidth / bars.offsetWidth)])"""
    )
    assert bars == [["wrong", 100], ["rest", 25], ["wrong", 0]]
    assert seen.page.inner_text("#values tbody tr:last-child td:last-child") == "1 finite in only one"


def test_a_line_leads_to_the_source(seen: Seen) -> None:
    seen.to("#section=values")
    seen.page.click("#values tbody tr:first-child button")
    assert "section=source" in seen.page.url
    assert "models%2Fplain.py" in seen.page.url
