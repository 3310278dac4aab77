"""The pool of processes: a signal never cuts a result, and never leaves a process that waits for ever."""

import os
import signal
import subprocess
import sys
from threading import Timer

import pytest

from archive.batches import pool
from archive.batches.pool import GIVEN, Lost, results
from tests.support.processes import PATIENCE

SIZE = 64 << 20
"""Bytes of a result: sending it takes much longer than the time after which its worker gets a signal."""


def answer(seconds: float) -> bytes:
    """Work whose worker gets a signal soon after, while the result is on its way."""
    result = bytes(SIZE)
    Timer(seconds, os.kill, [os.getpid(), signal.SIGTERM]).start()
    return result


def _sizes_of_all_results() -> None:
    sizes = sorted(len(result) for _, result in results(answer, [0.02, 0.04], 2))
    sys.stdout.write(f"{sizes}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process at once, whatever it does")
def test_a_signal_between_the_work_and_its_result_cuts_nothing() -> None:
    done = subprocess.run([sys.executable, "-m", __name__], capture_output=True, timeout=PATIENCE, check=True)
    assert done.stdout.decode() == f"[{SIZE}, {SIZE}]\n"


class Asked(list[int]):
    """Items that note which of them were asked for."""

    last = -1

    def __getitem__(self, place: int) -> int:  # type: ignore[override]
        self.last = max(self.last, place)
        return super().__getitem__(place)


def test_a_pool_takes_items_as_it_works_on_them() -> None:
    items, ended = Asked(range(100, 400)), 0
    for place, result in results(str, items, 2):
        ended += 1
        assert result == str(100 + place)
        assert items.last < ended + 2 * GIVEN
    assert ended == 300


def killing(number: int) -> int:
    """Work that kills its process, for one number."""
    if number == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_an_item_that_kills_its_process_is_lost_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "GIVEN", 2)  # each item that was given is tried by a process of its own
    found = dict(results(killing, range(60), 2))
    assert isinstance(found.pop(30), Lost)
    assert found == {number: number for number in range(60) if number != 30}


TWICE = """
import importlib, signal, sys
from archive.batches import pool

for late in range(40):  # lines after which the second signal comes
    importlib.reload(pool)
    left = late

    def trace(frame, event, _):
        global left
        left -= event == "line"
        if event == "line" and left == -1:
            signal.raise_signal(signal.SIGTERM)
        return trace

    signal.signal(signal.SIGTERM, pool._leave)
    sys.settrace(trace)
    try:
        signal.raise_signal(signal.SIGTERM)
    except SystemExit:
        pass
    finally:
        sys.settrace(None)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process at once, whatever it does")
def test_a_second_signal_at_any_line_of_the_first_ones_handling_ends_the_work_too() -> None:
    subprocess.run([sys.executable, "-c", TWICE], timeout=PATIENCE, check=True)


if __name__ == "__main__":
    _sizes_of_all_results()


class Pickled:
    """Work that counts how often it is pickled."""

    def __init__(self, times: list[int]) -> None:
        self.times = times

    def __call__(self, item: int) -> int:
        return item + 1

    def __reduce__(self) -> "tuple[type[Pickled], tuple[list[int]]]":
        self.times[0] += 1
        return Pickled, ([0],)


def test_work_goes_to_each_process_once() -> None:
    """It may hold facts about all items: then each item would go with all of them."""
    times = [0]
    assert sorted(results(Pickled(times), range(40), 2)) == [(at, at + 1) for at in range(40)]
    assert 1 <= times[0] <= 2


@pytest.mark.parametrize("workers", [1, 2])
def test_no_items_need_no_work(workers: int) -> None:
    assert list(results(answer, [], workers)) == []
