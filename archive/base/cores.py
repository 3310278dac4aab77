"""Work on many pieces, done by as many threads as there are cores; results come in the pieces' order.

Threads help where the work releases the interpreter's lock: hashing, checksums, deflating, and NumPy on long
arrays. :func:`using_cores` bounds how many cores are used.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import ThreadPoolExecutor

    Piece = TypeVar("Piece")
    Result = TypeVar("Result")

LONG = 1 << 22
"""Bytes from which on a digest is worth a thread of its own."""
_most: ContextVar[int | None] = ContextVar("_most", default=None)
AHEAD = 4
"""Pieces per core that wait, in memory, at a time."""


class Cores:
    """The threads of one piece of work. They start with the second piece, and end with this object."""

    def map(self, work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """The result of each piece. A single piece is done at once, since threads would take longer.

        >>> list(Cores().map(len, [b"ab", b"c"]))
        [2, 1]

        Raises:
            Exception: whatever the work raises; pieces that have not begun are left.
        """
        waiting = iter(pieces)
        first = list(islice(waiting, 2))
        if len(first) < 2:  # noqa: PLR2004 (a second one)
            yield from map(work, first)
            return
        begun = deque(self._pool.submit(work, piece) for piece in first)
        try:
            for piece in waiting:
                begun.append(self._pool.submit(work, piece))
                if len(begun) > AHEAD * self._count:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for task in begun:
                task.cancel()

    @cached_property
    def _count(self) -> int:
        return cores()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (a single piece does without)

        return ThreadPoolExecutor(self._count)


@contextmanager
def using_cores(most: int | None) -> Iterator[None]:
    """Work on at most so many cores; None changes nothing."""
    before = _most.set(_most.get() if most is None else most)
    try:
        yield
    finally:
        _most.reset(before)


def cores() -> int:
    """How many cores work may use."""
    there, most = os.cpu_count() or 1, _most.get()
    return there if most is None else min(there, most)


def meanwhile(work: Callable[[], Result], size: int) -> Callable[[], Result]:
    """Begin a piece of work in a thread of its own; on one core, and on few bytes, when it is asked for.

    Args:
        work: on bytes that stay as they are.
        size: how many.

    Returns:
        What waits for the result, and gives it or raises what the work raised.
    """
    if size < LONG or cores() == 1:
        return work
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (short work does without)

    pool = ThreadPoolExecutor(1)
    begun = pool.submit(work)
    pool.shutdown(wait=False)
    return begun.result
