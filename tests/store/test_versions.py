"""A store that an earlier version left: read to the byte, and changed as any other."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from archive.companion.parse import parse_companion
from archive.store.kept import read_header
from archive.store.store import Store
from tests.support.corpus import FIXTURES
from tests.support.halves import facts_of

if TYPE_CHECKING:
    from pathlib import Path

ENCODER = "333e4b8e2624c9b6607c2cb7f21d7846"
LINES = {
    "5cebf51276d87a83d891fe9e1d0a0ed8": "releases/torch-2.0.0/nested.ptl",
    "ada7f95e5856be7b1cf8ce2d3936c9c4": "releases/torch-2.13.0/traced.ptl",
    "d266b9fb62f4819f7f621477e6ffaa44": "releases/torch-1.11.0/nested.ptl",
}
"""The archives that were added; each is kept by what differs from another one, or from one that is gone."""
GONE = "releases/torch-2.13.0/nested.ptl"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    shutil.copytree(FIXTURES / "stores" / "v1", tmp_path / "store")
    return Store.open(tmp_path / "store")


def version_of(store: Store, archive_id: str) -> int:
    version: int = read_header(memoryview(store.folder.kept_path(archive_id).read_bytes())).version
    return version


def assert_whole(store: Store) -> None:
    """What was added comes back to the byte, with the facts of the archives and digests of their code."""
    assert list(store.check()) == []
    fleet = (FIXTURES / "fleet" / "Encoder.ptdbg").read_bytes()
    assert store.companion(ENCODER) == fleet
    for archive_id, name in LINES.items():
        given = store.given(archive_id)
        assert given.is_exact
        contents, facts = parse_companion(memoryview(given.data)), facts_of(FIXTURES / name)
        for column, values in facts.columns.items():
            assert contents.columns[column].tolist() == values.tolist()
        assert store.opened(archive_id).line_digests


def test_a_store_of_version_1_is_read_to_the_byte(store: Store) -> None:
    assert [version_of(store, entry.archive_id) for entry in store.entries()] == [1, 1, 1, 1]
    assert sorted(entry.depth for entry in store.entries()) == [0, 1, 1, 2]
    assert_whole(store)


def test_what_is_added_to_it_may_have_a_base_of_version_1(store: Store) -> None:
    added = store.add(FIXTURES / GONE)
    assert (added.outcome, added.entry.depth > 0) == ("added", True)
    assert version_of(store, added.entry.archive_id) == 2
    assert_whole(store)


def test_it_is_cleaned_like_any_other(store: Store) -> None:
    store.add(FIXTURES / GONE)
    for archive_id in LINES:
        store.remove(archive_id)
    store.gc()
    assert list(store.check()) == []
    assert store.add(FIXTURES / LINES[min(LINES)]).outcome == "added"
    store.gc()
    assert list(store.check()) == []


@pytest.mark.parametrize("archive_id", LINES)
def test_an_archive_that_version_1_keeps_is_kept_already(archive_id: str, store: Store) -> None:
    assert store.add(FIXTURES / LINES[archive_id]).outcome == "same"
    assert version_of(store, archive_id) == 1
