"""A store is its own folders: whatever link comes into their place, and whenever, nothing else is touched."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from archive.base.errors import ArchiveError
from archive.store import adding
from archive.store.adding import EPOCH, TakenError
from archive.store.folder import BASES, COMPANIONS
from archive.store.kept import read_header
from archive.store.store import Store
from tests.support.commands import run
from tests.support.faults import at_call
from tests.support.kin import id_of, kin
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with an unneeded base, and another one's companions."""
    with (
        Store.open(tmp_path / "mine", create=True) as mine,
        Store.open(tmp_path / "store", create=True) as opened,
    ):
        for number in range(4):
            mine.add(kin(number))
            opened.add(kin(number))
        opened.add(kin(7, family=1))
        for number in (2, 3, 0):
            opened.remove(id_of(number))
    return opened


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


COMMANDS = [
    ("ls",),
    ("check",),
    ("gc",),
    ("rm", id_of(1)),
    ("get", id_of(1), "-o", "-"),
    ("add", "new.ptdbg", "-j", 1),
]


@pytest.mark.parametrize("name", [COMPANIONS, BASES])
def test_a_store_does_not_work_where_its_folders_are_links(
    name: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.ptdbg").write_bytes(kin(9))
    shutil.rmtree(store.folder.path / name)
    (store.folder.path / name).symlink_to(tmp_path / "mine" / COMPANIONS)
    before = contents(tmp_path)
    for words in COMMANDS:
        ended = run("store", *words, "--store", "store")
        assert (ended.returncode, ended.stderr.decode()) == (
            2,
            f"debug-archive: store/{name}: is a link, not a folder of a store\n",
        )
    assert run("symbolicate", "store", "--log", "new.ptdbg").returncode == 2
    assert contents(tmp_path) == before


def test_the_folder_itself_may_be_a_link(store: Store, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.folder.path)
    again = Store.open(tmp_path / "link")
    assert again.add(kin(9)).outcome == "added"
    assert again.gc().bases == 1
    assert store.companion(id_of(9)) == kin(9)


CHANGES: dict[str, Callable[[Store], object]] = {
    "add": lambda store: store.add(kin(9)),
    "replace": lambda store: store.add(kin(1, line=9), replace=True),
    "remove": lambda store: store.remove(id_of(1)),
    "gc": lambda store: store.gc(),
}


@pytest.mark.parametrize(("change", "name"), crossed(CHANGES, [COMPANIONS, BASES], most=4))
def test_a_link_that_comes_while_a_store_is_changed_leads_nowhere(
    change: str, name: str, store: Store, tmp_path: Path
) -> None:
    for number in count():
        path = tmp_path / str(number)
        shutil.copytree(store.file, path)
        before = contents(tmp_path / "mine")

        def swap(path: Path = path) -> None:
            (path / name).rename(path / "moved")
            (path / name).symlink_to(tmp_path / "mine" / COMPANIONS)

        with at_call(number, swap) as calls:
            try:
                with Store.open(path) as opened:
                    CHANGES[change](opened)
            except (ArchiveError, OSError):
                pass
        assert contents(tmp_path / "mine") == before
        if len(calls) <= number:
            break
    assert number > 2


@pytest.mark.parametrize("number", [1, 9])
def test_a_link_that_takes_a_files_name_in_the_last_moment_is_not_followed(
    number: int, store: Store, tmp_path: Path
) -> None:
    path, precious = store.folder.kept_path(id_of(number)), tmp_path / "precious"
    precious.write_bytes(b"mine")
    real = os.replace

    def swapped(one: str, other: str, **handles: int) -> None:
        if other == path.name:
            path.unlink(missing_ok=True)
            path.symlink_to(precious)
        real(one, other, **handles)

    with mock.patch("os.replace", swapped):
        store.add(kin(number, line=5), replace=True)
    assert precious.read_bytes() == b"mine"
    assert store.companion(id_of(number)) == kin(number, line=5)


def test_a_hard_link_of_a_file_is_not_written_to(store: Store, tmp_path: Path) -> None:
    path, precious = store.folder.kept_path(id_of(1)), tmp_path / "precious"
    os.link(path, precious)
    os.link(store.folder.index, tmp_path / "index")
    before = contents(tmp_path)[str(precious)], (tmp_path / "index").read_bytes()
    with Store.open(store.file) as again:
        again.add(kin(1, line=5), replace=True)
        again.gc()
    assert (precious.read_bytes(), (tmp_path / "index").read_bytes()) == before


def test_ls_tells_every_name_that_it_cannot_read(store: Store, tmp_path: Path) -> None:
    folder = store.folder.companions
    (tmp_path / "elsewhere").write_bytes(store.folder.kept_path(id_of(1)).read_bytes())
    (folder / f"{'a' * 32}.kept").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / f"{'b' * 32}.kept")
    (folder / f"{'c' * 32}.kept").mkdir()
    (folder / f"{'d' * 32}.kept").write_bytes(b"")
    (folder / f"{'E' * 32}.kept").write_bytes(b"")
    (folder / "two\nlines").write_bytes(b"")
    ended = run("store", "ls", "--store", store.file)
    assert ended.returncode == 1
    assert [
        line.removeprefix(f"debug-archive: {folder}/") for line in ended.stderr.decode().splitlines()
    ] == [
        f"{'E' * 32}.kept: has capital letters in its name; files of a store have none",
        f"{'a' * 32}.kept: is a link, not a file of a store",
        f"{'b' * 32}.kept: is a pipe, not a file of a store",
        f"{'c' * 32}.kept: is a folder, not a file of a store",
        f"{'d' * 32}.kept: byte 0: expected a kept companion's header, found other bytes",
        "two\\nlines: isn't a file of a store; ignored",
    ]
    assert b"2 companions" in ended.stdout
    assert run("store", "check", "--store", store.file).returncode == 1


