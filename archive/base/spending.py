"""The steps and bytes that explaining many failures may take, and what is kept of earlier ones."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from archive.base.errors import LimitError
from archive.base.limits import Steps

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from archive.base.limits import Limits

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")

FAILURES_OF_STEPS = 16
STEPS_A_BYTE = 4
"""A log may take the steps of this many failures, plus this many for each of its bytes."""
FAILURES_OF_OUTPUT = 4
OUTPUT_A_BYTE = 256
"""The same for the bytes of its explanations."""


class Spending:
    """The steps and bytes that explanations took, and how many they may take for the log read so far.

    Failures that are named one by one, without a log, may take those of an empty log.

    Args:
        limits: ``work`` and ``output`` bound one failure, and by it the log.

    Attributes:
        read: bytes of the log, so far.
        steps: steps taken.
        output: bytes of explanations.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.read = self.steps = self.output = 0

    def counted(self, log: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces of a log, whose bytes are counted as they are read."""
        for piece in log:
            self.read += len(piece)
            yield piece

    @contextmanager
    def one_failure(self) -> Iterator[Steps]:
        """Count the steps of the next failure, which the block takes."""
        steps = Steps(max(0, min(self._limits.work, self._most_steps - self.steps)))
        try:
            yield steps
        finally:
            self.steps += steps.taken

    @property
    def _most_steps(self) -> int:
        return FAILURES_OF_STEPS * self._limits.work + STEPS_A_BYTE * self.read

    @property
    def most_output(self) -> int:
        """The bytes that all explanations may have together."""
        return FAILURES_OF_OUTPUT * self._limits.output + OUTPUT_A_BYTE * self.read

    def count(self, steps: int, size: int) -> None:
        """Count the steps and bytes of one explanation."""
        self.steps += steps
        self.output += size
        if self.steps > self._most_steps:
            raise LimitError("work", self._most_steps, self.steps)
        if self.output > self.most_output:
            raise LimitError("output", self.most_output, self.output)

    def write(self, size: int) -> bool:
        """Count an explanation's bytes, if they are allowed; else return False."""
        allowed = size <= self._limits.output and self.output + size <= self.most_output
        self.output += size * allowed
        return allowed


class Recent(Generic[K, V]):
    """Values made before, dropped all at once when they weigh too much.

    Args:
        room: what all values together may weigh.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._weight = 0
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """The value of a key; None if it is not kept."""
        return self._values.get(key)

    def keep(self, key: K, value: V, weight: int) -> V:
        """Keep a value, and return it."""
        if self._weight + weight > self._room:
            self._values.clear()
            self._weight = 0
        if weight <= self._room:
            self._values[key] = value
            self._weight += weight
        return value
