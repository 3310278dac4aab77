"""``check`` reads all of a store, and tells of everything that is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest

from archive.base.digests import digest_of
from archive.base.errors import ArchiveError
from archive.companion import codecs
from archive.companion.parse import parse_companion
from archive.store.store import Store
from tests.support.commands import run
from tests.support.kin import LEAST_PREFIX, id_of, kin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.open(tmp_path / "store", create=True) as opened:
        for number in range(4):
            opened.add(kin(number, packed=True))
    return opened


@pytest.fixture
def other_compressor() -> Iterator[None]:
    """A library that compresses to other bytes than the one by which companions were added."""
    trained = codecs._trained
    others: dict[codecs.Codec, Callable[[bytes, int], bytes]] = {
        codecs.Codec.LZMA: lambda data, _: codecs.lzma(data, 0),
        codecs.Codec.ZSTD: lambda data, _: codecs.zstd(data, 1),
        codecs.Codec.TEXTS: lambda data, _: trained(data, 1, codecs.dictionary(codecs.Codec.TEXTS)),
        codecs.Codec.COLUMNS: lambda data, _: trained(data, 1, codecs.dictionary(codecs.Codec.COLUMNS)),
    }
    with mock.patch.dict(codecs._COMPRESS, others):
        yield


def found(store: Store) -> list[str]:
    return [f"{one.severity}: {one}" for one in Store.open(store.file).check()]


def test_nothing_is_wrong_with_a_store_that_is_well(store: Store) -> None:
    assert found(store) == []


def test_a_compressor_that_has_changed_is_told_and_loses_no_fact(
    store: Store, other_compressor: None
) -> None:
    assert other_compressor is None
    [alone] = [entry.archive_id for entry in store.entries() if not entry.depth]
    for number in range(4):
        data, entry = store.companion(id_of(number)), store.one(id_of(number))
        assert (digest_of(data).hex() == entry.digest) == (entry.archive_id == alone)
        one, other = (parse_companion(memoryview(one)) for one in (data, kin(number, packed=True)))
        assert one.strings.copies() == other.strings.copies()
        assert {name: values.tolist() for name, values in one.columns.items()} == {
            name: values.tolist() for name, values in other.columns.items()
        }
    why = "comes back with the same facts, but other bytes: the libraries that compress have changed"
    assert found(store) == [
        f"warning: companions/{id_of(number)}.kept: {why}" for number in range(4) if id_of(number) != alone
    ]
    ended = run("store", "get", id_of(3), "-o", "-", "--store", store.file)
    assert ended.stdout == store.companion(id_of(3))
    assert b"the facts that were added, compressed to other bytes" in ended.stderr


def test_a_base_that_is_broken_or_another_is_told(store: Store) -> None:
    store.remove(id_of(0))
    [base] = store.folder.bases.iterdir()
    whole = base.read_bytes()
    base.write_bytes(whole[:-1])
    told = found(store)
    assert told[-1].startswith(f"error: bases/{base.name}: ")
    assert sum(one.startswith("error: companions/") for one in told) == 3
    other = base.with_name(f"{'0' * 32}.kept")
    other.write_bytes(whole)
    base.write_bytes(whole)
    assert found(store) == [
        f"error: bases/{other.name}: is another base: {base.stem}",
    ]
    with pytest.raises(ArchiveError, match="`store check` finds errors, so nothing is removed: bases/0000"):
        store.gc()
    assert other.read_bytes() == whole  # its own header names another


def test_a_prefix_that_two_companions_have_is_told(store: Store, tmp_path: Path) -> None:
    alone = Store.open(tmp_path / "other", create=True)
    alone.add(kin(9, prefix=LEAST_PREFIX + 1), name="nine.ptdbg")
    alone.folder.kept_path(id_of(9)).rename(store.folder.kept_path(id_of(9)))
    [told] = found(store)
    assert told.startswith(
        f"error: companions/{id_of(9)}.kept: 2 companions have the prefix {LEAST_PREFIX + 1}: "
    )
    assert told.endswith(f"nine@{id_of(9)[:12]}")


def test_an_index_that_is_none_is_told_and_made_anew(store: Store) -> None:
    store.folder.index.write_bytes(b"no database")
    assert found(store) == ["warning: index.sqlite: was broken, or of another version; it is rebuilt"]
    assert found(store) == []
    store.folder.index.unlink()
    assert found(store) == []  # whoever opens the store makes it


def test_what_lies_about_is_told(store: Store) -> None:
    (store.folder.companions / "more").mkdir()
    store.folder.bases.rmdir()
    assert found(store) == ["warning: companions/more: isn't a file of a store; ignored"]
