"""The review file: its form, what stays accepted, and what is refused."""

from __future__ import annotations

import hashlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO

import pytest

import archive
from archive.privacy.review import reviewed
from archive.privacy.review.listing import ReviewRow
from archive.privacy.review.reviewed import read_review, update_review
from tests.privacy.review.planting import saved
from tests.support.commands import called, run
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

SHOP = FIXTURES / "exported" / "shop.pt2"
FILES = {"leaks": ["IN"], "report": ["IN", "-o"], "redact": ["IN", "-o", "-c"]}
"""What each command that takes a review file reads and writes besides."""
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
    assert "5 names (" in printed
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
        ('"text": "Shop"', '"text": "Other"', "only `accepted` may change; what was accepted is only in it"),
        ('"accepted": false', '"accepted": 1', "expected bool"),
        ('"format": "debug-archive review"', '"format": "other"', "line 1"),
        ('{"role": "name"', '{"role": "nome"', "a role"),
        ('{"role": "name"', '{"role" "name"', 'line 2: expected JSON, found "Expecting'),
        ('{"role": "name"', '=======\n{"role": "name"', "line 2: a mark of a merge"),
        ('{"format"', '<<<<<<< ours\n{"format"', "line 1: a mark of a merge"),
        ('{"role": "name"', "\n\n", "expected JSON"),
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


def test_a_file_that_was_cut_says_how_many_rows_it_has_or_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    archive.review(SHOP, path)
    whole = path.read_bytes()
    ends = [at for at, byte in enumerate(whole) if byte == 10]
    for cut in (whole[: ends[3] + 1], whole[: ends[3]], whole[: ends[3] - 5], whole[:20]):
        path.write_bytes(cut)
        with pytest.raises(
            archive.ArchiveError, match=r"(has 3 rows of|line [14]: expected JSON).*older copy"
        ):
            archive.review(SHOP, path)
        assert path.read_bytes() == cut


