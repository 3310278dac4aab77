"""What a request may take, tries, redirections, headers and bodies together: one time, one count of bytes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_OF_SILENCE = 30.0
"""Seconds in which a server must say something."""
BESIDE_BODIES = 1 << 20
"""Bytes of all that is no body: headers, bodies of redirections and refusals, sizes of chunks."""
BESIDE_A_BYTE = 16
"""For so many bytes of a body, one more may come beside it."""


class Budget:
    """The time and the bytes that are left for a request.

    Args:
        seconds: that it may take.
        clock: tells seconds.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._end = clock() + seconds
        self._room = BESIDE_BODIES

    @property
    def silence(self) -> float:
        """Seconds that the next call of the system may take.

        Raises:
            ArchiveError: no time is left.
        """
        left = self._end - self._clock()
        if left <= 0:
            raise self.late()
        return min(left, SECONDS_OF_SILENCE)

    @property
    def is_spent(self) -> bool:
        """Whether no time is left."""
        return self._clock() >= self._end

    def late(self) -> ArchiveError:
        """The error of a request that takes too long."""
        return ArchiveError(f"an answer that takes more than {self._seconds:g} s")

    def wait(self, seconds: float) -> None:
        """Wait before another try.

        Raises:
            ArchiveError: less time is left.
        """
        if self._clock() + seconds >= self._end:
            raise self.late()
        time.sleep(seconds)

    def take(self, count: int) -> None:
        """Count bytes that were received.

        Raises:
            ArchiveError: they are more than may come.
        """
        self._room -= count
        if self._room < 0:
            raise ArchiveError(f"an answer with more than {BESIDE_BODIES:,} bytes beside its body")

    def give(self, count: int) -> None:
        """Let as many bytes come again as were found to be a body's."""
        self._room += count + count // BESIDE_A_BYTE
