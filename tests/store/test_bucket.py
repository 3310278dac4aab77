"""A store in a bucket keeps what it is given, whoever adds at once, and trusts nothing that lies there."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from unittest import mock

import fsspec
import pytest

import archive
from archive import split
from archive.app.sources import models_at, models_in, own_store
from archive.base.digests import digest_of
from archive.base.errors import ArchiveError
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.io.location import Location
from archive.reader.facts import facts_of
from archive.store.adding import NoDebugInfoError, TakenError
from archive.store.bucket import COMPANIONS, INDEX, PREFIXES, STALE, Bucket
from archive.store.client.cache import VARIABLE
from archive.store.objects import Objects
from archive.store.store import Store
from tests.support.commands import run
from tests.support.corpus import FIXTURES, ORACLES, RELEASES
from tests.support.documents import files_of
from tests.support.kin import LEAST_PREFIX, id_of, kin
from tests.support.object_store import BUCKET, s3
from tests.support.sampling import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLEET = FIXTURES / "fleet"
RANKER = FLEET / "Ranker.ptdbg"
LITE = RELEASES / "torch-2.13.0" / "traced.ptl"
PLACES = ("s3", "memory")
in_both = pytest.mark.parametrize("url", PLACES, indirect=True)
"""What a bucket must do itself; all else runs in S3 with ``--all`` alone, whose server starts slowly."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=PLACES if Suite.whole else PLACES[1:])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a store may lie: what speaks S3's language, and a file system of memory."""
    if request.param == "memory":
        fsspec.filesystem("memory").store.clear()
        yield "memory://models/symbols"
    else:
        with s3():
            yield f"{BUCKET}/symbols"


@pytest.fixture
def bucket(url: str) -> Bucket:
    return Bucket.open(url, create=True)


def again(bucket: Bucket) -> Bucket:
    """The same as another process sees it."""
    return Bucket.open(bucket.file)


def test_what_is_added_again_is_what_was_added_not_what_was_cached(bucket: Bucket) -> None:
    """The same content may have other bytes: those that another level of compression makes."""
    first = bucket.add(RANKER).entry
    assert again(bucket).entries() == [first]  # and cached
    bucket.remove(first.key)
    columns = archive.open(RANKER).companion
    assert columns is not None
    other = build_companion(columns.contents, CompanionLayout.MAPPED)
    entry = again(bucket).add(other, name="Ranker.ptdbg").entry
    assert (entry.key, entry.digest) == (first.key, digest_of(other).hex())
    assert entry.digest != first.digest


def put(bucket: Bucket, name: str, data: bytes) -> None:
    """Another one's hand in the bucket."""
    fs, root = fsspec.core.url_to_fs(bucket.file)
    fs.pipe_file(f"{root}/{name}", data)


@in_both
def test_companions_come_back_to_the_byte(bucket: Bucket) -> None:
    for number in range(4):
        assert bucket.add(kin(number, packed=number % 2 == 0)).outcome == "added"
    assert bucket.add(RANKER).entry.facts.top == "Ranker"
    other = again(bucket)
    assert other.entries() == bucket.entries()
    for number in range(4):
        assert other.given_of(other.one(id_of(number))) == (kin(number, packed=number % 2 == 0), True)
    assert other.given_of(other.one("Ranker")).data == RANKER.read_bytes()
    assert not [*other.check()]


