"""The lines of one process, whatever differs between them, are explained as a whole, in the same form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.explainer import LogExplainer
from archive.failures.lite import LiteFailure
from archive.failures.log.beginnings import Beginning
from archive.failures.log.forms import TIMES, TIMES_AND_NUMBERS, shape_of
from archive.failures.log.lines import Lines
from archive.failures.log.log_line import MOST_BETWEEN
from tests.failures.framings import FRAMINGS, Framing, compose, cri, docker, journal
from tests.support.corpus import FIXTURES
from tests.support.halves import halves
from tests.support.reports import case, explained

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.support.reports import Report

SAME = {
    "RFC 3339": (b"2026-03-01T10:00:00.5Z a: ", b"2026-12-31T23:59:59.123456789+01:00 a: "),
    "Python": (b"2026-03-01 10:00:00,123 a: ", b"2026-03-02 00:00:00,001 a: "),
    "Go": (b"2026/03/01 10:00:00 a: ", b"2026/03/01 10:00:00.000001 a: "),
    "syslog": (b"Mar  1 10:00:00 host a[7]: ", b"Nov 22 10:00:01 host a[7]: "),
    "logcat": (b"03-01 10:00:00.123  7  8 E a: ", b"12-31 23:59:59.999  7  8 W a: "),
    "glog": (b"I0301 10:00:00.000001 7 a.cc:9] ", b"E1231 23:59:59.999999 7 a.cc:9] "),
    "nginx": (b"[01/Mar/2026:10:00:00 +0000] ", b"[31/Dec/2026:23:59:59 -0730] "),
    "seconds": (b'{"at": 1772359200.5, "m": ', b'{"at": 1772359201, "m": '),
    "milliseconds": (b"1772359200123 a ", b"1772359299999 a "),
    "kernel": (b"[    1.234567] a: ", b"[12345.678901] a: "),
    "level": (b"INFO a: ", b"ERROR a: "),
    "padded level": (b"INFO     a: ", b"CRITICAL a: "),
}
OTHERS = {
    "process": (b"10:00:00 [7] ", b"10:00:00 [8] "),
    "container": (b"web-1  | ", b"web-2  | "),
    "word": (b"10:00:00 a: ", b"10:00:00 b: "),
    "stream": (b"2026-03-01T10:00:00Z stderr F ", b"2026-03-01T10:00:00Z stdout F "),
    "no time": (b"10:00:00 a: ", b"a: "),
    "small number": (b'{"pid": 1772359, "m": ', b'{"pid": 1772358, "m": '),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_times_and_levels_may_differ(one: bytes, other: bytes) -> None:
    for first, second in ((one, other), (other, one)):
        assert shape_of(first).end(second + b"text") == len(second)
        assert shape_of(first).end(b"  " + second, 2) == 2 + len(second)


@pytest.mark.parametrize(("one", "other"), OTHERS.values(), ids=OTHERS)
def test_all_else_tells_processes_apart(one: bytes, other: bytes) -> None:
    assert shape_of(one).end(one + b"text") == len(one)
    assert shape_of(one).end(other + b"text") == -1


def test_numbered_lines_differ_in_any_number_and_blanks_before_it() -> None:
    shape = shape_of(b"[ 9] a2: ", TIMES_AND_NUMBERS)
    assert shape.end(b"[10] a17: text") == len(b"[10] a17: ")
    assert shape.end(b"[x] a2: text") == -1
    assert shape_of(b"[ 9] a2: ", TIMES).end(b"[10] a2: text") == -1


LITE, UNICODE = case("lowered_shape"), case("plain_unicode")
JIT, TRACED = case("plain_free_functions.jit"), case("traced_stack.jit")
REPORTS = {report.path.name: report for report in (LITE, UNICODE, JIT, TRACED)}
STEP = 1_234_500
"""Nanoseconds between lines; as Go prints them, times have different lengths."""


def lines(text: bytes) -> list[str]:
    return text.decode().removesuffix("\n").split("\n")


def framed(framing: Framing, texts: Iterable[str], process: int = 1) -> bytes:
    """The lines of a process, each with another time."""
    made = (framing.line(process, 5 * STEP * number, text) for number, text in enumerate(texts, 9))
    return "".join(f"{line}\n" for line in made).encode()


def texts_of(framing: Framing, log: bytes) -> list[str]:
    return [framing.parsed(line)[1] for line in lines(log)]


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_failure_in_records_is_explained_in_records(framing: Framing, report: Report) -> None:
    log = framed(framing, ["starting", *lines(report.stripped), "going on"])
    text, *counts = explained(log, report.path)
    expected = [line.rstrip() for line in ["starting", *lines(report.full), "going on"]]
    assert [line.rstrip() for line in texts_of(framing, text)] == expected
    assert counts == [1, 0, []]


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
def test_records_that_are_not_added_stay_to_the_byte_but_for_the_heading(framing: Framing) -> None:
    log = framed(framing, ["starting", *lines(JIT.stripped), "going on"])
    before, text = log.decode().splitlines(), explained(log, JIT.path).text.decode().splitlines()
    assert len(text) > len(before)
    (heading,) = (line for line in before if line not in text)
    assert "Traceback of TorchScript (most" in heading


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
def test_a_companion_explains_records_too(framing: Framing, tmp_path: Path) -> None:
    (tmp_path / "m.ptdbg").write_bytes(halves(JIT.path).companion)
    text, done, unknown, _ = explained(framed(framing, lines(JIT.stripped)), tmp_path / "m.ptdbg")
    assert [line.rstrip() for line in texts_of(framing, text)] == [line.rstrip() for line in lines(JIT.full)]
    assert (done, unknown) == (1, 0)


def test_added_records_have_the_time_of_the_record_beside_them() -> None:
    log = framed(FRAMINGS["docker"], lines(UNICODE.stripped))
    text = explained(log, UNICODE.path).text
    times = [json.loads(line)["time"] for line in text.splitlines()]
    assert set(times) == {json.loads(line)["time"] for line in log.splitlines()}
    assert times == sorted(times, key=lambda time: (len(time), time)) or len(set(times)) == 4


def mixed(framing: Framing, one: Iterable[str], other: Iterable[str], between: int = 1) -> bytes:
    """The lines of two processes: behind each one of the first, some of the other."""
    rest, found, at = list(other), list[str](), 10
    for text in one:
        found.append(framing.line(1, at, text))
        found += [framing.line(2, at := at + STEP, line) for line in rest[:between]]
        del rest[:between]
    return "".join(f"{line}\n" for line in [*found, *(framing.line(2, at, line) for line in rest)]).encode()


MIXED = {name: framing for name, framing in FRAMINGS.items() if framing.is_mixed}


@pytest.mark.parametrize("framing", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("between", [1, 2, 7])
def test_each_process_has_its_failure_explained_wherever_lines_of_others_stand(
    framing: Framing, between: int
) -> None:
    """Two failures of one model, whose lines would also continue one another."""
    log = mixed(framing, lines(JIT.stripped), lines(JIT.stripped + b"going on"), between)
    text, *counts = explained(log, JIT.path)
    for process, expected in ((1, lines(JIT.full)), (2, lines(JIT.full + b"going on"))):
        found = [line for owner, line in map(framing.parsed, lines(text)) if owner == process]
        assert [line.rstrip() for line in found] == [line.rstrip() for line in expected]
    assert counts == [2, 0, []]


@pytest.mark.parametrize("framing", MIXED.values(), ids=MIXED)
def test_the_message_is_that_of_the_failures_own_process(framing: Framing) -> None:
    """Another process's message would contradict the handle."""
    other = ["start out of range (expected to be in range of [-4, 4], but got 9)", "", ""]
    report = case("plain_stack")
    text, done, unknown, _ = explained(mixed(framing, lines(report.stripped), other), report.path)
    assert (done, unknown) == (1, 0)
    found = [line for owner, line in map(framing.parsed, lines(text)) if owner == 1]
    assert [line.rstrip() for line in found] == [line.rstrip() for line in lines(report.full)]


