"""Where the difference of two runs begins: at the first pair beyond the tolerance, or before it.

The first pair is not to blame where an operation that only one of the runs has was given to it
(``archive.debuginfo.values.extras``): that one is named. It is not sure where what it was given may differ,
too: by half as much at an earlier pair, at one that may not belong together, or at extra operations of
several lines; by the order of its elements; or by what a run has not seen. Then no line is.

Truth values and indices are not compared where they are computed: noise changes them where two numbers are
nearly equal. Where they differ and the first pair follows from them, the difference begins at them; surely,
if the operation was given the same, bit by bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.backend.values.eager import EAGER
from archive.debuginfo.values.extras import Extras
from archive.debuginfo.values.families import family
from archive.debuginfo.values.gaps import ValueGap
from archive.debuginfo.values.observed import UNSEEN, elements
from archive.debuginfo.values.pairing import EXTRA, Pair

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.debuginfo.values.extras import Given, Replaced, Side
    from archive.debuginfo.values.gaps import Gap, ValueDiff
    from archive.debuginfo.values.observed import Hides, ObservedOperation, Summary

GROWN = 2
"""By which the largest difference so far grows where another one begins: by 6 dB, as ``LEAST_DROP_DB``."""


class Values(Protocol):
    """The values of both runs."""

    def gap_of(self, mine: Summary, base: Summary) -> Gap:
        """The difference of a result of the run and one of the base."""

    def chosen_gap(self, pair: Pair) -> Gap | None:
        """The difference of the truth values or indices of a pair; None if they are equal, or are none."""

    def hides(self, side: Side, mask: Summary, queries: int) -> Hides | None:
        """What a mask of attention hides; None if it is something else.

        Args:
            queries: how many positions there are.
        """


class _Chain(NamedTuple):
    """Extra operations of a run, each of which follows from those before it.

    Attributes:
        other: what the other run has in the place of the last one; None if nothing.
        rest: those after the last one that has the value of ``other``, and how far each is from it.
        is_of_line: whether all of them are of one line.
        has_other: whether one has the value of ``other``. What the other run has there is then not extra.
    """

    side: Side
    other: Given | None
    rest: list[tuple[ObservedOperation, Gap | None]]
    is_of_line: bool
    has_other: bool


class Beginning:
    """Looks for where the difference of two runs begins.

    Args:
        diff: all pairs and their gaps.
        is_of_program: whether both are runs of one program, which neither has anything extra of.
    """

    def __init__(self, diff: ValueDiff, values: Values, *, is_of_program: bool) -> None:
        self._diff, self._values = diff, values
        self._is_of_program = is_of_program
        self._runs = diff.mine, diff.base
        self._extras = Extras(self._runs, diff.pairs)
        self._pairs = {pair.mine.number: pair for pair in diff.pairs.pairs}

    def mark(self) -> None:
        """Add what the difference comes from, if that is extra or a choice; mark a first that may follow."""
        diff, first = self._diff, self._diff.first_sure
        beyond = [each for each in diff.outputs if self._is_beyond(each)]
        if first is None and not beyond:
            return
        if self._extras.follows_unseen(None if first is None else first.pair):
            diff.may_be_unseen = True
            if first is not None:
                diff.gaps[diff.gaps.index(first)] = first._replace(follows=True)
            return
        if self._is_of_program:
            self._mark_by_node(first)
            return
        if first is None:
            self._mark_outputs(beyond)
            return
        at = diff.gaps.index(first)
        given, replaced = self._extras.before(first.pair)
        extra, choice = self._extra(replaced, [first.gap], first.pair), self._choice(given)
        follows = self._is_grown(at) or not self._extras.is_used_alike(first.pair)
        follows |= any(
            each.pair.mine.number in given and self._is_beyond(each.gap) for each in diff.gaps[:at]
        )
        if extra is None:
            follows |= any(map(self._is_other, replaced)) or self._is_shown_otherwise(first.pair)
        else:
            diff.gaps.insert(at, extra._replace(follows=follows))
            follows |= extra.pair.is_weak
        diff.gaps[diff.gaps.index(first)] = first._replace(follows=follows or choice is not None)
        if choice is not None:
            self._add(choice, is_alone=extra is None and not follows)

    def _mark_outputs(self, beyond: list[Gap]) -> None:
        """The same where no pair is beyond the tolerance, and some of what the model returns is."""
        given, replaced = self._extras.before_outputs()
        extra, choice = self._extra(replaced, beyond, None), self._choice(given)
        self._diff.gaps += [] if extra is None else [extra]
        if choice is not None:
            self._add(choice, is_alone=not replaced)

    def _mark_by_node(self, first: ValueGap | None) -> None:
        """The same of two runs of one program: what their operations were given need not be known."""
        if first is None:
            return
        choice = self._choice({number for number in self._pairs if number < first.pair.mine.number})
        if choice is not None:
            self._diff.gaps[self._diff.gaps.index(first)] = first._replace(follows=True)
            self._add(choice, is_alone=False)

    def _choice(self, given: set[int]) -> ValueGap | None:
        """The first pair of truth values or indices that differ and follow from no others that do.

        Args:
            given: to what follows from it, as ``shared``.
        """
        roots: list[ValueGap] = []
        seen, rest = set[int](), [*given]
        while rest:
            number = rest.pop()
            gap = None if number in seen else self._differing(number)
            seen.add(number)
            if gap is None:
                continue
            pair = self._pairs[number]
            if self._extras.follows_unseen(pair):
                roots.append(ValueGap(pair, gap, follows=True))
                continue
            before, replaced = self._extras.before(pair)
            choices = [each for each in before if self._differing(each) is not None]
            rest += choices
            if not choices:
                is_same = family(pair.mine.op) == family(pair.base.op) and not (replaced or pair.is_weak)
                is_sure = is_same and self._is_given_equal(pair, before)
                roots.append(ValueGap(pair, gap, follows=not is_sure))
        return min(roots, key=lambda each: each.pair.mine.number, default=None)

    def _differing(self, number: int) -> Gap | None:
        """How far the truth values or indices of a pair are apart; None if they are equal, or are none."""
        return self._values.chosen_gap(self._pairs[number]) if number in self._pairs else None

    def _is_given_equal(self, pair: Pair, before: set[int]) -> bool:
        """Whether both operations of a pair were given the same, bit by bit, and are used alike."""
        is_known = bool(pair.mine.sources) == bool(pair.base.sources)
        is_equal = all(self._digests(0, number) == self._digests(1, number) for number in before)
        return is_known and is_equal and self._extras.is_used_alike(pair)

    def _digests(self, side: Side, number: int) -> list[str]:
        """Of what the run on a side has, as ``shared``."""
        if number < 0:
            return [self._runs[side].inputs[~number].digest]
        pair = self._pairs[number]
        return [each.digest for each in (pair.mine, pair.base)[side].results]

    def _add(self, choice: ValueGap, *, is_alone: bool) -> None:
        """Add a pair that only choices are compared of.

        Args:
            is_alone: whether nothing else differs that the first pair beyond the tolerance was given.
        """
        gaps, number = self._diff.gaps, choice.pair.mine.number
        compared = [each for each in gaps if each.pair is choice.pair]
        self._diff.uncompared -= not compared
        for each in compared:
            gaps.remove(each)
        at = next((at for at, each in enumerate(gaps) if each.pair.mine.number > number), len(gaps))
        gaps.insert(at, choice._replace(follows=choice.follows or not is_alone))

    def _is_beyond(self, gap: Gap) -> bool:
        return gap.is_beyond(self._diff.tolerance)

    def _is_grown(self, at: int) -> bool:
        """Whether a gap is less than twice as large as another one before it."""
        gap, before = self._diff.gaps[at].gap, self._diff.gaps[:at]
        largest = max((each.gap.max_rel for each in before if not each.pair.is_weak), default=0.0)
        return gap.max_rel < GROWN * largest

    def _extra(self, replaced: Iterable[Replaced], shown: list[Gap], pair: Pair | None) -> ValueGap | None:
        """The first extra operation that is something else than what the other run has in its place.

        Args:
            shown: the differences that may come from it.
            pair: where they show; None if in what the model returns.
        """
        for each in replaced:
            chains = [self._chain(*side) for side in each.sides if not self._is_own(*side, pair)]
            if chains and all(chain.rest for chain in chains):
                is_alike = all(chain.is_of_line for chain in chains)
                longer = [chain for chain in chains if chain.has_other] or chains
                named = [self._named(chain, shown[0], pair, is_alike=is_alike) for chain in longer]
                return min(named, key=lambda one: one.pair.is_weak)
        return None

    def _chain(self, side: Side, last: ObservedOperation, other: Given | None) -> _Chain:
        chain = self._extras.chain(side, last)
        rest = [(one, self._gap_beside(one, other, side)) for one in chain]
        equal = [at for at, (_, gap) in enumerate(rest) if gap is not None and not self._is_beyond(gap)]
        is_of_line = len({one.line for one in chain}) == 1
        return _Chain(side, other, rest[equal[-1] + 1 :] if equal else rest, is_of_line, bool(equal))

    def _named(self, chain: _Chain, shown: Gap, pair: Pair | None, *, is_alike: bool) -> ValueGap:
        """The first of a chain's rest.

        It is sure if all that is extra there is of one line, or if it begins where both runs have the same
        and the rest is of one line. Of several lines both models may have the first: all forms but eager ones
        leave out what they don't use.
        """
        side, other = chain.side, chain.other
        named, gap = chain.rest[0]
        begins = chain.has_other or (other is not None and other.shared is not None)
        begins &= len({one.line for one, _ in chain.rest}) == 1 or self._runs[1 - side].form == EAGER
        is_known = chain.rest[-1][1] is not None
        beside = None if other is None else other.operation
        if pair is not None:
            is_known &= family(pair.mine.op) == family(pair.base.op)
            beside = beside or (pair.base, pair.mine)[side]
        mine, base = (named, beside or named)[:: -1 if side else 1]
        how = EXTRA[side][not (is_known and (begins or is_alike))]
        return ValueGap(Pair(mine, base, how), gap or shown, is_shown=gap is None)

    def _is_own(self, side: Side, last: ObservedOperation, other: Given | None, pair: Pair | None) -> bool:
        """Whether one run has as a tensor what the other has as a number or flag.

        It is made of constants at the operation's own line, or is a mask that hides what a flag says.
        """
        if other is not None or not self._extras.is_constant(side, last):
            return False
        if pair is None:
            return True
        own, place = (pair.mine, pair.base)[side], last.place
        is_own = (own.line, own.place.module) == (last.line, place.module) and place.source is not None
        return is_own or self._is_flag(side, last, pair)

    def _is_flag(self, side: Side, mask: ObservedOperation, pair: Pair) -> bool:
        """Whether a mask that attention is decomposed with hides what the other run says by a flag."""
        whole = (pair.base, pair.mine)[side]
        if whole.unmasked is None:
            return False
        queries = whole.results[0].shape[-2]
        return self._values.hides(side, mask.results[0], queries) == whole.unmasked.hides

    def _is_other(self, each: Replaced) -> bool:
        """Whether two operations are given another value in each of the runs, none of them extra."""
        mine, base = each.given
        if each.sides or mine is None or base is None:
            return not each.sides
        is_equal = elements(mine.value.shape) == elements(base.value.shape)
        return not is_equal or self._is_beyond(self._values.gap_of(mine.value, base.value))

    def _is_shown_otherwise(self, pair: Pair) -> bool:
        """Whether two operations were given values that differ, though what these follow from does not.

        One run has transposed them, say: that computes nothing, and is in no pair.
        """
        makers = pair.mine.makers, pair.base.makers
        if family(pair.mine.op) != family(pair.base.op) or len(makers[0]) != len(makers[1]):
            return False
        for numbers in zip(*makers, strict=True):
            mine, base = (self._maker(*side) for side in enumerate(numbers))
            if mine is not None and base is not None and elements(mine.shape) == elements(base.shape):
                is_float = mine.dtype == base.dtype and mine.dtype.startswith("float")
                if is_float and self._is_beyond(self._values.gap_of(mine, base)):
                    return True
        return False

    def _maker(self, side: Side, number: int) -> Summary | None:
        """What an operation of ``makers`` returned."""
        if number == UNSEEN:
            return None
        run = self._runs[side]
        return run.inputs[~number] if number < 0 else run.operations[number].results[0]

    def _gap_beside(self, one: ObservedOperation, other: Given | None, side: Side) -> Gap | None:
        """How far an operation's value is from what the other run has; None if they cannot be compared."""
        value = one.results[0]
        if other is None or elements(value.shape) != elements(other.value.shape):
            return None
        return self._values.gap_of(*(value, other.value)[:: -1 if side else 1])
