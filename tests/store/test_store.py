"""A store keeps companions to the byte, finds each by what it is called, and refuses what contradicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.reader.facts import facts_of
from archive.store.adding import NoDebugInfoError, TakenError
from archive.store.store import Store
from tests.support.corpus import FIXTURES
from tests.support.kin import LEAST_PREFIX, id_of, kin
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

FLEET = sorted((FIXTURES / "fleet").glob("*.ptdbg"))
RANKER = FIXTURES / "fleet" / "Ranker.ptdbg"
LITE = FIXTURES / "releases" / "torch-2.13.0" / "traced.ptl"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def test_a_companion_comes_back_to_the_byte(store: Store) -> None:
    for number in range(6):
        kept = store.add(kin(number, packed=number % 2 == 0), name=f"{number}.ptdbg")
        assert kept.outcome == "added"
    again = Store.open(store.file)
    for number in range(6):
        assert again.companion(id_of(number)) == kin(number, packed=number % 2 == 0)


@pytest.mark.parametrize("path", sorted((FIXTURES / "frozen").rglob("*.ptdbg")), ids=lambda path: path.name)
def test_every_companion_that_was_ever_written_comes_back_to_the_byte(path: Path, store: Store) -> None:
    assert store.companion(store.add(path).entry.archive_id) == path.read_bytes()


def test_an_opened_companion_says_what_the_file_says(store: Store) -> None:
    kept = store.add(RANKER)
    with store.opened(kept.entry.archive_id) as opened, archive.open(RANKER) as original:
        assert facts_of(opened) == facts_of(original)
        handles = list(original.handles)[::25]
        assert [str(opened.symbolicate(one)) for one in handles] == [
            str(original.symbolicate(one)) for one in handles
        ]


def test_an_entry_tells_what_a_failure_may_name(store: Store) -> None:
    entry = store.add(RANKER).entry
    assert (entry.file, entry.prefix, entry.facts.top) == ("Ranker.ptdbg", 2597103980, "Ranker")
    assert entry.size == RANKER.stat().st_size
    assert entry.kept_size == store.folder.kept_path(entry.archive_id).stat().st_size
    assert entry.name == f"Ranker@{entry.archive_id[:12]}"
    assert [entry] == Store.open(store.file).entries()


def test_of_an_archive_the_companion_is_kept_that_split_makes(store: Store, tmp_path: Path) -> None:
    entry = store.add(LITE).entry
    archive.split(LITE, tmp_path / "out.ptl", tmp_path / "out.ptdbg")
    assert store.companion(entry.archive_id) == (tmp_path / "out.ptdbg").read_bytes()
    with archive.open(LITE) as opened:
        assert entry.root == opened.root
        assert entry.facts.serialization_id == facts_of(opened).serialization_id != ""


def test_an_archive_with_an_embedded_companion_gives_that(store: Store, tmp_path: Path) -> None:
    archive.shrink(LITE, tmp_path / "small.ptl", level="embed")
    entry = store.add(tmp_path / "small.ptl").entry
    with archive.open(tmp_path / "small.ptl") as opened:
        assert store.companion(entry.archive_id) == opened.container.records["extra/debug.ptdbg"].view()


def test_a_split_archive_has_no_debug_info_though_it_has_handles(store: Store, tmp_path: Path) -> None:
    archive.split(LITE, tmp_path / "out.ptl", tmp_path / "out.ptdbg")
    with pytest.raises(NoDebugInfoError, match="no debug info in it"):
        store.add(tmp_path / "out.ptl")
    assert store.add(tmp_path / "out.ptdbg").outcome == "added"


# --- kept already, or another's


def test_the_same_companion_again_is_kept_already(store: Store) -> None:
    first = store.add(RANKER)
    again = store.add(RANKER, name="other.ptdbg")
    assert (again.outcome, again.entry) == ("same", first.entry)


def test_the_same_facts_in_another_profile_are_kept_already(store: Store) -> None:
    store.add(kin(1, packed=True))
    assert store.add(kin(1)).outcome == "same"
    assert store.companion(id_of(1)) == kin(1, packed=True)


def test_line_digests_are_added_to_an_equal_companion_and_never_taken_away(
    store: Store, tmp_path: Path
) -> None:
    model = FIXTURES / "releases" / "torch-2.13.0" / "nested.pt"
    for name in ("without", "with"):
        archive.split(model, tmp_path / "s.pt", tmp_path / name, force=True, fingerprints=name == "with")
    store.add(tmp_path / "without", label="1.0")
    added = store.add(tmp_path / "with", label="1.1")
    assert (added.outcome, added.entry.labels) == ("replaced", ("1.0", "1.1"))
    kept = store.companion(added.entry.archive_id)
    assert kept == (tmp_path / "with").read_bytes()
    for source in (tmp_path / "without", tmp_path / "with", model):  # the archive's own lines are the same
        assert store.add(source).outcome == "same"
        assert store.add(source, replace=True).outcome == "same"
    assert store.add(model, label="1.2").outcome == "labelled"
    assert store.companion(added.entry.archive_id) == kept
    assert not [*store.check()]


def test_a_companion_with_line_digests_is_the_same_where_the_archive_was_added(
    store: Store, tmp_path: Path
) -> None:
    model = FIXTURES / "releases" / "torch-2.13.0" / "nested.pt"
    archive.split(model, tmp_path / "s.pt", tmp_path / "with", fingerprints=True)
    store.add(model)
    assert store.add(tmp_path / "with").outcome == "same"


def test_other_debug_info_of_an_archive_id_is_refused(store: Store) -> None:
    store.add(kin(1, line=10), name="one.ptdbg")
    with pytest.raises(TakenError, match=f"archive {id_of(1)}: is kept already with other debug info, one@"):
        store.add(kin(1, line=11))
    assert store.companion(id_of(1)) == kin(1, line=10)


@pytest.mark.parametrize("is_longer", [True, False])
def test_a_refusal_says_what_of_the_source_differs_and_the_ways_out(
    store: Store, tmp_path: Path, *, is_longer: bool
) -> None:
    model, other = FIXTURES / "releases" / "torch-2.13.0" / "nested.pt", tmp_path / "nested.pt"
    line, present = b"            h = torch.relu(h - 1.0)\n", b"        y = torch.matmul(x, self.w)\n"
    source = "code/__torch__/models.py.debug_pkl"
    other.write_bytes(tampered(model, {source: lambda data: data.replace(line, present)}))
    first, second = (other, model) if is_longer else (model, other)
    store.add(first, label="1.4.2")
    with pytest.raises(TakenError) as refused:
        store.add(second)
    verbs = ("has", "lacks") if is_longer else ("lacks", "has")
    words = "its source {} 'h = torch.relu(h - 1.0)', which the kept one {}".format(*verbs)
    assert words in str(refused.value)
    assert "nested@" in str(refused.value)
    assert "(1.4.2)" in str(refused.value)


def test_other_debug_info_takes_the_place_if_asked(store: Store) -> None:
    store.add(kin(1, line=10))
    assert store.add(kin(1, line=11), replace=True).outcome == "replaced"
    assert store.companion(id_of(1)) == kin(1, line=11)
    assert len(store.entries()) == 1


@pytest.mark.parametrize("replace", [False, True])
def test_a_prefix_of_another_archive_is_refused_with_the_way_out(store: Store, *, replace: bool) -> None:
    store.add(kin(1), name="one.ptdbg")
    with pytest.raises(
        TakenError, match=r"is the prefix of another archive already, one@.*split --salt TEXT"
    ):
        store.add(kin(2, prefix=LEAST_PREFIX + 1), replace=replace)
    assert [entry.archive_id for entry in store.entries()] == [id_of(1)]


def test_a_salt_is_the_way_out(store: Store, tmp_path: Path) -> None:
    entry = store.add(LITE).entry
    store.remove(entry.archive_id)
    store.add(kin(1, prefix=entry.prefix))
    with pytest.raises(TakenError):
        store.add(LITE)
    archive.split(LITE, tmp_path / "out.ptl", tmp_path / "out.ptdbg", salt="another")
    assert store.add(tmp_path / "out.ptdbg").outcome == "added"


def test_archives_without_unique_handles_share_no_prefix(store: Store) -> None:
    store.add(FIXTURES / "releases" / "torch-2.13.0" / "consts.pt")
    store.add(FIXTURES / "releases" / "torch-2.13.0" / "frozen.pt")
    assert [entry.prefix for entry in store.entries()] == [0, 0]


# --- found


def test_a_companion_is_found_by_all_that_it_is_called(store: Store) -> None:
    for path in FLEET:
        store.add(path)
    entry = store.one("Ranker")
    serialized = store.add(LITE).entry
    words = ("Ranker.ptdbg", "2597103980", entry.archive_id, entry.archive_id[:6], entry.name)
    assert [store.one(word) for word in words] == [entry] * len(words)
    assert store.one(serialized.facts.serialization_id) == serialized
    assert [one.facts.top for one in store.find("__torch__.ranker.Ranker")] == ["Ranker"]


def test_a_word_that_means_several_or_none_says_so(store: Store) -> None:
    for number in range(5):
        store.add(kin(number), name="model.ptdbg")
    with pytest.raises(ArchiveError, match=r"'model' may be model@0.*, model@0.* and 2 more; give the id"):
        store.one("model")
    with pytest.raises(ArchiveError, match="no companion has the id, prefix, name or label 'other'"):
        store.one("other")
    with pytest.raises(ArchiveError, match="or label '000'; of an id, give four digits or more"):
        store.one("000")
    with pytest.raises(ArchiveError, match="'0000' may be"):
        store.one("0000")
    with pytest.raises(ArchiveError, match="no companion has the archive id"):
        store.companion("../../etc/passwd")


# --- the folder


def test_a_folder_with_other_files_is_not_made_a_store(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ArchiveError, match="isn't a store, and a new one isn't made beside other files"):
        Store.open(tmp_path, create=True)
    with pytest.raises(ArchiveError, match="isn't a store: there is no mark debug-archive-store in it"):
        Store.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_the_place_of_a_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "symbols").write_text("mine")
    with pytest.raises(ArchiveError, match="symbols: is a file, and a store is a folder"):
        Store.open(tmp_path / "symbols", create=True)


def test_a_store_of_another_version_is_left_alone(store: Store) -> None:
    (store.folder.path / "debug-archive-store").write_text("debug-archive store, version 7\n")
    for create in (False, True):
        with pytest.raises(ArchiveError, match=r"version 7.*a newer debug-archive may read it"):
            Store.open(store.file, create=create)


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Store.open(tmp_path / "nowhere")


# --- removed, and cleaned


def test_a_companion_that_is_removed_takes_nothing_from_its_kin(store: Store) -> None:
    for number in range(8):
        store.add(kin(number))
    for number in (0, 3, 4, 7):
        store.remove(id_of(number))
    left = [1, 2, 5, 6]
    for one in (store, Store.open(store.file)):
        assert [one.companion(id_of(number)) for number in left] == [kin(number) for number in left]
        one.gc()
    assert [str(one) for one in store.check()] == []


def test_gc_removes_what_no_companion_needs_any_more(store: Store) -> None:
    for number in range(4):
        store.add(kin(number))
    for number in range(3):
        store.remove(id_of(number))
    assert store.gc().bases == 0  # the last one is kept by those
    store.remove(id_of(3))
    cleaned = store.gc()
    assert cleaned.bases == 3
    assert cleaned.freed > 0
    assert [*store.folder.bases.iterdir(), *store.folder.companions.iterdir()] == []


def test_a_companion_that_is_replaced_takes_nothing_from_its_kin(store: Store) -> None:
    for number in range(4):
        store.add(kin(number))
    store.add(kin(1, line=77), replace=True)
    again = Store.open(store.file)
    assert again.companion(id_of(1)) == kin(1, line=77)
    assert [again.companion(id_of(number)) for number in (0, 2, 3)] == [kin(number) for number in (0, 2, 3)]


def test_one_that_was_removed_can_be_added_again(store: Store) -> None:
    for number in range(3):
        store.add(kin(number))
    store.remove(id_of(0))
    assert store.add(kin(0)).outcome == "added"
    assert [store.companion(id_of(number)) for number in range(3)] == [kin(number) for number in range(3)]
    store.gc()
    assert [str(one) for one in store.check()] == []