@pytest.mark.parametrize(("between", "done"), [(MOST_BETWEEN, 1), (MOST_BETWEEN + 1, 0)])
def test_lines_that_are_very_far_apart_are_of_no_one_failure(between: int, done: int) -> None:
    heading, *rest = lines(JIT.stripped)[1:]
    log = framed(FRAMINGS["docker"], [heading])
    log += framed(FRAMINGS["docker"], ["tick"] * between, 2) + framed(FRAMINGS["docker"], rest)
    text, explained_ones, unknown, notes = explained(log, JIT.path)
    assert (explained_ones, unknown) == (done, 1 - done)
    if not done:
        assert text == log
        assert notes == ["line 1: a traceback in JSON whose first frame is not found in the records after it"]


def test_the_heading_alone_may_have_a_prefix_in_records_too() -> None:
    texts = lines(JIT.stripped)
    at = next(number for number, line in enumerate(texts) if line.startswith("Traceback of"))
    texts[at] = f"2026-03-01 10:00:00,123 ERROR net: {texts[at]}"
    other = ["2026-03-01 10:00:00,124 INFO app: tick"] * 40
    text = explained(mixed(FRAMINGS["docker"], texts, other), JIT.path).text
    found = [line for owner, line in map(FRAMINGS["docker"].parsed, lines(text)) if owner == 1]
    expected = lines(JIT.full)
    expected[at] = f"2026-03-01 10:00:00,123 ERROR net: {expected[at]}"
    assert found == expected


