"""What the operations of a run take of each other, through those that compute nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from archive.debuginfo.values.observed import ObservedOperation


class Flow:
    """What each of some operations takes, and what takes it.

    Args:
        operations: of a run.
        outputs: what the model returns, as ``sources`` of an operation.
        stops: whether an operation is one of them; others only hand on what they are given.

    Attributes:
        taken: the operations whose values each operation of the run follows from, in the order of its
            arguments; of the model's inputs negative numbers.
        users: the operations that follow from each; ``len(operations)`` stands for what the model returns.
    """

    def __init__(
        self,
        operations: Sequence[ObservedOperation],
        outputs: tuple[int, ...],
        stops: Callable[[ObservedOperation], bool],
    ) -> None:
        self._handing = {one.number for one in operations if not stops(one)}
        self.taken: dict[int, tuple[int, ...]] = {}
        self.users: dict[int, set[int]] = defaultdict(set)
        for one in operations:
            self.taken[one.number] = self._nearest(one.sources)
            if one.number not in self._handing:
                self._use(one.number)
        self.taken[len(operations)] = self._nearest(outputs)
        self._use(len(operations))

    def each(self, sources: tuple[int, ...]) -> list[int]:
        """What values follow from that these operations wrote, for one after the other."""
        return [
            nearest
            for number in sources
            for nearest in (self.taken[number] if number in self._handing else (number,))
        ]

    def _nearest(self, sources: tuple[int, ...]) -> tuple[int, ...]:
        return (*dict.fromkeys(self.each(sources)),)

    def _use(self, number: int) -> None:
        for source in self.taken[number]:
            self.users[source].add(number)

    def is_within(self, inner: Collection[int], last: int) -> bool:
        """Whether operations are used, by each other and a last one alone; so also where nothing is known."""
        within = {*inner, last}
        return all(
            self.users[number] <= within and (self.users[number] or not self.taken[number])
            for number in inner
        )
