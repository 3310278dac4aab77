"""Rows as a page: ``--format html`` has the cells of ``--format csv``, and no name becomes markup."""

from __future__ import annotations

import csv
import io
import json
import shutil
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import click
import pytest

from archive.cli.commands import COMMANDS, group
from archive.cli.forms import ROW_FORMS
from archive.render import rows
from archive.render.as_csv import LIKE_A_FORMULA
from archive.render.as_html import HtmlRows
from archive.render.inventory import INVENTORY
from archive.render.rows import FactsTable
from tests.cli.test_forms import leaves
from tests.support.commands import called, run
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.tampering import STACK, tampered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EMPTY = {"meta"}
"""Elements without an end."""
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "div", "footer"),
    *("table", "thead", "tbody", "tr", "th", "td", "data", "ul", "li"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "role", "aria-label", "tabindex", "scope"),
    "value",
}
HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'\n\u202e=1"
DUMPS = FIXTURES / "executorch"
FLEET = FIXTURES / "fleet"


class Page(HTMLParser):
    """A page whose elements all end in their order; its headings, and the text of each cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.headings: list[str] = []
        self.texts: dict[str, str] = {}
        self.doctypes: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        assert self.doctypes == ["doctype html"]

    def handle_decl(self, decl: str) -> None:
        self.doctypes.append(decl)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        if tag == "tr" and "tbody" in self.open:
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
        elif tag == "th":
            self.headings.append("")
        elif tag == "data":
            value = dict(attrs)["value"]
            assert value is not None
            self.rows[-1][-1] = value
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        where = self.open[-1] if self.open else ""
        self.texts[where] = self.texts.get(where, "") + data
        if where == "td":
            self.rows[-1][-1] += data
        elif where == "th":
            self.headings[-1] += data


def as_in_csv(cell: str) -> str:
    """A cell of a page as CSV has it: a text like a formula is marked, and a number isn't."""
    try:
        float(cell)
    except ValueError:
        return f"'{cell}" if cell.startswith(LIKE_A_FORMULA) else cell
    return cell


def given(name: str, folder: Path) -> list[object]:
    """What a command is called with: where it can be, a file and a record with a hostile name."""
    hostile = folder / HOSTILE.replace("/", "\u2215")
    hostile.write_bytes(tampered(STACK, {f"extra/{HOSTILE}": b"/home/ann/<script>"}))
    if name.startswith("store"):
        store = folder / "store"
        called("store", "add", hostile, FLEET, "--store", store, "--label", "1.4.2 beta")
        broken = min(store.glob("companions/*"))
        broken.write_bytes(broken.read_bytes()[:-9])
        return ["--store", store]
    if name == "diff":
        old = folder / "old.ptl"
        old.write_bytes(tampered(STACK, {"extra/<b>old": b"x"}))
        return [old, hostile]
    if name == "symbolicate":
        log = folder / "<b>unique.log"
        shutil.copy(FLEET / "unique.log", log)
        return [FLEET, "--log", log]
    if name == "profile":
        return [DUMPS / "fork.etdp", "-c", DUMPS / "fork.etrecord"]
    if name == "run":
        torch = pytest.importorskip("torch", exc_type=ImportError)
        model = folder / "<b>m.pt"
        torch.jit.trace(torch.nn.Linear(4, 4), torch.rand(3, 4)).save(model)
        return [model, "--input", "3x4"]
    return [hostile, ORACLES / "plain_free_functions.pt"] if name != "inspect" else [hostile]


def commands_with_rows() -> Iterator[str]:
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        for path, leaf in leaves(command, name):
            choices = [one.type.choices for one in leaf.params if isinstance(one.type, click.Choice)]
            if any({*ROW_FORMS} <= {*choice} for choice in choices):
                yield path


@pytest.mark.parametrize("name", [*commands_with_rows()])
def test_a_page_has_the_cells_of_csv_and_nothing_else(name: str, tmp_path: Path) -> None:
    words = [*name.split(), *given(name, tmp_path)]
    compare(words)


def compare(words: list[object]) -> list[list[str]]:
    """Assert that both forms of a command have the same cells; those of the page."""
    printed = [run(*words, "--format", form) for form in ROW_FORMS]
    assert printed[0].returncode == printed[1].returncode < 2
    rows = list(csv.reader(io.StringIO(printed[0].stdout.decode(), newline="")))
    text = printed[1].stdout.decode()
    page = Page(text)
    assert page.headings == [heading.replace("_", " ") for heading in rows[0]]
    assert [[as_in_csv(cell) for cell in row] for row in page.rows] == rows[1:]
    assert rows[1:]
    assert "\u202e" not in text
    assert "url(" not in text
    assert f"{len(page.rows):,} row" in page.texts["footer"]
    return page.rows


@pytest.mark.parametrize("view", ["line", "operator"])
@pytest.mark.parametrize("saved", [False, True])
def test_rows_of_a_profile_are_those_of_the_view(view: str, saved: bool, tmp_path: Path) -> None:  # noqa: FBT001 (a case)
    words: list[object] = ["profile", *given("profile", tmp_path)]
    path = tmp_path / "before.json"
    path.write_bytes(run(*words, "--json").stdout)
    facts = json.loads(path.read_text())["files"][0]
    rows = compare([*(["profile", path] if saved else words), "--by", view])
    assert [row[1:3] for row in rows] == [[one["name"], one["text"]] for one in facts[view]]
    compared = compare([*words, "--base", path, "--by", view])
    assert {row[1] for row in compared} == {one["name"] for one in facts[view]}
    assert all(row[3] == row[4] for row in compared)


