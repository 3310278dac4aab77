"""Memory and time that something may take, and no more.

Time is CPU, and no number of seconds: it is compared with a fixed loop that runs beside it, on the same
machine under the same load. What a test allows is many times what it takes, for it looks for what grows with
the square of a file, or never ends.
"""

from __future__ import annotations

import resource
import time
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
ROUNDS = 200_000
"""Of the loop."""
FASTEST = ROUNDS * 1e-8
"""CPU seconds that the loop takes at least, on any machine."""


@contextmanager
def peak_below(limit: int) -> Iterator[None]:
    """Memory may grow by so many bytes meanwhile."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


MEMORY = 512 << 20
"""Bytes that no file of a few hundred bytes may take to be refused, nor to be read."""

LOOPS = 1_000
"""Loops of CPU that it may take no longer than."""


def loop_time() -> float:
    """CPU seconds that the loop takes here and now: the least of three."""
    return min(_looped() for _ in range(3))


def _looped() -> float:
    start, total = time.thread_time(), 0
    for number in range(ROUNDS):
        total += number % 7
    return time.thread_time() - start


@contextmanager
def loops_below(most: int) -> Iterator[None]:
    """The block may take as much CPU as so many loops, on a machine of any speed."""
    start = time.process_time()
    yield
    taken = time.process_time() - start
    if taken >= most * FASTEST:  # else it is less on any machine, and hundreds of loops need not run
        assert taken / loop_time() < most


@contextmanager
def affordable() -> Iterator[None]:
    """Fail where something takes more memory or time than that."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (no file)
        size = int(file.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, limits[1]))
    try:
        with loops_below(LOOPS):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
