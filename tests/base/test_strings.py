"""Strings as views: they compare as their content does, copy nothing, and keep alive what they lie in."""

from __future__ import annotations

import gc
import io
import pickle
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.base.strings import StringTable, StringView, Text, decoded
from archive.container.write import new_member, write_archive
from tests.support.corpus import ORACLES, RELEASES
from tests.support.plain import RANGES
from tests.support.sampling import examples
from tests.support.strategies import PROTO, STOP, Strings, patient, text, texts

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = PROTO + b"K\x00" + text(b"x = y\n") + text(b"m.py") + b"K\x01\x87K\x00K\x01\x87K\x02\x87\x85" + STOP


def table(*strings: bytes) -> StringTable:
    made = Strings()
    for string in strings:
        made.add(string)
    return made.table()


def test_a_view_is_its_place_until_someone_asks() -> None:
    strings = table(b"one", "zwölf".encode(), b"")
    view = strings[1]
    assert (str(view), bytes(view), len(view), repr(view)) == ("zwölf", "zwölf".encode(), 6, "'zwölf'")
    assert view.data.tobytes() == b"zw\xc3\xb6lf"
    assert view.data.readonly
    assert [bool(one) for one in (view, strings[2])] == [True, False]


@pytest.mark.parametrize("index", [-1, 2, 99])
def test_a_table_has_no_other_indices(index: int) -> None:
    strings = table(b"a", b"b")
    assert len(strings) == 2
    with pytest.raises(IndexError):
        _ = strings[index]


def test_views_of_equal_content_are_equal() -> None:
    one, other = table(b"x", b"y"), table(b"y", b"z")
    assert one[1] == other[0]
    assert one[1] == "y"
    assert one[0] != other[0]
    assert one[0] != 7
    assert {one[1], other[0], "y"} == {"y"}
    assert {"y": 1}[one[1]] == 1  # type: ignore[index]


def test_bytes_that_are_no_utf_8_are_kept_and_shown_escaped() -> None:
    one, other = table(b"\xff", b"\\xff")[0], table(b"\\xff")[0]
    assert (str(one), bytes(one), len(one)) == ("\\xff", b"\xff", 1)
    assert one != other
    assert decoded(memoryview(b"a\xed\xa0\x80")) == "a\\xed\\xa0\\x80"


@settings(patient, max_examples=examples(60))
@given(st.lists(texts, max_size=6), st.data())
def test_a_text_is_its_pieces_one_behind_the_other(strings: list[bytes], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=8)) if strings else []
    whole = b"".join(strings[index] for index in indices)
    made = Text(table(*strings), indices)
    assert (bytes(made), len(made), str(made), bool(made)) == (whole, len(whole), decoded(whole), bool(whole))
    assert made == table(whole)[0]
    assert hash(made) == hash(table(whole)[0])
    assert [bytes(piece) for piece in made.pieces] == [strings[index] for index in indices]
    assert len(made.pieces) == len(indices)
    assert made.pieces[1:3] == list(made.pieces)[1:3]


def test_strings_of_several_buffers_lie_in_one_table() -> None:
    buffers = [memoryview(b"abc"), memoryview(b"xyz")]
    place = np.array([[1, 0], [1, 1], [2, 1]])
    strings = StringTable(buffers, [True, False], place[:, 1], place[:, 0] - 1, place[:, 0])
    assert [str(strings[index]) for index in range(3)] == ["a", "x", "yz"]
    assert [strings[index].borrowed for index in range(3)] == [True, False, False]


# --- whose memory it is


@pytest.mark.parametrize("compress", [False, True])
def test_stored_strings_are_the_files_bytes_and_deflated_ones_are_not(compress: bool) -> None:  # noqa: FBT001
    out = io.BytesIO()
    write_archive(out, "made", [new_member(RANGES, SOURCES, compress=compress)])
    data = out.getvalue()
    with archive.open(data) as opened:
        (row,) = opened.ranges(RANGES)
        filename = row.range.source.filename
        assert filename is not None
        assert filename.borrowed is not compress
        where = np.frombuffer(filename.data, np.uint8).ctypes.data
        start = np.frombuffer(data, np.uint8).ctypes.data
        assert (start <= where < start + len(data)) is not compress


