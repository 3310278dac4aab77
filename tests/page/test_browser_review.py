"""The review in a browser: texts are accepted one by one, and the file is the one that the commands write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from archive.page.report import report
from archive.privacy.review import read_review, review
from archive.privacy.review.listing import ReviewRow
from archive.privacy.review.reviewed import ReviewFile, review_lines, with_accepted
from archive.privacy.review.tables import ReviewTable
from tests.page.browser import AXE, HEAD, data_of, in_browser, opened, written
from tests.page.test_browser_access import NAME, RULES
from tests.page.test_browser_looks import BESIDE, WIDTHS
from tests.page.test_browser_safety import ALL_TEXTS, ESCAPED, HIDDEN, HOSTILE, LISTENING, without_policy
from tests.page.test_review import FILES, file_of, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from playwright.sync_api import Browser

    from archive.privacy.review.roles import Role
    from tests.page.browser import Seen

pytestmark = in_browser()

ROWS = "table.review tbody tr"
BOXES = f"{ROWS} input"


def row(text: str, role: Role = "value", **others: Any) -> ReviewRow:  # noqa: ANN401 (those of a row)
    given = {"template": False, "count": 1, "first": "data.pkl, byte 3", "accepted": False, **others}
    return ReviewRow(role=role, text=text, **given)


def page_of_rows(folder: Path, rows: Sequence[ReviewRow]) -> tuple[Path, ReviewFile]:
    """A page of made rows, and their review file."""
    file = ReviewFile("torch 2.13.0", "00ff", None, tuple(rows))
    (folder / "review.jsonl").write_bytes(review_lines(file))
    columns: dict[str, Any] = {
        key: [getattr(one, key) for one in rows]
        for key in ("role", "text", "template", "count", "first", "accepted")
    }
    tables = [
        one.table and {key: getattr(one.table, key) for key in ("entries", "digest", "odd")} for one in rows
    ]
    header = {
        "format": "debug-archive review",
        "version": 1,
        "vocabulary": "torch 2.13.0",
        "archive": "00ff",
        "reviewer": None,
        "rows": len(rows),
    }
    digest = review_lines(file).partition(b'"digest": "')[2].partition(b'"')[0].decode()
    section = {"header": {**header, "digest": digest}, "name": "review.jsonl", **columns, "table": tables}
    return written(folder, {"version": 1, "head": HEAD, "review": section}), file


def saved(seen: Seen) -> bytes:
    """What the page saves."""
    with seen.page.expect_download() as download:
        seen.page.click("text=Save review.jsonl")
    assert download.value.suggested_filename == "review.jsonl"
    content: bytes = download.value.path().read_bytes()
    return content


def open_file(seen: Seen, file: Path) -> str:
    """What the page says of a file that it is given."""
    seen.page.set_input_files("#review input[type=file]", file)
    seen.page.wait_for_selector("#review p[role=status]:visible")
    return seen.text("#review p[role=status]")


def drawn(seen: Seen, rows: int) -> None:
    """Wait until a search has been made, and that many rows are drawn."""
    seen.page.wait_for_selector(f"text=Values: {rows}")
    assert seen.count(ROWS) == rows


def texts(seen: Seen) -> list[str]:
    return seen.page.locator(f"{ROWS} td:nth-child(2) > code").all_inner_texts()


@pytest.mark.parametrize("kind", FILES)
def test_what_is_ticked_and_saved_is_the_command_s_own_file(
    browser: Browser, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "review.jsonl"
    report(FILES[kind], tmp_path / "page.html", review=file)
    listed = review(FILES[kind])
    with opened(browser, tmp_path / "page.html") as seen:
        assert saved(seen) == file_of(listed, listed.rows)
        in_order = sorted(listed.rows, key=lambda one: ("value", "key", "name").index(one.role))
        ticked = in_order[1::2]
        for number in range(1, len(in_order), 2):
            seen.page.locator(BOXES).nth(number).check()
        assert f"{len(in_order) - len(ticked)} of {len(in_order)} texts left, not saved" in seen.text(
            "#review"
        )
        rows = tuple(replace(one, accepted=one in ticked) for one in listed.rows)
        seen.page.fill("text=Reviewer >> input", " Ann O\u2019Hara ")
        file.write_bytes(saved(seen))
        assert file.read_bytes() == file_of(listed, rows, "Ann O\u2019Hara")
        assert "not saved" not in seen.text("#review")
        assert seen.console == []
        assert [one for one in seen.requests if not one.startswith(("file:", "blob:"))] == []
    assert review(FILES[kind], file).rows == rows  # the command reads it, and has nothing to change
    assert file.read_bytes() == file_of(listed, rows, "Ann O\u2019Hara")


def test_a_file_is_opened_ticked_and_saved(browser: Browser, tmp_path: Path) -> None:
    rows = [row("a text"), row("another"), row("fc", "name"), row("key", "key")]
    page, file = page_of_rows(tmp_path, rows)
    half = replace(file, reviewer="Bo", rows=(replace(rows[0], accepted=True), *rows[1:]))
    (tmp_path / "half.jsonl").write_bytes(review_lines(half))
    with opened(browser, page) as seen:
        assert open_file(seen, tmp_path / "half.jsonl") == "half.jsonl accepts 1 of 4 texts."
        assert texts(seen) == ["another", "key", "fc"]
        seen.page.locator(BOXES).last.check()
        more = replace(half, rows=(half.rows[0], *rows[1:2], replace(rows[2], accepted=True), rows[3]))
        assert saved(seen) == review_lines(more)
        seen.page.click("text=All >> nth=0")
        assert texts(seen) == ["a text", "another", "key", "fc"]
        states = "(all) => all.map((one) => one.checked)"
        assert seen.page.locator(BOXES).evaluate_all(states) == [True, False, False, True]
        # a file that accepts nothing takes all ticks away
        assert open_file(seen, tmp_path / "review.jsonl") == "review.jsonl accepts 0 of 4 texts."
        assert saved(seen) == review_lines(replace(file, reviewer="Bo"))


def test_an_older_file_accepts_what_the_command_lets_it(browser: Browser, tmp_path: Path) -> None:
    table = ReviewTable(200, "aa", ("odd one",))
    rows = [
        row("layer.3.w", "name"),
        row("layer.1234.w", "name"),
        row("layer.\u0663.w", "name"),
        row("block.N", "name", template=True),
        row("w 7"),
        row("w 7", "key"),
        row("v 12.04.87"),
        row("+41 79 123 45 67"),
        row("words", table=table),
        row("others", table=replace(table, digest="bb")),
    ]
    before = [
        row("layer.N.w", "name", template=True, accepted=True),
        row("block.3", "name", accepted=True),
        row("w N", template=True, accepted=True),
        row("v N.N.N", template=True, accepted=True),
        row("+N N N N N", template=True, accepted=True),
        row("words", table=table, accepted=True),
        row("others", table=table, accepted=True),
        row("gone", accepted=True),
        row("open"),
    ]
    page, file = page_of_rows(tmp_path, rows)
    (tmp_path / "older.jsonl").write_bytes(review_lines(replace(file, rows=tuple(before))))
    accepted = with_accepted(rows, before)[: len(rows)]
    assert {one.accepted for one in accepted} == {True, False}
    with opened(browser, page) as seen:
        said = open_file(seen, tmp_path / "older.jsonl")
        assert said == "older.jsonl accepts 4 of 10 texts, and 7 texts that this page does not list."
        assert saved(seen) == review_lines(replace(file, rows=accepted))


WRONG: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no text": (
        lambda _: b"\x89PNG\r\n\xff\xfe",
        "isn't a review file: its bytes aren't UTF-8; choose one that",
    ),
    "empty": (lambda _: b"", "isn't a review file: its first line isn't the header of one; choose one that"),
    "JSON of others": (
        lambda _: b'["debug-archive review"]\n',
        "its first line isn't the header of one; choose one that",
    ),
    "null": (lambda _: b"null\n", "its first line isn't the header of one; choose one that"),
    "newer": (
        lambda file: file.replace(b'"version": 1', b'"version": 2'),
        "is a review file of version 2, and this page reads version 1: make the page with the release",
    ),
    "a spoilt line": (
        lambda file: file.replace(b'"accepted": false}', b'"accepted": maybe}', 1),
        "only in it: take an older copy",
    ),
    "another text": (
        lambda file: file.replace(b'"a text"', b'"b text"'),
        "accepted was changed in it; what was accepted is only in it: take an older copy",
    ),
    "a row less": (lambda file: file[: file.rindex(b"{")], "its rows are not those that were written"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_file_gives_one_sentence_and_changes_nothing(
    browser: Browser, tmp_path: Path, kind: str
) -> None:
    page, file = page_of_rows(tmp_path, [row("a text"), row("another", accepted=True)])
    spoil, told = WRONG[kind]
    (tmp_path / "wrong<b>.jsonl").write_bytes(spoil(review_lines(file)))
    with opened(browser, page) as seen:
        said = open_file(seen, tmp_path / "wrong<b>.jsonl")
        assert said.startswith("wrong<b>.jsonl: ")
        assert told in said
        assert said.count(".") == said.count(".jsonl") + 1
        assert saved(seen) == review_lines(file)
        assert seen.console == []


def test_a_review_that_was_reformatted_is_read_as_the_command_reads_it(
    browser: Browser, tmp_path: Path
) -> None:
    page, file = page_of_rows(tmp_path, [row("a text"), row("another")])
    lines = review_lines(file).decode().splitlines()
    lines[1] = lines[1].replace('"accepted": false', '"accepted":true').replace(', "', ' ,  "')
    (tmp_path / "edited.jsonl").write_text("\n".join(lines))
    read = read_review(tmp_path / "edited.jsonl")
    assert read is not None
    with opened(browser, page) as seen:
        assert open_file(seen, tmp_path / "edited.jsonl") == "edited.jsonl accepts 1 of 2 texts."
        assert saved(seen) == review_lines(read)


@pytest.mark.parametrize("has_policy", [True, False])
def test_texts_of_strangers_are_shown_and_written_whole(
    browser: Browser, tmp_path: Path, *, has_policy: bool
) -> None:
    odd = [
        "\ud800 alone",
        "\u007f\u0085\u00a0\u2003",
        'quo"te\\ back',
        "tab\there\nand there",
        "\U0001f600 \u00fc",
        "e\u0301",
    ]
    all_texts = [*HOSTILE, HIDDEN, *odd]
    table = ReviewTable(len(all_texts), "aa", tuple(all_texts))
    rows = [row(text, role, first=text) for role in ("name", "key", "value") for text in all_texts]
    page, file = page_of_rows(tmp_path, [*rows, row("words", table=table)])
    with opened(browser, page if has_policy else without_policy(page)) as seen:
        assert saved(seen) == review_lines(file)
        shown = seen.page.evaluate(ALL_TEXTS)
        assert ESCAPED in str(shown).replace("\\\\", "\\")
        assert HIDDEN not in str(shown)
        told = texts(seen)
        assert [one for one in HOSTILE if one not in told] == []
        assert "\\x7f\\x85\\xa0\\u2003" in told
        assert "tab\\there\\n\nand there" in told
        assert not seen.page.evaluate(LISTENING)
        assert seen.count("#review img, #review iframe, #review svg, #review script") == 0
        assert seen.console == []


def test_accept_all_shown_takes_what_could_be_read_and_no_more(browser: Browser, tmp_path: Path) -> None:
    rows = [row(f"text {number}") for number in range(450)] + [row("Net", "name")]
    page, file = page_of_rows(tmp_path, rows)
    with opened(browser, page) as seen:
        assert seen.count(ROWS) == 200
        assert "251 more rows not shown." in seen.text("#review")
        assert seen.count() < 3_000
        seen.page.fill("#review input.search", "TEXT 44")
        drawn(seen, 11)
        seen.page.click("text=Accept all shown")
        assert "440 of 451 texts left" in seen.text("#review")
        seen.page.fill("#review input.search", "")
        drawn(seen, 200)
        seen.page.click("text=Accept all shown")
        seen.page.click("text=Show 200 more")
        assert seen.page.evaluate("document.activeElement.type") == "checkbox"
        taken = {f"text {number}" for number in [*range(201), *range(440, 450)]}
        accepted = tuple(replace(one, accepted=one.text in taken) for one in rows)
        assert saved(seen) == review_lines(replace(file, rows=accepted))
        seen.page.click("#review .choice >> text=Names")
        assert texts(seen) == ["Net"]


def test_all_accepted_says_so(browser: Browser, tmp_path: Path) -> None:
    page, _ = page_of_rows(tmp_path, [row("a text", accepted=True), row("gone", accepted=True, count=0)])
    with opened(browser, page) as seen:
        assert "all of 2 texts accepted" in seen.text("#review")
        assert texts(seen) == ["a text", "gone"]
        assert "not in this file" in seen.text(f"{ROWS}:nth-child(2)")
        seen.page.click("text=Not accepted")
        assert "All texts are accepted." in seen.text("#review")
        assert seen.page.is_disabled("text=Accept all shown")


def test_a_first_place_opens_its_record(browser: Browser, tmp_path: Path) -> None:
    report(FILES["lite archive"], tmp_path / "page.html", review=tmp_path / "review.jsonl")
    with opened(browser, tmp_path / "page.html") as seen:
        place = "code/__torch__/plain.py.debug_pkl, byte"
        seen.page.locator("#review .place button", has_text=place).first.click()
        seen.settle()
        assert "code/__torch__/plain.py:" in seen.text("#source .where")
        seen.page.locator("#review .place button", has_text="data.pkl, byte").first.click()
        seen.settle()
        seen.settle()
        assert seen.page.input_value("#sizes input.search") == "data.pkl"
        assert "data.pkl" in seen.text("#sizes tbody")


def test_keys_reach_everything(browser: Browser, tmp_path: Path) -> None:
    page, file = page_of_rows(tmp_path, [row("a text"), row("x" * 700), row("another")])
    with opened(browser, page) as seen:
        seen.page.focus("#review h2")
        names: list[str] = []
        for _ in range(14):
            seen.page.keyboard.press("Tab")
            names.append(seen.page.evaluate(NAME))
            if seen.page.evaluate("document.activeElement.type") == "checkbox":
                seen.page.keyboard.press("Space")
        wanted = ["Not accepted", "All", "All roles", "Values", "Filter", "Accept all shown", "Reviewer"]
        wanted += ["Save review.jsonl", "Open a review file"]
        assert names[: len(wanted)] == wanted
        rows = tuple(replace(one, accepted=True) for one in file.rows)
        assert saved(seen) == review_lines(replace(file, rows=rows))
        seen.page.keyboard.press("1")
        seen.page.keyboard.press("/")
        assert seen.page.evaluate("document.activeElement.className") == "search"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_any_window_and_axe(browser: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    table = ReviewTable(30_000, "aa", tuple(f"odd {number}" for number in range(60)))
    rows = [row("x" * 3_000), row(HIDDEN), row("words", table=table), row("layer.N", "name", template=True)]
    page, _ = page_of_rows(tmp_path, [*rows, row("gone", accepted=True, count=0)])
    with opened(browser, page, color_scheme=scheme, bypass_csp=True) as seen:
        seen.page.set_viewport_size({"width": width, "height": 900})
        seen.page.click("text=All >> nth=0")
        seen.reach_all()
        assert seen.page.evaluate(BESIDE) == []
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        if AXE.exists():
            seen.page.add_script_tag(path=str(AXE))
            found = seen.page.evaluate("(rules) => axe.run({runOnly: {type: 'tag', values: rules}})", RULES)
            told = [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]
            assert told == []


def test_paper_has_the_rows_and_no_buttons(browser: Browser, tmp_path: Path) -> None:
    page, _ = page_of_rows(tmp_path, [row("a text"), row("Net", "name")])
    with opened(browser, page) as seen:
        seen.page.emulate_media(media="print")
        told = seen.text("#review")
        assert "a text" in told
        assert "Net" in told
        assert "Save review.jsonl" not in told


def test_what_a_page_holds_is_what_its_file_has(tmp_path: Path) -> None:
    page, file = page_of_rows(tmp_path, [row("a text"), row("words", table=ReviewTable(9, "aa", ("odd",)))])
    assert lines_of(data_of(page.read_bytes())["review"]) == review_lines(file)
