"""The section "Values" of a report page: what ``run --json`` printed, by line, linked to the source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from archive.base.errors import ArchiveError
from archive.page import values as page_values
from archive.page.facts import page_facts
from archive.page.shown import Shown
from archive.page.values import read_values, values_facts
from tests.support.commands import called, well
from tests.support.corpus import FIXTURES, ORACLES

if TYPE_CHECKING:
    from pathlib import Path

STACK = ORACLES / "plain_stack.pt"
FILE = "models/plain.py"


def operation(line: int | None, low: float | None, high: float | None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    result = {"min": low, "max": high, "nan": more.pop("nan", 0), "inf": more.pop("inf", 0)}
    file = None if line is None else FILE
    return {"file": file, "line": line, "module": "head", "operator": "aten::add", "results": [result]} | more


def pair(line: int, max_rel: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    names = {"file": FILE, "line": line, "module": "head", "operator": "aten::add"}
    return {**names, "max_rel": max_rel, "odd": 0} | more


def run_of(*operations: dict[str, Any]) -> bytes:
    return json.dumps({"files": [{"file": "m.pt", "operations": operations}]}).encode()


def diff_of(*pairs: dict[str, Any], tolerance: float = 0.1) -> bytes:
    facts = {"file": "m.pt", "base": "b.pt", "tolerance": tolerance, "pairs": pairs}
    return json.dumps({"files": [facts]}).encode()


def section(document: bytes, shown: Shown = Shown.FULL) -> dict[str, Any]:
    facts = page_facts(memoryview(STACK.read_bytes()), "model.pt", shown)
    return values_facts(read_values(document), facts.get("sources"), shown)


def test_a_line_has_its_largest_value_and_all_that_is_wrong() -> None:
    made = section(
        run_of(
            operation(28, -3.0, 1.0, module="blocks.0"),
            operation(25, 0.0, 2.0, nan=2),
            operation(28, 0.5, 0.75),
            operation(25, None, None, inf=1),
            operation(None, 7.0, 8.0),
        )
    )
    assert (made["title"], made["heading"]) == ("Values of m.pt", "largest value")
    assert made["line"] == [28, 25, None]
    assert made["value"] == [3.0, 2.0, 8.0]
    assert made["module"] == ["blocks.0", "head", "head"]
    assert made["note"] == ["", "3 NaN or infinite", ""]


@pytest.mark.parametrize("is_own", [False, True])
def test_values_of_which_no_line_is_in_the_file_say_so(*, is_own: bool) -> None:
    lines = [operation(line, 0.0, 1.0) for line in ((28, 9_001) if is_own else (9_000, 9_001))]
    made = section(run_of(*lines))
    assert any(made["links"]) is is_own
    assert ("none of its lines is in this file" in made["title"]) is not is_own


def test_lines_beyond_the_tolerance_say_so() -> None:
    made = section(diff_of(pair(25, 0.1), pair(28, 0.3), pair(28, 0.05), pair(40, 0.0, odd=1)))
    assert made["title"] == "Differences of m.pt from b.pt"
    assert made["value"] == [0.1, 0.3, 0.0]
    assert made["note"] == ["", "beyond the tolerance", "1 finite in only one"]


@pytest.mark.parametrize(
    ("file", "name", "text"),
    [
        (STACK, FILE, ORACLES / FILE),
        (FIXTURES / "exported/decoder.pt2", "models/layers.py", FIXTURES / "exported/models/layers.py"),
    ],
    ids=["scripted", "exported"],
)
def test_links_lead_to_the_line(file: Path, name: str, text: Path) -> None:
    facts = page_facts(memoryview(file.read_bytes()), "model.pt", Shown.FULL)
    lines = text.read_text().splitlines()
    document = run_of(*(operation(number, 0.0, 1.0, file=name) for number in range(1, len(lines) + 1)))
    links = values_facts(read_values(document), facts["sources"], Shown.FULL)["links"]
    linked = [(line, link) for line, link in zip(lines, links, strict=True) if link]
    assert len(linked) >= 5
    for line, (number, at) in linked:
        shown = facts["sources"]["files"][number]["text"].encode("utf-16-le")[2 * at :].decode("utf-16-le")
        assert shown.partition("\n")[0].strip() == line.strip()


def test_a_page_without_source_has_no_links_and_no_folders() -> None:
    made = section(run_of(operation(28, 0.0, 1.0)), Shown.NONE)
    assert (made["file"], made["links"]) == (["plain.py"], [None])


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"{}",
        b'{"files": []}',
        b'{"files": [{"file": "m"}]}',
        b"[" * 100_000,
        run_of(operation(1, 0.0, 1.0, operator=None, results=[{"min": "x"}])),
        run_of(operation(1, float("nan"), 1.0)),
        run_of(operation(-1, 0.0, 1.0)),
        run_of(operation(1, 0.0, 1.0, nan=-1)),
        diff_of(pair(1, float("inf"))),
    ],
    ids=lambda document: document[:40].decode(),
)
def test_what_run_has_not_printed_is_refused(document: bytes) -> None:
    with pytest.raises(ArchiveError, match="no values as `debug-archive run --json` prints"):
        read_values(document)


def test_few_enough_lines_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_values, "MOST_LINES", 2)
    document = run_of(*(operation(line, 0.0, 1.0) for line in (25, 28, 40)))
    assert values_facts(read_values(document), None, Shown.FULL)["line"] == [25, 28]


def test_the_command_shows_values(tmp_path: Path) -> None:
    saved, page = tmp_path / "values.json", tmp_path / "page.html"
    saved.write_bytes(diff_of(pair(28, 0.3)))
    without, with_values = tmp_path / "without.html", page
    well("report", STACK, "-o", without)
    well("report", STACK, "--values", saved, "-o", with_values)
    assert without.read_bytes() != with_values.read_bytes()
    done = called("report", ORACLES, "--values", saved, "-o", tmp_path / "pages")
    assert (done.exit_code, "--values are of one FILE" in done.stderr) == (2, True)
