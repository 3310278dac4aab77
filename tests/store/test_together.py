"""Threads and processes use one store at once."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.store import folder
from archive.store.adding import TakenError, smallest
from archive.store.kept import read_header
from archive.store.store import Store
from tests.support.kin import LEAST_PREFIX, id_of, kin

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from archive.store.entries import StoreEntry
    from archive.store.files import KeptFiles
    from archive.store.kept import CompanionParts

WORKERS, EACH = 4, 4


def add(path: str, worker: int) -> list[str]:
    """Add companions that only this worker has, and some that all have."""
    with Store.open(path, create=True) as store:
        own = range(100 * worker + 1, 100 * worker + 1 + EACH)
        return [store.add(kin(number)).outcome for number in [*own, *range(EACH)]]


def claim(path: str, number: int) -> str:
    """Add a companion whose prefix all others have, too."""
    with Store.open(path, create=True) as store:
        try:
            return store.add(kin(number, prefix=LEAST_PREFIX)).outcome
        except TakenError:
            return "taken"


def check(path: Path, outcomes: list[list[str]]) -> None:
    """All companions are there; each that all workers added was new for one of them."""
    store = Store.open(path)
    numbers = [
        *range(EACH),
        *(100 * worker + 1 + at for worker in range(1, WORKERS + 1) for at in range(EACH)),
    ]
    assert [entry.archive_id for entry in store.entries()] == sorted(map(id_of, numbers))
    assert [store.companion(id_of(number)) for number in numbers] == [kin(number) for number in numbers]
    assert sum(one.count("added") for one in outcomes) == len(numbers)
    assert list(store.check()) == []


def test_processes_add_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(WORKERS, get_context("fork")) as pool:
        outcomes = list(pool.map(add, [str(tmp_path / "store")] * WORKERS, range(1, WORKERS + 1)))
    check(tmp_path / "store", outcomes)


def test_threads_add_at_once_and_read_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "store"
    Store.open(path, create=True)
    with ThreadPoolExecutor(WORKERS + 1) as pool, Store.open(path) as one:
        futures = [pool.submit(add, str(path), worker) for worker in range(1, WORKERS + 1)]
        while not all(future.done() for future in futures):
            for entry in one.entries():
                assert one.companion(entry.archive_id)
    check(path, [future.result() for future in futures])


def clean(path: str, times: int) -> int:
    """Clean a store again and again, while others change it; how often that went well."""
    cleaned = 0
    with Store.open(path, create=True) as store:
        for _ in range(times):
            with suppress(ArchiveError):  # what is checked may be removed before it is read
                store.gc()
                cleaned += 1
    return cleaned


def add_and_remove(path: str, worker: int) -> None:
    """Add companions of a worker's own, and remove every other one."""
    with Store.open(path, create=True) as store:
        for at in range(2 * EACH):
            store.add(kin(100 * worker + at))
            if at % 2:
                store.remove(id_of(100 * worker + at - 1))


def test_a_store_is_cleaned_while_processes_add_and_remove(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with ProcessPoolExecutor(WORKERS, get_context("fork")) as pool:
        changed = [pool.submit(add_and_remove, path, worker) for worker in range(1, WORKERS)]
        assert pool.submit(clean, path, 8).result() > 0
        for one in changed:
            one.result()
    store = Store.open(path)
    left = [100 * worker + at for worker in range(1, WORKERS) for at in range(1, 2 * EACH, 2)]
    assert [entry.archive_id for entry in store.entries()] == sorted(map(id_of, left))
    assert [store.companion(id_of(number)) for number in left] == [kin(number) for number in left]
    store.gc()
    assert list(store.check()) == []


def test_of_two_processes_that_claim_a_prefix_one_gets_it(tmp_path: Path) -> None:
    with ProcessPoolExecutor(WORKERS, get_context("fork")) as pool:
        outcomes = list(pool.map(claim, [str(tmp_path / "store")] * 8, range(8)))
    assert sorted(outcomes) == ["added", *["taken"] * 7]
    assert len(Store.open(tmp_path / "store").entries()) == 1


def test_kin_that_were_added_at_the_same_moment_are_kept_by_one_another_after_gc(tmp_path: Path) -> None:
    stores = [Store.open(tmp_path / str(number), create=True) for number in range(4)]
    for number, one in enumerate(stores):
        one.add(kin(number))
        path = one.folder.kept_path(id_of(number))
        path.rename(stores[0].folder.kept_path(id_of(number)))
    store = Store.open(stores[0].file)
    assert [entry.depth for entry in store.entries()] == [0] * 4
    before = sum(entry.kept_size for entry in store.entries())
    cleaned = store.gc()
    assert cleaned.repacked == 3
    assert sum(entry.kept_size for entry in store.entries()) == before - cleaned.freed < before / 2
    assert [store.companion(id_of(number)) for number in range(4)] == [kin(number) for number in range(4)]
    assert list(store.check()) == []


def test_a_base_that_gc_moves_meanwhile_is_not_built_upon(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    for number in range(2):
        alone = Store.open(tmp_path / str(number), create=True)
        alone.add(kin(number))
        alone.folder.kept_path(id_of(number)).rename(store.folder.kept_path(id_of(number)))

    def slowly(one: CompanionParts, kin: Iterable[StoreEntry], files: KeptFiles) -> bytes:
        data = smallest(one, [entry for entry in kin if entry.archive_id == id_of(0)], files)
        assert read_header(memoryview(data)).depth == 1
        Store.open(store.file).gc()
        return data

    with mock.patch("archive.store.store.smallest", slowly):
        store.add(kin(2))
    again = Store.open(store.file)
    assert [entry.depth for entry in again.entries()] == [1, 0, 0]
    assert [again.companion(id_of(number)) for number in range(3)] == [kin(number) for number in range(3)]


@given(turns=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), max_size=12))
@settings(max_examples=25)
def test_stores_that_change_one_folder_in_turn_see_each_other(
    turns: list[tuple[int, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("shared") / "store"
    stores = [Store.open(path, create=True) for _ in range(3)]
    kept: set[int] = set()
    for who, number, removes in turns:
        if removes and number in kept:
            stores[who].remove(id_of(number))
            kept.remove(number)
        else:
            assert stores[who].add(kin(number)).outcome == ("same" if number in kept else "added")
            kept.add(number)
            with pytest.raises(TakenError):
                stores[who - 1].add(kin(90, prefix=LEAST_PREFIX + number))
    assert {entry.archive_id for entry in Store.open(path).entries()} == {*map(id_of, kept)}
    assert not [found for found in stores[0].check() if found.severity == "error"]


def test_adding_many_lists_the_folder_once(tmp_path: Path) -> None:
    with (
        Store.open(tmp_path / "store", create=True) as store,
        mock.patch.object(folder, "_names_in", wraps=folder._names_in) as listed,
    ):
        for number in range(20):
            store.add(kin(number))
        assert listed.call_count == 2  # before the first turn, and in it: others might have had one
        Store.open(store.file).add(kin(20))
        listed.reset_mock()
        store.add(kin(21))
        assert listed.call_count == 1
    assert len(Store.open(store.file).entries()) == 22
