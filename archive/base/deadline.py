"""A deadline for work in the middle of a program: whatever takes longer is abandoned, wherever it is.

Work under a deadline checks the clock where it may take long: when it takes the lock of a model, with the
steps of an explanation, and in requests. The deadline holds for a thread, or an asyncio task.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_END: ContextVar[float] = ContextVar("end", default=inf)
"""The time at which the work ends, by the monotonic clock."""


class LateError(Exception):
    """The deadline has passed. Not an ``ArchiveError``: nothing is wrong with any file."""


@contextmanager
def ending_in(seconds: float) -> Iterator[None]:
    """Give the work of the block this many seconds.

    Raises:
        LateError: from within the block, when it has taken longer.
    """
    token = _END.set(monotonic() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def has_deadline() -> bool:
    """Whether this is work under a deadline."""
    return _END.get() != inf


def check_time() -> None:
    """Continue, if there is time.

    Raises:
        LateError: the deadline has passed.
    """
    if monotonic() > _END.get():
        raise LateError


def seconds_left(most: float) -> float:
    """The seconds that are left, up to ``most``.

    Raises:
        LateError: none are.
    """
    check_time()
    return max(0.0, min(most, _END.get() - monotonic()))
