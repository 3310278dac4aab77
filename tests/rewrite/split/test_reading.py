"""A companion finds places without the code, explains logs, and is well, alone and with what was left."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError, LimitError, Limits
from archive.base.limits import MEMORY, MEMORY_PER_BYTE
from archive.check.verify import verify
from archive.container.write import new_member
from archive.failures.traceback_failures import UNCHECKED
from archive.formats.record_kinds import EMBEDDED, RANGES_SUFFIX, code_of
from tests.support.corpus import ARCHIVES, ORACLES, RELEASES
from tests.support.halves import LAYOUTS, SOME_GROUPS, companion_of, group, halves
from tests.support.reports import case, cases, explained
from tests.support.sampling import crossed, sampled
from tests.support.tampering import STACK, UNICODE, packed, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from archive.companion.layout import CompanionLayout


@pytest.mark.parametrize(("name", "layout"), crossed(SOME_GROUPS, LAYOUTS))
def test_places_in_generated_code_are_found_with_and_without_the_code(
    name: str, layout: CompanionLayout
) -> None:
    path = RELEASES / name / "nested.pt" if (RELEASES / name / "nested.pt").exists() else STACK
    out, companion = halves(path).out, companion_of(path, layout)
    with (
        archive.open(path) as before,
        archive.open(companion) as alone,
        archive.open(out, companion=companion) as both,
    ):
        assert alone.companion is not None
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
                    assert shown(alone.companion.locate_line(code, line + 1, at - starts[line])) == shown(
                        found
                    )


def shown(span: object) -> str:
    return str(span)


def test_places_beyond_all_code_are_no_error() -> None:
    for layout in LAYOUTS:
        with archive.open(companion_of(STACK, layout)) as alone:
            assert alone.companion is not None
            name = code_of(alone.range_records[0])
            last = alone.companion.locate_line(name, 10_000, 0)
            assert last is not None
            assert shown(alone.companion.locate_line(name, 999_999_999, 0)) == shown(last)
            assert alone.companion.locate_line("code/nowhere.py", 1, 0) is None


# --- saving


def test_two_files_read_as_one_are_not_saved_as_one(tmp_path: Path) -> None:
    out, companion, _ = halves(STACK)
    words = r"opened with a separate companion; archive\.join writes both into one file"
    with archive.open(out, companion=companion) as both, pytest.raises(ArchiveError, match=words):
        both.save(tmp_path / "copy", force=True)
    assert list(tmp_path.iterdir()) == []
    for whole in (companion, tampered(out, {EMBEDDED: companion})):
        with archive.open(whole) as opened:
            opened.save(tmp_path / "copy", force=True)
        assert (tmp_path / "copy").read_bytes() == whole


# --- verification


@pytest.mark.parametrize("name", SOME_GROUPS)
def test_what_was_left_is_as_well_with_its_companion_as_the_archive_was(name: str) -> None:
    for path in sampled(group(name), most=2):
        out, companion, _ = halves(path)
        with archive.open(path) as before, archive.open(out, companion=companion) as both:
            said = [str(finding).replace("; restored, PyTorch", "; PyTorch") for finding in verify(both)]
            assert said == list(map(str, verify(before))), path


def test_what_was_left_and_the_companion_are_well_alone_too() -> None:
    for path in (STACK.with_suffix(".pt"), ORACLES / "lowered_two.pt", UNICODE):
        for layout in LAYOUTS:
            out, _, said = halves(path)
            companion = companion_of(path, layout)
            assert [str(finding) for finding in verify(companion)] == []
            assert [f for f in verify(out) if f.severity == "error" and not said.kept] == []


# --- logs


def test_reports_are_explained_by_a_companion() -> None:
    for number, report in enumerate(sampled(cases(), most=10, by=[lambda one: one.path.suffix])):
        out, companion = halves(report.path).out, companion_of(report.path, LAYOUTS[number % 2])
        with archive.open(out, companion=companion) as both:
            assert explained(report.stripped, both) == (report.full, 1, 0, []), report.path
        with archive.open(companion) as alone:
            notes = [f"line 2: {UNCHECKED}"] if report.path.suffix == ".pt" else []
            assert explained(report.stripped, alone) == (report.full, 1, 0, notes), report.path
    assert len(cases()) == 34


def test_a_log_of_another_model_is_not_explained_by_a_companion() -> None:
    report, other = case("plain_branches.jit"), case("traced_stack.jit")
    with archive.open(companion_of(report.path)) as alone:
        assert explained(other.stripped, alone)[:3] == (other.stripped, 0, 1)


def test_a_log_with_a_line_beyond_all_code_is_no_error() -> None:
    report = case("plain_unicode.jit")
    log = report.stripped.replace(b"line 1", b"line 999999999")
    assert log != report.stripped
    with archive.open(companion_of(report.path)) as alone:
        assert explained(log, alone).text.startswith(log[:40])


def test_all_failures_of_a_log_are_explained_by_a_companion() -> None:
    for report in (case("lowered_shape"), case("lowered_two")):
        with archive.open(companion_of(report.path)) as alone:
            log = b"one\n" + report.stripped + b"two\n" + report.stripped
            full = b"one\n" + report.full + b"two\n" + report.full
            assert explained(log, alone)[:3] == (full, 2, 0)


# --- Small files that ask for much memory when they are rewritten, and honest ones that do not


CODE = "code/m.py"
SAMPLE = sampled([path for path in ARCHIVES[::17] if b".debug_pkl" in path.read_bytes()])
TEXT, STOP = b"X", b"."


def with_source(source: bytes) -> bytes:
    """An archive with one source range, of a source."""
    text = TEXT + len(source).to_bytes(4, "little") + source
    row = b"K\x00" + text + b"NK\x01\x87K\x00K\x01\x87K\x00\x87"
    record = b"\x80\x02" + row + b"\x85" + STOP
    return packed(
        [
            new_member("data.pkl", b"\x80\x02)."),
            new_member("constants.pkl", b"\x80\x02)."),
            new_member("version", b"3\n"),
            new_member(CODE, b"pass\n"),
            new_member(CODE + RANGES_SUFFIX, record, compress=True),
        ]
    )


def test_a_source_of_newlines_is_refused_before_it_costs_anything(tmp_path: Path) -> None:
    data = with_source(b"\n" * (2 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(LimitError, match="with lines of sources; if you trust the file: --limit memory="):
            archive.split(data, tmp_path / "out.pt", tmp_path / "out.ptdbg")
        with pytest.raises(LimitError, match="with lines of sources"):
            archive.migrate(data, to="latest")
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert list(tmp_path.iterdir()) == []
    done = archive.split(with_source(b"\n" * 1_000), tmp_path / "out.pt", tmp_path / "out.ptdbg")
    assert done.companion_size > 0


def test_tables_are_charged_as_they_cost() -> None:
    path = ORACLES / "plain_stack.ptl"
    with archive.open(path) as first:
        _ = first.range_table, first.handle_table, first.data  # what is imported is imported now
    tracemalloc.start()
    try:
        with archive.open(path) as opened:
            _ = opened.range_table, opened.handle_table, opened.data
            peak = tracemalloc.get_traced_memory()[1]
            assert opened.allowance.peak >= 0.8 * peak
            assert opened.allowance.peak < opened.allowance.memory // 2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_half_of_the_allowance_suffices_for_honest_archives(path: Path, tmp_path: Path) -> None:
    half = Limits(memory=(MEMORY + MEMORY_PER_BYTE * path.stat().st_size) // 2)
    assert verify(path, limits=half) == verify(path)
    archive.split(path, tmp_path / "out.pt", tmp_path / "out.ptdbg", limits=half)
    archive.shrink(path, tmp_path / "embedded.pt", level="embed", limits=half)
    archive.restore(tmp_path / "embedded.pt", tmp_path / "back.pt", limits=half)
    assert (tmp_path / "out.ptdbg").stat().st_size > 0
