"""Pickles and integers as PyTorch's pickler writes them: a text or global once, then memo reads."""

from __future__ import annotations

import pickle
import pickletools
import tracemalloc
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from archive import LimitError, Limits
from archive.base import memory
from archive.base.strings import HeldStrings, StringTable
from archive.pickles.write import (
    CHUNK,
    FEW,
    PART,
    Integers,
    Run,
    Writer,
    global_name,
    integer,
    integers,
    rows_of,
)
from tests.support import slow_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


EMPTY = b"\x80\x02."


def writer_of(texts: Sequence[bytes] = ()) -> Writer:
    """A writer that knows some texts by number."""
    lengths = np.array([len(text) for text in texts], np.int64)
    starts = np.cumsum(lengths) - lengths
    buffers = [memoryview(b"".join(texts))]
    strings = StringTable(buffers, [False], np.zeros(len(texts), np.int64), starts, lengths)
    return Writer(strings)


# --- the memo


def test_a_text_or_global_is_written_once_and_then_read_from_the_memo() -> None:
    writer = writer_of()
    writer.out.write(b"(")
    assert writer.text(b"ab") == 0
    writer.once(global_name("m", "C"))
    writer.once(global_name("m", "D"))
    assert writer.text(memoryview(b"ab")) == 0
    writer.once(global_name("m", "C"))
    writer.out.write(b"t")
    written = b"\x80\x02(X\x02\x00\x00\x00abq\x00cm\nC\nq\x01cm\nD\nq\x02h\x00h\x01t."
    assert (writer.finish(), writer.entries) == (written, 3)


def test_numbers_of_the_same_text_share_its_memo_entry() -> None:
    writer = writer_of([b"a", b"b", b"a"])
    for number in (2, 1, 0, 1, 2):
        writer.string(number)
    assert writer.text(b"b") == 1
    assert writer.finish() == EMPTY[:2] + b"X\x01\x00\x00\x00aq\x00X\x01\x00\x00\x00bq\x01" + (
        b"h\x00h\x01h\x00h\x01."
    )


def test_a_text_that_looks_like_a_global_is_a_text() -> None:
    writer = writer_of()
    writer.out.write(b"(")
    writer.once(global_name("m", "C"))
    writer.text(b"m\nC\n")
    writer.out.write(b"t")
    assert slow_reader.load(writer.finish()) == (slow_reader.Name("m", "C"), b"m\nC\n")


def test_memo_entries_above_255_take_four_bytes() -> None:
    texts = [b"%d" % number for number in range(258)]
    writer = writer_of(texts)
    writer.out.write(b"(")
    for number in [*range(258), *range(258)]:
        writer.string(number)
    writer.out.write(b"t")
    data = writer.finish()
    assert slow_reader.load(data) == (*texts, *texts)
    opcodes = Counter(opcode.name for opcode, _, _ in pickletools.genops(data))
    assert {name: count for name, count in opcodes.items() if name.endswith(("PUT", "GET"))} == {
        "BINPUT": 256,
        "LONG_BINPUT": 2,
        "BINGET": 256,
        "LONG_BINGET": 2,
    }


# --- integers of a column, part by part


@pytest.mark.parametrize("size", [3, FEW, FEW + 1, CHUNK - 1, CHUNK, CHUNK + 1])
@pytest.mark.parametrize("backwards", [False, True])
def test_parts_of_a_column_are_its_integers_in_whatever_order(size: int, *, backwards: bool) -> None:
    values = np.arange(2 * CHUNK + 10) * 40_503 % (1 << 33)
    column = Integers(values)
    begins = range(0, len(values), size)
    for begin in reversed(begins) if backwards else begins:
        part = values[begin : begin + size].tolist()
        assert column.part(begin, begin + len(part)) == b"".join(map(integer, part))


def test_a_part_may_be_asked_for_again_and_be_empty() -> None:
    values = np.arange(3 * CHUNK) * 40_503 % (1 << 33)
    column = Integers(values)
    for begin, end in [
        (0, 0),
        (0, 9),
        (3, 7),
        (9, CHUNK),
        (CHUNK - 1, CHUNK + 1),
        (0, 2),
        (CHUNK, CHUNK + 3),
    ]:
        assert column.part(begin, end) == b"".join(map(integer, values[begin:end].tolist()))


# --- memory


