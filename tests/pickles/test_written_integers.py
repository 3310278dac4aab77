"""Integers as PyTorch's ``pushInt`` writes them: the opcode changes where the number no longer fits."""

from __future__ import annotations

import pickle
import pickletools
from itertools import pairwise

import numpy as np
import pytest

from archive.pickles.write import CHUNK, integer, integers

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