def test_ls_counts_no_companion_whose_base_is_lost(store: Store) -> None:
    for path in store.folder.bases.iterdir():
        path.unlink()
    ended = run("store", "ls", "--store", store.file)
    assert ended.returncode == 1
    assert f"{id_of(1)}.kept: its base is lost".encode() in ended.stderr
    assert b"1 companion," in ended.stdout


# --- what a base is, its own header says


def test_a_base_that_is_needed_lower_than_it_lies_is_set_aside_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was removed and added again stands alone, and what is built upon it needs it there."""
    monkeypatch.setenv(EPOCH, "1760000000")
    store = Store.open(tmp_path / "store", create=True)
    for number in range(4):
        store.add(kin(number))
    for number in range(4):
        store.remove(id_of(number))
    store.add(kin(2))
    store.add(kin(5))
    store.remove(id_of(2))
    assert Store.open(store.file).companion(id_of(5)) == kin(5)


@pytest.mark.parametrize("kind", ["no file of a store", "another's"])
def test_what_lies_in_a_bases_place_is_no_base(kind: str, store: Store) -> None:
    store.add(kin(3))
    below = store.folder.base_path(store.one(id_of(1)).body)
    others = store.folder.kept_path(id_of(7)).read_bytes()
    below.write_bytes(others if kind == "another's" else b"other bytes")
    store.remove(id_of(1))
    assert Store.open(store.file).companion(id_of(3)) == kin(3)


def test_a_chain_is_no_longer_than_it_may_be_whatever_the_index_says(tmp_path: Path) -> None:
    with mock.patch.object(adding, "MOST_DEPTH", 2):
        for number in range(5):
            with Store.open(tmp_path / "store", create=True) as store:
                store.add(kin(number))
            with closing(sqlite3.connect(store.folder.index)) as index:
                index.execute("UPDATE companions SET depth = 0")
                index.commit()
    headers = [read_header(memoryview(path.read_bytes())) for path in store.folder.companions.iterdir()]
    assert max(header.depth for header in headers) == 2


def test_a_companion_whose_base_is_lost_is_replaced_only_if_asked(store: Store, tmp_path: Path) -> None:
    """Its base may come back."""
    store.folder.bases.rename(tmp_path / "away")
    again = Store.open(store.file)
    with pytest.raises(TakenError, match=r"is kept already, and cannot be read: .*its base is lost"):
        again.add(kin(1, line=9))
    (tmp_path / "away").rename(store.folder.bases)
    assert store.companion(id_of(1)) == kin(1)


def test_a_base_that_nobody_needs_may_lack_its_own(store: Store) -> None:
    """The one that a base was kept by was replaced."""
    store.add(kin(1, line=9), replace=True)
    assert [one.severity for one in store.check()] == ["note"] * 2
    assert store.gc().bases == 2
    assert list(store.check()) == []
