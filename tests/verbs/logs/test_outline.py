"""The outline of a traceback: equal for failures that only a logger or an error message tells apart."""

from __future__ import annotations

import pytest

from archive.verbs.logs.lines import Lines, Window
from archive.verbs.logs.outline import MAX_KEY, Outline
from archive.verbs.logs.tracebacks import MAX_LINES

HEADING = b"Traceback of TorchScript (most recent call last):\n"
FRAME = b'  File "code/net.py", line 3, in forward\n'
CODE = b"    x\n    ~ <--- HERE\n"
ERROR = b"RuntimeError: x\n"


def outline(*lines: bytes, heading: bytes = HEADING) -> Outline:
    return Outline(Window(Lines(lines)), heading)


def test_a_traceback_of_other_code_needs_no_explanation() -> None:
    assert not outline(FRAME.replace(b"code/", b"models/"), CODE, ERROR).has_code
    assert outline(FRAME, CODE, ERROR).has_code
    assert outline(FRAME.replace(b"code/", b"models/"), CODE, FRAME, CODE, ERROR).has_code


@pytest.mark.parametrize("behind", [ERROR, b"torch.jit.Error: y\n", HEADING, b"E " + HEADING])
def test_the_lines_behind_the_last_frame_do_not_tell_tracebacks_apart(behind: bytes) -> None:
    assert outline(FRAME, CODE, behind, b"b\n").key == outline(FRAME, CODE).key
    assert outline(FRAME, b"  x\n").key != outline(FRAME, b"  y\n").key


def test_neither_does_a_prefix_of_the_logger_on_all_lines_or_on_the_heading_alone() -> None:
    lines = [FRAME, *CODE.splitlines(keepends=True), ERROR]
    plain, prefix = outline(*lines), b"E 12:00: "
    on_all = outline(*(prefix + line for line in lines), heading=prefix + HEADING)
    on_heading = outline(*lines, heading=prefix + HEADING)
    assert plain.key == on_all.key == on_heading.key == (b"".join(lines[:-1]).removesuffix(b"\n"),)
    assert on_all.has_code
    assert on_heading.has_code


@pytest.mark.parametrize(("width", "lines"), [(1 << 10, MAX_KEY >> 10), (1, MAX_LINES)])
def test_an_endless_traceback_has_an_outline_of_bounded_size(width: int, lines: int) -> None:
    endless = outline(*[b"x" * width + b"\n"] * (lines + 9))
    assert endless.key == (b"\n".join([b"x" * width] * lines),)


def test_an_explanation_stands_behind_the_heading() -> None:
    found = outline(FRAME, CODE)
    assert b"".join(found.explained(b"text")) == HEADING + b"text"
    assert found.size(b"text") == 4
