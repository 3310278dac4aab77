"""Files of a store that are forged or broken, and files that do not belong into one."""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard

from archive.base.digests import digest_of
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits
from archive.companion.layout import MAPPED_LINE, CompanionLayout, written
from archive.normalform.columns import RAW
from archive.render.store import day_of
from archive.store.adding import TakenError
from archive.store.kept import HEADER, MAGIC, NOTHING, read_header
from archive.store.store import Store
from tests.support.kin import id_of, kin

if TYPE_CHECKING:
    from pathlib import Path

NOTES = {"file": "m.ptdbg", "added": 1, "root": "", "serialization_id": "", "recipe": []}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.open(tmp_path / "store", create=True) as opened:
        for number in range(3):
            opened.add(kin(number))
    return opened


def forged(
    store: Store,
    number: int,
    *,
    notes: object = NOTES,
    plain: bytes | None = None,
    depth: int = 0,
    base: tuple[bytes, bytes] = (NOTHING, NOTHING),
    inflated: int | None = None,
    size: int | None = None,
    version: int = 2,
    body: bytes | None = None,
) -> None:
    """Put a kept companion into a store whose header fits its frame, but for what is given."""
    told = notes if isinstance(notes, bytes) else json.dumps(notes).encode()
    plain = kin(number) if plain is None else plain
    frame = zstandard.ZstdCompressor(level=19).compress(told + plain)
    header = HEADER.row(
        *(version, depth, *base, body or digest_of(told, plain), digest_of(plain)),
        size=len(plain) if size is None else size,
        inflated=len(told + plain) if inflated is None else inflated,
        notes=len(told),
        checksum=0,
    )
    checksum = zlib.crc32(frame, zlib.crc32(HEADER.pack(header)))
    whole = HEADER.pack(header._replace(checksum=checksum)) + frame
    store.folder.kept_path(id_of(number)).write_bytes(whole)


def problem_of(store: Store, number: int) -> str:
    """Why a companion cannot be read; all others can."""
    again = Store.open(store.file)
    assert [entry.archive_id for entry in again.entries()] == [id_of(one) for one in range(3)]
    assert list(again.unread) == [id_of(number)]
    with pytest.raises(ArchiveError) as caught:
        again.companion(id_of(number))
    errors = [one.record for one in again.check() if one.severity == "error"]
    assert errors == [f"companions/{id_of(number)}.kept"]
    return str(caught.value)


def test_a_file_that_was_made_as_these_are_is_read(store: Store) -> None:
    forged(store, 7, notes=NOTES | {"recipe": [[0, 0]] * 200})  # a recipe of as many steps as sections
    assert "recipe" in problem_of(store, 7)
    sections = kin(7)[13]
    forged(store, 7, notes=NOTES | {"recipe": [[0, 0]] * sections})
    assert Store.open(store.file).companion(id_of(7)) == kin(7)


