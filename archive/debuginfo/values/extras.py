"""Finds what only one of two runs has computed before a pair whose values differ.

An operation that one form of a model has and the other hasn't is in no pair. The pair that follows it
differs, though its own line is right. So what the two operations of a pair were given is followed back
(:attr:`ObservedOperation.sources`), through what computes nothing and what is inside of the pair, to the
first that is in a pair, is an input of the model, or is *extra*: left over in one of the runs. What both
sides have in common is the same for both. Of the rest, an extra is compared with what the other run has in
its place: by their order, if one operator takes both. If both are the same number for number, as of
``x * 1``, it changes nothing. If an extra that it follows from is the same, both runs have that, though in no
pair, and the difference begins after it. A mask of attention is left out where both runs hide the same, by a
mask or by a flag (:attr:`ObservedOperation.unmasked`).

What one run has not seen is not extra in the other. Nor does a difference surely begin where it shows, if
what a run has not seen may come before it: operations of another line that the pair follows from without
another pair between them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from archive.debuginfo.values.families import family, rounds
from archive.debuginfo.values.flow import Flow
from archive.debuginfo.values.observed import UNSEEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.debuginfo.values.observed import Observed, ObservedOperation, Summary
    from archive.debuginfo.values.pairing import Pair, Pairs

Side: TypeAlias = int
"""0 for the run, 1 for its base."""
RESULT = 1 << 62
"""Stands for what the model returns, in both runs."""


class Given(NamedTuple):
    """What an operation was given.

    Attributes:
        value: of it.
        operation: that computed it; None for an input of the model.
        shared: what both runs have: the number of the pair's operation in the run, or of the input as in
            ``sources``; None if it is extra.
    """

    value: Summary
    operation: ObservedOperation | None
    shared: int | None


class Replaced(NamedTuple):
    """What one run has in the place of what the other has.

    Attributes:
        given: in each of the runs; None where a run has nothing in its place.
    """

    given: tuple[Given | None, Given | None]

    @property
    def sides(self) -> list[tuple[Side, ObservedOperation, Given | None]]:
        """What is extra, with what the other run has in its place."""
        return [
            (side, one.operation, other)
            for side, one, other in zip((0, 1), self.given, self.given[::-1], strict=True)
            if one is not None and one.operation is not None and one.shared is None
        ]


class Extras:
    """What is extra in two runs.

    Args:
        runs: the run and its base.
    """

    def __init__(self, runs: tuple[Observed, Observed], pairs: Pairs) -> None:
        self._runs, self._pairs = runs, pairs
        self._shared: tuple[Mapping[int, int], ...] = (
            {pair.mine.number: pair.mine.number for pair in pairs.pairs},
            {pair.base.number: pair.mine.number for pair in pairs.pairs},
        )
        self._left = [{one.number for one in left if not rounds(one)} for left in pairs.left]
        self._flows = [self._flow(*side) for side in zip(runs, self._shared, self._left, strict=True)]

    @staticmethod
    def _flow(run: Observed, shared: Mapping[int, int], left: set[int]) -> Flow:
        return Flow(
            run.operations, run.output_sources, lambda one: one.number in shared or one.number in left
        )

    def follows_unseen(self, pair: Pair | None) -> bool:
        """Whether a pair, or what the model returns, follows from what a run has not seen."""
        for side, run in enumerate(self._runs):
            last = None if pair is None else (pair.mine, pair.base)[side]
            if self._is_after_unseen(side, run.output_sources if last is None else last.sources, last):
                return True
        return False

    def _is_after_unseen(self, side: Side, sources: tuple[int, ...], last: ObservedOperation | None) -> bool:
        unseen = {one.number for one in self._pairs.hidden[side]}
        if self._pairs.is_open[side]:
            unseen |= self._left[side]
        rest, found = [*sources], {*sources}
        while rest:
            number = rest.pop()
            if number == UNSEEN:
                return True
            if number < 0 or number in self._shared[side]:
                continue
            operation = self._runs[side].operations[number]
            if number in unseen and (
                last is None or operation.line != last.line or last.place.source is None
            ):
                return True
            rest += {*operation.sources} - found
            found |= {*operation.sources}
        return False

    def before(self, pair: Pair) -> tuple[set[int], list[Replaced]]:
        """What the operations of a pair were given, as ``shared`` of it, and what is extra in one of them."""
        both = pair.mine, pair.base
        masks = [one.unmasked for one in both]
        sources = [one.sources for one in both]
        if masks[0] and masks[1] and masks[0].hides == masks[1].hides:
            sources = [masks[0].sources, masks[1].sources]
        return self._before(*sources, is_same=family(pair.mine.op) == family(pair.base.op))

    def before_outputs(self) -> tuple[set[int], list[Replaced]]:
        """The same of what the model returns."""
        return self._before(*(run.output_sources for run in self._runs), is_same=True)

    def chain(self, side: Side, last: ObservedOperation) -> list[ObservedOperation]:
        """An extra operation, after those extra ones whose values it follows from, as they ran."""
        found, rest = {last.number}, [last.number]
        while rest:
            for number in self._flows[side].taken[rest.pop()]:
                if number in self._left[side] and number not in found:
                    found.add(number)
                    rest.append(number)
        return [self._runs[side].operations[number] for number in sorted(found)]

    def is_constant(self, side: Side, last: ObservedOperation) -> bool:
        """Whether an extra operation follows from nothing that both runs have."""
        taken, left = self._flows[side].taken, self._left[side]
        return all(number in left for one in self.chain(side, last) for number in taken[one.number])

    def is_used_alike(self, pair: Pair) -> bool:
        """Whether something takes both operations of a pair, or nothing either of them; also if not known."""
        mine, base = (
            {self._known(side, number) for number in self._flows[side].users[one.number]}
            for side, one in enumerate((pair.mine, pair.base))
        )
        return not (mine or base) or bool((mine & base) - {None})

    def _known(self, side: Side, number: int) -> int | None:
        """An operation, input or the result as ``shared`` of it; None of what is extra."""
        is_operation = 0 <= number < len(self._runs[side].operations)
        return self._shared[side].get(number) if is_operation else RESULT if number >= 0 else number

    def _before(self, *sources: tuple[int, ...], is_same: bool) -> tuple[set[int], list[Replaced]]:
        """As :meth:`before`.

        Args:
            is_same: whether one operator takes both: what it takes twice is then twice the same.
        """
        taken = [flow.each(numbers) for flow, numbers in zip(self._flows, sources, strict=True)]
        if not all(taken):
            return set(), []  # what a run was given is not known
        if not is_same or len(taken[0]) != len(taken[1]):
            taken = [[*dict.fromkeys(numbers)] for numbers in taken]
        given = [[self._given(side, number) for number in numbers] for side, numbers in enumerate(taken)]
        numbers = [[each.shared for each in side if each.shared is not None] for side in given]
        both = Counter(numbers[0]) & Counter(numbers[1])
        rest = [[*_without(side, both)] for side in given]
        return {*numbers[0], *numbers[1]}, [*dict.fromkeys(_replaced(*rest))]

    def _given(self, side: Side, number: int) -> Given:
        run = self._runs[side]
        if number < 0:
            return Given(run.inputs[~number], None, number)
        operation = run.operations[number]
        return Given(operation.results[0], operation, self._known(side, number))


def _without(given: list[Given], both: Counter[int]) -> Iterator[Given]:
    """What is given without the first of each number that both runs have, as often as they have it."""
    left = both.copy()
    for each in given:
        if each.shared is not None and left[each.shared]:
            left[each.shared] -= 1
        else:
            yield each


def _replaced(mine: list[Given], base: list[Given]) -> Iterator[Replaced]:
    """What stands for what, in the order in which operations take them; if one run has more, for nothing."""
    if len(mine) == len(base):
        yield from map(Replaced, zip(mine, base, strict=True))
    else:
        yield from (Replaced((one, None)) for one in mine)
        yield from (Replaced((None, one)) for one in base)