def test_a_single_record_with_the_handles_alone_is_explained_inside() -> None:
    """Its lines above are no message: the logger writes each text as one record."""
    lone = lines(UNICODE.stripped)[2]
    log = "".join(json.dumps({"at": number, "msg": text}) + "\n" for number, text in enumerate(["a", lone]))
    text = explained(log.encode(), UNICODE.path).text.decode().splitlines()
    assert len(text) == 2
    assert json.loads(text[1])["msg"].split("\n") == [*lines(UNICODE.full)[2:-2], ""]


def test_streams_of_one_container_are_told_apart() -> None:
    """What it prints on its standard output may stand between the lines of a failure."""
    records = [json.loads(line) for line in framed(FRAMINGS["docker"], lines(JIT.stripped)).splitlines()]
    other = {"log": "tick\n", "stream": "stdout", "attrs": {"tag": "web-1"}, "time": "2026-03-01T10:00:00Z"}
    log = "".join(json.dumps(one) + "\n" for record in records for one in (record, other)).encode()
    text, *counts = explained(log, JIT.path)
    found = [json.loads(line) for line in text.splitlines()]
    assert [one["log"] for one in found if one["stream"] == "stderr"] == [f"{x}\n" for x in lines(JIT.full)]
    assert counts == [1, 0, []]


@pytest.mark.parametrize("frame", [docker, cri, compose, journal])
def test_ordinary_lines_of_others_are_not_read_ahead_of_without_bound(frame: object) -> None:
    """A heading that nothing follows in its stream."""
    taken = 0

    def log() -> Iterable[bytes]:
        nonlocal taken
        for number in range(5_000):
            taken += 1
            text = "tick" if number else "Traceback of TorchScript (most recent call last):"
            yield f"{frame(1 + bool(number), 10, text)}\n".encode()  # type: ignore[operator]

    with archive.open(JIT.path) as opened:
        pieces = LogExplainer.of(opened).explain(log())
        next(iter(pieces))
        assert taken <= MOST_BETWEEN + 3


@pytest.mark.parametrize("files", [[JIT.path], [JIT.path, FIXTURES / "fleet"]], ids=["one model", "several"])
def test_a_traceback_with_lines_of_a_process_that_cannot_be_told_apart_is_told(files: list[Path]) -> None:
    """Two workers of one container, without a prefix of theirs."""
    texts = lines(JIT.stripped)
    log = framed(FRAMINGS["docker"], [*texts[:4], "tick", *texts[4:]])
    explainer = explainer_of(models_in(files))
    assert b"".join(explainer.explain([log])) == log
    assert (explainer.explained, explainer.unknown) == (0, 1)
    assert explainer.notes == [
        "line 2: a traceback that breaks off within its first frame, or has lines of others in it"
    ]
    assert explained(log, JIT.path) == (log, 0, 1, explainer.notes)


def test_lines_that_are_strings_of_json_and_nothing_else_are_records_too() -> None:
    log, full = (
        "".join(f"{json.dumps(line)}\n" for line in lines(text)).encode() for text in (JIT.stripped, JIT.full)
    )
    assert explained(log, JIT.path) == (full, 1, 0, [])


PREFIXED = b"E 10:00:00 "


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("prefix", [b"", PREFIXED])
def test_the_size_of_an_explanation_is_what_it_adds_to_the_log(prefix: bytes, end: bytes) -> None:
    """The text of the handles, which it replaces, aside."""
    text, handles = b"one\ntwo\n", b"Debug info for handle(s): 1, was not found."
    line = prefix + handles + end
    ahead = Lines([line])
    first = ahead.take()
    assert first is not None
    beginning = Beginning.in_line(first, ahead)
    assert beginning is not None
    failure = LiteFailure(beginning.stream(prefix))
    (written,) = failure.explained(text)
    assert failure.size(text) == len(written) - len(line) + len(handles)