HOSTILE_NOTES = {
    "no JSON": b"{",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "a field less": {key: value for key, value in NOTES.items() if key != "root"},
    "a recipe of texts": NOTES | {"recipe": ["ab"]},
    "a number for a recipe": NOTES | {"recipe": 7},
    "an infinite time": b'{"file": "", "added": 1e999, "root": "", "serialization_id": "", "recipe": []}',
    "bytes that are no text": b'{"file": "\xff"}',
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", HOSTILE_NOTES)
def test_notes_that_are_none_are_refused(kind: str, version: int, store: Store) -> None:
    forged(store, 7, notes=HOSTILE_NOTES[kind], version=version)
    assert "notes: expected notes in JSON, found others" in problem_of(store, 7)


@pytest.mark.parametrize(
    "sizes",
    [{"a": 3}, {"a": 9}, {"a": -3, "b": 9}, {"a": 1 << 70}, {"a": "x"}, {"a": None}, {"a": 1e999}, [6]],
)
def test_digests_of_lines_that_are_not_as_many_as_told_are_refused(sizes: object, store: Store) -> None:
    forged(store, 7, notes=json.dumps(NOTES | {"lines": sizes}).encode() + b"\n" + bytes(6))
    assert "notes: expected notes in JSON, found others" in problem_of(store, 7)


def test_texts_of_notes_cannot_break_the_index(store: Store) -> None:
    recipe = [[0, 0]] * kin(7)[13]
    names = {"file": "a\ud800b\x1b[2J\0", "added": 1 << 90, "root": "\x85", "serialization_id": "\u202e"}
    forged(store, 7, notes=NOTES | names | {"recipe": recipe})
    with Store.open(store.file) as again:
        before = again.entries()
    assert before[-1].file == "a\\ud800b\\x1b[2J\\x00"
    assert Store.open(store.file).entries() == before


@pytest.mark.parametrize("added", [253_402_300_800, 1 << 40, 1 << 90, -1, 0])
def test_whatever_time_notes_tell_has_a_day(added: int, store: Store) -> None:
    forged(store, 7, notes=NOTES | {"added": added, "recipe": [[0, 0]] * kin(7)[13]})
    with Store.open(store.file) as again:
        assert all(len(day_of(entry.added)) == len("2025-10-09") for entry in again.entries())


def test_a_companion_that_claims_much_is_refused_before_it_costs(store: Store) -> None:
    forged(store, 7, depth=1, base=(bytes.fromhex(id_of(0)), digest_of(b"")), inflated=1 << 50)
    assert "its base is lost" in problem_of(store, 7)
    forged(store, 7, size=1 << 50)
    again = Store.open(store.file, limits=Limits(memory=1 << 24))
    with pytest.raises(LimitError, match="memory is limited to"):
        again.companion(id_of(7))


def test_a_frame_that_inflates_to_more_than_it_says_is_refused(store: Store) -> None:
    forged(store, 7, plain=bytes(1 << 20), size=100)
    assert "bytes inflated, found" in problem_of(store, 7)


def test_bases_below_one_another_do_not_multiply(store: Store) -> None:
    zeros = bytes(17 << 20)
    section = MAPPED_LINE.row(RAW, 1, 0, 0, 0, len(zeros), len(zeros), zlib.crc32(zeros))
    large = written(CompanionLayout.MAPPED, bytes.fromhex(id_of(8)), [(section, zeros)])
    notes = NOTES | {"recipe": [[0, 0]]}
    forged(store, 8, plain=large, notes=notes)
    told = json.dumps(notes).encode()
    forged(store, 7, depth=1, base=(bytes.fromhex(id_of(8)), digest_of(told, large)))
    with pytest.raises(ArchiveError, match=f"{id_of(8)}.kept: expected a base of up to 16,777,216 bytes"):
        Store.open(store.file).companion(id_of(7))


def test_a_companion_that_limits_keep_from_being_read_is_replaced_only_if_asked(store: Store) -> None:
    zeros = bytes(2 << 20)
    section = MAPPED_LINE.row(RAW, 1, 0, 0, 0, len(zeros), len(zeros), zlib.crc32(zeros))
    large = written(CompanionLayout.MAPPED, bytes.fromhex(id_of(2)), [(section, zeros)])
    forged(store, 2, plain=large, notes=NOTES | {"recipe": [[0, 0]]})
    small = Store.open(store.file, limits=Limits(memory=1 << 20))
    with pytest.raises(TakenError, match=r"cannot be read: .*memory is limited to"):
        small.add(kin(2))
    assert store.companion(id_of(2)) == large


def test_a_base_that_leads_back_is_refused(store: Store) -> None:
    for entry in store.entries():
        base = bytes.fromhex(entry.archive_id), bytes.fromhex(entry.body)
        forged(store, 7, depth=entry.depth, base=base)
        assert "its base is lost" in problem_of(store, 7) or not entry.depth
    forged(store, 7, depth=0, base=(bytes.fromhex(id_of(0)), b"x" * 16))
    assert "header: expected a base, or depth 0" in problem_of(store, 7)


def test_a_companion_of_another_archive_is_refused(store: Store) -> None:
    forged(store, 7, plain=kin(8), notes=NOTES | {"recipe": [[0, 0]] * kin(8)[13]})
    assert f"expected archive id {id_of(7)}, found {id_of(8)}" in problem_of(store, 7)


def test_a_base_that_is_not_what_it_says_is_refused(store: Store) -> None:
    forged(store, 7, notes=NOTES | {"recipe": [[0, 0]] * kin(7)[13]}, body=digest_of(b"another"))
    assert "expected the body that was kept, found another" in problem_of(store, 7)


def test_a_file_of_another_version_is_refused(store: Store) -> None:
    forged(store, 7, version=3)
    told = "byte 10: expected version 1 or 2, found version 3; a newer debug-archive may read it"
    assert told in problem_of(store, 7)


def test_each_byte_of_a_kept_companion_counts(store: Store) -> None:
    path = store.folder.kept_path(id_of(2))
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ArchiveError):
            Store.open(store.file).companion(id_of(2))
    for size in range(0, len(data), 31):
        path.write_bytes(data[:size])
        with pytest.raises(ArchiveError):
            Store.open(store.file).companion(id_of(2))


