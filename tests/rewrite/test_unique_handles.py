"""Debug handles become unique when an archive is split or shrunk, and are looked up in either form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError
from archive.check.verify import verify
from archive.debuginfo.unique_handles import SPAN
from archive.describe.inspect import inspect
from archive.reader.split_handles import delegated_handles
from tests.support import slow_reader
from tests.support.commands import called, told, well
from tests.support.corpus import CALLSTACKS, HANDLES, ORACLES, RELEASES
from tests.support.sampling import crossed
from tests.support.tampering import STACK, edited, ranges, tampered
from tests.support.tampering import handles as with_handles
from tests.support.tampering import methods as with_methods

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Archive

LITE = [RELEASES / f"torch-{release}" / "nested.ptl" for release in ("1.9.0", "1.11.0", "2.13.0")]
LARGE = 10**8


def assert_same_in_either_form(opened: Archive, original: Archive, prefix: int) -> None:
    """Each handle is found by its number and by its unique form, and means what it meant."""
    assert len(original.handles) > 3
    for handle in original.handles:
        text = bytes(original.symbolicate(handle))
        assert bytes(opened.symbolicate(handle)) == text
        assert bytes(opened.symbolicate(prefix * SPAN + handle)) == text
    assert opened.symbolicate((prefix + 1) * SPAN + handle).missing


@pytest.mark.parametrize(("path", "layout"), crossed(LITE, ["packed", "mapped"], most=len(LITE)))
def test_a_companion_answers_to_either_form(path: Path, layout: str, tmp_path: Path) -> None:
    left, companion = tmp_path / "left.ptl", tmp_path / "m.ptdbg"
    said = archive.split(path, left, companion, layout=layout)
    with archive.open(path) as original:
        for source in ({"source": companion}, {"source": left, "companion": companion}):
            with archive.open(**source) as opened:  # type: ignore[arg-type]
                assert_same_in_either_form(opened, original, said.prefix)
                assert list(opened.handles) == list(original.handles)
                assert inspect(opened).prefix == said.prefix
    with archive.open(left) as alone:
        assert inspect(alone).prefix == said.prefix


@pytest.mark.parametrize("path", LITE, ids=lambda path: path.parent.name)
def test_a_compact_archive_with_unique_handles_says_what_it_said(path: Path, tmp_path: Path) -> None:
    said = archive.shrink(path, tmp_path / "small.ptl", handles="unique")
    with archive.open(path) as original, archive.open(tmp_path / "small.ptl") as small:
        expected = [said.prefix * SPAN + handle for handle in original.handles]
        assert sorted(small.handles) == sorted(expected)
        assert_same_in_either_form(small, original, said.prefix)
        for name, read in ((CALLSTACKS, slow_reader.callstack_map), (HANDLES, slow_reader.methods)):
            assert str(said.prefix) in str(read(bytes(small.records[name].view())))
        assert not [one for one in verify(small) if one.severity == "error"]
        archive.split(tmp_path / "small.ptl", tmp_path / "left.ptl", tmp_path / "m.ptdbg")
    with archive.open(tmp_path / "m.ptdbg") as companion, archive.open(path) as original:
        assert_same_in_either_form(companion, original, said.prefix)
    archive.join(tmp_path / "left.ptl", tmp_path / "m.ptdbg", tmp_path / "joined.ptl")
    with archive.open(tmp_path / "joined.ptl") as joined, archive.open(tmp_path / "small.ptl") as small:
        assert joined.records[HANDLES].view() == small.records[HANDLES].view()


def test_an_embedded_companion_has_the_original_handles(tmp_path: Path) -> None:
    small, restored = tmp_path / "small.ptl", tmp_path / "restored.ptl"
    said = archive.shrink(STACK, small, level="embed", handles="unique")
    with archive.open(STACK) as original, archive.open(small) as opened:
        assert_same_in_either_form(opened, original, said.prefix)
    assert archive.restore(small, restored).exact
    assert restored.read_bytes() == STACK.read_bytes()


def test_another_salt_gives_another_prefix(tmp_path: Path) -> None:
    prefixes = set()
    for salt in ("", "2", "ä"):
        said = archive.split(STACK, tmp_path / "left.ptl", tmp_path / "m.ptdbg", salt=salt, force=True)
        with archive.open(tmp_path / "m.ptdbg") as opened:
            assert opened.handle_form.prefix == said.prefix
        assert archive.join(tmp_path / "left.ptl", tmp_path / "m.ptdbg", tmp_path / "j.ptl", force=True).exact
        prefixes.add(said.prefix)
    assert len(prefixes) == 3
    archive.shrink(STACK, tmp_path / "s.ptl", handles="unique")
    with pytest.raises(ArchiveError, match="its handles are unique already"):
        archive.split(tmp_path / "s.ptl", tmp_path / "l.ptl", tmp_path / "c.ptdbg", salt="2")
    with pytest.raises(ArchiveError, match="a salt is for unique handles"):
        archive.split(STACK, tmp_path / "l.ptl", tmp_path / "c.ptdbg", salt="2", handles="keep")


def test_handles_of_more_than_eight_digits_stay_and_are_told(tmp_path: Path) -> None:
    changes = with_handles(STACK, lambda table: edited(table, handle={0: LARGE}))
    changes |= with_methods(STACK, lambda table: edited(table, value={0: LARGE}))
    path = tmp_path / "large.ptl"
    path.write_bytes(tampered(STACK, changes))
    said = archive.split(path, tmp_path / "left.ptl", tmp_path / "m.ptdbg")
    assert (said.prefix, said.largest) == (0, LARGE)
    printed = well("split", path, "-o", tmp_path / "l.ptl", "-c", tmp_path / "c.ptdbg")
    assert "not the archive: handle 100000000 has more than 8 digits" in " ".join(printed.split())
    for level in ("compact", "embed"):
        with pytest.raises(ArchiveError, match=r"handle 100000000 has more than 8 digits.*--handles keep"):
            archive.shrink(path, tmp_path / "small.ptl", level=level, handles="unique")


LOWERED = ORACLES / "lowered_shape.ptl"


def test_handles_of_delegated_operations_may_have_any_number_of_digits(tmp_path: Path) -> None:
    """A backend prints them as they are, in front of the handle of the instruction that called it."""
    with archive.open(LOWERED) as opened:
        inner = [int(handle) for handle in delegated_handles(opened)]
        outer = next(handle for handle in opened.handles if handle not in inner)
        row = list(opened.handles).index(inner[0])
    large = 167_205_281_464_494
    path = tmp_path / "large.ptl"
    path.write_bytes(
        tampered(LOWERED, with_handles(LOWERED, lambda table: edited(table, handle={row: large})))
    )
    said = archive.split(path, tmp_path / "left.ptl", tmp_path / "m.ptdbg")
    assert said.prefix > 0
    assert said.largest == 0
    with archive.open(path) as original, archive.open(tmp_path / "m.ptdbg") as companion:
        assert bytes(companion.symbolicate([large, said.prefix * SPAN + outer])) == bytes(
            original.symbolicate([large, outer])
        )
    assert archive.join(tmp_path / "left.ptl", tmp_path / "m.ptdbg", tmp_path / "joined.ptl").exact


def test_a_compact_archive_keeps_the_handles_where_a_backend_prints_its_own(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"handle \d+ is a delegated operation's: .*--handles keep"):
        archive.shrink(LOWERED, tmp_path / "small.ptl", handles="unique")
    assert archive.shrink(LOWERED, tmp_path / "embedded.ptl", level="embed", handles="unique").prefix


def test_negative_handles_stand_for_none_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "negative.ptl"
    path.write_bytes(tampered(STACK, with_methods(STACK, lambda table: edited(table, value={3: -1}))))
    said = archive.split(path, tmp_path / "left.ptl", tmp_path / "m.ptdbg")
    with archive.open(tmp_path / "left.ptl") as left:
        assert left.method_table is not None
        assert left.method_table.value[3] == -1
        assert left.handle_form.prefix == said.prefix


def test_the_commands_show_prefixes_and_refuse_foreign_ones(tmp_path: Path) -> None:
    left, companion = tmp_path / "left.ptl", tmp_path / "m.ptdbg"
    prefix = told("split", STACK, "-o", left, "-c", companion)["prefix"]
    assert f"unique handles: they name the archive, {prefix}" in well("inspect", left)
    assert told("inspect", companion)["prefix"] == prefix
    plain = well("symbolicate", companion, "1445")
    assert plain.startswith("Module hierarchy")
    assert well("symbolicate", companion, f"{prefix}00001445") == plain
    foreign = called("symbolicate", companion, "123456789000001445")
    assert foreign.exit_code == 1
    assert f"as unique handles they name the archive 1234567890, and this one is {prefix}" in foreign.stderr


def test_builds_whose_lines_alone_differ_have_two_prefixes(tmp_path: Path) -> None:
    """Their archive id is one, for it leaves debug info out; a failure of one must not name the other."""
    other = tmp_path / "other.ptl"
    record = "code/__torch__/plain.py.debug_pkl"
    other.write_bytes(tampered(STACK, ranges(STACK, record, start={0: 1})))
    said = [
        archive.split(path, tmp_path / f"{name}.ptl", tmp_path / f"{name}.ptdbg")
        for name, path in (("one", STACK), ("two", other))
    ]
    assert said[0].archive_id == said[1].archive_id
    assert said[0].prefix != said[1].prefix


@pytest.mark.parametrize("path", LITE, ids=lambda path: path.parent.name)
def test_handles_become_unique_in_an_archive_that_is_as_small_as_it_gets(path: Path, tmp_path: Path) -> None:
    """The record with the old handles may be shorter than that with the new ones."""
    small, unique = tmp_path / "small.ptl", tmp_path / "unique.ptl"
    archive.shrink(path, small)
    said = archive.shrink(small, unique, handles="unique")
    with archive.open(unique) as opened:
        assert opened.handle_form.prefix == said.prefix > 0
