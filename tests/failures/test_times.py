"""Times of lines: each form of theirs, one form a log, counted in few intervals however long the log is."""

from __future__ import annotations

from datetime import datetime

import pytest

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.log.python_tracebacks import HEADING
from archive.failures.log.times import MOST_INTERVALS, NEAREST, LogTime, LogTimes, TimeCounts
from tests.support.reports import case


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("line", "text", "moment"),
    [
        (b"2026-11-27 04:20:09 E x", "2026-11-27 04:20:09", "2026-11-27T04:20:09Z"),
        (b"2026-11-27T04:20:09.25Z x", "2026-11-27T04:20:09.25Z", "2026-11-27T04:20:09.25Z"),
        (b"[2026-11-27 04:20:09,123] x", "2026-11-27 04:20:09,123", "2026-11-27T04:20:09.123Z"),
        (b"2026/11/27 04:20:09 x", "2026/11/27 04:20:09", "2026-11-27T04:20:09Z"),
        (b"2026-11-27T04:20:09+0530 x", "2026-11-27T04:20:09+0530", "2026-11-27T04:20:09+05:30"),
        (b"2026-11-27T04:20:09-01:00 x", "2026-11-27T04:20:09-01:00", "2026-11-27T04:20:09-01:00"),
        (b"02-29 04:20:09.123  1 2 E x", "02-29 04:20:09.123", "2000-02-29T04:20:09.123Z"),
        (b"Nov  7 04:20:09 host x", "Nov  7 04:20:09", "2000-11-07T04:20:09Z"),
        (
            b'{"log":"' + 600 * b"x" + b'","time":"2026-11-27T04:20:09.5Z"}',
            "2026-11-27T04:20:09.5Z",
            "2026-11-27T04:20:09.5Z",
        ),
    ],
)
def test_each_form_is_read(line: bytes, text: str, moment: str) -> None:
    time = LogTimes().of(line, ())
    assert time is not None
    assert time.text == text
    assert time.seconds == pytest.approx(seconds(moment))


@pytest.mark.parametrize(
    "line", [b"", b"2026-13-27 04:20:09", b"2026-11-27 24:20:09", b"9912026-11-27 04:20:09", b"04:20:09"]
)
def test_what_is_no_time_is_none(line: bytes) -> None:
    assert LogTimes().of(line, ()) is None


def test_the_time_of_a_line_above_counts_if_it_is_near() -> None:
    above = [*[b"x"] * (NEAREST - 1), b"2026-11-27 04:20:09 x", b"2027-01-01 00:00:00"]
    assert LogTimes().of(b"failed", above) == LogTime(seconds("2026-11-27T04:20:09Z"), "2026-11-27 04:20:09")
    assert LogTimes().of(b"failed", [b"x", *above]) is None


FRAMES = [b'  File "net.py", line 3, in serve\n', b"    net(x)\n", b"    ^^^^^^\n"] * 6
CHAIN = [b"\n", b"During handling of the above exception, another exception occurred:\n", b"\n"]


@pytest.mark.parametrize(
    "record",
    [
        [HEADING + b"\n", *FRAMES, b"RuntimeError: x\n", b"  \n"],
        [HEADING + b"\n", *FRAMES, b"KeyError: x\n", *CHAIN, HEADING + b"\n", *FRAMES],
        [b"pod | " + line for line in (HEADING + b"\n", *FRAMES, b"RuntimeError: x\n")],
    ],
    ids=["one", "chained", "prefixed"],
)
def test_the_time_of_a_failure_is_that_of_the_record_that_has_its_traceback(record: list[bytes]) -> None:
    first = b"2026-11-27 04:20:09 ERROR failed\n"
    found = LogTimes().of(b"  Debug info for handle", reversed([first, *record]))
    assert found == LogTime(seconds("2026-11-27T04:20:09Z"), "2026-11-27 04:20:09")