def test_a_file_that_an_editor_saved_as_utf_16_says_so(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    archive.review(SHOP, path)
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-16")
    with pytest.raises(archive.ArchiveError, match="is UTF-16: save it as UTF-8"):
        archive.review(SHOP, path)


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path, other = tmp_path / "empty", tmp_path / "absent"
    path.touch()
    assert archive.review(SHOP, path) == archive.review(SHOP, other)
    assert path.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", ["", "-"])
@pytest.mark.parametrize("command", ["leaks", "redact", "report"])
def test_a_review_needs_a_path(tmp_path: Path, command: str, name: str) -> None:
    targets = () if command == "leaks" else ("-o", tmp_path / "out", "-c", tmp_path / "companion")
    done = called(command, SHOP, *targets, "--review", name)
    assert (done.exit_code, "--review takes the path of a file" in done.output) == (2, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("link", ["", "symbolic", "hard"])
@pytest.mark.parametrize(
    ("command", "option"), [(command, name) for command, names in FILES.items() for name in names]
)
def test_the_review_file_is_no_other_file_of_the_call(
    tmp_path: Path, command: str, option: str, link: str
) -> None:
    paths = {"IN": tmp_path / "in.pt2", "-o": tmp_path / "out", "-c": tmp_path / "companion"}
    paths["IN"].write_bytes(SHOP.read_bytes())
    if option != "IN":
        archive.review(SHOP, paths[option])
    review = tmp_path / "review.jsonl" if link else paths[option]
    if link == "symbolic":
        review.symlink_to(paths[option])
    elif link:
        review.hardlink_to(paths[option])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    options = [word for name in FILES[command][1:] for word in (name, paths[name])]
    others = {"leaks": [], "report": ["--force"], "redact": ["--force", "--for", "publish"]}[command]
    done = run(command, paths["IN"], *options, *others, "--review", review)
    (said,) = done.stderr.decode().splitlines()
    assert (done.returncode, said.partition(": ")[2]) == (
        2,
        f"{paths[option]}: is the review file, and another file of this call, too; nothing is written",
    )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_of_runs_at_once_each_keeps_what_the_others_accepted(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    files = [saved(pickle.dumps({"words": [f"text {letter}"]})) for letter in "abcdefghijkl"]
    rows = [archive.review(file).rows for file in files]
    accepted = [tuple(replace(row, role="name") for row in some) for some in rows]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda some: update_review(path, some, "", accept_names=True), accepted * 2))
    kept = read_review(path)
    assert kept is not None
    assert {row.text for row in kept.rows if row.accepted} == {row.text for some in rows for row in some}


def test_what_an_editor_accepts_while_the_file_is_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "review.jsonl"
    archive.review(saved(pickle.dumps(["first text", "second text"])), path)
    written: list[int] = []

    def write_all(data: memoryview, file: BinaryIO) -> None:
        if not written:
            accept(path, "first text")
        written.append(file.write(data))

    monkeypatch.setattr(reviewed, "write_all", write_all)
    archive.review(saved(pickle.dumps(["first text", "third text"])), path)
    assert len(written) == 2
    kept = {row["text"]: row["accepted"] for row in lines(path)[1:]}
    assert kept["first text"] is True
    assert kept["third text"] is False


def test_a_run_waits_for_another_one_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "review.jsonl"
    first, second = (saved(pickle.dumps([text])) for text in ("first text", "second text"))
    other = Thread(target=archive.review, args=(second, path))
    waits: list[bool] = []

    def write_all(data: memoryview, file: BinaryIO) -> None:
        if not waits:
            other.start()
            other.join(0.3)
            waits.append(other.is_alive())
        file.write(data)

    monkeypatch.setattr(reviewed, "write_all", write_all)
    archive.review(first, path)
    other.join()
    assert waits == [True]
    assert "second text" in path.read_text(encoding="utf-8")


def test_rows_of_another_file_that_go_are_counted(tmp_path: Path) -> None:
    path, first, second = tmp_path / "review.jsonl", tmp_path / "first.pt", tmp_path / "second.pt"
    first.write_bytes(saved(pickle.dumps(["first text", "second text", "third text"])))
    second.write_bytes(saved(pickle.dumps(["first text"])))
    archive.review(first, path)
    accept(path, "third text")
    assert (
        f"1 row of another file that nobody had accepted is gone from {path}"
        in called("leaks", second, "--review", path).output
    )
    assert "gone" not in called("leaks", second, "--review", path).output


def test_where_the_file_cannot_be_written_the_list_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "no folder" / "review.jsonl"
    done = run("leaks", SHOP, "--review", path)
    assert (done.returncode, b"Lookup" in done.stdout, str(path) in done.stderr.decode()) == (2, True, True)
    done = run("leaks", SHOP, "--review", path, "--json")
    (file,) = json.loads(done.stdout)["files"]
    assert (done.returncode, len(file["rows"])) == (2, len(archive.review(SHOP).rows))


def test_a_result_that_is_refused_names_the_first_texts(tmp_path: Path) -> None:
    _, printed = redact(tmp_path, "--review", str(tmp_path / "review.jsonl"))
    assert "left: 5 names ('Lookup', 'Shop', 'goods' and 2 more) that nobody has accepted" in printed
    assert "`report MODEL --review" in printed


def test_a_review_that_changes_nothing_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    archive.review(SHOP, path)
    before = path.stat()
    archive.review(SHOP, path)
    after = path.stat()  # but for the time at which it was read
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


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


def test_a_template_that_was_accepted_lets_no_long_number_pass() -> None:
    def row(text: str, *, template: bool = False, accepted: bool = False) -> ReviewRow:
        return ReviewRow("value", text, template, 1, "data.pkl", accepted)

    before = [row("v N.N.N", template=True, accepted=True), row("+N N N N N", template=True, accepted=True)]
    rows = [row("v 1.2.3"), row("v 12.04.87"), row("+41 79 123 45 67")]
    kept = {one.text: one.accepted for one in reviewed.with_accepted(rows, before)}
    assert [kept[one.text] for one in rows] == [True, False, False]
