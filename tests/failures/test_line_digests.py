"""Digests of lines: a companion that has them tells its own failures from those of a twin, one line apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.base.errors import ArchiveError
from archive.failures.code_records import CodeLines
from archive.failures.printed import FRAME, FRAME_HEADER, RANGE_MARKING
from archive.reader.collect import line_digests_of
from archive.reader.line_digests import digests_of, packed_digests, unpacked_lines
from archive.store.kept import VERSIONS, KeptNotes, _parsed
from archive.store.store import Store
from tests.support.halves import halves, joined, split_companion
from tests.support.reports import Report, case, explained
from tests.support.sampling import examples, sampled
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("plain_unicode.jit", "plain_free_functions.jit", "traced_stack.jit", "plain_stack.jit")
REPORTS = {name: case(name) for name in NAMES}
TAKEN = sampled(NAMES, most=2)
each = pytest.mark.parametrize("report", [REPORTS[name] for name in TAKEN], ids=TAKEN)


def shown(report: Report) -> list[tuple[str, bytes]]:
    """The lines of code that a failure shows, each with its record."""
    found, name = [], ""
    for line in report.stripped.split(b"\n"):
        if header := FRAME_HEADER.fullmatch(line):
            name = header["file"].decode()
        elif name.startswith("code/") and not RANGE_MARKING.fullmatch(line) and line.startswith(b"  "):
            found.append((name, line))
    return found


def twins(report: Report) -> list[bytes]:
    """The archive with one of these lines different, as long as before: a twin for each line, or for some."""
    found = []
    for name, line in sampled(dict.fromkeys(shown(report)), most=3):

        def change(code: bytes, line: bytes = line) -> bytes:
            return code.replace(line + b"\n", line[:-1] + b"#\n")

        found.append(tampered(report.path, {name: change}))
    assert len(found) > 2
    return found


def asked(report: Report, *files: Path) -> tuple[bytes, int, int]:
    explainer = explainer_of(models_in(files))
    text = b"".join(explainer.explain([report.stripped]))
    return text, explainer.explained, explainer.unknown + explainer.ambiguous


def store_of(folder: Path, *added: Path | bytes) -> Path:
    with Store.open(folder, create=True) as store:
        for number, one in enumerate(added):
            assert store.add(one, name=f"{number}.pt").outcome == "added"
    return folder


@each
def test_a_store_of_archives_tells_twins_apart(report: Report, tmp_path: Path) -> None:
    others = twins(report)
    assert asked(report, store_of(tmp_path / "all", report.path, *others)) == (report.full, 1, 0)
    assert asked(report, store_of(tmp_path / "others", *others)) == (report.stripped, 0, 1)


@each
def test_a_companion_with_fingerprints_explains_its_own_alone(report: Report, tmp_path: Path) -> None:
    own, other = tmp_path / "own.ptdbg", tmp_path / "other.ptdbg"
    own.write_bytes(split_companion(report.path, fingerprints=True))
    assert asked(report, own) == (report.full, 1, 0)
    assert explained(report.stripped, own).notes == []  # the code proves it
    for twin in twins(report):
        other.write_bytes(split_companion(twin, fingerprints=True))
        assert asked(report, other) == (report.stripped, 0, 1)
        assert asked(report, other, own) == (report.full, 1, 0)


@each
def test_a_log_may_end_within_any_line(report: Report, tmp_path: Path) -> None:
    own = tmp_path / "own.ptdbg"
    own.write_bytes(split_companion(report.path, fingerprints=True))
    companion = archive.open(own)
    for stop in sampled(range(report.stripped.index(b"Traceback of"), len(report.stripped), 7), most=40):
        log = report.stripped[:stop]
        last = log.rpartition(b"\n")[2]
        if not last.strip() or (FRAME.startswith(last) and b"<--- HERE" not in log.split(b"\n")[-2]):
            continue  # it may be the heading of a frame, or a line of code: the code itself would tell
        assert explained(log, companion)[1:3] == explained(log, report.path)[1:3]


@pytest.mark.parametrize("name", ["plain_stack.jit", "traced_stack.jit"])
def test_fingerprints_change_nothing_else(name: str) -> None:
    path = case(name).path
    plain, more = halves(path).companion, split_companion(path, fingerprints=True)
    assert joined(halves(path).out, more) == (path.read_bytes(), True)
    with archive.open(path) as opened:
        lines = sum(map(len, line_digests_of(opened).values()))
    assert 0 < len(more) - len(plain) < 4 * lines + 100


@given(st.lists(st.binary(max_size=5), min_size=1), st.binary(max_size=5), st.booleans())
@settings(max_examples=examples(200))
def test_lines_are_those_of_the_code(lines: list[bytes], other: bytes, ended: bool) -> None:  # noqa: FBT001
    code = b"\n".join(lines) + b"\n" * ended
    if not code:
        return
    known, text = unpacked_lines({"m": packed_digests(digests_of(code))})["m"], CodeLines(memoryview(code))
    assert len(known) == len(text)
    for number in range(-1, len(text) + 2):
        for line in (*code.split(b"\n"), other):
            assert known.is_line(number, line) == text.is_line(number, line)


def test_what_is_added_later_takes_no_lines_away(tmp_path: Path) -> None:
    report = REPORTS["plain_stack.jit"]
    companion = halves(report.path).companion
    with Store.open(tmp_path / "store", create=True) as store:
        key = store.add(companion, name="m.ptdbg").entry.archive_id
        assert not store.opened(key).line_digests
        assert store.add(report.path).outcome == "replaced"
        assert store.opened(key).line_digests.keys() == line_digests_of(archive.open(report.path)).keys()
        assert store.companion(key) == companion
        assert store.one(key).file == "m.ptdbg"
        assert store.add(companion, name="m.ptdbg", replace=True).outcome == "same"
        assert store.add(report.path).outcome == "same"
        store.gc()
        assert store.opened(key).line_digests
        assert not list(store.check())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "lines", ['"x"', '{"m": "AA"}', '{"m": 1}', '["m"]', '{"m": "AAAAA\\u00e4AA"}'], ids=repr
)
def test_lines_of_a_store_are_not_trusted(lines: str, version: int) -> None:
    told = KeptNotes("m", 1, "", "", []).built().decode()[:-1] + f', "lines": {lines}}}'
    with pytest.raises(ArchiveError, match="notes in JSON"):
        _parsed(told.encode(), version)


def test_a_digest_that_is_cut_is_refused() -> None:
    with pytest.raises(ArchiveError, match="digests of 3 bytes, found 4 bytes"):
        unpacked_lines({"m": bytes(4)})
