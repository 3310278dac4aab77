"""Releases have names: a label says which of several companions of one file is which, everywhere."""

from __future__ import annotations

import io
import json
import re
import sqlite3
from functools import partial
from threading import Barrier, Thread
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_of
from archive.base.errors import ArchiveError
from archive.describe.inspect import inspect
from archive.formats.release_label import LABEL_TEXT, MOST_LABELS
from archive.store.bucket import Bucket
from archive.store.client.server import Server
from archive.store.entries import entry_json, parsed_entry
from archive.store.kept import KeptNotes, _parsed
from archive.store.store import Store
from tests.support.commands import run
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.documents import files_of
from tests.support.halves import split_companion
from tests.support.kin import id_of, kin
from tests.support.servers import TOKEN, Running, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LITE = ORACLES / "plain_stack.ptl"
RELEASES = ("1.4.1", "1.4.2", "1.5.0 beta")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of three releases of one file, told apart by nothing but their ids."""
    store = Store.open(tmp_path / "symbols", create=True)
    for number, label in enumerate(RELEASES):
        store.add(kin(number), name="wake.ptdbg", label=label)
    return store


def test_releases_of_one_file_are_listed_and_given_out_by_their_labels(store: Store, tmp_path: Path) -> None:
    listed = run("store", "ls", "--store", store.file).stdout.decode().splitlines()
    assert "   label        " in listed[0]
    assert [label for label, line in zip(RELEASES, listed[2:5], strict=True) if f"   {label} " in line] == [
        *RELEASES
    ]
    for number, label in enumerate(RELEASES):
        for word in (label, f"wake@{label}"):
            done = run("store", "get", word, "-o", "-", "--store", store.file)
            assert done.stdout == kin(number), done.stderr
        found = files_of(run("store", "ls", f"*@{label}", "--store", store.file, "--json").stdout)
        assert [(one["archive_id"], one["labels"]) for one in found] == [(id_of(number), [label])]
    done = run("store", "get", "wake", "-o", tmp_path / "out", "--store", store.file)
    assert done.returncode == 2
    assert done.stderr.decode().endswith("; give the id, or a label like wake@1.4.1\n")
    assert "wake@000000000000 (1.4.1), wake@000000000000 (1.4.2)" in done.stderr.decode()


def test_every_name_that_a_list_shows_goes_with_a_label(store: Store) -> None:
    entry = store.one("1.4.2")
    for name in (entry.facts.top, entry.facts.qualified_top, entry.file, "wake"):
        assert store.one(f"{name}@1.4.2") == entry
    assert store.one(f"wake.ptdbg@{id_of(1)}") == entry, "and with an id"
    with pytest.raises(ArchiveError) as refused:
        store.one("wake.ptdbg@9.9")
    words = "no companion has the id, prefix, name or label 'wake.ptdbg@9.9'; wake.ptdbg has the labels "
    assert str(refused.value).endswith(words + ", ".join(RELEASES))


def test_without_labels_a_list_has_no_column_for_them(tmp_path: Path) -> None:
    Store.open(tmp_path, create=True).add(kin(1), name="wake.ptdbg")
    assert b"label" not in run("store", "ls", "--store", tmp_path).stdout


def test_a_release_that_is_the_same_file_is_one_more_label_of_it(store: Store) -> None:
    size = store.one("1.4.2").size
    outcomes = [store.add(kin(1), label=label).outcome for label in ("1.4.3", "1.4.3", "1.4.2", "")]
    assert outcomes == ["labelled", "same", "same", "same"]
    entry = store.one("wake@1.4.3")
    assert (entry.labels, entry.size) == (("1.4.2", "1.4.3"), size)
    assert store.companion(entry.archive_id) == kin(1)
    assert Store.open(store.file).one("1.4.3") == entry, "another process sees it"
    assert [one for one in store.check() if one.severity != "note"] == []


def test_other_debug_info_has_its_own_label_alone(store: Store) -> None:
    other = kin(1, line=77)
    with pytest.raises(ArchiveError, match="kept already with other debug info"):
        store.add(other, label="2.0")
    assert store.add(other, label="2.0", replace=True).entry.labels == ("2.0",)


def test_a_companion_has_the_label_that_split_gave_it(tmp_path: Path) -> None:
    done = run("split", LITE, "-o", tmp_path / "s.ptl", "-c", tmp_path / "wake.ptdbg", "--label", "1.4.2")
    assert done.returncode == 0
    with archive.open(tmp_path / "wake.ptdbg") as opened:
        assert opened.companion is not None
        assert opened.companion.label == inspect(opened).label == "1.4.2"
    assert b" (1.4.2)" in run("inspect", tmp_path / "wake.ptdbg").stdout.splitlines()[0]
    added = run("store", "add", tmp_path / "wake.ptdbg", "--store", tmp_path / "symbols").stdout.decode()
    assert "wake.ptdbg: added (1.4.2), " in added
    run("store", "add", tmp_path / "wake.ptdbg", "--store", tmp_path / "symbols", "--label", "1.4.2-eu")
    entry = Store.open(tmp_path / "symbols").one("wake@1.4.2-eu")
    assert entry.labels == ("1.4.2", "1.4.2-eu")
    assert (
        run("join", tmp_path / "s.ptl", "-c", tmp_path / "wake.ptdbg", "-o", tmp_path / "j").returncode == 0
    )
    assert (tmp_path / "j").read_bytes() == LITE.read_bytes()


@pytest.mark.parametrize("layout", ["packed", "mapped"])
@pytest.mark.parametrize("label", ["1.4.2", "forward", "plain_stack"])
def test_companions_that_differ_in_their_label_say_the_same(layout: str, label: str, tmp_path: Path) -> None:
    """Also where the label is a text that the companion has anyway."""
    plain, labelled = io.BytesIO(), io.BytesIO()
    archive.split(LITE, io.BytesIO(), plain, layout=layout)
    archive.split(LITE, io.BytesIO(), labelled, layout=layout, label=label)
    assert plain.getvalue() != labelled.getvalue()
    store = Store.open(tmp_path, create=True)
    store.add(plain.getvalue())
    assert store.add(labelled.getvalue()).outcome == "labelled"
    assert [entry.labels for entry in store.entries()] == [(label,)]


def test_a_file_of_before_there_were_labels_is_read_and_its_bytes_stay(tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)
    entry = store.add(FIXTURES / "fleet" / "Ranker.ptdbg").entry
    notes = KeptNotes("a.ptdbg", 1, "", "", [])
    assert b"labels" not in notes.built(), "what older readers know stays as it was"
    assert _parsed(notes.built(), 1).labels == entry.labels == ()
    known = entry_json(entry, complete=True)
    del known["labels"]
    assert parsed_entry(known).labels == (), "a server of before lists none"


def test_failures_and_notes_name_the_release(store: Store, tmp_path: Path) -> None:
    names = {model.file for model in models_of(store).all}
    assert names == {f"wake@{id_of(n)[:12]} ({label})" for n, label in enumerate(RELEASES)}
    run("store", "add", FIXTURES / "fleet", "--store", tmp_path / "fleet", "--label", "7.0")
    log = (FIXTURES / "fleet" / "unique.log").read_bytes()
    told = files_of(run("symbolicate", "--store", tmp_path / "fleet", "--json", stdin=log).stdout)[0]
    assert all(name.endswith(" (7.0)") for cause in told["causes"] for name in cause["models"])
    assert told["causes"]


def test_a_log_may_name_a_model_by_its_release(tmp_path: Path) -> None:
    """Both have the same plain handles and other source; without the release, nothing says which."""
    store = Store.open(tmp_path / "symbols", create=True)
    for number, label in enumerate(["1.4.1", "1.4.2"]):
        store.add(kin(number), name="wake.ptdbg", label=label)
    failed = next(filter(partial(is_ambiguous, store), failures(store)))
    for label in ("1.4.1", "1.4.2"):
        explainer = explainer_of(models_of(store), names=r"release (\S+)")
        text = b"".join(explainer.explain([b"running release %b\n" % label.encode() + failed]))
        with store.opened_of(store.one(label)) as opened:
            own = str(opened.symbolicate([int(re.findall(rb"{(\d+)}", failed)[0])]))
        assert own.encode() in text
    explainer = explainer_of(models_of(store))
    assert b"".join(explainer.explain([failed])) == failed
    assert (
        "fits wake@000000000000 (1.4.1), wake@000000000000 (1.4.2); add the archives, give the FILE"
        in explainer.notes[0]
    )


def test_a_label_alone_proves_no_model(tmp_path: Path) -> None:
    """Others of that release may not be at hand. The note says that the label decided."""
    store = Store.open(tmp_path / "symbols", create=True)
    for number, label in enumerate(["1.4.1", "1.4.2"]):
        store.add(kin(number), name="wake.ptdbg", label=label)
    failed = next(filter(partial(is_ambiguous, store), failures(store)))
    by_label, by_both = (f"running release {name}1.4.1\n".encode() + failed for name in ("", "wake@"))
    caveat = (
        "only the label of a release in the log names the model: 1 failure is explained because nothing "
        "contradicts it"
    )
    for log, expected in ((by_label, caveat), (by_both, "")):
        explainer = explainer_of(models_of(store), names=r"release (\S+)")
        assert failed not in b"".join(explainer.explain([log]))
        assert explainer.caveat == expected


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b"release 1.5.0 beta started", False),
        (b"release 1.5.0 beta.", False),
        (b"release 1.5.0 beta2", True),
        (b"release 1.5.0, beta", True),
    ],
)
@pytest.mark.parametrize("has_shorter", [False, True])
def test_a_pattern_that_finds_the_beginning_of_a_label_names_no_model(
    tmp_path: Path, line: bytes, *, names: bool, has_shorter: bool
) -> None:
    """Whether the line means the label 1.5.0 or 1.5.0 beta, nothing says; the note says what would."""
    store = Store.open(tmp_path / "symbols", create=True)
    for number, label in enumerate(["1.4.1", "1.5.0 beta", *["1.5.0"] * has_shorter]):
        store.add(kin(number), name="wake.ptdbg", label=label)
    failed = next(filter(partial(is_ambiguous, store), failures(store)))
    explainer = explainer_of(models_of(store), names=r"release ([\w.]+)")
    text = b"".join(explainer.explain([line + b"\n" + failed]))
    assert (failed not in text) == (names and has_shorter)
    why = "that may be the beginning of '1.5.0 beta': let the pattern match all of it"
    assert any(note.endswith(why) for note in explainer.notes) is not names
    whole = explainer_of(models_of(store), names=r"release ([\w.]+ beta)")
    assert (failed not in b"".join(whole.explain([line + b"\n" + failed]))) == (b"0 beta" in line)


def failures(store: Store) -> Iterator[bytes]:
    """What devices print of each handle of a model."""
    for run_of_handles in store.one("1.4.1").facts.handles:
        for handle in run_of_handles:
            yield b"Debug info for handle(s): debug_handles:{%d}, was not found.\n" % handle


def is_ambiguous(store: Store, failure: bytes) -> bool:
    explainer = explainer_of(models_of(store))
    return b"".join(explainer.explain([failure])) == failure and explainer.ambiguous == 1


WRONG = ["", " ", "a@b", "1.4.2 ", "a\nb", "a\x1b[31m", "x" * 65, "\u202e1.4.2", "a/b", "\ud800", "-1"]


@pytest.mark.parametrize("label", WRONG[1:], ids=ascii)
def test_what_is_no_label_is_refused_before_anything_is_done(label: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="expected a label like"):
        archive.split(LITE, tmp_path / "s.ptl", tmp_path / "s.ptdbg", label=label)
    store = Store.open(tmp_path / "symbols", create=True)
    with pytest.raises(ArchiveError, match="expected a label like"):
        store.add(kin(1), label=label)
    assert not (tmp_path / "s.ptl").exists()
    assert store.entries() == []


@given(st.text(max_size=70))
def test_every_label_is_one_short_printable_line(text: str) -> None:
    if LABEL_TEXT.fullmatch(text):
        assert text.isprintable()
        assert text.strip() == text
        assert "@" not in text
        assert 0 < len(text) <= 64


def test_a_companion_has_a_bounded_number_of_labels(store: Store) -> None:
    for number in range(MOST_LABELS - 1):
        store.add(kin(1), label=f"r{number}")
    with pytest.raises(ArchiveError, match=f"labels of {MOST_LABELS} releases at most, found 65"):
        store.add(kin(1), label="one more")
    assert len(store.one("r0").labels) == MOST_LABELS


def test_labels_in_an_index_that_are_none_make_it_worthless(store: Store) -> None:
    store.close()
    with sqlite3.connect(store.folder.index) as index:
        index.execute("UPDATE companions SET labels = ?", [json.dumps(["a\nb"])])
    assert [entry.labels for entry in Store.open(store.file).entries()] == [(label,) for label in RELEASES]


def test_labels_that_processes_add_at_once_are_all_kept(tmp_path: Path) -> None:
    Store.open(tmp_path, create=True).add(kin(1), name="wake.ptdbg")
    begin = Barrier(4)

    def add(number: int) -> None:
        own = Store.open(tmp_path)
        own.entries()
        begin.wait()
        own.add(kin(1), label=f"r{number}")

    threads = [Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(Store.open(tmp_path).entries()[0].labels) == ["r0", "r1", "r2", "r3"]


def test_a_bucket_unites_the_labels_of_one_companion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG_ARCHIVE_CACHE", str(tmp_path))
    bucket = Bucket.open(f"memory://labels-{tmp_path.name}", create=True)
    assert bucket.add(kin(1), name="wake.ptdbg", label="1.4.1").outcome == "added"
    assert bucket.add(kin(1), name="wake.ptdbg", label="1.4.2").outcome == "labelled"
    assert bucket.add(kin(1), name="wake.ptdbg", label="1.4.2").outcome == "same"
    (entry,) = Bucket.open(bucket.file).entries()
    assert sorted(entry.labels) == ["1.4.1", "1.4.2"]
    assert bucket.given_of(bucket.one("wake@1.4.1")).data == kin(1)
    assert [*bucket.check()] == []
    bucket.remove(bucket.one("wake@1.4.2").key)
    assert bucket.entries() == [], "all copies go"


def test_a_server_takes_lists_and_shows_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG_ARCHIVE_TOKEN", TOKEN)
    monkeypatch.setenv("DEBUG_ARCHIVE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "token").write_text(TOKEN)
    store = store_of(tmp_path / "symbols", [])
    with Running(store, "--token-file", tmp_path / "token", "--workers", "1") as served:
        server = Server(served.url)
        addition = server.add(LITE, label="1.4.2")
        assert (addition.outcome, addition.entry.labels) == ("added", ("1.4.2",))
        done = run("store", "add", LITE, "--store", served.url, "--label", "1.5.0")
        assert b": labelled (1.4.2, 1.5.0), " in done.stdout, done.stderr
        companion = split_companion(LITE, label="own")
        assert server.add(companion).entry.labels == ("1.4.2", "1.5.0", "own")
        assert [entry.labels for entry in server.entries()] == [("1.4.2", "1.5.0", "own")]
        assert b"1.4.2, 1.5.0, own" in served.ask("GET", "/models?name=1.5").data
        with pytest.raises(ArchiveError, match="expected a label like"):
            server.add(LITE, label="a@b")


def test_a_label_that_is_offered_means_one_companion(tmp_path: Path) -> None:
    """Files of one name and several kinds, each with the label of their release."""
    with Store.open(tmp_path / "store", create=True) as store:
        for ending in ("pt", "ptl"):
            store.add(ORACLES / f"plain_stack.{ending}", name=f"gate.{ending}", label="1.0")
        for word in ("gate@1.0", "1.0", "gate"):
            with pytest.raises(ArchiveError, match="may be ") as told:
                store.one(word)
            offered = str(told.value).rpartition(" a label like ")[2]
            assert offered != word
            assert store.one(offered).labels == ("1.0",)
