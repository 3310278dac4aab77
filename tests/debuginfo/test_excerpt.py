"""Excerpts are what PyTorch prints, of short texts, and of long ones in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.strings import StringView, Text
from archive.debuginfo.excerpt import CHUNK, LONG, PLACE, LongText, cost_of, excerpt, marked
from archive.debuginfo.model import RangeLayout, Source, SourceRange
from tests.support.sampling import examples
from tests.support.strategies import Range, Strings, patient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

    from archive.base.strings import StringTable
    from tests.support.torch_oracles import Bench

CODE = b"def f(x):\n    y = x\n\n    if y:\n        y = g(y,\n              x)\n    return y\n\n# end"
PARTS = ["\n", "\n", " ", "    ", "\t", "\r\n", "x", "y = f(x)", "é", "☃🐍", "# c", "~", "\0", "Serialized "]
MANY = 25


def span(text: bytes, start: int, end: int, filename: bytes | None = b"m.py", line: int = 1) -> SourceRange:
    strings = Strings()
    pieces = [strings.add(text[:3]), strings.add(text[3:])]
    number = strings.add(filename or b"")
    table = strings.table()
    name = None if filename is None else StringView(table, number)
    return SourceRange(Source(Text(table, pieces), name, line), start, end)


# --- by example


def test_a_range_is_marked_in_its_context() -> None:
    # from the third newline before its line to the third one behind it
    start = CODE.index(b"y:")
    assert excerpt(span(CODE, start, start + 1), b"f") == (
        b'  File "m.py", line 4, in f\n'
        b"    y = x\n"
        b"\n"
        b"    if y:\n"
        b"       ~ <--- HERE\n"
        b"        y = g(y,\n"
        b"              x)\n"
    )


def test_each_line_of_a_range_is_marked_from_its_first_byte_that_is_no_blank() -> None:
    start = CODE.index(b"g(y")
    assert marked(CODE, start, CODE.rindex(b"x)") + 2) == (
        b"\n"
        b"    if y:\n"
        b"        y = g(y,\n"
        b"            ~~~~\n"
        b"              x)\n"
        b"              ~~ <--- HERE\n"
        b"    return y\n"
    )


@pytest.mark.parametrize("text", [b"", b"x", b"/src/m.py(4): f\n/src/m.py(9): g\n"])
def test_a_range_of_the_whole_text_is_the_text_alone(text: bytes) -> None:
    assert excerpt(span(text, 0, len(text)), b"f") == text


@pytest.mark.parametrize(
    ("start", "end", "printed"),
    [
        (0, 0, b'  File "m.py", line 7, in f\na b\n'),
        (0, 1, b'  File "m.py", line 7, in f\na b\n~ <--- HERE\n'),
        (1, 3, b'  File "m.py", line 7, in f\na b\n  ~ <--- HERE\n'),
        (2, 99, b'  File "m.py", line 7, in f\na b\n  ~ <--- HERE\n'),
        (3, 3, b'  File "m.py", line 7, in f\na b'),
        (3, 99, b'  File "m.py", line 7, in f\na b'),
        (4, 4, b""),
        (1 << 62, (1 << 62) + 1, b""),
    ],
)
def test_ranges_at_the_ends_of_a_text_and_behind_it(start: int, end: int, printed: bytes) -> None:
    assert excerpt(span(b"a b", start, end, line=7), b"f") == printed


def test_the_place_needs_a_filename_and_can_do_without_a_function() -> None:
    assert excerpt(span(b"a b", 0, 1, None), b"f") == b"a b\n~ <--- HERE\n"
    assert excerpt(span(b"a b", 0, 1, b""), b"f") == b'  File "", line 1, in f\na b\n~ <--- HERE\n'
    assert excerpt(span(b"a b", 0, 1), b"") == b'  File "m.py", line 1\na b\n~ <--- HERE\n'


def test_a_mark_is_as_long_as_the_range_in_bytes() -> None:
    text = "é = größe".encode()
    assert marked(text, text.index(b"g"), len(text) - 1) == text + b"\n" + b"     ~~~~~~ <--- HERE\n"


def test_bytes_that_are_no_utf_8_stay() -> None:
    assert marked(b"\xff = \xfe", 4, 5) == b"\xff = \xfe\n    ~ <--- HERE\n"


def test_a_range_knows_its_own_text_and_line() -> None:
    start = CODE.index(b"g(y")
    found = span(CODE, start, start + 4, line=7)
    assert (found.text, found.line) == (b"g(y,", 7 + 4)


@pytest.mark.parametrize(("start", "end", "size"), [(0, 3, 3), (4, 4, 0), (1 << 62, (1 << 62) + 1, 0)])
def test_an_excerpt_without_marking_costs_what_it_prints(start: int, end: int, size: int) -> None:
    made = span(b"a b", start, end)
    assert cost_of(made, b"f").size == len(excerpt(made, b"f")) == size


def test_an_excerpt_costs_no_less_than_it_prints_and_no_more_than_its_lines_twice() -> None:
    for start in range(len(CODE)):
        made = span(CODE, start, start + 1)
        assert len(excerpt(made, b"f")) <= cost_of(made, b"f").size <= PLACE + len(b"m.pyf") + 2 * len(CODE)


def test_longer_texts_and_longer_ranges_take_more_steps() -> None:
    long = b"x" * (LONG >> 1)
    assert cost_of(span(CODE, 0, 1), b"f").steps == 1
    assert cost_of(span(long, 0, 4), b"f").steps == 1 + len(long) // 4096 + 1
    assert cost_of(span(long, 0, 400), b"f").steps == 1 + len(long) // 4096 + 100
    assert cost_of(span(long, 400, 4), b"f").steps == 1 + len(long) // 4096


# --- against PyTorch


@pytest.fixture(scope="module")
def bench() -> Bench:
    torch_bench = pytest.importorskip("tests.support.torch_oracles", exc_type=ImportError)
    made: Bench = torch_bench.Bench(MANY)
    assert len(made.rows) == MANY
    return made


texts: SearchStrategy[bytes] = st.lists(st.sampled_from(PARTS), max_size=25).map(
    lambda parts: "".join(parts).encode()
)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    """Most lie inside their text; some are empty, the whole, or stick out of it at one end or both."""
    text = draw(texts)
    size = len(text)
    start, end = draw(
        st.one_of(
            st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted),
            st.tuples(st.integers(0, size + 3), st.integers(0, size + 3)),
            st.just((0, size)),
            st.integers(0, size).map(lambda at: (at, at)),
        )
    )
    filename = draw(st.sampled_from([b"m.py", b"m.py", b"", None, "größe.py".encode()]))
    return Range(text, start, end, filename, draw(st.sampled_from([1, 1, 0, 7, -3, 1 << 40])))


@pytest.mark.torch
@settings(patient, max_examples=examples(150))
@given(
    st.lists(ranges(), min_size=1, max_size=25),
    st.sampled_from([RangeLayout.INLINE, RangeLayout.STRING_TABLE]),
)
def test_every_range_is_printed_as_pytorch_prints_it(
    bench: Bench, made: Sequence[Range], layout: RangeLayout
) -> None:
    said, opened = bench.show(made, layout)
    rows = opened.ranges(bench.name)
    for row, printed in zip(bench.rows, said, strict=False):
        assert excerpt(rows[row].range, b"") == printed.encode()


FEW = 3
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
    with patch("archive.debuginfo.excerpt.CHUNK", FEW):
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
    plain = excerpt(span, b"f")
    with patch("archive.debuginfo.excerpt.LONG", -1), patch("archive.debuginfo.excerpt.CHUNK", FEW):
        assert excerpt(span, b"f") == plain
        assert cost_of(span, b"f").size >= len(plain)


@pytest.mark.parametrize("line", [0, 1, 2, 3, 4])
def test_very_long_lines_are_shown_whole_and_no_others(line: int) -> None:
    lines = [bytes([ord("a") + number]) * 3 * CHUNK + b"\n" for number in range(9)]
    start = sum(map(len, lines[: line + 4])) + 5
    source = Source(text_of(lines), None, 1)
    shown = excerpt(SourceRange(source, start, start + 1), b"")
    context = lines[line + 2 : line + 7]
    assert shown == b"".join([*context[:3], b" " * 5 + b"~ <--- HERE\n", *context[3:]])
