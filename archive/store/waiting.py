"""Waiting for another process that changes a store: told, and not for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_SECONDS = 60.0
TOLD_AFTER, PAUSE = 1.0, 0.02
"""Seconds of waiting after which it is told, and between two looks: most changes take less than that."""


class Waiting:
    """How long a store's lock is waited for.

    Args:
        most: in seconds.
        tell: takes a line that says what is waited for, once.
        clock: gives seconds.
        sleep: waits for some.
    """

    def __init__(
        self,
        most: float = MOST_SECONDS,
        tell: Callable[[str], None] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.most = most
        self._tell = tell
        self._clock = clock
        self._sleep = sleep

    def until(self, is_free: Callable[[], bool], lock: str) -> None:
        """Wait until a lock is free.

        Args:
            is_free: tries to take it.
            lock: its path, for messages.

        Raises:
            ArchiveError: it was not free in time.
        """
        begin = self._clock()
        while not is_free():
            waited = self._clock() - begin
            if waited >= self.most:
                raise ArchiveError(
                    f"another process has been changing the store for {self.most:g} s; "
                    "try again, or wait longer: --wait SECONDS (waiting=...)",
                    file=lock,
                )
            if self._tell is not None and waited >= min(TOLD_AFTER, self.most / 2):
                self._tell(f"{lock}: another process changes the store; waiting for up to {self.most:g} s")
                self._tell = None
            self._sleep(min(PAUSE, max(0.0, self.most - waited)))