def test_what_is_kept_says_what_a_folder_says(bucket: Bucket, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", create=True) as store:
        for file in (RANKER, LITE, ORACLES / "plain_free_functions.pt"):
            mine, theirs = bucket.add(file).entry, store.add(file).entry
            assert (mine.facts, mine.root, mine.file, mine.size, mine.digest) == (
                *(theirs.facts, theirs.root, theirs.file, theirs.size, theirs.digest),
            )
            with bucket.opened_of(mine) as one, store.opened_of(theirs) as other:
                assert facts_of(one) == facts_of(other)
                assert one.line_digests.keys() == other.line_digests.keys()


def test_the_same_facts_are_kept_once(bucket: Bucket) -> None:
    assert bucket.add(kin(1, packed=True), name="one").outcome == "added"
    assert bucket.add(kin(1, packed=True), name="two").outcome == "same"
    assert bucket.add(kin(1), name="another layout").outcome == "same"
    assert [entry.file for entry in bucket.entries()] == ["one"]


@in_both
def test_of_many_that_add_one_wins_and_nothing_is_lost(bucket: Bucket) -> None:
    def add(number: int) -> str:
        return again(bucket).add(kin(number % 3)).outcome

    with ThreadPoolExecutor(12) as pool:
        outcomes = [*pool.map(add, range(12))]
    assert sorted(outcomes) == ["added"] * 3 + ["same"] * 9
    assert [entry.archive_id for entry in again(bucket).entries()] == [id_of(number) for number in range(3)]


def test_a_bucket_that_keeps_less_than_it_is_given_is_found_out(bucket: Bucket) -> None:
    ask = Location.ask

    def less(place: Location, method: str, path: str, *data: bytes, **options: Any) -> object:  # noqa: ANN401 (of any method)
        if method == "pipe_file" and COMPANIONS in path:
            data = (data[0][:-1],)
        return ask(place, method, path, *data, **options)

    with (
        mock.patch.object(Location, "ask", less),
        pytest.raises(ArchiveError, match="was not written whole"),
    ):
        bucket.add(kin(1))


def test_builds_of_equal_code_are_both_kept_and_told_apart(bucket: Bucket) -> None:
    first, second = (bucket.add(kin(1, line=line), name="one").entry for line in (10, 11))
    assert len(again(bucket).entries()) == 2
    with pytest.raises(ArchiveError, match=r"may be one@.*/.*, one@.*/.*; give one of these names"):
        bucket.one(id_of(1))
    for entry, line in ((first, 10), (second, 11)):
        assert bucket.given_of(bucket.one(entry.full_name)).data == kin(1, line=line)
    assert {model.file for model in models_at(bucket.file).all} == {first.full_name, second.full_name}
    assert bucket.add(kin(1, line=10), replace=True).outcome == "replaced"
    assert [entry.digest for entry in bucket.entries()] == [first.digest]


@in_both
def test_a_prefix_is_one_archives(bucket: Bucket) -> None:
    bucket.add(kin(1, prefix=LEAST_PREFIX))
    with pytest.raises(TakenError, match=f"prefix {LEAST_PREFIX}: is the prefix of another archive already"):
        again(bucket).add(kin(2, prefix=LEAST_PREFIX))
    assert len(again(bucket).entries()) == 1


@in_both
def test_claims_are_removed_a_day_after_the_last_companion_of_their_archive(bucket: Bucket) -> None:
    for number in (1, 2):
        bucket.add(kin(number))
    bucket.remove(bucket.one(id_of(1)).key)
    assert bucket.gc().claims == 0  # someone may be adding it this moment
    tomorrow = time.time() + STALE + 60
    with mock.patch("time.time", return_value=tomorrow):
        assert bucket.gc().claims == 1
    bucket.add(kin(3, prefix=LEAST_PREFIX + 1))
    with pytest.raises(TakenError):
        bucket.add(kin(4, prefix=LEAST_PREFIX + 2))


@in_both
def test_a_claim_that_is_cleaned_away_while_its_companion_comes_is_made_again(bucket: Bucket) -> None:
    objects = bucket._objects
    create, claim = objects.create, f"{PREFIXES}/{LEAST_PREFIX + 1}"

    def cleaned_before(name: str, data: bytes) -> bool:
        if name.startswith(COMPANIONS):
            objects.remove(claim)
        return create(name, data)

    with mock.patch.object(objects, "create", cleaned_before):
        bucket.add(kin(1))
    assert objects.found(claim, 100) == id_of(1).encode()


@in_both
@pytest.mark.parametrize("is_there", [False, True])
def test_a_companion_whose_claim_another_archive_took_meanwhile_does_not_stay(
    bucket: Bucket, *, is_there: bool
) -> None:
    """Only what this call created is removed."""
    objects, file = bucket._objects, kin(1, prefix=LEAST_PREFIX)
    if is_there:
        bucket.add(file)
    create, claim = objects.create, f"{PREFIXES}/{LEAST_PREFIX}"

    def taken_before(name: str, data: bytes) -> bool:
        if name.startswith(COMPANIONS):
            objects.remove(claim)
            put(bucket, claim, id_of(2).encode())
        return create(name, data)

    with mock.patch.object(objects, "create", taken_before), pytest.raises(TakenError):
        bucket.add(file)
    assert len(again(bucket).entries()) == is_there


@in_both
def test_cleaning_gives_a_claim_back_to_a_companion_that_came_meanwhile(bucket: Bucket) -> None:
    bucket.add(kin(1))
    key, claim = bucket.one(id_of(1)).key, f"{PREFIXES}/{LEAST_PREFIX + 1}"
    objects = bucket._objects
    data, remove = objects.found(key, 1 << 20), objects.remove
    bucket.remove(key)

    def added_before(name: str) -> None:
        objects.create(key, data)
        remove(name)

    with (
        mock.patch("time.time", return_value=time.time() + STALE + 60),
        mock.patch.object(objects, "remove", added_before),
    ):
        assert bucket.gc().claims == 0
    assert objects.found(claim, 100) == id_of(1).encode()


# --- the index


def test_the_index_spares_reading_companions_and_may_be_lost(bucket: Bucket) -> None:
    for number in range(5):
        bucket.add(kin(number))
    entries = again(bucket).entries()  # writes the index
    with mock.patch.object(Bucket, "_read", side_effect=AssertionError):
        assert again(bucket).entries() == entries
    for broken in (b"", b"[]", b"{", b'{"companions/x/y": 1}', b"\xff" * 100):
        put(bucket, INDEX, broken)
        assert again(bucket).entries() == entries
        with mock.patch.object(Bucket, "_read", side_effect=AssertionError):
            assert again(bucket).entries() == entries


@pytest.mark.parametrize("field", ["prefix", "top", "handles", "code", "archive_id"])
def test_an_index_that_lies_is_found_out(bucket: Bucket, field: str) -> None:
    entry = bucket.add(RANKER).entry
    again(bucket).entries()
    fs, root = fsspec.core.url_to_fs(bucket.file)
    index = json.loads(fs.cat_file(f"{root}/{INDEX}"))
    lies = {"prefix": 1_511_347_656, "top": "x", "handles": [[0, 10]], "code": ["x"], "archive_id": "7" * 32}
    index[entry.key][field] = lies[field]
    put(bucket, INDEX, json.dumps(index).encode())
    other = again(bucket)
    (told,) = other.entries()
    if field == "archive_id":  # not that of the object, which is read then
        assert told == entry
        return
    with pytest.raises(ArchiveError, match=f"contradicts the index of its bucket: {field}"):
        other.opened_of(told)


def test_an_index_that_another_process_replaced_stays() -> None:
    with s3():
        objects = Objects(f"{BUCKET}/x")
        objects.create(INDEX, b"1")
        _, version = objects.versioned(INDEX, 9)
        objects.replace(INDEX, b"2", version)
        with pytest.raises(OSError, match="cannot be written"):
            objects.replace(INDEX, b"3", version)
        assert objects.read(INDEX, 9) == b"2"


# --- what lies, and changes


def test_objects_that_are_not_what_their_name_says_are_told_and_left_out(bucket: Bucket, cache: Path) -> None:
    good, bad = (bucket.add(kin(number)).entry for number in (1, 2))
    fs, root = fsspec.core.url_to_fs(bucket.file)
    data = fs.cat_file(f"{root}/{good.key}")
    for wrong in (b"", data[:-1], data[:100] + b"x" + data[101:], data, b"x" * 1000):
        put(bucket, bad.key, wrong)
        for kept in cache.glob("*"):
            kept.unlink()
        put(bucket, INDEX, b"{}")
        other = again(bucket)
        assert [entry.archive_id for entry in other.entries()] == [id_of(1)]
        assert [*other.unread] == [bad.key]
        models = models_at(bucket.file)
        assert len(models.unread) == 1
        assert [found.severity for found in other.check()] == ["error"]


def test_what_was_changed_since_is_found_when_it_is_opened(bucket: Bucket, cache: Path) -> None:
    entry = bucket.add(kin(1)).entry
    fs, root = fsspec.core.url_to_fs(bucket.file)
    data = bytearray(fs.cat_file(f"{root}/{entry.key}"))
    data[-1] ^= 1
    put(bucket, entry.key, bytes(data))
    for kept in cache.glob("*"):
        kept.unlink()
    with pytest.raises(ArchiveError, match="expected checksum"):
        bucket.opened_of(entry)


def test_foreign_objects_are_told_and_left_alone(bucket: Bucket) -> None:
    bucket.add(kin(1))
    put(bucket, f"{COMPANIONS}/notes.txt", b"x")
    assert [str(name) for name in again(bucket).listing().foreign] == [f"{COMPANIONS}/notes.txt"]
    assert run("store", "ls", "--store", bucket.file).returncode == 1
    with pytest.raises(ArchiveError, match="no companion is called"):
        bucket.remove(f"{COMPANIONS}/notes.txt")


@pytest.mark.parametrize("prefix", [b"", b"x", b"\xff", b"7" * 32])
def test_a_broken_claim_refuses_and_does_no_more(bucket: Bucket, prefix: bytes) -> None:
    put(bucket, f"{PREFIXES}/{LEAST_PREFIX + 1}", prefix)
    with pytest.raises(TakenError):
        bucket.add(kin(1))
    assert bucket.gc().claims == 0


def test_a_place_without_a_mark_is_no_store(url: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="isn't a store: there is no object debug-archive-store in it"):
        Bucket.open(url)
    fs, root = fsspec.core.url_to_fs(url)
    fs.pipe_file(f"{root}/debug-archive-store", b"debug-archive store, version 1\n")
    with pytest.raises(ArchiveError, match="is a copy of a store's folder"):
        Bucket.open(url, create=True)
    fs.pipe_file(f"{root}/debug-archive-store", b"debug-archive store in a bucket, version 9\n")
    with pytest.raises(ArchiveError, match="a newer debug-archive may read it"):
        Bucket.open(url, create=True)
    with pytest.raises(ArchiveError, match="a folder of this machine: give its path"):
        Bucket.open(f"file://{tmp_path}", create=True)


def test_an_archive_without_debug_info_is_not_added(bucket: Bucket, tmp_path: Path) -> None:
    split(LITE, tmp_path / "out.ptl", tmp_path / "out.ptdbg")
    with pytest.raises(NoDebugInfoError, match="no debug info in it"):
        bucket.add(tmp_path / "out.ptl")
    assert not again(bucket).entries()


# --- commands


@in_both
def test_commands_take_a_bucket_as_they_take_a_folder(url: str, tmp_path: Path) -> None:
    done = run("store", "add", FLEET, "--store", url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines()[-1] == "3 files: 3 added"
    listed = files_of(run("store", "ls", "--store", url, "--json").stdout)
    assert [entry["top"] for entry in listed] == ["Encoder", "Ranker", "Detector"]
    assert run("store", "get", "Ranker", "-o", tmp_path / "r", "--store", url).returncode == 0
    assert (tmp_path / "r").read_bytes() == RANKER.read_bytes()
    assert run("store", "check", "--store", url).stdout.decode() == f"{url}: 3 companions, well\n"
    assert run("store", "rm", "Ranker", "--store", url).returncode == 0
    gone = run("store", "gc", "--store", url).stdout.decode()
    assert gone == f"{url}: 0 claims of a prefix removed, 0 bytes freed\n"
    assert len(own_store(url).entries()) == 2


@in_both
def test_a_log_is_explained_by_a_bucket_as_by_a_folder(url: str) -> None:
    run("store", "add", FLEET, "--store", url)
    log = FLEET / "unique.log"
    by_bucket, by_folder = (
        run("symbolicate", "--store", url, "--log", log),
        run("symbolicate", FLEET, "--log", log),
    )
    assert (by_bucket.returncode, by_bucket.stdout) == (0, by_folder.stdout)


def test_several_stores_are_asked_in_their_order(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    run("store", "add", RANKER, "--store", folder)
    run("store", "add", FLEET, "--store", url)
    stores = f"{folder} {url} memory://nowhere"
    models = models_at(stores)
    assert sorted(model.file.split("@")[0] for model in models.all) == ["Detector", "Encoder", "Ranker"]
    assert [*models.unread] == ["memory://nowhere"]
    log = FLEET / "unique.log"
    done = run("symbolicate", "--store", stores, "--log", log)
    assert done.stdout == run("symbolicate", FLEET, "--log", log).stdout
    assert done.returncode == 1  # a failure might have been of a model there
    assert b"not read: memory://nowhere: isn't a store" in done.stderr


def test_builds_of_one_name_in_several_stores_are_told_apart(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for line, folder in enumerate(folders):
        Store.open(folder, create=True).add(kin(1, line=line), name="Net.ptdbg")
    for models in (models_at(" ".join(map(str, folders))), models_in(folders)):
        names = {model.file for model in models.all}
        assert len(names) == 2
        assert {name.partition("/")[0] for name in names} == {f"Net@{id_of(1)[:12]}"}


def test_a_folder_whose_path_has_a_blank_is_one_store(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    run("store", "add", RANKER, "--store", folder)
    assert [model.file.split("@")[0] for model in models_at(str(folder)).all] == ["Ranker"]
