"""Signals of the process."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

ENDING_SIGNALS = signal.SIGINT, signal.SIGTERM
"""Those that ask a process to end."""


@contextmanager
def handled_by(
    handler: Callable[[int, FrameType | None], object] | signal.Handlers, numbers: Iterable[int]
) -> Iterator[None]:
    """Let a function handle signals during the block, then restore the previous handlers."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
