"""Whatever call fails, and whenever a process is killed: no companion is lost, and the store goes on."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from archive.base.errors import ArchiveError
from archive.store.store import Store
from tests.support.faults import SYSTEMS, calls_to_strike, dying, failing, full_disk, in_child, system
from tests.support.kin import id_of, kin
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

BEFORE = range(3)
"""Companions that are there before a change."""


class Change(NamedTuple):
    """A change of a store that holds the companions ``BEFORE``.

    Attributes:
        make: makes it.
        before: the companion of each id that it is about, as it was; None for one that was not there.
        after: the same as it is then.
    """

    make: Callable[[Store], object]
    before: dict[int, bytes | None]
    after: dict[int, bytes | None]


def removed(store: Store, number: int) -> Store:
    """A store without one of its companions."""
    store.remove(id_of(number))
    return store


CHANGES = {
    "add": Change(lambda store: store.add(kin(3)), {3: None}, {3: kin(3)}),
    "add to a new store": Change(
        lambda store: Store.open(Path(store.file).with_name("new"), create=True).add(kin(3)), {}, {}
    ),
    "replace a base": Change(
        lambda store: store.add(kin(0, line=9), replace=True), {0: kin(0)}, {0: kin(0, line=9)}
    ),
    "remove a base": Change(lambda store: removed(store, 0), {0: kin(0)}, {0: None}),
    "gc": Change(lambda store: removed(store, 2).gc(), {2: kin(2)}, {2: None}),
}


def made(path: Path) -> Path:
    """A store with the companions ``BEFORE``, each kept by the one before."""
    with Store.open(path, create=True) as store:
        for number in BEFORE:
            store.add(kin(number))
        assert [entry.depth for entry in store.entries()] == list(BEFORE)
    return path


def changed(path: Path, change: Change) -> None:
    """Make a change, which may fail as files do."""
    try:
        with Store.open(path) as store:
            change.make(store)
    except (OSError, ArchiveError):
        pass


def check_whole(path: Path, change: Change) -> None:
    """All companions are there to the byte, those of the change as before or after; and it can be made."""
    store = Store.open(path)
    assert store.unread == {}
    found = {entry.archive_id for entry in store.entries()}
    for number in {*BEFORE, *change.before}:
        data = store.companion(id_of(number)) if id_of(number) in found else None
        known = kin(number) if number in BEFORE else None
        assert data in (change.before.get(number, known), change.after.get(number, known))
    store.gc()
    assert [str(one) for one in store.check() if one.severity == "error"] == []
    new = path.with_name("new")
    if new.exists():
        assert Store.open(new, create=True).add(kin(3)).outcome in {"added", "same"}


@pytest.mark.parametrize("name", ["add", "add to a new store"])
def test_nothing_is_lost_whichever_call_fails(name: str, tmp_path: Path) -> None:
    original = made(tmp_path / "original")
    for number in calls_to_strike():
        path = tmp_path / str(number) / "store"
        shutil.copytree(original, path)
        with failing(number) as calls:
            changed(path, CHANGES[name])
        check_whole(path, CHANGES[name])
        if len(calls) <= number:
            break
    assert number > 5


@pytest.mark.parametrize("name", ["replace a base", "remove a base", "gc"])
def test_nothing_is_lost_whenever_a_process_is_killed(name: str, tmp_path: Path) -> None:
    original = made(tmp_path / "original")
    for number in calls_to_strike():
        path = tmp_path / str(number) / "store"
        shutil.copytree(original, path)

        def die(number: int = number, path: Path = path) -> None:
            with dying(number):
                changed(path, CHANGES[name])

        status = in_child(die)
        assert status in (0, signal.SIGKILL)
        check_whole(path, CHANGES[name])
        if not status:
            break
    assert number > 5


@pytest.mark.parametrize("name", ["add to a new store", "replace a base"])
def test_nothing_is_lost_however_full_the_disk_is(name: str, tmp_path: Path) -> None:
    original = made(tmp_path / "original")
    for number, space in enumerate(sampled((0, 50, 500, 2000, 10_000, 20_000), most=3)):
        path = tmp_path / str(number) / "store"
        shutil.copytree(original, path)
        with full_disk(space):
            changed(path, CHANGES[name])
        check_whole(path, CHANGES[name])


@pytest.mark.parametrize("kind", SYSTEMS)
def test_a_store_works_on_any_file_system(kind: str, tmp_path: Path) -> None:
    with system(kind):
        store = Store.open(made(tmp_path / "store"))
        store.add(kin(0, line=9), replace=True)
        store.remove(id_of(1))
        store.gc()
        assert store.companion(id_of(0)) == kin(0, line=9)
        assert store.companion(id_of(2)) == kin(2)
        assert [str(one) for one in store.check()] == []


def test_drafts_of_dead_processes_are_told_and_go_with_gc(tmp_path: Path) -> None:
    store = Store.open(made(tmp_path / "store"))
    dead = in_dead_process()
    for folder in (store.folder.path, store.folder.companions, store.folder.bases):
        (folder / f".debug-archive-{dead}-00000000.draft").write_bytes(b"half")
        (folder / f".debug-archive-{os.getpid()}-00000000.draft").write_bytes(b"half")
    assert len([one for one in store.check() if "a draft" in one.message]) == 6
    assert store.gc().drafts == 3
    assert len([one for one in store.check() if "a draft" in one.message]) == 3


def in_dead_process() -> int:
    """The number of a process that has ended."""
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return child
