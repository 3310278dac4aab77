"""Times and levels differ between lines of one process; all else tells it from others."""

from __future__ import annotations

import pytest

from archive.failures.log.forms import NUMBERS, TIMES, shape_of

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
    shape = shape_of(b"[ 9] a2: ", NUMBERS)
    assert shape.end(b"[10] a17: text") == len(b"[10] a17: ")
    assert shape.end(b"[x] a2: text") == -1
    assert shape_of(b"[ 9] a2: ", TIMES).end(b"[10] a2: text") == -1
