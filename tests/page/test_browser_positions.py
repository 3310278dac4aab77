"""Source and generated code: what the page marks is what the library says of that position, on both sides."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import archive
from archive.page.report import report
from tests.page.browser import data_of, in_browser, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from archive import Archive
    from tests.page.browser import Seen

pytestmark = in_browser()

FIXTURES = Path(__file__).parents[2] / "fixtures"
STACK = FIXTURES / "oracles/plain_stack.ptl"
ASTRAL = "astral.pt"
ARCHIVES = [
    "oracles/plain_stack.ptl",
    "oracles/plain_unicode.ptl",
    "canaries/scripted.pt",
    "releases/torch-1.9.0/unicode.ptl",
    pytest.param(ASTRAL, marks=pytest.mark.torch),
]
POSITIONS = 200
"""On each side, of all archives together."""
LEFT, RIGHT = 1, 2
MARKED = """(side) => [...document.querySelectorAll(`.side:nth-child(${side}) .here`)]
    .map((mark) => mark.textContent).join("")"""


class Pair(NamedTuple):
    """A page, the archive that it is about, and the sources in its data."""

    seen: Seen
    archive: Archive
    sources: dict[str, Any]

    def where(self) -> str:
        """The line below the pair."""
        return where(self.seen)

    def marked(self, side: int) -> str:
        """What is marked on a side, its lines one behind the other."""
        text: str = self.seen.page.evaluate(MARKED, side)
        return text

    def codes(self) -> dict[str, str]:
        """The generated code that has source ranges, by its record."""
        names = [name.removesuffix(".debug_pkl") for name in self.archive.range_table.names]
        return {
            name: bytes(self.archive.records[name].view()).decode()
            for name in names
            if name in self.archive.records
        }

    def stretches(self, record: str) -> list[tuple[int, int]]:
        """From where to where, in bytes, each row of a record holds."""
        table = self.archive.range_table
        rows = table.rows(table.numbers[f"{record}.debug_pkl"])
        starts = table.offset[rows.start : rows.stop].tolist()
        return list(zip(starts, [*starts[1:], len(bytes(self.archive.records[record].view()))], strict=True))

    def became(self, file: str, source: str) -> set[str]:
        """All code that comes from a text in a file."""
        table, texts = self.archive.range_table, set()
        for record, code in self.codes().items():
            rows = table.rows(table.numbers[f"{record}.debug_pkl"])
            for row, (start, end) in zip(rows, self.stretches(record), strict=True):
                known = table.source_range(row)
                if str(known.source.filename) == file and known.text.decode() == source:
                    texts.add(in_one_line(code.encode()[start:end]))
        return texts


def where(seen: Seen) -> str:
    """The line below the pair of a page."""
    text: str = seen.page.eval_on_selector(".where", "(output) => output.value")
    return text


def units(text: str) -> int:
    """How many units of UTF-16 a text has."""
    return len(text.encode("utf-16-le")) // 2


def in_one_line(text: bytes) -> str:
    """A text as the lines of an editor show it, one behind the other."""
    return text.decode().replace("\n", "")


def saved_astral(path: Path) -> Path:
    """A scripted model beyond the basic plane of Unicode."""
    import torch  # noqa: PLC0415 (optional)

    from tests.page.astral_model import Astral  # noqa: PLC0415 (the same)

    torch.jit.script(Astral()).save(path)
    return path


@pytest.fixture(scope="module", params=ARCHIVES)
def pair(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """The page of an archive."""
    folder = tmp_path_factory.mktemp("page")
    path, page = FIXTURES / request.param, folder / "page.html"
    if request.param == ASTRAL:
        path = saved_astral(folder / ASTRAL)
    report(path, page)
    with archive.open(path) as opened_archive, opened(browser, page, "#section=source") as seen:
        yield Pair(seen, opened_archive, data_of(page.read_bytes())["sources"])


def test_generated_code_leads_to_its_source(pair: Pair) -> None:
    codes, draw, with_source = pair.codes(), random.Random(1), 0  # noqa: S311 (the same ones in each run)
    for _ in range(POSITIONS // len(ARCHIVES)):
        record = draw.choice([*codes])
        before = codes[record][: draw.randrange(len(codes[record]))]
        position = len(before.encode())
        known = pair.archive.locate(record, position)
        pair.seen.to(f"#section=source&record={record}&at={units(before)}")
        if known is None or known.source.is_null:
            assert "comes from no source" in pair.where()
            continue
        with_source += 1
        assert pair.where().startswith(f"{known.source.filename}:{known.line}, column")
        assert pair.marked(LEFT) == in_one_line(known.text)
        start, end = next(ends for ends in pair.stretches(record) if ends[0] <= position < ends[1])
        assert pair.marked(RIGHT) == in_one_line(codes[record].encode()[start:end])
    assert with_source


def test_source_leads_to_what_became_of_it(pair: Pair) -> None:
    files = pair.sources["files"]
    for number, file in enumerate(files):
        text, ranges = file["text"], ranges_in(pair.sources, number)
        draw = random.Random(number)  # noqa: S311 (the same)
        for at in draw.choices(range(units(text)), k=POSITIONS // len(ARCHIVES) // len(files) + 1):
            pair.seen.to(f"#section=source&file={file['name']}&at={at}")
            around = [(start, end) for start, end in ranges if start <= at < end]
            if not around:
                assert pair.marked(LEFT) == ""
                continue
            start, end = min(around, key=lambda ends: ends[1] - ends[0])
            source = text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")
            assert pair.marked(LEFT) == source.replace("\n", "")
            assert pair.marked(RIGHT) in pair.became(file["name"], source)


def ranges_in(sources: dict[str, Any], file: int) -> set[tuple[int, int]]:
    """The ranges of a file that any record points to."""
    ranges = set()
    for record in sources["records"]:
        starts = np.cumsum(record["from"]).tolist()
        ranges |= {
            (start, start + length)
            for start, length, of in zip(starts, record["length"], record["file"], strict=True)
            if of == file
        }
    return ranges


def test_keys_step_through_ranges(browser: Browser, tmp_path: Path) -> None:
    report(STACK, tmp_path / "page.html")
    with opened(
        browser, tmp_path / "page.html", "#section=source&record=code/__torch__/plain.py&at=330"
    ) as seen:
        first = seen.text(".where")
        assert seen.text(".steps span") == "range 1 of 5"
        seen.page.keyboard.press("]")
        assert seen.text(".steps span") == "range 2 of 5"
        seen.page.keyboard.press("[")
        assert seen.text(".where") == first
        seen.page.keyboard.press("n")
        assert seen.text(".where") != first
        seen.page.keyboard.press("p")
        assert seen.text(".where") == first


def test_the_pointer_marks_both_sides(browser: Browser, tmp_path: Path) -> None:
    report(STACK, tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", "#section=source") as seen:
        pinned = seen.text(".where")
        seen.page.hover(
            ".side:nth-child(1) .cm-line:has-text('return self.head')", position={"x": 140, "y": 8}
        )
        seen.settle()
        assert seen.page.evaluate(MARKED, LEFT) == "self.head"
        assert seen.page.evaluate(MARKED, RIGHT) == "(head).forward(x0, )"
        seen.page.hover("h1")
        seen.settle()
        assert seen.text(".where") == pinned


def test_a_pointer_that_rests_brings_the_other_side(browser: Browser, tmp_path: Path) -> None:
    report(STACK, tmp_path / "page.html")
    names = [file["name"] for file in data_of((tmp_path / "page.html").read_bytes())["sources"]["files"]]
    own, other = names.index("models/plain.py"), next(name for name in names if "linear" in name)
    with opened(
        browser, tmp_path / "page.html", "#section=source&record=code/__torch__/plain.py&at=330"
    ) as seen:
        seen.to(f"#section=source&file={other}&at=0")
        assert "nothing in the archive comes from here" in where(seen)
        assert seen.page.input_value(".side:nth-child(1) select") == str(names.index(other))
        seen.page.hover(".side:nth-child(2) .cm-line:has-text('return (head)')", position={"x": 140, "y": 8})
        seen.page.wait_for_function(
            "(value) => document.querySelector('.side select').value === value", arg=str(own)
        )
        assert seen.page.evaluate(MARKED, LEFT) == "self.head"


def test_it_finds_in_all_texts(browser: Browser, tmp_path: Path) -> None:
    report(STACK, tmp_path / "page.html")
    data = data_of((tmp_path / "page.html").read_bytes())["sources"]
    texts = [part["text"].lower() for part in (*data["files"], *data["records"])]
    with opened(browser, tmp_path / "page.html", "#section=source") as seen:
        seen.page.fill("#source input.search", "Forward(")
        expected = sum(text.count("forward(") for text in texts)
        seen.page.wait_for_function(
            "(text) => document.querySelector('#source output').value.startsWith(text)",
            arg=f"{expected} found",
        )
        seen.page.keyboard.press("Enter")
        seen.settle()
        assert seen.page.eval_on_selector("#source output", "(output) => output.value").endswith(
            f" of {expected}"
        )


def test_the_fragment_holds_what_is_shown(browser: Browser, tmp_path: Path) -> None:
    report(STACK, tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", "#section=source") as seen:
        seen.page.keyboard.press("n")
        fragment, where = seen.page.evaluate("location.hash"), seen.text(".where")
    with opened(browser, tmp_path / "page.html", fragment) as seen:
        assert seen.text(".where") == where
