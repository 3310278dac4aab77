"""The index is a copy of what the files say: whatever becomes of it, the store is the same."""

from __future__ import annotations

import os
import shutil
import sqlite3
import zlib
from contextlib import closing
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from archive.base.errors import ArchiveError
from archive.store import catalogue
from archive.store.index import APPLICATION_ID, MOST_BYTES, TABLE, VERSION, read_index
from archive.store.store import Store
from tests.support.cost import peak_below
from tests.support.kin import id_of, kin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from archive.store.entries import StoreEntry

NUMBERS = range(5)
RUNS = zlib.compress(bytes([1, *bytes(7)]) * 200_000)
"""100,000 runs of one handle; five models have 500,000, which would take 80 MB."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.open(tmp_path / "store", create=True) as opened:
        for number in NUMBERS:
            opened.add(kin(number))
    return opened


def changed(index: Path, *statements: str) -> None:
    """Execute statements on an index."""
    with closing(sqlite3.connect(index)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def entries_without_reading(store: Store) -> Sequence[StoreEntry]:
    """The entries, if no companion has to be read for them."""
    with mock.patch.object(catalogue, "entry_of", side_effect=AssertionError("a companion was read")):
        return Store.open(store.file).entries()


def test_the_index_tells_everything_without_a_companion_being_read(store: Store) -> None:
    assert entries_without_reading(store) == store.entries()
    assert [entry.archive_id for entry in store.entries()] == [id_of(number) for number in NUMBERS]


def test_an_index_that_is_deleted_while_the_store_is_used_is_written_again(store: Store) -> None:
    before = store.entries()
    whole = store.folder.index.read_bytes()
    store.folder.index.unlink()
    assert store.entries() == before
    assert store.folder.index.read_bytes() == whole


def test_anybody_may_read_it_with_sqlite(store: Store) -> None:
    with closing(sqlite3.connect(store.folder.index)) as database:
        rows = database.execute("SELECT archive_id, prefix, top FROM companions").fetchall()
    assert rows == [(id_of(number), 2_000_000_000 + number, "Stack") for number in NUMBERS]


def replaced(index: Path, make: Callable[[Path], object]) -> None:
    """Something else in the place of an index."""
    index.unlink()
    make(index)


BROKEN: dict[str, Callable[[Path], object]] = {
    "missing": lambda index: index.unlink(),
    "empty": lambda index: index.write_bytes(b""),
    "cut": lambda index: os.truncate(index, 5000),
    "no database": lambda index: index.write_bytes(b"a text, and no database\n" * 400),
    "zeros in the middle": lambda index: index.write_bytes(
        index.read_bytes()[:4096] + bytes(4096) + index.read_bytes()[8192:]
    ),
    "of another version": lambda index: changed(index, "PRAGMA user_version = 5"),
    "of another application": lambda index: changed(index, "PRAGMA application_id = 1"),
    "with a trigger": lambda index: changed(
        index, "CREATE TRIGGER t AFTER INSERT ON companions BEGIN DELETE FROM companions; END"
    ),
    "with a view in its place": lambda index: changed(
        index,
        "ALTER TABLE companions RENAME TO others",
        "CREATE VIEW companions AS SELECT * FROM others",
    ),
    "with another column": lambda index: changed(index, "ALTER TABLE companions ADD COLUMN more TEXT"),
    "with another table": lambda index: changed(index, "CREATE TABLE more (a)"),
    "in WAL mode": lambda index: changed(index, "PRAGMA journal_mode = WAL"),
    "with numbers for texts": lambda index: changed(index, "UPDATE companions SET top = x'00'"),
    "with a time before 1970": lambda index: changed(index, "UPDATE companions SET added = -1"),
    "with a time that has no day": lambda index: changed(index, "UPDATE companions SET added = 253402300800"),
    "with broken handles": lambda index: changed(index, "UPDATE companions SET handles = x'78'"),
    "with huge handles": lambda index: changed(index, "UPDATE companions SET handles = zeroblob(1000000)"),
    "with handles that inflate to much": lambda index: changed(
        index,
        f"UPDATE companions SET handles = x'{RUNS.hex()}'",  # noqa: S608 (of a constant)
    ),
    "with code that is no list": lambda index: changed(index, "UPDATE companions SET code = '{}'"),
    "a link to nothing": lambda index: replaced(index, lambda path: path.symlink_to("nothing")),
    "a pipe": lambda index: replaced(index, os.mkfifo),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_index_that_is_no_index_is_made_anew(kind: str, store: Store) -> None:
    before = store.entries()
    BROKEN[kind](store.folder.index)
    assert read_index(store.folder) == {}
    with Store.open(store.file) as again:
        assert again.entries() == before
    if kind not in {"a link to nothing", "a pipe"}:  # neither is replaced
        assert entries_without_reading(store) == before


def test_a_store_maps_no_file_which_somebody_could_shorten(store: Store) -> None:
    """The system kills a process that reads a map of a file behind its new end."""
    with mock.patch("mmap.mmap", side_effect=AssertionError("a map")), Store.open(store.file) as again:
        assert read_index(again.folder).keys() == {one.archive_id for one in again.entries()}
        assert again.companion(id_of(3)) == kin(3)
        assert list(again.check()) == []


def test_an_index_that_is_too_long_is_not_read(store: Store) -> None:
    os.truncate(store.folder.index, MOST_BYTES + 1)  # a hole
    with peak_below(1 << 20):
        assert read_index(store.folder) == {}


def test_a_link_in_the_place_of_the_index_changes_no_other_file(store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    store.folder.index.unlink()
    store.folder.index.symlink_to(precious)
    with Store.open(store.file) as again:
        assert len(again.entries()) == len(NUMBERS)
    assert precious.read_text() == "mine"


def test_rows_of_companions_that_are_gone_or_changed_count_for_nothing(store: Store) -> None:
    store.folder.kept_path(id_of(4)).unlink()
    shutil.copy(store.folder.kept_path(id_of(0)), store.folder.kept_path(id_of(1)))
    again = Store.open(store.file)
    assert [entry.archive_id for entry in again.entries()] == [id_of(0), id_of(2), id_of(3)]
    assert list(again.unread) == [id_of(1)]
    assert f"expected archive id {id_of(1)}, found {id_of(0)}" in again.unread[id_of(1)]
    with pytest.raises(ArchiveError, match=f"{id_of(2)}.kept: its base is lost"):
        again.companion(id_of(2))


def test_a_copy_of_a_store_needs_no_new_index(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.file, tmp_path / "copy", copy_function=shutil.copy)  # with other times
    copy = Store.open(tmp_path / "copy")
    found = entries_without_reading(copy)
    assert [entry.facts for entry in found] == [entry.facts for entry in store.entries()]
    assert copy.companion(id_of(3)) == kin(3)


def test_what_another_process_adds_is_seen_at_once(store: Store) -> None:
    other = Store.open(store.file)
    assert len(other.entries()) == len(NUMBERS)
    store.add(kin(9))
    assert len(other.entries()) == len(NUMBERS) + 1
    store.remove(id_of(9))
    assert len(other.entries()) == len(NUMBERS)


def test_a_store_that_cannot_be_written_is_read(store: Store) -> None:
    before = store.entries()
    store.folder.index.unlink()
    with (
        mock.patch("archive.store.opened.put", side_effect=OSError(30, "Read-only file system")),
        Store.open(store.file) as again,
    ):
        assert again.entries() == before
        assert again.companion(id_of(2)) == kin(2)
    assert not store.folder.index.exists()


def test_check_tells_of_an_index_that_disagrees_and_makes_it_anew(store: Store) -> None:
    before = store.entries()
    changed(store.folder.index, "UPDATE companions SET prefix = 7, top = 'Other' WHERE archive_id LIKE '%3'")
    again = Store.open(store.file)
    assert again.one("Other").prefix == 7
    assert [str(one) for one in again.check()] == [
        f"index.sqlite, {id_of(3)}: was not what the file says; it is rebuilt"
    ]
    assert again.entries() == before == list(read_index(store.folder).values())
    assert list(again.check()) == []


def test_an_index_is_what_its_declaration_says(store: Store) -> None:
    with closing(sqlite3.connect(store.folder.index)) as database:
        assert database.execute("SELECT sql FROM sqlite_schema").fetchall() == [(TABLE,)]
        assert database.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
