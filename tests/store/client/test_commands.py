"""``store add`` and ``symbolicate`` with the address of a server, as users call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.store.store import Store
from tests.failures.models.test_three_models import FAILURES, FLEET
from tests.support.commands import run
from tests.support.corpus import ORACLES
from tests.support.servers import TOKEN, Running, store_of

if TYPE_CHECKING:
    from pathlib import Path

LOG = b"".join((FLEET / "plain.log").read_bytes().splitlines(keepends=True)[:75])


def test_from_an_archive_to_the_source_of_its_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was added here by a server is what would have been added to its store at once."""
    monkeypatch.setenv("DEBUG_ARCHIVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUG_ARCHIVE_TOKEN", TOKEN)
    stack = ORACLES / "plain_stack.ptl"
    with Running(store_of(tmp_path / "store", []), "--workers", 1) as server:
        monkeypatch.setenv("DEBUG_ARCHIVE_STORE", server.url)
        for outcome in ("added", "kept already"):
            done = run("store", "add", FLEET, stack, "-j", 1)
            assert done.returncode == 0
            assert f"4 files: 4 {outcome}\n".encode() in done.stdout
        for log in (LOG, (ORACLES / "plain_stack.stripped.txt").read_bytes()):
            done = run("symbolicate", stdin=log)
            here = run("symbolicate", tmp_path / "store", stdin=log)
            assert (done.stdout, done.stderr, done.returncode) == (here.stdout, here.stderr, here.returncode)
            assert run("symbolicate", server.url, stdin=log).stdout == done.stdout
        digits = FAILURES[0].unique.partition("{")[2].partition("}")[0]
        assert run("symbolicate", digits).stdout.decode() in f"{FAILURES[0].explained}\n"
        monkeypatch.delenv("DEBUG_ARCHIVE_TOKEN")
        done = run("store", "add", stack, "-j", 1)
        assert (done.returncode, done.stderr.count(b"asks for $DEBUG_ARCHIVE_TOKEN")) == (2, 1)
    with Store.open(tmp_path / "store") as store, Store.open(tmp_path / "other", create=True) as other:
        entry = store.one("Stack")
        at_once = other.add(stack).entry
        assert (entry.facts, entry.root, entry.file) == (at_once.facts, at_once.root, at_once.file)
        assert entry.facts.serialization_id != ""


def test_commands_that_need_the_folder_say_so() -> None:
    done = run("store", "ls", "--store", "http://localhost:1")
    assert done.returncode == 2
    assert b"this needs the store's folder" in done.stderr


@pytest.mark.parametrize("words", [[], ["--top", "3"], ["--at", "code/x.py:1"]])
def test_without_file_and_store_the_command_asks_for_one(words: list[str]) -> None:
    done = run("symbolicate", *words, stdin=b"x")
    assert done.returncode == 2
    assert b"give FILE, or --store STORE" in done.stderr
