"""Work on one file is done once for each command that opens it: its directory, and what Python pickled."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits
from archive.compare.pairing import Pairing
from archive.container import container as containers
from archive.container import record as records
from archive.container.container import Container
from archive.container.directory import read_directory
from archive.io.mapped import Mapped
from archive.pickles import machine
from archive.reader.recognition import REFUSED_ENTRIES, recognise_for, recognise_zip, saved_tensors
from archive.reader.recognition.kinds import SAVED_KINDS, SPLIT_KINDS, FileKind
from tests.attacks.many import tensors
from tests.attacks.zips import LITE, entries_of, entry, zipped
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.cost import loops_below

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("kinds/checkpoint.pt", "kinds/package.pt", "oracles/plain_stack.ptl", "exported/shop.pt2")
COMMANDS = (
    "report {} -o page.html",
    "verify {}",
    "sizes {} --by weights",
    "leaks {}",
    "split {} -o small.pt -c small.ptdbg",
)
MADE = entries_of(LITE)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, bytes]]:
    """How often each directory and each pickle was read, by its bytes."""
    counts: Counter[tuple[str, bytes]] = Counter()
    directory, pickle = read_directory, machine.plain_value

    def counted_directory(data: memoryview, *rest: object, **named: object) -> object:
        counts["directory", bytes(data)] += 1
        return directory(data, *rest, **named)  # type: ignore[arg-type]

    def counted_pickle(data: memoryview, *rest: object, **named: object) -> object:
        counts["pickle", bytes(data)] += 1
        return pickle(data, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(containers, "read_directory", counted_directory)
    monkeypatch.setattr(machine, "plain_value", counted_pickle)
    return counts


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_once_by_all_parts_of_a_command(
    name: str, command: str, read: Counter[tuple[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = FIXTURES / name
    done = run(*(word.format(file) for word in command.split()))
    assert done.returncode in {0, 1, 2}, done.stderr
    assert read["directory", file.read_bytes()] == 1
    assert {count for (what, _), count in read.items() if what == "pickle"} <= {1}


def test_what_opens_a_file_again_finds_what_was_found_and_asks_for_its_memory_each_time(
    read: Counter[tuple[str, bytes]],
) -> None:
    data = zipped(*MADE)
    with Container.open(data) as first:
        cost = first.allowance.taken
        with memory.charged(Limits().allowance(len(data))):
            again = Container(first.again)
        assert [*again.records] == [*first.records]
        assert again.allowance.taken == cost > 0
        assert recognise_zip(again) is recognise_zip(first)
        with pytest.raises(LimitError), memory.charged(Limits(memory=cost - 1).allowance(len(data))):
            Container(first.again)
    assert bytes(again.records["version"].view()) == b"3\n"  # its bytes are its own
    assert read["directory", data] == 1


def test_the_crc_of_a_stored_record_is_compared_once_and_a_wrong_one_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    crc32 = records._crc32

    def counted(view: memoryview) -> int:
        sizes.append(len(view))
        return crc32(view)

    monkeypatch.setattr(records, "_crc32", counted)
    good, bad = zipped(*MADE), zipped(*MADE).replace(b"3\n", b"4\n")
    with Container.open(good) as first:
        for container in (first, Container(first.again)):
            assert bytes(container.records["version"].view()) == b"3\n"
    assert sizes == [2]
    with Container.open(bad) as first:
        for container in (first, first, Container(first.again)):
            with pytest.raises(ArchiveError, match="crc32"):
                container.records["version"].view()
    assert sizes == [2] * 4


def test_a_directory_without_a_root_is_none_for_who_wants_one() -> None:
    mapped = Mapped(zipped(entry("a/x", b"1"), entry("b/y", b"2")))
    assert Container(Mapped(mapped), rooted=False).root == ""
    with pytest.raises(ArchiveError):
        Container(Mapped(mapped))


def test_a_long_pickle_is_not_read_to_be_refused(read: Counter[tuple[str, bytes]]) -> None:
    many, few = tensors(30_000), tensors(10)
    found = recognise_for(many, SPLIT_KINDS, limits=Limits())
    assert (found.kind, found.what) == (FileKind.SAVED, "an object saved by torch.save")
    assert not any(what == "pickle" for what, _ in read)
    assert recognise_for(few, SPLIT_KINDS, limits=Limits()).what.startswith("a state dict of 10 tensors")
    assert recognise_for(many, SAVED_KINDS, limits=Limits()).what.startswith("a state dict of 30,000 tensors")


@pytest.mark.parametrize(
    "other",
    [
        *("m/x", "m/constants.pkl", "m/bytecode.pkl", "m/archive_format", "m/code/x.py", "m/x.debug_pkl"),
        *("m/.data/extern_modules", "m/.data/serialization_id", "x", "n/x", "m", "ETRECORD_V0"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_many_records_are_recognised_by_their_names_as_they_are_by_all_of_the_directory(
    other: str, *, first: bool
) -> None:
    stored = [entry(f"m/data/{at}", b"") for at in range(REFUSED_ENTRIES)]
    names = [entry("m/data.pkl", b"\x80\2}."), *stored, entry("m/version", b"3\n")]
    data = zipped(*([entry(other, b""), *names] if first else [*names, entry(other, b"")]))
    with Container.open(data) if other.startswith("m/") else Container(Mapped(data), rooted=False) as whole:
        expected = recognise_zip(whole, look=False)
    found = recognise_for(data, SPLIT_KINDS, limits=Limits())
    assert (found.kind, found.what) == (expected.kind, expected.what)


def test_entries_of_an_object_that_is_refused_are_not_checked() -> None:
    lying = entry("m/data/0", b"1").saying(local=False, size=2)
    for count, kind in ((REFUSED_ENTRIES, FileKind.SAVED), (1, None)):
        data = zipped(entry("m/data.pkl", b"N."), lying, *(entry(f"m/{at}", b"") for at in range(count)))
        if kind is None:
            with pytest.raises(ArchiveError):
                recognise_for(data, SPLIT_KINDS, limits=Limits())
        else:
            assert recognise_for(data, SPLIT_KINDS, limits=Limits()).kind is kind
        with pytest.raises(ArchiveError):
            recognise_for(data, SAVED_KINDS, limits=Limits())


def test_tensors_of_one_storage_are_found_with_the_kind(read: Counter[tuple[str, bytes]]) -> None:
    with Container.open(tensors(10)) as container:
        assert recognise_zip(container).kind is FileKind.STATE_DICT
        assert len(saved_tensors(container)) == 10
    assert read.total() == 2  # a directory, a pickle


def test_the_module_of_each_class_is_looked_up_not_searched_for() -> None:
    names = [f"__torch__.m{at}.___torch_mangle_{at}.M" for at in range(20_000)]
    with loops_below(400):
        pairing = Pairing(names, names)
        pairing.pair_rest(names, names)
        modules = [name.rpartition(".")[0] for name in names]
        assert [pairing.old_module(module) for module in modules] == modules
    assert pairing.old_module("__torch__.other") == "__torch__.other"
