"""``Cores``: results in the order of the pieces, few of them in memory, nothing begun behind an error."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from archive.base.cores import AHEAD, Cores, cores, using_cores

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_results_come_in_the_order_of_the_pieces() -> None:
    assert list(Cores().map(str, range(500))) == [str(number) for number in range(500)]


def test_a_single_piece_needs_no_thread() -> None:
    assert list(Cores().map(lambda _: threading.current_thread(), [1])) == [threading.current_thread()]
    assert threading.current_thread() not in set(Cores().map(lambda _: threading.current_thread(), [1, 2]))


def test_few_pieces_are_taken_ahead() -> None:
    cores, taken = Cores(), list[int]()

    def pieces() -> Iterator[int]:
        for number in range(500):
            taken.append(number)
            yield number

    results = cores.map(str, pieces())
    assert next(results) == "0"
    assert len(taken) <= AHEAD * cores._count + 2


def test_an_error_comes_at_its_place_and_ends_the_work() -> None:
    done = list[int]()

    def work(number: int) -> int:
        if number == 3:
            raise ValueError(number)
        done.append(number)
        return number

    cores, results = Cores(), list[int]()
    with pytest.raises(ValueError, match="3"):
        results.extend(iter(cores.map(work, range(10_000))))
    assert len(done) <= 3 + (AHEAD + 1) * cores._count + 2


def test_work_uses_no_more_cores_than_there_are_or_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    with using_cores(2):
        assert cores() == Cores()._count == 2
        with using_cores(None):
            assert cores() == 2
        with using_cores(9):
            assert cores() == 4
    assert cores() == 4
