"""The outline of a traceback: equal for failures that only a logger or an error message tells apart."""

from __future__ import annotations

import pytest

from archive.failures.tracebacks import TracebackFailure
from tests.support.reports import stream

HEADING = b"Traceback of TorchScript (most recent call last):\n"
FRAME = b'  File "code/net.py", line 3, in forward\n'
CODE = b"    x\n    ~ <--- HERE\n"
ERROR = b"RuntimeError: x\n"


def outline(*lines: bytes, heading: bytes = HEADING) -> TracebackFailure:
    return TracebackFailure(stream(heading, *lines))


def test_a_traceback_of_other_code_needs_no_explanation() -> None:
    assert not outline(FRAME.replace(b"code/", b"models/"), CODE, ERROR).has_code
    assert outline(FRAME, CODE, ERROR).has_code
    assert outline(FRAME.replace(b"code/", b"models/"), CODE, FRAME, CODE, ERROR).has_code


@pytest.mark.parametrize("behind", [ERROR, b"torch.jit.Error: y\n", HEADING, b"E " + HEADING])
def test_the_lines_behind_the_last_frame_do_not_tell_tracebacks_apart(behind: bytes) -> None:
    assert outline(FRAME, CODE, behind, b"b\n").key == outline(FRAME, CODE).key
    assert outline(FRAME, b"  x\n").key != outline(FRAME, b"  y\n").key


def test_an_endless_traceback_is_read_to_a_bound_and_may_be_of_code() -> None:
    endless = outline(*[FRAME.replace(b"code/", b"models/"), CODE] * 10_000)
    assert endless.has_code
    assert not endless.names


def test_each_line_of_a_traceback_tells_it_from_others() -> None:
    lines = [FRAME, *CODE.splitlines(keepends=True), FRAME, *CODE.splitlines(keepends=True)]
    keys = {outline(*lines).key}
    for at, line in enumerate(lines):
        changed = line.replace(b"3", b"4").replace(b"    ", b"     ")
        keys.add(outline(*lines[:at], changed, *lines[at + 1 :]).key)
    assert len(keys) == 1 + len(lines)
