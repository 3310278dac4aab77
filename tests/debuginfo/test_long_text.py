"""Long texts read where they lie: they answer as plain bytes do, and their excerpts are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.strings import StringView, Text
from archive.debuginfo import excerpt
from archive.debuginfo.excerpt import LongText
from archive.debuginfo.model import Source, SourceRange
from tests.support.strategies import Strings, patient

if TYPE_CHECKING:
    from archive.base.strings import StringTable

CHUNK = 3
"""Bytes copied at once in these tests, so that short texts have many chunks."""
PIECES = st.lists(st.text("\n\nx ", max_size=5).map(str.encode), max_size=6)


def text_of(pieces: list[bytes]) -> Text:
    strings = Strings()
    indices = [strings.add(piece) for piece in pieces]
    return Text(strings.table(), indices)


@patient
@given(PIECES, st.data())
def test_a_long_text_answers_as_bytes_do(pieces: list[bytes], data: st.DataObject) -> None:
    plain, long = b"".join(pieces), LongText(text_of(pieces))
    places = st.integers(0, len(plain))
    start, stop = data.draw(places), data.draw(places)
    assert len(long) == len(plain)
    assert long.part(start, stop) == plain[start:stop]
    with patch.object(excerpt, "CHUNK", CHUNK):
        assert long.find(b"\n", start) == plain.find(b"\n", start)
        assert long.rfind(b"\n", start, stop) == plain.rfind(b"\n", start, stop)
        assert long.count(b"\n", start, stop) == plain.count(b"\n", start, stop)


def test_one_string_of_a_table_is_a_long_text() -> None:
    text = text_of([b"before\n", b"a\nb", b"\nbehind"])
    long = LongText(StringView(text.table, 1))
    assert (len(long), long.part(0, 3), long.find(b"\n", 0), long.rfind(b"\n", 0, 1)) == (3, b"a\nb", 1, -1)


class Looked:
    """Strings that are looked up one by one, as in a companion: no column tells their lengths."""

    def data(self, index: int) -> bytes:
        return [b"a\nb", b"", b"\nlast"][index]


def test_pieces_that_are_looked_up_one_by_one_are_a_long_text() -> None:
    long = LongText(Text(cast("StringTable", Looked()), [0, 1, 2]))
    assert (len(long), long.part(2, 5), long.rfind(b"\n", 0, 8)) == (8, b"b\nl", 3)


@patient
@given(PIECES, st.integers(0, 30), st.integers(0, 30))
def test_the_excerpt_of_a_long_text_is_that_of_its_bytes(pieces: list[bytes], start: int, end: int) -> None:
    source = Source(text_of(pieces), StringView(text_of([b"m.py"]).table, 0), 1)
    span = SourceRange(source, min(start, end), max(start, end))
    plain = excerpt.excerpt(span, b"f")
    with patch.object(excerpt, "LONG", -1), patch.object(excerpt, "CHUNK", CHUNK):
        assert excerpt.excerpt(span, b"f") == plain
        assert excerpt.cost_of(span, b"f").size >= len(plain)


@pytest.mark.parametrize("line", [0, 1, 2, 3, 4])
def test_very_long_lines_are_shown_whole_and_no_others(line: int) -> None:
    lines = [bytes([ord("a") + number]) * 3 * excerpt.CHUNK + b"\n" for number in range(9)]
    start = sum(map(len, lines[: line + 4])) + 5
    source = Source(text_of(lines), None, 1)
    shown = excerpt.excerpt(SourceRange(source, start, start + 1), b"")
    context = lines[line + 2 : line + 7]
    assert shown == b"".join([*context[:3], b" " * 5 + b"~ <--- HERE\n", *context[3:]])
