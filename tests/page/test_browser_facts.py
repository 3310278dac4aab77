"""What sections say of real archives: kernels beside code, modules without figures, leaks not counted."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from archive.describe.inventory import inventoried
from archive.describe.totals import Inventory
from archive.page.inventory import InventoryPage
from archive.page.report import report
from archive.reader.recognition import OPENED_KINDS
from tests.page.browser import in_browser, opened
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.page.browser import Seen

pytestmark = in_browser()


@contextmanager
def page_of(browser: Browser, name: str, folder: Path) -> Iterator[Seen]:
    """The page of an archive among the fixtures, with all of its sections."""
    report(FIXTURES / name, folder / "page.html")
    with opened(browser, folder / "page.html") as seen:
        seen.reach_all()
        yield seen


def open_row(seen: Seen, section: str, words: str) -> None:
    """Open the row of a table that has some words."""
    seen.page.fill(f"#{section} input.search", words)
    found = "(output) => document.querySelector(output).value.includes(' of ')"  # when typing has paused
    seen.page.wait_for_function(found, arg=f"#{section} .field output")
    seen.settle()
    seen.page.click(f"#{section} tbody tr:first-child td:first-child")
    seen.page.keyboard.press("Enter")
    seen.settle()


def test_a_kernel_opens_at_its_call_and_at_the_line_of_the_model(browser: Browser, tmp_path: Path) -> None:
    with page_of(browser, "compiled/several.pt2", tmp_path) as seen:
        open_row(seen, "table1", "mixer:aoti_torch_cpu_cumsum:5")
        where = seen.page.eval_on_selector(".where", "(output) => output.value")
        assert where.startswith("models/mixer.py:22, ")
        assert where.endswith(".wrapper.cpp:1010")
        marks = seen.page.locator(".here").all_inner_texts()
        assert marks[0].startswith("return torch.cumsum(")
        assert "aoti_torch_cpu_cumsum(" in marks[1]
        assert seen.console == []


def test_a_kernel_without_a_line_of_the_model_opens_at_its_call(browser: Browser, tmp_path: Path) -> None:
    with page_of(browser, "compiled/several.pt2", tmp_path) as seen:
        open_row(seen, "table1", "mixer:cpp_fused_0:1")
        where = seen.page.eval_on_selector(".where", "(output) => output.value")
        assert where.endswith("comes from no source that is here")
        assert seen.text("#source .side:nth-child(2) .cm-content").count("cpp_fused_0(") > 0


def test_what_is_not_known_of_a_module_is_blank(browser: Browser, tmp_path: Path) -> None:
    companion = "companions/v2/exported_several.pt2.packed.ptdbg"
    with page_of(browser, companion, tmp_path) as seen:
        cells = seen.page.locator("#modules tbody tr:first-child td").all_inner_texts()
        assert cells[1:4] == ["shop.Shop", "", ""]


def test_the_head_says_of_leaks_what_the_command_says(browser: Browser, tmp_path: Path) -> None:
    with page_of(browser, "kinds/checkpoint.pt", tmp_path) as seen:
        head = " ".join(seen.text("#top").split())
        assert "nothing found · not counted: root folder 1, attribute name 23, id 1" in head


def test_an_inventory_is_sorted_by_a_click_and_an_unknown_number_is_empty(
    browser: Browser, tmp_path: Path
) -> None:
    inventory = Inventory(OPENED_KINDS)
    page = InventoryPage(["models"], inventory.totals)
    for name in ("kinds/compiled.pt2", "oracles/plain_stack.pt", "kinds/checkpoint.pt"):
        row = inventory.take(inventoried(FIXTURES / name))
        assert row is not None
        assert list(page.lines(name, row)) == []
    (tmp_path / "page.html").write_text(page.tail, "utf-8")
    with opened(browser, tmp_path / "page.html") as seen:
        seen.reach_all()
        headings = seen.page.locator("#files th").all_inner_texts()
        elements = headings.index("Elements")
        first = f"#files tbody tr:first-child td:nth-child({elements + 1})"
        assert seen.text(first) == ""
        seen.page.click(f"#files th:nth-child({elements + 1})")
        seen.settle()
        assert seen.text(first) == "50"
        assert "TorchScript archive" in seen.text("#table-0")
        assert "PyTorch 2.1 or later" in seen.text("#table-1")
        assert seen.console == []
