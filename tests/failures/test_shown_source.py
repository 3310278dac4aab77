"""Source that a log shows, compared with the model's own: there is nothing to explain, but another build."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from archive.failures.printed import CODE_FOLDERS, FRAME_HEADER, RANGE_MARKING
from tests.support.reports import cases, explained, printed

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = [(case.path, case.full) for case in cases()]


def own_lines(log: bytes) -> Iterator[tuple[int, re.Match[bytes], int]]:
    """The headings of frames of the model's own source, and the lines of code that are marked first."""
    lines = log.split(b"\n")
    for at, line in enumerate(lines):
        header = FRAME_HEADER.fullmatch(line)
        if header and not header["file"].startswith(CODE_FOLDERS):
            marked = next((n for n in range(at + 2, at + 5) if RANGE_MARKING.fullmatch(lines[n])), None)
            if marked is not None:
                yield at, header, marked - 1


def test_source_of_the_same_build_is_never_noted() -> None:
    compared = 0
    for path, log in [*CASES, *((path, text.encode()) for path, text in printed())]:
        if frames := [*own_lines(log)]:
            assert explained(log, path) == (log, 0, 0, []), path
            compared += len(frames)
    assert compared > 100


@pytest.mark.parametrize("by", [-2, 1, 40])
def test_source_that_has_moved_is_noted_with_both_lines(by: int) -> None:
    noted = 0
    for path, log in CASES:
        for at, header, _ in own_lines(log):
            lines, line = log.split(b"\n"), int(header["line"])
            lines[at] = re.sub(rb"line \d+", b"line %d" % (line + by), lines[at])
            text, *counts, notes = explained(b"\n".join(lines), path)
            assert (text, counts) == (b"\n".join(lines), [0, 0])
            assert (
                f"line {line + by}, is line {line} in this archive: the log is another version's" in notes[0]
            )
            noted += 1
    assert noted > 10


def test_source_with_another_text_is_noted() -> None:
    noted = 0
    for path, log in CASES:
        for _, header, marked in own_lines(log):
            lines = log.split(b"\n")
            lines[marked] += b"2"
            text, *counts, notes = explained(b"\n".join(lines), path)
            assert (text, counts) == (b"\n".join(lines), [0, 0])
            line = int(header["line"])
            assert f"line {line}, is another line in this archive: the log is another model's" in notes[0]
            noted += 1
    assert noted > 10


def test_only_the_names_of_files_count_and_a_file_that_the_model_lacks_says_nothing() -> None:
    path, log = next((path, log) for path, log in CASES if b'File "models/plain.py"' in log)
    moved = re.sub(rb"(plain.py\", line )", rb"\g<1>1", log)
    assert explained(moved, path).notes
    for file, is_noted in ((b"C:\\builds\\plain.py", True), (b"models/other.py", False)):
        assert not explained(log.replace(b"models/plain.py", file), path).notes
        assert bool(explained(moved.replace(b"models/plain.py", file), path).notes) is is_noted
