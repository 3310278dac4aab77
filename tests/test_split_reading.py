"""A companion alone, and together with what was left of the archive, answers like the archive of before."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import pytest

import archive
from archive import Style
from archive.companions import Companion
from archive.formats.kinds import code_of, kind_of
from archive.serialization_id import RECORD_NAME
from archive.verify import verify
from tests.corpus import ORACLES, RELEASES
from tests.halves import BARE, GROUPS, PROFILES, group, halves
from tests.plain import plain_handles, plain_methods, plain_ranges
from tests.reports import case, cases, explained, printed, printed_by_213, without_original
from tests.tampering import STACK, UNICODE

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Archive
    from archive.formats.companion import Profile
    from archive.symbolicate import Symbolication

UNCHECKED = "not checked against the model's code, which a companion doesn't have"


def opened_in_turn(number: int, path: Path) -> tuple[Archive, Companion, Archive]:
    """An archive, its companion, and what was left with the companion; either profile in turn."""
    out, companion, _ = halves(path, PROFILES[number % 2])
    alone = archive.open(companion)
    assert isinstance(alone, Companion)
    return archive.open(path), alone, archive.open(out, companion=companion)


@pytest.mark.parametrize("name", [one for one in GROUPS if one != BARE])
def test_the_answers_are_the_archives(name: str) -> None:
    style = Style.V1_9 if name == "torch-1.9.0" else Style.CURRENT
    for number, path in enumerate(group(name)):
        before, alone, both = opened_in_turn(number, path)
        for after in (alone, both):
            assert_same_ranges(before, after)
            assert_same_handles(before, after, style)
            assert (after.top, after.qualified_top) == (before.top, before.qualified_top)
        assert_same_records(before, alone, both)
        assert_explains(path, alone)


@cache
def tracebacks() -> dict[Path, list[str]]:
    """What TorchScript of each release, and that of 2.13, printed of each archive."""
    found: dict[Path, list[str]] = defaultdict(list)
    for path, text in chain(printed(), printed_by_213()):
        if "original code" in text:
            found[path].append(text)
    return found


def assert_explains(path: Path, alone: Companion) -> None:
    for text in tracebacks().get(path, []):
        said, _, unknown, notes = explained(without_original(text), alone)
        assert (said.decode(), unknown) == (text, 0)
        assert {note.partition(": ")[2].partition(" (")[0] for note in notes} == {UNCHECKED}


def assert_same_ranges(before: Archive, after: Archive) -> None:
    assert after.range_records == before.range_records
    ours, theirs = after.range_table, before.range_table
    assert (ours.names, ours.layouts) == (theirs.names, theirs.layouts)
    for number in range(len(theirs.names)):
        assert plain_ranges(ours, number) == plain_ranges(theirs, number)


def assert_same_handles(before: Archive, after: Archive, style: Style) -> None:
    for ours, theirs in (
        (after.method_table, before.method_table),
        (after.path_table, before.path_table),
    ):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            texts = theirs is before.path_table
            assert plain_methods(ours, texts=texts) == plain_methods(theirs, texts=texts)
    assert (after.handle_table is None) == (before.handle_table is None)
    if after.handle_table is not None and before.handle_table is not None:
        assert plain_handles(after.handle_table) == plain_handles(before.handle_table)
    for handle in [*list(before.handles)[::9], 123_456_789]:
        assert facts(after.symbolicate(handle, style)) == facts(before.symbolicate(handle, style))


def facts(said: Symbolication) -> tuple[bytes, tuple[int, ...], str, list[str]]:
    return bytes(said), said.missing, said.module_hierarchy, [str(entry) for entry in said.entries]


def assert_same_records(before: Archive, alone: Archive, both: Archive) -> None:
    expected = {name: bytes(record.view()) for name, record in before.records.items()}
    debug = {name: data for name, data in expected.items() if kind_of(name).is_debug}
    assert {name: bytes(record.view()) for name, record in alone.records.items()} == debug
    model = {name: data for name, data in expected.items() if name != RECORD_NAME}
    assert {name: bytes(record.view()) for name, record in both.records.items()} == model
    for name, data in debug.items():
        for record in (alone.records[name], both.records[name]):
            assert (record.name, record.size, record.crc32) == (
                name,
                len(data),
                before.records[name].crc32,
            )
    for name in debug.keys() & alone.generations.keys():
        assert alone.generations[name] == both.generations[name] == before.generations[name]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", [one for one in GROUPS if one != BARE])
def test_places_in_generated_code_are_found_with_and_without_the_code(name: str, profile: Profile) -> None:
    path = RELEASES / name / "nested.pt" if (RELEASES / name / "nested.pt").exists() else STACK
    out, companion, _ = halves(path, profile)
    with (
        archive.open(path) as before,
        archive.open(companion) as alone,
        archive.open(out, companion=companion) as both,
    ):
        assert isinstance(alone, Companion)
        for debug in before.range_records:
            code = code_of(debug)
            if code not in before.records:
                continue
            text = bytes(before.records[code].view())
            starts = [0, *(at + 1 for at, byte in enumerate(text) if byte == ord("\n"))]
            for at in {*range(0, len(text), 37), *starts} - {len(text)}:
                line = max(number for number, start in enumerate(starts) if start <= at)
                found = before.locate(code, at)
                assert shown(alone.locate(code, at)) == shown(both.locate(code, at)) == shown(found)
                if not debug.startswith("debug/"):  # nothing that 1.2 prints names its code
                    assert shown(alone.locate_line(code, line + 1, at - starts[line])) == shown(found)


def shown(span: object) -> str:
    return str(span)


def test_places_beyond_all_code_are_no_error() -> None:
    for profile in PROFILES:
        with archive.open(halves(STACK, profile).companion) as alone:
            assert isinstance(alone, Companion)
            name = code_of(alone.range_records[0])
            last = alone.locate_line(name, 10_000, 0)
            assert last is not None
            assert shown(alone.locate_line(name, 999_999_999, 0)) == shown(last)
            assert alone.locate_line("code/nowhere.py", 1, 0) is None


# --- verification


@pytest.mark.parametrize("name", [one for one in GROUPS if one != BARE])
def test_what_was_left_is_as_well_with_its_companion_as_the_archive_was(name: str) -> None:
    for path in group(name)[::5]:
        out, companion, _ = halves(path)
        with archive.open(path) as before, archive.open(out, companion=companion) as both:
            assert list(map(str, verify(both))) == list(map(str, verify(before))), path


def test_what_was_left_and_the_companion_are_well_alone_too() -> None:
    for path in (STACK.with_suffix(".pt"), ORACLES / "lowered_two.pt", UNICODE):
        for profile in PROFILES:
            out, companion, said = halves(path, profile)
            assert [str(finding) for finding in verify(companion)] == []
            assert [f for f in verify(out) if f.severity == "error" and not said.kept] == []


# --- logs


@pytest.mark.parametrize("profile", PROFILES)
def test_reports_are_explained_by_a_companion(profile: Profile) -> None:
    for report in cases():
        out, companion, _ = halves(report.path, profile)
        with archive.open(out, companion=companion) as both:
            assert explained(report.stripped, both) == (report.full, 1, 0, []), report.path
        with archive.open(companion) as alone:
            notes = [f"line 2: {UNCHECKED}"] if report.path.suffix == ".pt" else []
            assert explained(report.stripped, alone) == (report.full, 1, 0, notes), report.path
    assert len(cases()) == 34


def test_there_are_as_many_tracebacks_as_ever() -> None:
    assert sum(map(len, tracebacks().values())) == 899
    assert {path.parent.name for path in tracebacks()} <= {*GROUPS}


def test_a_log_of_another_model_is_not_explained_by_a_companion() -> None:
    report, other = case("plain_branches.jit"), case("traced_stack.jit")
    with archive.open(halves(report.path).companion) as alone:
        assert explained(other.stripped, alone)[:3] == (other.stripped, 0, 1)


def test_a_log_with_a_line_beyond_all_code_is_no_error() -> None:
    report = case("plain_unicode.jit")
    log = report.stripped.replace(b"line 1", b"line 999999999")
    assert log != report.stripped
    with archive.open(halves(report.path).companion) as alone:
        assert explained(log, alone).text.startswith(log[:40])


def test_all_failures_of_a_log_are_explained_by_a_companion() -> None:
    for report in (case("lowered_shape"), case("lowered_two")):
        with archive.open(halves(report.path).companion) as alone:
            log = b"one\n" + report.stripped + b"two\n" + report.stripped
            full = b"one\n" + report.full + b"two\n" + report.full
            assert explained(log, alone)[:3] == (full, 2, 0)
