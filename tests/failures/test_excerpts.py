"""A traceback is explained if the archive has each line that it shows; one that is cut, as far as it goes."""

from __future__ import annotations

import pytest

import archive
from archive.failures.printed import FRAME_HEADER, RANGE_MARKING
from archive.failures.tracebacks import CUT_NOTE
from tests.support.halves import halves
from tests.support.reports import Report, case, explained

NAMES = ("plain_unicode.jit", "plain_free_functions.jit", "traced_stack.jit", "plain_stack.jit")
REPORTS = {name: case(name) for name in (*NAMES, "lowered_shape.jit")}
HEADING = b"Traceback of TorchScript (most recent call last):"
ORIGINAL = b"Traceback of TorchScript, original code (most recent call last):"
OTHER = b"2026-03-01 10:00:00,123 INFO app: going on"
each = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


def lines_of(report: Report) -> list[bytes]:
    """Heading and frames of a traceback."""
    lines = report.stripped.split(b"\n")
    first = lines.index(HEADING)
    stop = next(at for at, line in enumerate(lines) if line.startswith(b"RuntimeError"))
    return lines[first:stop]


def log_of(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@each
def test_a_failure_that_shows_one_other_line_is_another_models(report: Report) -> None:
    lines = lines_of(report)
    for at, line in enumerate(lines[1:], 1):
        if FRAME_HEADER.fullmatch(line) or RANGE_MARKING.fullmatch(line):
            continue
        log = log_of(*lines[:at], line[:-1] + b"2", *lines[at + 1 :], b"RuntimeError: failed")
        assert explained(log, report.path)[:3] == (log, 0, 1), line


@each
def test_a_failure_that_lacks_a_line_and_goes_on_is_another_models(report: Report) -> None:
    """PyTorch prints the lines of an excerpt, or the source ends there."""
    lines = lines_of(report)
    for at in range(2, len(lines)):
        log = log_of(*lines[:at], *lines[at + 1 :], b"RuntimeError: failed")
        text, done, unknown, notes = explained(log, report.path)
        assert (text, done, unknown) == (log, 0, 1) or CUT_NOTE in notes[-1], lines[at]


@each
@pytest.mark.parametrize("rest", [[], [OTHER], [OTHER, OTHER]])
def test_a_failure_that_is_cut_is_explained_as_far_as_it_goes_and_said_to_be_cut(
    report: Report, rest: list[bytes]
) -> None:
    lines = lines_of(report)
    frames = [at for at, line in enumerate(lines) if FRAME_HEADER.fullmatch(line)]
    markings = [at for at, line in enumerate(lines) if line.endswith(b"<--- HERE")]
    for stop in range(2, len(lines) + 1):
        log = log_of(*lines[:stop], *rest)
        text, done, unknown, notes = explained(log, report.path)
        if markings[0] >= stop:
            assert (text, done, unknown) == (log, 0, 1)
            continue
        found = text.split(b"\n")[:-1]
        start = found.index(ORIGINAL) - 1
        whole = max(at for at in markings if at < stop)
        assert (done, unknown, found[0]) == (1, 0, HEADING.replace(b" (", b", serialized code ("))
        # What the explanation stands behind is the last line of the last whole excerpt.
        last = min([at for at in frames if at > whole] + [stop])
        assert found[1:start] == lines[1:last]
        assert found[len(found) - len(rest) - (stop - last) :] == [*lines[last:stop], *rest]
        is_cut = stop not in frames and stop < len(lines)
        assert [CUT_NOTE in note for note in notes] == [True] * is_cut, stop


@each
def test_a_log_that_ends_within_a_line_is_not_called_another_models(report: Report) -> None:
    log = log_of(*lines_of(report))
    first = log.index(b"<--- HERE\n") + len(b"<--- HERE\n")
    for stop in range(first, len(log), 5):
        text, done, unknown, notes = explained(log[:stop], report.path)
        assert (done, unknown) == (1, 0), log[stop - 20 : stop]
        assert not any("another model" in note for note in notes)
        assert ORIGINAL in text


@each
def test_a_companion_alone_explains_a_cut_failure_above_the_next_line_of_the_log(report: Report) -> None:
    lines = lines_of(report)
    with archive.open(halves(report.path).companion) as companion:
        for stop in [at for at, line in enumerate(lines, 1) if line.endswith(b"<--- HERE")]:
            text, done, unknown, _ = explained(log_of(*lines[:stop], OTHER), companion)
            found = text.split(b"\n")[:-1]
            assert (done, unknown, found[-1]) == (1, 0, OTHER)
            assert found[1 : found.index(ORIGINAL) - 1] == lines[1:stop]
