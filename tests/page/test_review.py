"""The review on a page: what ``leaks --review`` would write, with what was accepted before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from archive import ArchiveError
from archive.page import review as page_review
from archive.page.report import report
from archive.privacy.review import review
from archive.privacy.review.reviewed import ReviewFile, review_lines
from tests.page.browser import ROOT, data_of
from tests.page.test_browser_positions import STACK
from tests.support.commands import called, run, well

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.privacy.review import Review, ReviewRow

FILES = {
    "lite archive": STACK,
    "exported program": ROOT / "fixtures/exported/shop.pt2",
    "checkpoint": ROOT / "fixtures/kinds/checkpoint.pt",
}


def section_of(page: Path) -> dict[str, Any]:
    section: dict[str, Any] = data_of(page.read_bytes())["review"]
    return section


def lines_of(section: dict[str, Any]) -> bytes:
    """A section as the lines of a review file."""
    header = section["header"]
    columns = {key: section[key] for key in page_review.COLUMNS}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    kept = [{key: value for key, value in row.items() if key != "table" or value} for row in rows]
    return b"".join(f"{json.dumps(line, ensure_ascii=False)}\n".encode() for line in (header, *kept))


def file_of(listed: Review, rows: tuple[ReviewRow, ...], reviewer: str | None = None) -> bytes:
    """The review file of a file, with these rows."""
    return review_lines(ReviewFile(listed.vocabulary, listed.archive, reviewer, rows))


@pytest.mark.parametrize("kind", FILES)
def test_a_page_has_what_the_command_writes(tmp_path: Path, kind: str) -> None:
    written, absent = tmp_path / "review.jsonl", tmp_path / "absent.jsonl"
    called("leaks", FILES[kind], "--review", written)
    before = written.read_bytes()
    for file in (written, absent):
        well("report", FILES[kind], "--review", file, "-o", tmp_path / "page.html", "--force")
        section = section_of(tmp_path / "page.html")
        assert lines_of(section) == before
        assert section["name"] == file.name
    assert written.read_bytes() == before
    assert not absent.exists()
    assert before.count(b"\n") > 2


def test_what_was_accepted_stays_so_on_the_page_of_another_file(tmp_path: Path) -> None:
    file, page = tmp_path / "review.jsonl", tmp_path / "page.html"
    listed = review(STACK)
    all_rows = tuple(replace(row, accepted=True) for row in listed.rows)
    file.write_bytes(file_of(listed, all_rows, "somebody"))
    report(FILES["exported program"], page, review=file)
    section = section_of(page)
    assert lines_of(section) != file.read_bytes()
    review(FILES["exported program"], file)
    assert lines_of(section) == file.read_bytes()
    assert set(section["accepted"]) == {True, False}
    assert section["header"]["reviewer"] == "somebody"


def test_a_page_without_a_review_has_none(tmp_path: Path) -> None:
    report(STACK, tmp_path / "page.html")
    assert "review" not in data_of((tmp_path / "page.html").read_bytes())


def test_what_was_not_listed_is_said(tmp_path: Path) -> None:
    told = report(ROOT / "fixtures/compiled/several.pt2", tmp_path / "page.html", review=tmp_path / "r.jsonl")
    assert [
        line
        for line in told.left_out
        if "bytes of tensors: only texts and long numbers in them are listed" in line
    ]


WRONG: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no header": (lambda _: b"{}\n", "line 1"),
    "another text": (
        lambda file: file.replace(b'"text": "', b'"text": "of ', 1),
        "only `accepted` may change",
    ),
    "no JSON": (lambda file: file + b"accepted\n", "line "),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_review_file_is_refused_before_anything_is_written(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "review.jsonl"
    review(STACK, file)
    spoil, told = WRONG[kind]
    spoilt = spoil(file.read_bytes())
    assert spoilt != file.read_bytes()
    file.write_bytes(spoilt)
    refused = run("report", STACK, "--review", file, "-o", tmp_path / "page.html")
    assert refused.returncode == 2
    (said,) = refused.stderr.decode().splitlines()
    assert str(file) in said
    assert told in said
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--source", "none"], "--review shows all texts"),
        (["--source", "basename"], "--review shows all texts"),
        ([STACK], "--review is of one file"),
    ],
)
def test_what_a_review_does_not_go_with(tmp_path: Path, options: list[object], told: str) -> None:
    refused = called("report", STACK, *options, "--review", tmp_path / "r.jsonl", "-o", tmp_path / "out")
    assert refused.exit_code == 2
    assert told in refused.stderr


def test_a_review_is_whole_or_not_on_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_review, "MOST_BYTES", 1_000)
    with pytest.raises(ArchiveError, match=r"plain_stack.ptl.*has \d+ texts to review, too many for a page"):
        report(STACK, tmp_path / "page.html", review=tmp_path / "review.jsonl")
