"""Where the difference of two runs begins: at the first pair beyond the tolerance, or before it.

The first pair is not to blame where an operation that only one of the runs has was given to it
(``archive.debuginfo.values.extras``): that one is named. It is not sure where what it was given may differ,
too: by half as much at an earlier pair, at one that may not belong together, or at extra operations of
several lines. Then no line is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.debuginfo.values.extras import Extras
from archive.debuginfo.values.gaps import ValueGap
from archive.debuginfo.values.observed import elements
from archive.debuginfo.values.pairing import EXTRA, Pair, family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from archive.debuginfo.values.extras import Given, Replaced, Side
    from archive.debuginfo.values.gaps import Gap, ValueDiff
    from archive.debuginfo.values.observed import ObservedOperation, Summary

GROWN = 2
"""By which the largest difference so far grows where another one begins: by 6 dB, as ``LEAST_DROP_DB``."""


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
        gap_of: the difference of a result of the run and one of the base.
    """

    def __init__(self, diff: ValueDiff, gap_of: Callable[[Summary, Summary], Gap]) -> None:
        self._diff, self._gap_of = diff, gap_of
        self._extras = Extras((diff.mine, diff.base), diff.pairs)

    def mark(self) -> None:
        """Add the extra operation that the difference comes from, or mark a first pair that may follow."""
        diff, first = self._diff, self._diff.first_sure
        if first is None:
            beyond = [each for each in diff.outputs if self._is_beyond(each)]
            replaced = self._extras.before_outputs() if beyond else []
            diff.gaps += [extra for extra in [self._extra(replaced, beyond, None)] if extra is not None]
            return
        at = diff.gaps.index(first)
        given, replaced = self._extras.before(first.pair)
        extra = self._extra(replaced, [first.gap], first.pair)
        follows = self._is_grown(at) or not self._extras.is_used_alike(first.pair)
        follows |= any(
            each.pair.mine.number in given and self._is_beyond(each.gap) for each in diff.gaps[:at]
        )
        if extra is None:
            follows |= any(map(self._is_other, replaced))
        else:
            diff.gaps.insert(at, extra._replace(follows=follows))
            follows |= extra.pair.is_weak
        diff.gaps[diff.gaps.index(first)] = first._replace(follows=follows)

    def _is_beyond(self, gap: Gap) -> bool:
        return gap.is_beyond(self._diff.tolerance)

    def _is_grown(self, at: int) -> bool:
        """Whether a gap is less than twice as large as another one before it."""
        gap, before = self._diff.gaps[at].gap, self._diff.gaps[:at]
        largest = max((each.gap.max_rel for each in before if not each.pair.is_weak), default=0.0)
        return not gap.odd and gap.max_rel < GROWN * largest

    def _extra(self, replaced: Iterable[Replaced], shown: list[Gap], pair: Pair | None) -> ValueGap | None:
        """The first extra operation that is something else than what the other run has in its place.

        Args:
            shown: the differences that may come from it.
            pair: where they show; None if in what the model returns.
        """
        for each in replaced:
            chains = [self._chain(*side) for side in each.sides if not self._is_own(*side)]
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

        It is sure if it begins where both runs have the same, or if all that is extra there is of one line.
        """
        side, other = chain.side, chain.other
        named, gap = chain.rest[0]
        begins = chain.has_other or (other is not None and other.shared is not None)
        is_known = chain.rest[-1][1] is not None
        beside = None if other is None else other.operation
        if pair is not None:
            is_known &= family(pair.mine.op) == family(pair.base.op)
            beside = beside or (pair.base, pair.mine)[side]
        mine, base = (named, beside or named)[:: -1 if side else 1]
        how = EXTRA[side][not (is_known and (begins or is_alike))]
        return ValueGap(Pair(mine, base, how), gap or shown)

    def _is_own(self, side: Side, last: ObservedOperation, other: Given | None) -> bool:
        """Whether one run has as a tensor what the other has as a number or flag: a causal mask."""
        return other is None and self._extras.is_constant(side, last)

    def _is_other(self, each: Replaced) -> bool:
        """Whether two operations are given another value in each of the runs, none of them extra."""
        mine, base = each.given
        if each.sides or mine is None or base is None:
            return not each.sides
        is_equal = elements(mine.value.shape) == elements(base.value.shape)
        return not is_equal or self._is_beyond(self._gap_of(mine.value, base.value))

    def _gap_beside(self, one: ObservedOperation, other: Given | None, side: Side) -> Gap | None:
        """How far an operation's value is from what the other run has; None if they cannot be compared."""
        value = one.results[0]
        if other is None or elements(value.shape) != elements(other.value.shape):
            return None
        return self._gap_of(*(value, other.value)[:: -1 if side else 1])
