"""The connections that are open: how many, and whose."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from archive.server.problems import Reason
from archive.server.settings import MOST_CONNECTIONS, MOST_OF_A_CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable


class Connections:
    """Open connections, counted by the address of the client.

    Args:
        refused: is called with why a connection is refused, and a sentence that says so.
    """

    def __init__(self, refused: Callable[[Reason, str], None]) -> None:
        self._refused = refused
        self._of: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many are open."""
        return self._of.total()

    def opened(self, address: str) -> bool:
        """Count one in; whether it may stay."""
        self._of[address] += 1
        if self._of[address] > MOST_OF_A_CLIENT:
            self._refused(Reason.ADDRESS, f"{address} has {MOST_OF_A_CLIENT:,} connections already")
        elif self.open > MOST_CONNECTIONS:
            self._refused(Reason.CONNECTIONS, f"{MOST_CONNECTIONS:,} connections are open already")
        else:
            return True
        return False

    def closed(self, address: str) -> None:
        """Count one out."""
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]
