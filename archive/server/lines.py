"""Lines for those who run the server: one for each worker's death, and for each request refused for now.

They go to standard error, by the logger of the server. A flood is cut: of each kind, a few are written in
some seconds, and then how many more there were.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from archive.server.settings import MOST_LINES, SECONDS_OF_LINES

LOG = logging.getLogger("archive.server")


class Lines:
    """Lines, counted by their kind."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def write(self, kind: str, line: str) -> None:
        """Write a line, or count it where its kind has had enough of them lately."""
        if kind not in self._counts:
            asyncio.get_running_loop().call_later(SECONDS_OF_LINES, self._sum_up, kind)
        self._counts[kind] += 1
        if self._counts[kind] <= MOST_LINES:
            LOG.warning("%s", line)

    def _sum_up(self, kind: str) -> None:
        """Say how many lines of a kind were not written, and begin to count again."""
        more = self._counts.pop(kind, 0) - MOST_LINES
        if more > 0:
            LOG.warning("%s: %s more in %g s", kind, f"{more:,}", SECONDS_OF_LINES)

    def close(self) -> None:
        """Say of all kinds how many lines were not written."""
        for kind in list(self._counts):
            self._sum_up(kind)
