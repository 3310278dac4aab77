"""The section of sizes: one tree as treemap, icicle and table; search; two files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.page.browser import HEAD, in_browser, opened, sizes_of, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.page.browser import Seen

pytestmark = in_browser()

BOXES = """[...document.querySelectorAll(".box")].map((box) => ({
    row: +box.dataset.row, value: +box.dataset.value,
    others: box.dataset.others, leaf: box.classList.contains("leaf"), depth: +box.dataset.depth,
    width: box.offsetWidth, height: box.offsetHeight, kind: box.className}))"""
SIZES = sizes_of(900)


@pytest.fixture(scope="module")
def seen(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """The page of a model of 900 tensors."""
    file = written(tmp_path_factory.mktemp("page"), {"version": 1, "head": HEAD, "sizes": SIZES})
    with opened(browser, file) as page:
        yield page


def paths() -> list[str]:
    """The paths of all rows, as the table shows them."""
    made = [""]
    for name, parent in zip(SIZES["name"][1:], SIZES["parent"][1:], strict=True):
        separator = "." if made[parent].count("/") else "/"
        made.append(f"{made[parent]}{separator}{name}" if made[parent] else name)
    return made


def leaves() -> list[int]:
    """Rows that are nobody's parents, the largest first."""
    parents = set(SIZES["parent"])
    rows = [row for row in range(len(SIZES["name"])) if row not in parents]
    return sorted(rows, key=lambda row: (-SIZES["stored"][row], row))


def test_leaves_sum_to_the_file(seen: Seen) -> None:
    seen.to("#")
    boxes = seen.page.evaluate(BOXES)
    assert sum(box["value"] for box in boxes if box["leaf"]) == sum(SIZES["stored"])
    sums = list(SIZES["stored"])
    for row in range(len(sums) - 1, 0, -1):
        sums[SIZES["parent"][row]] += sums[row]
    assert all(box["value"] == sums[box["row"]] for box in boxes if not box["others"])


def test_areas_are_in_proportion(seen: Seen) -> None:
    seen.page.click("text=Icicle")
    seen.settle()
    boxes = seen.page.evaluate(BOXES)
    whole = max(box["width"] for box in boxes)
    for box in boxes:
        assert box["width"] == pytest.approx(whole * box["value"] / sum(SIZES["stored"]), abs=3)
    seen.page.click("text=Treemap")
    seen.settle()
    layers = [box for box in seen.page.evaluate(BOXES) if box["depth"] == 2]
    scale = sum(box["width"] * box["height"] for box in layers) / sum(box["value"] for box in layers)
    for box in layers:
        assert box["width"] * box["height"] == pytest.approx(scale * box["value"], rel=0.06)


def test_a_box_opens_and_backspace_goes_out(seen: Seen) -> None:
    layer = SIZES["name"].index("layer3")
    seen.page.locator(f'.box[data-row="{layer}"]').focus()
    seen.page.keyboard.press("Enter")
    seen.settle()
    assert "in=weights%2Flayer3" in seen.page.url
    assert seen.text("output").startswith("120 of 900")
    assert seen.page.evaluate(BOXES)[0]["row"] > layer
    seen.page.locator(".box").first.focus()
    seen.page.keyboard.press("Backspace")
    seen.settle()
    assert "layer3" not in seen.page.url


def test_arrows_move_between_boxes(seen: Seen) -> None:
    seen.to("#")
    seen.page.locator(".box").first.focus()
    seen.page.keyboard.press("ArrowDown")
    first = seen.page.evaluate("document.activeElement.dataset.row")
    seen.page.keyboard.press("ArrowRight")
    second = seen.page.evaluate("document.activeElement.dataset.row")
    assert len({"1", first, second}) == 3
    assert seen.count('.box[tabindex="0"]') == 1


@pytest.mark.parametrize(
    "wanted", ["layer1", "WEIGHT", "layer3.2.bias", "float32 9", "9", ".", "nowhere", "(", "3 x"]
)
def test_search_equals_python(seen: Seen, wanted: str) -> None:
    everything, what = paths(), SIZES["what"]
    expected = [
        row for row in leaves() if wanted.lower() in everything[row].lower() or wanted.lower() in what[row]
    ]
    seen.page.fill("#sizes input.search", wanted)
    seen.page.wait_for_function(
        "(count) => document.querySelector('#sizes output').value.startsWith(count + ' of ')",
        arg=str(len(expected)),
    )
    seen.settle()
    shown = seen.page.locator("#sizes tbody tr td:first-child").all_inner_texts()
    assert len(shown) >= min(len(expected), 10)
    assert shown == [everything[row] for row in expected[: len(shown)]]
    seen.page.fill("#sizes input.search", "")


def test_a_column_sorts(seen: Seen) -> None:
    seen.to("#")
    seen.page.click("#sizes th:has-text('Name')")
    seen.settle()
    shown = seen.page.locator("#sizes tbody tr td:first-child").all_inner_texts()
    assert shown == sorted(paths()[row] for row in leaves())[: len(shown)]
    assert seen.page.get_attribute("#sizes th:has-text('Name')", "aria-sort") == "ascending"


def test_of_two_files_colour_is_growth(browser: Browser, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "name": ["new.ptl", "weights", "same", "grown", "doubled", "shrunk", "gone"],
        "parent": [-1, 0, 1, 1, 1, 1, 1],
        "stored": [0, 0, 1000, 1200, 2000, 900, 0],
        "old": [0, 0, 1000, 1000, 900, 1000, 1000],
        "inflated": [0] * 7,
        "elements": [0] * 7,
        "what": [""] * 7,
        "record": [""] * 7,
        "kind": [0] + [1] * 6,
        "kinds": ["file", "weights"],
    }
    data = {"version": 1, "head": {**HEAD, "base": "old.ptl"}, "sizes": sizes}
    with opened(browser, written(tmp_path, data)) as page:
        assert "old.ptl" in page.text("#top")
        assert "5.0 KiB \u00b7 before 4.8 KiB \u00b7 +200 B" in page.text("#sizes .crumbs")
        labels = page.page.eval_on_selector_all(".box", "(boxes) => boxes.map((box) => box.ariaLabel)")
        assert "same, same size, 1,000 B, before 1,000 B" in labels
        assert "gone, \u22121,000 B, 0 B, before 1,000 B" in labels
        assert "as before" not in page.text("#sizes")
        boxes = {box["row"]: box for box in page.page.evaluate(BOXES)}
        hues = {row: re.search(r"grew2?|shrank2?|same", box["kind"]) for row, box in boxes.items()}
        assert [match and match[0] for _, match in sorted(hues.items())][1:] == [
            "same",
            "grew",
            "grew2",
            "shrank",
            "shrank2",
        ]
        assert [boxes[row]["value"] for row in range(2, 7)] == [1000, 1200, 2000, 1000, 1000]
        assert "+1.1 KiB" in page.text("#sizes .grid")
