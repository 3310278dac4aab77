"""Which allowance is asked: the one of the file at work, in threads, generators and what is made later."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

import archive
from archive.base import memory
from archive.base.bounded import bounded, bounded_members
from archive.base.errors import LimitError
from archive.base.limits import DEFAULT_LIMITS, Allowance, Limits
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

STACK = FIXTURES / "oracles/plain_stack.ptl"


def allowance(most: int = 100) -> Allowance:
    return Limits(memory=most).allowance(0)


def is_asked(one: Allowance) -> bool:
    """Whether an allowance is the current one."""
    before = one.taken
    memory.take(1)
    memory.give(one.taken - before)
    return memory.current() is one


class Lazy:
    """Something that makes more of itself when it is asked for more."""

    def __init__(self) -> None:
        self.allowance = memory.current()

    @property
    def text(self) -> str:
        memory.take(1)
        return ""

    def __getitem__(self, count: int) -> int:
        memory.take(count)
        return count

    def rows(self, count: int) -> Iterator[int]:
        for row in range(count):
            memory.take(1)
            yield row

    def also(self, other: Lazy) -> int:
        memory.take(1)
        return other[5]


@memory.kept
class Kept(Lazy):
    """One within the library."""

    text, __getitem__, rows, also = Lazy.text, Lazy.__getitem__, Lazy.rows, Lazy.also

    @cached_property
    def once(self) -> int:
        memory.take(10)
        return 10


@bounded_members
class Public(Lazy):
    """One at its boundary."""

    text, __getitem__, rows, also = Lazy.text, Lazy.__getitem__, Lazy.rows, Lazy.also

    @cached_property
    def once(self) -> int:
        memory.take(10)
        return 10


CLASSES = [Kept, Public]


@pytest.mark.parametrize("lazy", CLASSES)
def test_what_makes_more_of_itself_asks_the_allowance_in_which_it_was_made(lazy: type[Kept | Public]) -> None:
    one, other = allowance(), allowance()
    with memory.charged(one):
        made = lazy()
    with memory.charged(other), memory.part() as part:
        assert (made.once, made.text, made[3]) == (10, "", 3)
        rows = made.rows(2)
        assert is_asked(part)
        assert [next(rows), next(rows)] == [0, 1]
        assert is_asked(part)
        assert (one.taken, part.taken, other.taken) == (16, 0, 0)
    assert one.taken == 16
    made[84]
    with pytest.raises(LimitError):
        made.text  # noqa: B018


@pytest.mark.parametrize("lazy", CLASSES)
def test_of_two_objects_each_asks_its_own_allowance(lazy: type[Kept | Public]) -> None:
    with memory.charged(allowance()) as one:
        first = lazy()
    with memory.charged(allowance()) as other:
        second = lazy()
    assert first.also(second) == 5
    assert (one.taken, other.taken) == (1, 5)


def test_a_public_function_asks_the_allowance_of_its_first_argument() -> None:
    with memory.charged(allowance()) as one:
        made = Lazy()

    @bounded
    def call(_: object) -> None:
        memory.take(7)

    @bounded
    def steps(_: object) -> Iterator[bool]:
        yield is_asked(one)
        yield is_asked(one)

    call(made)
    assert one.taken == 7
    assert list(steps(made)) == [True, True]
    call("a path")
    call(DEFAULT_LIMITS)  # whose `allowance` is a method
    assert one.taken == 7


def test_a_generator_that_is_apart_leaves_its_caller_s_allowance_alone() -> None:
    whole = allowance()

    @memory.apart
    def parts() -> Iterator[Allowance]:
        for _ in range(2):
            with memory.part() as part:
                memory.take(30)
                yield part
                assert is_asked(part)

    with memory.charged(whole):
        steps, others = parts(), parts()
        for first, second in zip(steps, others, strict=True):
            assert is_asked(whole)
            assert (first.taken, second.taken, whole.taken) == (30, 30, 60)
        unfinished = parts()
        next(unfinished)
        assert whole.taken == 30
        cast("Generator[Allowance, None, None]", unfinished).close()
        assert is_asked(whole)
    assert whole.taken == 0


def test_a_generator_may_go_on_in_another_context() -> None:
    one = allowance()

    @memory.apart
    def taking() -> Iterator[int]:
        with memory.charged(one):
            for count in (1, 2):
                memory.take(count)
                yield count

    steps = taking()
    assert [copy_context().run(next, steps, None) for _ in range(3)] == [1, 2, None]
    assert one.taken == 3


def test_nothing_is_counted_in_a_new_thread_but_what_belongs_to_a_file() -> None:
    found: list[object] = []

    def work(of: Lazy) -> None:
        memory.take(1 << 60)
        found.extend([memory.limits(), of[4]])

    with memory.charged(allowance()) as one:
        made = Kept()
        thread = Thread(target=work, args=[made])
        thread.start()
        thread.join()
    assert found == [DEFAULT_LIMITS, 4]
    assert one.taken == 4


def test_tasks_have_allowances_of_their_own() -> None:
    async def work(one: Allowance) -> bool:
        with memory.charged(one):
            await asyncio.sleep(0)
            return is_asked(one)

    async def both() -> bool:
        return all(await asyncio.gather(work(allowance()), work(allowance())))

    assert asyncio.run(both())


def test_an_archive_asks_its_allowance_whoever_asks_it_and_leaves_none_behind() -> None:
    with archive.open(STACK) as one, archive.open(STACK, limits=Limits(memory=40_000)) as other:
        assert memory.limits() is DEFAULT_LIMITS
        assert not is_asked(one.allowance)
        before = one.allowance.taken, other.allowance.taken
        with memory.charged(other.allowance), memory.part():
            assert one.handles
        assert one.allowance.taken > before[0]
        assert other.allowance.taken == before[1]
        with pytest.raises(LimitError), memory.charged(one.allowance):
            _ = other.handles


# --- what things take

CHARACTERS = 6


@dataclass(frozen=True)
class Row:
    number: int
    text: str
    more: tuple[int, int]


def texts(count: int) -> object:
    return {b"%06d" % at: (at, at << 40) for at in range(count)}


def rows(count: int) -> object:
    return {f"{at:06d}": Row(at << 40, f"{at}.", (at << 41, at << 42)) for at in range(count)}


@pytest.mark.parametrize(
    ("unit", "make"), [(memory.NUMBER, np.arange), (memory.TEXT, texts), (memory.ROW, rows)]
)
def test_things_take_no_more_than_their_unit_and_not_much_less(
    unit: int, make: Callable[[int], object]
) -> None:
    for count in (1_366, 10_923, 22_000):  # dicts that have just grown, and one that is nearly full
        tracemalloc.start()
        try:
            made = make(count)
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        del made
        assert unit / 3 < taken / count <= unit + CHARACTERS