def test_a_listing_has_no_rows(tmp_path: Path) -> None:
    for form in ROW_FORMS:
        done = called("profile", STACK, "--by", "source", "--format", form)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "--by source is a listing" in done.stderr
    assert not [*tmp_path.iterdir()]


def test_rows_of_a_run_are_those_of_the_view(tmp_path: Path) -> None:
    words: list[object] = ["run", *given("run", tmp_path)]
    operations = json.loads(run(*words, "--json").stdout)["files"][0]["operations"]
    rows = compare(words)
    assert [row[1] for row in rows] == [str(one["number"]) for one in operations for _ in one["results"]]
    assert len(compare([*words, "--by", "operator"])) == len({one["operator"] for one in operations})
    assert len(compare([*words, "--base", words[1]])) >= 1
    assert len(compare([*words, "--base", words[1], "--by", "line"])) == 1


def test_what_could_not_be_read_stands_below_the_rows(tmp_path: Path) -> None:
    (tmp_path / "<b>cut.ptl").write_bytes(STACK.read_bytes()[:-100])
    shutil.copy(STACK, tmp_path)
    for command in ("sizes", "leaks", "digest"):
        done = run(command, tmp_path, "--format", "html")
        assert done.returncode == 2
        page = Page(done.stdout.decode())
        assert "<b>cut.ptl" in page.texts["li"]
        assert "<b>cut.ptl" not in str(page.rows)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FIXTURES / "kinds" / "checkpoint.pt", FIXTURES / "kinds" / "state_dict.pt"),
        (STACK, ORACLES / "lowered_two.ptl"),
        (STACK, STACK),
    ],
    ids=["tensors", "texts", "none"],
)
def test_rows_of_a_difference_say_what_json_says(old: Path, new: Path) -> None:
    (facts,) = json.loads(called("diff", old, new, "--json").stdout)["files"]
    made = list(csv.DictReader(io.StringIO(called("diff", old, new, "--format", "csv").stdout)))
    assert len(made) == max(len(facts["changes"]), 1)
    for row, change in zip(made, facts["changes"] or [{}], strict=True):
        texts = {**change, "lines": "\\n".join(change.get("lines", []))}
        for key in rows.DIFF_KEYS[: rows.DIFF_KEYS.index("old_file")]:
            value = texts.get(key)
            assert row[key].lstrip("'") == ("" if value is None else str(value)), key
        assert row["old_file"] == facts["old"]["file"]
        verdict = [row["identical"], row["same_model"]]
        assert verdict == [str(facts[key]).lower() for key in ("identical", "same_model")]


def test_no_text_of_a_row_becomes_markup() -> None:
    page = HtmlRows(
        FactsTable(["a", "b", "c", "d"], lambda facts: iter([facts])), f"title {HOSTILE}", "<writer>"
    )
    facts = [HOSTILE, 1234567, float("nan"), 0.25]
    text = page.head + "".join(page.lines(HOSTILE, facts)) + page.unread("", HOSTILE) + page.tail
    read = Page(text)
    shown = HOSTILE.replace("\n", "\\n").replace("\u202e", "\\u202e")
    assert read.rows == [[shown, shown, "1234567", "", "0.25"]]
    assert read.texts["data"] == "1,234,5670.25"
    assert read.texts["title"] == f"title {shown}"
    assert read.texts["li"] == shown
    assert "<writer>" in read.texts["footer"]


DOCUMENTED = {
    "`inspect`": rows.INSPECT,
    "`inspect`, an inventory": INVENTORY,
    "`sizes`": rows.SIZES,
    "`sizes --by weights`": rows.WEIGHTS,
    "`sizes --base`": rows.CHANGES,
    "`verify`": rows.VERIFY,
    "`leaks`": rows.LEAKS,
    "`digest`": rows.DIGEST,
    "`diff`": rows.DIFF,
    "`symbolicate`": rows.CAUSES,
    "`run`": rows.RUN,
    "`run --base`": rows.GAPS,
}


def test_each_column_is_documented_and_is_a_key_of_json() -> None:
    page = (FIXTURES.parent / "docs" / "reference" / "forms.md").read_text("utf-8")
    lines = page.partition("| command | columns |\n|---|---|\n")[2].partition("\n\n")[0]
    told = dict(line.strip("| ").split(" | ") for line in lines.splitlines())
    assert told == {
        name: " ".join(f"`{column}`" for column in table.columns[1:]) for name, table in DOCUMENTED.items()
    }
    for name, table in DOCUMENTED.items():
        command = name.strip("`").split()[0].rstrip("`,")
        schema = (FIXTURES.parent / "docs" / "schemas" / f"{command}.json").read_text("utf-8")
        own = {"`run`": {"text", "result"}, "`diff`": {"old_file"}}.get(name, set())
        assert {column for column in table.columns if f'"{column}": {{' not in schema} == own