@pytest.fixture
def counted() -> Iterator[None]:
    """Counts the memory that is asked for."""
    with memory.charged(Limits(memory=1 << 62).allowance(0)):
        yield


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("size", [1, 300, 100_000])
def test_what_is_asked_for_is_what_texts_take(size: int) -> None:
    texts = [b"%0*d" % (size, number) for number in range(400_000 // (size + 200))]
    writer = writer_of(texts)
    tracemalloc.start()
    try:
        for number in range(len(texts)):
            writer.string(number)
        data = writer.finish()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(data) > len(texts) * size
    assert 0.4 * memory.current().peak < peak < memory.current().peak


@pytest.mark.usefixtures("counted")
def test_bytes_written_are_asked_for_once() -> None:
    writer = writer_of()
    before = memory.current().taken
    for _ in range(3):
        writer.out.write(bytes(800))
        writer.count()
        writer.count()
    assert memory.current().taken - before == (2_400 + len(EMPTY) - 1) * 9 // 8
    writer.take(5, 7)
    assert memory.current().taken - before == (2_400 + len(EMPTY) - 1) * 9 // 8 + 35


def test_a_pickle_that_would_cost_more_than_allowed_is_not_written() -> None:
    with memory.charged(Limits(memory=10_000).allowance(0)):
        writer = writer_of()
        writer.text(bytes(4_000))
        with pytest.raises(LimitError, match="memory is limited to 10,000") as caught:
            writer.text(bytes(5_001))
    assert "values that are written" in str(caught.value)
    assert writer.out.tell() < 4_100
    with memory.charged(Limits(memory=10_000).allowance(0)):
        writer = writer_of()
        writer.out.write(bytes(10_000))
        with pytest.raises(LimitError):
            writer.finish()


@pytest.mark.usefixtures("counted")
def test_a_pickle_that_is_received_part_by_part_is_the_same_and_not_held() -> None:
    parts: list[bytes] = []
    writer = Writer(HeldStrings([]), parts.append)
    before = memory.current().taken
    for _ in range(5):
        writer.out.write(b"K\0" * (PART // 2))
        writer.count()
    assert len(parts) == 5
    assert (writer.finish(), b"".join(parts)) == (b"", EMPTY[:2] + b"K\0" * 5 * (PART // 2) + EMPTY[2:])
    assert memory.current().peak - before < 3 * PART


# --- Integers as PyTorch's ``pushInt`` writes them: the opcode changes where the number no longer fits


FIRST_AND_LAST = {
    "BININT1": (0, 255),
    "BININT2": (256, 65_535),
    "BININT": (-(1 << 31), -1, 65_536, (1 << 31) - 1),
    "LONG1": (-(1 << 63), -(1 << 31) - 1, 1 << 31, (1 << 63) - 1),
}
NUMBERS = [number for numbers in FIRST_AND_LAST.values() for number in numbers]


@pytest.mark.parametrize("opcode", FIRST_AND_LAST)
def test_each_opcode_has_the_numbers_that_fit(opcode: str) -> None:
    for number in FIRST_AND_LAST[opcode]:
        written = b"\x80\x02" + integer(number) + b"."
        assert [one.name for one, _, _ in pickletools.genops(written)] == ["PROTO", opcode, "STOP"]
        assert pickle.loads(written) == number  # noqa: S301 (one integer, written here)


def test_many_at_once_are_the_same_one_behind_the_other() -> None:
    data, starts = integers(np.array(NUMBERS, np.int64))
    assert data == b"".join(map(integer, NUMBERS))
    assert [data[begin:end] for begin, end in pairwise(starts)] == [*map(integer, NUMBERS)]


def test_so_many_that_they_are_written_in_several_parts_are_the_same() -> None:
    numbers = [number * 40_503 % (1 << 33) for number in range(CHUNK + 2)]
    data, starts = integers(np.array(numbers, np.int64))
    assert [data[begin:end] for begin, end in pairwise(starts)] == [*map(integer, numbers)]


class Counted:
    """A column, and how many numbers of it were asked for."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers, self.asked = numbers, 0

    def __getitem__(self, part: slice, /) -> np.ndarray:
        self.asked += len(self.numbers[part])
        return self.numbers[part]


def test_lists_that_lie_across_parts_are_still_written_many_at_once() -> None:
    numbers = Counted(np.arange(5 * CHUNK))
    column = Integers(numbers)
    bounds = [*range(0, 5 * CHUNK, 7)]
    for begin, end in pairwise(bounds):
        assert column.part(begin, end) == b"".join(map(integer, range(begin, end)))
    assert numbers.asked < 6 * CHUNK


@pytest.mark.parametrize("count", [1, 3, 11])
def test_rows_of_several_columns_are_their_integers_with_fixed_bytes_around_them(count: int) -> None:
    columns = [np.resize(NUMBERS[at:], 12) for at in range(3)]
    runs = [Run(b"(", columns[0], b""), Run(b"", columns[1], b""), Run(b"ab", columns[2], b"t.")]
    rows = zip(*(column[1 : 1 + count].tolist() for column in columns), strict=True)
    expected = [b"(" + integer(a) + integer(b) + b"ab" + integer(c) + b"t." for a, b, c in rows]
    assert rows_of(runs, 1, 1 + count) == expected