@pytest.mark.parametrize("path", [ORACLES / "plain_unicode.ptl", RELEASES / "torch-2.13.0" / "nested.ptl"])
def test_views_outlive_their_archive(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    with archive.open(copy) as opened:
        entries = list(opened.handles.values())
        names = [entry.op for entry in entries if entry.op]
        expected = [str(name) for name in names]
        texts = [row.range.source.text for name in opened.range_table.names for row in opened.ranges(name)]
        whole = [bytes(text) for text in texts]
        said = opened.symbolicate(entries[0].handle)
        before = bytes(said)
    gone = weakref.ref(opened)
    del opened
    gc.collect()
    assert gone() is None
    copy.unlink()
    assert [str(name) for name in names] == expected
    assert [bytes(text) for text in texts] == whole
    assert bytes(said) == before


def test_a_view_alone_keeps_its_table() -> None:
    view = StringView(table(b"kept"), 0)
    gc.collect()
    assert str(view) == "kept"


def test_a_text_s_pieces_are_views_one_by_one_or_several_at_once() -> None:
    strings = table(b"one\n", b"two\n")
    pieces = Text(strings, (1, 0, 1)).pieces
    assert len(pieces) == 3
    assert bytes(pieces[0]) == b"two\n"
    assert [bytes(piece) for piece in pieces[1:]] == [b"one\n", b"two\n"]
    assert [bytes(piece) for piece in pieces] == [b"two\n", b"one\n", b"two\n"]


# --- many at once


def test_copies_are_the_strings_in_the_order_asked_for() -> None:
    strings = table(b"one", b"", b"three", b"four")
    assert strings.copies() == [b"one", b"", b"three", b"four"]
    assert strings.copies(np.array([3, 0, 3])) == [b"four", b"one", b"four"]
    assert strings.copies(np.array([], np.int64)) == []
    assert strings.copies(slice(1, 3)) == [b"", b"three"]


def test_copies_of_several_buffers_or_from_far_apart_are_the_same() -> None:
    buffers = [memoryview(b"abc"), memoryview(b"xyz")]
    place = np.array([[1, 0], [1, 1], [2, 1]])
    strings = StringTable(buffers, [True, False], place[:, 1], place[:, 0] - 1, place[:, 0])
    assert strings.copies() == [b"a", b"x", b"yz"]
    zeros = np.zeros(2, np.int64)
    apart = StringTable([memoryview(b"a" + bytes(100) + b"z")], [True], zeros, np.array([0, 101]), zeros + 1)
    assert apart.copies() == [b"a", b"z"]


@pytest.mark.parametrize("count", [3, 200])
def test_the_length_of_a_text_is_that_of_its_pieces_however_many(count: int) -> None:
    strings = table(b"ab", b"cde")
    text = Text(strings, np.arange(count) % 2)
    assert len(text) == len(bytes(text)) == sum((2, 3)[index % 2] for index in range(count))


class Loose:
    """Strings that are no table."""

    def __len__(self) -> int:
        return 2

    def data(self, index: int) -> memoryview:
        return memoryview((b"ab", b"cde")[index])

    def is_borrowed(self, index: int) -> bool:
        return index > 1


def test_a_text_of_other_strings_than_a_table_s_has_a_length_too() -> None:
    text = Text(Loose(), [0, 1] * 100)
    assert len(text) == len(bytes(text)) == 500
    assert not text.pieces[0].borrowed


def test_a_view_that_was_pickled_holds_its_own_bytes() -> None:
    """It refers to no file any more, whatever its bytes are."""
    for data in (b"", b"one\n", "zwölf".encode(), b"\xff\x00"):
        strings = table(b"before", data, b"behind")
        view, whole = StringView(strings, 1), Text(strings, [1, 0, 1])
        again, texts = pickle.loads(pickle.dumps((view, whole)))  # noqa: S301 (made here)
        assert (bytes(again), len(again), again.borrowed) == (data, len(data), False)
        assert (bytes(texts), len(texts.pieces)) == (data + b"before" + data, 3)
        assert len(again.table) == 1
