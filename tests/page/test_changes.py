"""What a page says of two files' sources: the lines that differ, by their numbers in the model's files."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archive.page.changes import MOST_LINES, Changes
from archive.page.units import count_of
from tests.page.browser import data_of
from tests.support.commands import well
from tests.support.corpus import KINDS

ORACLES = Path("fixtures/oracles")
EXPORTED = Path("fixtures/exported")


def one(name: str, text: str, lines: list[list[int]] | None = None) -> dict[str, Any]:
    """A text of the sources of a page."""
    return {"name": name, "text": text, "lines": lines or []}


def changes(older: list[dict[str, Any]], newer: list[dict[str, Any]]) -> Changes:
    """The changes of source files."""
    return Changes({"files": older, "records": []}, {"files": newer, "records": []})


def rows(facts: dict[str, Any]) -> list[tuple[int | None, int | None, str]]:
    """The lines that are shown."""
    return (
        list(zip(facts["old"], facts["now"], facts["text"].split("\n"), strict=True)) if facts["old"] else []
    )


LINES = st.lists(st.sampled_from(["a", "b", "  x = y", "", "\U0001f600"]), max_size=30)


@given(LINES, LINES)
def test_the_lines_that_are_shown_lead_from_one_text_to_the_other(was: list[str], now: list[str]) -> None:
    was, now = [*was, "end"], [*now, "end"]
    made = changes([one("m.py", "\n".join(was))], [one("m.py", "\n".join(now))]).facts()
    if was == now:
        assert made == []
        return
    (facts,) = made
    shown = rows(facts)
    for old, new, text in shown:
        assert old is None or was[old - 1] == text
        assert new is None or now[new - 1] == text
    gone = {old for old, new, _ in shown if new is None and old is not None}
    added = {new for old, new, _ in shown if old is None and new is not None}
    left = [line for at, line in enumerate(was, 1) if at not in gone]
    assert left == [line for at, line in enumerate(now, 1) if at not in added]
    assert (len(gone), len(added)) == (facts["gone"], facts["added"])
    for column in (facts["old"], facts["now"]):  # each line once, in order
        numbers = [number for number in column if number is not None]
        assert numbers == sorted(set(numbers))


def test_a_line_has_the_number_that_it_has_in_its_file() -> None:
    text = "a = 1\n\U0001f600 = 2\nc = 3\n"
    starts = [[0, 24], [count_of("a = 1\n\U0001f600 = 2\n"), 80]]
    (facts,) = changes(
        [one("m.py", text, starts)], [one("m.py", text.replace("c = 3", "c = 4"), starts)]
    ).facts()
    assert rows(facts) == [
        (24, 24, "a = 1"),
        (25, 25, "\U0001f600 = 2"),
        (80, None, "c = 3"),
        (None, 80, "c = 4"),
    ]


def test_a_file_in_another_folder_is_the_same_and_a_new_one_is_only_named() -> None:
    older = [one("/srv/one/m.py", "x = 1\n"), one("old.py", "y\n"), one("same.py", "z\n")]
    newer = [one("/srv/two/m.py", "x = 2\n"), one("new.py", "y\ny\n"), one("same.py", "z\n")]
    made = {facts["name"]: facts for facts in changes(older, newer).facts()}
    assert {name: (facts["status"], facts["was"]) for name, facts in made.items()} == {
        "/srv/two/m.py": ("changed", "/srv/one/m.py"),
        "new.py": ("new", ""),
        "old.py": ("gone", ""),
    }
    assert (made["new.py"]["added"], made["old.py"]["gone"], made["new.py"]["old"]) == (2, 1, [])
    twice = [one("a/m.py", "1\n"), one("b/m.py", "2\n")]
    assert {facts["status"] for facts in changes(twice, [one("c/m.py", "3\n")]).facts()} == {"new", "gone"}


def test_what_has_no_room_is_counted() -> None:
    many = MOST_LINES + 500
    older, newer = ("\n".join(f"{word} {n}" for n in range(many)) for word in ("was", "is"))
    made = changes([one("m.py", older)], [one("m.py", newer)])
    (facts,) = made.facts()
    assert (facts["gone"], facts["added"], len(facts["old"])) == (many, many, MOST_LINES)
    assert made.left_out == 2 * many - MOST_LINES


def test_a_page_of_two_models_has_the_lines_that_differ(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    older, newer = ORACLES / "plain_branches.ptl", ORACLES / "plain_stack.ptl"
    well("report", newer, "--base", older, "-o", page)
    data = data_of(page.read_bytes())
    made = {facts["name"]: facts for facts in data["changes"]}
    assert made["models/plain.py"]["status"] == made["code/__torch__/plain.py"]["status"] == "changed"
    source = Path("fixtures/oracles/models/plain.py").read_text("utf-8").split("\n")
    for old, new, text in rows(made["models/plain.py"]):
        assert text == source[(old or new or 0) - 1]
    code = {record["name"]: record["text"] for record in data["sources"]["records"]}
    told = [text for _, new, text in rows(made["code/__torch__/plain.py"]) if new is not None]
    lines = code["code/__torch__/plain.py"].split("\n")
    assert SequenceMatcher(None, told, lines, autojunk=False).ratio() > 0.9
    well("report", newer, "--base", newer, "-o", page, "--force")
    assert data_of(page.read_bytes())["changes"] == []
    for show in ("basename", "none"):
        well("report", newer, "--base", older, "-o", page, "--force", "--source", show)
        data = data_of(page.read_bytes())
        assert ("changes" in data) == (show == "basename")
        assert all(
            "/" not in facts["name"] for facts in data.get("changes", ()) if facts["name"][:5] != "code/"
        )


def test_a_file_without_source_says_so(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    well("report", ORACLES / "plain_stack.ptl", "--base", KINDS / "checkpoint.pt", "-o", page)
    data = data_of(page.read_bytes())
    assert "changes" not in data
    assert "changes of source: the older file shows no source" in data["left_out"]
    well("report", EXPORTED / "choice.pt2", "--base", EXPORTED / "choice_strict.pt2", "-o", page, "--force")
    names = {facts["name"]: facts["status"] for facts in data_of(page.read_bytes())["changes"]}
    assert names["models/branches.py"] == "changed"