def test_the_heading_of_a_traceback_may_have_the_time() -> None:
    above = [b"2026-11-27 04:20:09 " + HEADING + b"\n", *FRAMES]
    found = LogTimes().of(b"  Debug info for handle", reversed(above))
    assert found is not None
    assert found.text == "2026-11-27 04:20:09"


def test_a_failure_that_an_application_logs_as_an_exception_has_its_time() -> None:
    report = case("plain_free_functions.jit")
    log = b"2026-11-27 04:20:09 ERROR failed\n%b\n%b" % (HEADING, b"".join(FRAMES))
    explainer = explainer_of(models_in([report.path]))
    list(explainer.explain([log, b"RuntimeError: " + report.stripped.lstrip()]))
    (cause,) = explainer.causes.top()
    assert cause.first_time is not None
    assert cause.first_time.text == "2026-11-27 04:20:09"


@pytest.mark.parametrize(
    "between",
    [[*FRAMES, *[b"INFO served\n"] * 6], [*FRAMES, b"INFO served\n", *FRAMES]],
    ids=["end", "middle"],
)
def test_the_traceback_of_another_record_gives_no_time(between: list[bytes]) -> None:
    above = [b"2026-11-27 04:20:09 ERROR failed\n", HEADING + b"\n", *between]
    assert LogTimes().of(b"  Debug info for handle", reversed(above)) is None


DATED, UNDATED = b"2026-11-27 04:20:09", b"11-27 04:20:10"


@pytest.mark.parametrize(("first", "other"), [(DATED, UNDATED), (UNDATED, DATED)])
def test_the_other_form_counts_only_where_a_line_begins_with_it(first: bytes, other: bytes) -> None:
    times = LogTimes()
    one, two = times.of(b"[%b] x" % first, ()), times.of(b" [%b] x" % other, [first])
    assert one is not None
    assert two is not None
    assert (one.text, two.text) == (first.decode(), other.decode())
    assert abs(two.seconds - one.seconds) == 1, "in the same year"
    assert times.of(b"until %b x" % other, ()) is None
    assert times.of(b"until %b x" % other, [first]) == one


DAY = 86_400


@pytest.mark.parametrize(
    ("lines", "days"),
    [
        (("Dec 31 23:00:00", "Jan  1 01:00:00", "Jan  2 01:00:00"), (0, 1 / 12, 13 / 12)),
        (("Jan  1 00:30:00", "Dec 31 23:30:00"), (0, -1 / 24)),
        (("12-30 00:00:00", "01-02 00:00:00", "12-30 00:00:00", "03-01 00:00:00"), (0, 3, 0, 62)),
        (("Nov 30 00:00:00", "Nov  1 00:00:00"), (0, -29)),
        (("Jan 31 00:00:00", "Aug 31 00:00:00"), (0, 213)),
    ],
)
def test_times_without_a_year_go_on_over_new_year(lines: tuple[str, ...], days: tuple[float, ...]) -> None:
    times = LogTimes()
    found = [times.of(line.encode(), ()) for line in lines]
    assert all(found)
    moments = [time.seconds for time in found if time]
    assert [(moment - moments[0]) / DAY for moment in moments] == pytest.approx(days)


@pytest.mark.parametrize("moments", [range(1000), [5, 5, 5], [3e11, 0, -6e10, 7], range(10_000, 0, -7)])
def test_counts_add_up_in_few_intervals(moments: list[float]) -> None:
    times = TimeCounts()
    odd, even = times.new(), times.new()
    for number, moment in enumerate(moments):
        times.add(odd if number % 2 else even, moment)
    rows = times.row(odd), times.row(even)
    assert len(rows[0]) == len(rows[1]) <= MOST_INTERVALS
    assert list(map(sum, rows)) == [len(moments) // 2, len(moments) - len(moments) // 2]
    first = min(moments) // times.width
    for row, own in zip(rows, (list(moments)[1::2], list(moments)[::2]), strict=True):
        assert row == [sum(moment // times.width == first + n for moment in own) for n in range(len(row))]
