"""Comments of lines that stay become blanks; a # in a text is none."""

from __future__ import annotations

import io

import pytest

import archive
from archive.privacy.redact.texts import without_comments
from tests.support.canaries import rewritten
from tests.support.exported import EXPORTED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"x = 1  # why", b"x = 1       "),
        (b"# all", b"     "),
        (b'x = "a # b" + y', b'x = "a # b" + y'),
        (b"x = '#' '\\'#' # c", b"x = '#' '\\'#'    "),
        (b'"""doc\n# in it"""  # out', b'"""doc\n# in it"""       '),
        (b"'''open\n# in it", b"'''open\n# in it"),
        (b"it's # text\ny  # out", b"it's # text\ny       "),
        (b"", b""),
    ],
)
def test_comments_become_blanks(before: bytes, after: bytes) -> None:
    assert without_comments(before.split(b"\n")) == after.split(b"\n")


@pytest.mark.parametrize("pieces", [b'"""\\', b"'", b'"\\', b"# a\n", b"'''x\n", b'""'], ids=repr)
def test_many_quotes_take_time_in_proportion(pieces: bytes) -> None:
    lines = (pieces * 200_000).split(b"\n")
    assert list(map(len, without_comments(lines))) == list(map(len, lines))


def test_a_stack_trace_keeps_code_without_its_comment() -> None:
    line, text = b"return self.norm(self.smooth(self.rows(ids)))", b"return self.rows(ids)  # of ann's shop"
    before = (EXPORTED / "shop.pt2").read_bytes()
    changed = rewritten(before, lambda _, data: data.replace(line, text))
    assert b"ann's" in _program(changed)
    out = io.BytesIO()
    facts = archive.redact(changed, out, io.BytesIO(), text="lines")
    assert (facts.left, facts.sought["line"]) == ((), 1)
    assert b"return self.rows(ids)" in _program(out.getvalue())
    assert b"ann's" not in _program(out.getvalue())


def _program(data: bytes) -> bytes:
    with archive.open(data) as opened:
        return bytes(opened.records["models/model.json"].view())
