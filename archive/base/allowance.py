"""The account of the memory that is derived from one file.

Whoever is about to make something whose size the file decides asks first: ``take`` for what stays in use,
``lent`` for what is gone at the end of a block. So a file's claim is refused before it costs anything.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from archive.base.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Limits


class Allowance:
    """The memory that one file may cost, and how much of it is in use.

    Made by :meth:`archive.base.limits.Limits.allowance`, one for each file that is opened. A file that is
    made from another one (an embedded companion, a result that is read again) shares that one's.

    Attributes:
        limits: the bounds beside memory.
        memory: bytes that may be in use at once.
        taken: bytes in use.
        peak: the most bytes that were in use.
    """

    __slots__ = ("_whole", "limits", "memory", "peak", "taken")

    def __init__(self, limits: Limits, memory: int, whole: Allowance | None = None) -> None:
        self.limits = limits
        self.memory = memory
        self._whole = whole
        self.taken = 0
        self.peak = 0

    def take(
        self, count: int, what: str = "", *, record: str | None = None, place: str | None = None
    ) -> None:
        """Ask for memory that stays in use.

        Args:
            count: bytes.
            what: the things that they are for, in the plural, for the message.
            record: the record that asks for them.
            place: where in the record.

        Raises:
            LimitError: more would be in use than allowed.
        """
        wanted = self.taken + count
        if self._whole is not None:
            self._whole.take(count, what, record=record, place=place)
        elif wanted > self.memory:
            raise LimitError("memory", self.memory, wanted, what=what, record=record, place=place)
        self.taken = wanted
        self.peak = max(self.peak, wanted)

    def give(self, count: int) -> None:
        """Say that so many bytes are no longer in use."""
        self.taken -= count
        if self._whole is not None:
            self._whole.give(count)

    @contextmanager
    def lent(
        self, count: int, what: str = "", *, record: str | None = None, place: str | None = None
    ) -> Iterator[None]:
        """Ask for memory that is in use until the block ends.

        Raises:
            LimitError: more would be in use than allowed.
        """
        self.take(count, what, record=record, place=place)
        try:
            yield
        finally:
            self.give(count)

    @contextmanager
    def part(self) -> Iterator[Allowance]:
        """An allowance of its own for a block: all that is taken from it is no longer in use at the end."""
        part = Allowance(self.limits, self.memory, self)
        try:
            yield part
        finally:
            self.give(part.taken)
