"""The review file: its form, what stays accepted, and what is refused."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import archive
from tests.privacy.review.planting import saved
from tests.support.commands import called, run
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

SHOP = FIXTURES / "exported" / "shop.pt2"
NAMES = ["Lookup", "Shop", "goods", "shop", "towers"]


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def accept(path: Path, *texts: str) -> None:
    """Accept rows as an editor does."""
    head, *rows = path.read_text(encoding="utf-8").splitlines()
    changed = [
        row.replace('"accepted": false', '"accepted": true') if json.loads(row)["text"] in texts else row
        for row in rows
    ]
    path.write_text("\n".join([head, *changed]) + "\n", encoding="utf-8")


def redact(folder: Path, *options: str) -> tuple[int, str]:
    """Run the command on the fixture; its exit status, and what it printed."""
    out, companion = folder / "public.pt2", folder / "private.ptdbg"
    done = called("redact", SHOP, "-o", out, "-c", companion, "--for", "publish", *options)
    return done.exit_code, done.output


def test_the_form_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    archive.review(SHOP, path, reviewer="Zoë")
    head, *rows = lines(path)
    assert list(head) == ["format", "version", "vocabulary", "archive", "reviewer", "rows", "digest"]
    assert (head["format"], head["version"]) == ("debug-archive review", 1)
    assert (head["reviewer"], head["rows"]) == ("Zoë", len(rows))
    assert head["archive"] == hashlib.sha256(SHOP.read_bytes()).hexdigest()
    for row in rows:
        assert list(row) == ["role", "text", "template", "count", "first", "accepted"]
        assert row.pop("accepted") is False
    written = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    assert head["digest"] == hashlib.sha256(written.encode()).hexdigest()


def test_a_result_is_written_when_all_is_accepted_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    status, printed = redact(tmp_path, "--review", str(path))
    assert status == 1
    assert "5 names that nobody has accepted" in printed
    assert str(path) in printed
    assert not (tmp_path / "public.pt2").exists()
    accept(path, *NAMES[:4])
    assert redact(tmp_path, "--review", str(path))[0] == 1
    assert [row["text"] for row in lines(path)[1:] if not row["accepted"]] == ["towers"]
    accept(path, "towers")
    status, printed = redact(tmp_path, "--review", str(path))
    assert (status, "nobody" in printed) == (0, False)
    assert called("leaks", tmp_path / "public.pt2", "--review", path).exit_code == 0


def test_all_names_are_accepted_at_once(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    assert redact(tmp_path, "--review", str(path), "--accept-names", "--reviewer", "Ann")[0] == 0
    assert lines(path)[0]["reviewer"] == "Ann"


def test_without_a_review_a_preset_says_how_much_nobody_has_seen(tmp_path: Path) -> None:
    status, printed = redact(tmp_path)
    assert status == 0
    assert "nobody has looked at 5 names in it: --review FILE lists them" in printed


def test_the_next_release_is_asked_for_new_texts_only(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    first = saved(pickle.dumps({"a": "first text", "b": "second text", "t": ["run 1 a", "run 2 a"]}))
    second = saved(pickle.dumps({"a": "first text", "c": "third text", "t": ["run 3 a"]}))
    archive.review(first, path)
    accept(path, "first text", "second text", "run N a")
    before = {row.text for row in archive.review(first, path).unaccepted}
    again = archive.review(second, path)
    assert {row.text for row in again.unaccepted} - before == {"third text"}
    kept = {row.text: (row.count, row.accepted) for row in again.rows}
    assert kept["second text"] == (0, True)
    assert archive.review(first, path).unaccepted == archive.review(first, path).unaccepted
    assert {row.text for row in archive.review(first, path).unaccepted} == before


def test_another_table_of_as_many_entries_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    tables = [{f"{word}{number}": number for number in range(1000)} for word in ("a", "b")]
    (row,) = (row for row in archive.review(saved(pickle.dumps(tables[0])), path).rows if row.table)
    accept(path, row.text)
    assert all(not one.table for one in archive.review(saved(pickle.dumps(tables[0])), path).unaccepted)
    assert any(one.table for one in archive.review(saved(pickle.dumps(tables[1])), path).unaccepted)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"text": "Shop"', '"text": "Other"', "change `accepted` only"),
        ('"accepted": false', '"accepted": 1', "expected bool"),
        ('"format": "debug-archive review"', '"format": "other"', "line 1"),
        ('{"role": "name"', '{"role": "nome"', "a role"),
        ('{"role": "name"', '{"role" "name"', "JSON"),
    ],
)
def test_what_is_no_review_is_refused_and_stays(tmp_path: Path, old: str, new: str, why: str) -> None:
    path = tmp_path / "review.jsonl"
    archive.review(SHOP, path)
    text = path.read_text(encoding="utf-8").replace(old, new, 1)
    path.write_text(text, encoding="utf-8")
    done = run("leaks", SHOP, "--review", path)
    assert (done.returncode, why in done.stderr.decode()) == (2, True)
    assert path.read_text(encoding="utf-8") == text


def test_a_review_that_changes_nothing_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    archive.review(SHOP, path)
    before = path.stat()
    archive.review(SHOP, path)
    assert path.stat() == before


def test_the_json_of_leaks_has_all_rows(tmp_path: Path) -> None:
    done = called("leaks", SHOP, "--review", tmp_path / "review.jsonl", "--json")
    (file,) = json.loads(done.stdout)["files"]
    assert done.exit_code == 1
    assert [row["text"] for row in file["rows"] if row["role"] == "name"] == NAMES


@pytest.mark.parametrize(
    "options",
    [
        ("--accept-names",),
        ("--reviewer", "x"),
        ("--review", "r.jsonl", "--kind", "URL"),
        ("--review", "r.jsonl", "--sarif"),
    ],
)
def test_options_that_do_not_go_together(options: tuple[str, ...]) -> None:
    assert called("leaks", SHOP, *options).exit_code == 2


def test_rows_are_values_that_can_be_changed() -> None:
    row = archive.review(SHOP).rows[0]
    assert replace(row, accepted=True).accepted