def test_a_header_that_is_cut_is_refused_at_the_field_that_is_not_whole(store: Store) -> None:
    whole = memoryview(store.folder.kept_path(id_of(1)).read_bytes())
    assert read_header(whole).size
    for size in range(len(MAGIC), HEADER.size):
        field = next(field for field in HEADER.fields if size < field.offset + field.size)
        with pytest.raises(ArchiveError) as caught:
            read_header(whole[:size])
        assert caught.value.place == f"byte 0, field {field.name}"


def test_a_broken_companion_is_put_right_by_adding_it_again(store: Store) -> None:
    store.folder.kept_path(id_of(1)).write_bytes(b"broken")
    again = Store.open(store.file)
    assert again.add(kin(1)).outcome == "replaced"
    assert again.companion(id_of(1)) == kin(1)


def test_a_companion_that_rotted_unseen_is_put_right_too(store: Store) -> None:
    path = store.folder.kept_path(id_of(2))
    data, status = path.read_bytes(), path.stat()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    again = Store.open(store.file)
    assert [entry.archive_id for entry in again.entries()] == [id_of(0), id_of(1), id_of(2)]
    assert again.add(kin(2)).outcome == "replaced"
    assert again.companion(id_of(2)) == kin(2)


def test_gc_removes_no_base_while_nobody_knows_what_a_broken_file_needs(store: Store) -> None:
    store.remove(id_of(0))
    path = store.folder.kept_path(id_of(1))
    whole = path.read_bytes()
    path.write_bytes(whole[:50])
    with pytest.raises(ArchiveError, match=f"{id_of(1)}.kept"):
        store.gc()
    path.write_bytes(whole)
    store.gc()
    assert store.companion(id_of(1)) == kin(1)


def test_what_is_no_file_is_told_and_left_alone(store: Store, tmp_path: Path) -> None:
    """A companion may have been there, so ``gc`` removes nothing."""
    (tmp_path / "elsewhere").write_bytes(store.folder.kept_path(id_of(0)).read_bytes())
    store.folder.kept_path(id_of(5)).symlink_to(tmp_path / "elsewhere")
    os.mkfifo(store.folder.kept_path(id_of(6)))
    store.folder.kept_path(id_of(8)).mkdir()
    upper = store.folder.companions / f"{'A' * 32}.KEPT"
    upper.write_bytes(b"as a file system without case gives it back")
    kinds = {id_of(5): "a link", id_of(6): "a pipe", id_of(8): "a folder"}
    again = Store.open(store.file)
    assert len(again.entries()) == 3
    for key, kind in kinds.items():
        assert again.unread[key].endswith(f"{key}.kept: is {kind}, not a file of a store")
        with pytest.raises(ArchiveError, match=f"is {kind}, not a file of a store"):
            again.add(kin(int(key, 16)))
        with pytest.raises(ArchiveError, match=f"is {kind}, not a file of a store"):
            again.companion(key)
    assert again.unread["A" * 32].endswith("has capital letters in its name; files of a store have none")
    found = [one.record for one in again.check() if one.severity == "error"]
    assert found == [f"companions/{key}.kept" for key in (*kinds, "A" * 32)]
    with pytest.raises(ArchiveError, match="`store check` finds errors, so nothing is removed"):
        again.gc()
    assert (tmp_path / "elsewhere").read_bytes() == store.folder.kept_path(id_of(0)).read_bytes()
    for key in (id_of(5), id_of(6)):
        again.remove(key)
    assert (tmp_path / "elsewhere").exists()


def test_a_file_that_is_none_is_not_read_whole(store: Store) -> None:
    os.truncate(store.folder.kept_path(id_of(2)), 0)
    os.truncate(store.folder.kept_path(id_of(2)), 1 << 43)  # a hole
    assert "byte 0: expected a kept companion's header" in Store.open(store.file).listing().unread[id_of(2)]


def test_foreign_files_are_told_and_left_alone(store: Store) -> None:
    (store.folder.path / "notes.txt").write_text("mine")
    (store.folder.companions / "two\nlines").mkdir()
    again = Store.open(store.file)
    assert (len(again.entries()), again.unread) == (3, {})
    assert [(one.severity, str(one)) for one in again.check()] == [
        ("warning", f"{name}: isn't a file of a store; ignored")
        for name in ("companions/two\\nlines", "notes.txt")
    ]
    again.gc()
    assert len(list(again.check())) == 2


def test_what_is_no_companion_is_refused(store: Store) -> None:
    whole = kin(9, packed=True)
    for data in (b"", b"text", whole[:-1], whole[:40], whole[:200] + b"\0" * 8 + whole[208:]):
        with pytest.raises(ArchiveError):
            store.add(data)
    assert len(store.entries()) == 3
