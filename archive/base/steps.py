"""Counts the steps of work whose length hostile input decides."""

from __future__ import annotations

from archive.base.errors import LimitError


class Steps:
    """The steps that were taken, of those that may be.

    Args:
        most: the steps that may be taken, a value of ``Limits.work``.

    Attributes:
        most: as given.
        taken: the steps taken so far.
    """

    __slots__ = ("most", "taken")

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self, steps: int = 1) -> None:
        """Count steps, before they are taken.

        Raises:
            LimitError: there are more than allowed.
        """
        self.taken += steps
        if self.taken > self.most:
            raise LimitError("work", self.most, self.taken)
