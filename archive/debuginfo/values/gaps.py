"""How far the values of two runs of one model are apart, pair by pair."""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from archive.base.quick_dataclass import dataclass
from archive.base.source_files import is_pytorchs
from archive.debuginfo.values.families import LAYERS, family, rounds
from archive.debuginfo.values.observed import DEVICE

if TYPE_CHECKING:
    from archive.debuginfo.values.observed import Observed, ObservedOperation
    from archive.debuginfo.values.pairing import Pair, Pairs

DEFAULT_TOLERANCE = 1e-5
STATIC = "quantized::conv"
"""Begins the names of quantised layers that norms are folded into when a module is quantised."""
LEAST_COSINE = 0.9
"""Of the first values of two runs that are given the same."""
LEAST_DROP_DB = 6.0
"""The smallest fall of the signal-to-noise ratio that is named: the noise doubles."""
CHOOSING = frozenset(
    [
        "argmax",
        "argmin",
        "argsort",
        "argwhere",
        "bernoulli",
        "bincount",
        "bucketize",
        "kthvalue",
        "median",
        "mode",
        "multinomial",
        "nonzero",
        "randperm",
        "searchsorted",
        "sort",
        "topk",
        "unique",
        "unique_consecutive",
    ]
)
"""Operators whose whole numbers follow from comparisons of floats, which the smallest difference changes."""


class Gap(NamedTuple):
    """The difference of two tensors, the second one being the reference.

    An element that is finite in only one of them, or infinite with another sign, is infinitely far away: all
    distances are infinite then, the ratio is minus infinity, and there is no angle (NaN).

    Attributes:
        max_abs: the largest absolute difference of two elements.
        max_rel: that, divided by the largest absolute value of the reference.
        snr_db: signal-to-noise ratio in dB; infinite where nothing differs.
        cosine: of the angle between them as vectors.
        odd: how many elements are finite in only one of them, or infinite with another sign.
        mse: mean squared difference.
        mae: mean absolute difference.
    """

    max_abs: float
    max_rel: float
    snr_db: float
    cosine: float
    odd: int
    mse: float
    mae: float

    def is_beyond(self, tolerance: float) -> bool:
        """Whether the relative difference is larger."""
        return self.max_rel > tolerance


class ValueGap(NamedTuple):
    """A pair of operations, and how far their values are apart.

    Attributes:
        follows: whether the difference may come from what they were given, though it is the first beyond the
            tolerance: that differs half as much already, or it may.
        is_shown: whether the gap is that of what follows from an extra operation, whose own value has nothing
            of its size beside it.
    """

    pair: Pair
    gap: Gap
    follows: bool = False
    is_shown: bool = False

    @property
    def known(self) -> ObservedOperation:
        """The operation of the run, or that of the base where this knows the line better.

        It does if only it knows one of the model's own code, or if the run's is of an exported program:
        non-strict export gives helper functions the line of their caller. Of an operation that one of both
        has folded into a layer, the other one knows it.
        """
        mine, base, layer = self.pair.mine, self.pair.base, self.pair.layer
        if self.pair.extra is not None:
            return self.pair.extra
        is_better = not _has_line(mine) or (mine.node is not None and base.node is None)
        if layer is not None:
            is_better = family(mine.op) == family(layer.op)
        return base if is_better and _has_line(base) else mine

    @property
    def layer(self) -> ObservedOperation | None:
        """The layer that one run has folded the operation into, from the run that knows its line better."""
        layer, sides = self.pair.layer, (self.pair.mine, self.pair.base)
        if layer is None or layer.node is None:
            return layer
        folded = (one for one in sides if one.node is None and family(one.op) == family(layer.op))
        return next(filter(_has_line, folded), layer)


def _has_line(operation: ObservedOperation) -> bool:
    """Whether a line of the model's own code is known."""
    source = operation.place.source
    return source is not None and not is_pytorchs(source.file)


@dataclass(slots=True)
class ValueDiff:
    """A run beside another one of the same model.

    Attributes:
        mine: the run.
        base: the reference.
        pairs: their operations, side by side.
        gaps: of all pairs whose values can be compared, in the order of the run.
        tolerance: of relative differences.
        uncompared: how many pairs have values that cannot be compared: of truth values, say.
        outputs: of the tensors that the model returns, in their order.
        may_be_unseen: whether the difference may begin in what a run has not seen.
    """

    mine: Observed
    base: Observed
    pairs: Pairs
    gaps: list[ValueGap] = field(default_factory=list)
    tolerance: float = DEFAULT_TOLERANCE
    uncompared: int = 0
    outputs: list[Gap] = field(default_factory=list)
    may_be_unseen: bool = False

    @property
    def doubts(self) -> list[str]:
        """Why both may not be of one model, or not of the same inputs."""
        found = [*self.mine.doubts, *self.base.doubts]
        alone = [sum(not rounds(each) for each in left) for left in self.pairs.left]
        paired = [len(self.pairs.pairs) + inside for inside in self.pairs.inside]
        shares = [(many, many + left) for many, left in zip(paired, alone, strict=True)]
        if all(2 * own < many for own, many in shares) and not (self.mine.has_hidden or self.base.has_hidden):
            of = " and ".join(f"{own:,} of {many:,}" for own, many in shares)
            found.append(f"they may not be of the same model: {of} operations have one in the other")
        first = self.gaps[0] if self.gaps else None
        is_noted = DEVICE in {self.mine.form, self.base.form}
        if is_noted and first is not None and first.gap.cosine < LEAST_COSINE:
            what = "the first values have little to do with each other"
            found.append(f"{what}: check that the debug buffer and the inputs are those of the device's run")
        return found

    @property
    def is_beyond(self) -> bool:
        """Whether an operation or a result of the model is beyond the tolerance."""
        return self.first_sure is not None or any(gap.is_beyond(self.tolerance) for gap in self.outputs)

    @property
    def beyond(self) -> list[ValueGap]:
        """The pairs beyond the tolerance."""
        return [each for each in self.gaps if each.gap.is_beyond(self.tolerance)]

    @property
    def first_sure(self) -> ValueGap | None:
        """The first pair beyond the tolerance that surely belongs together."""
        return next((each for each in self.beyond if not each.pair.is_weak), None)

    @property
    def first(self) -> ValueGap | None:
        """Where the difference surely begins: :attr:`first_sure`, unless it ``follows``."""
        found = self.first_sure
        return None if found is None or found.follows else found

    @property
    def uncertain(self) -> list[ValueGap]:
        """The pairs beyond the tolerance where the difference may begin, before :attr:`first` if any."""
        found, sure = self.beyond, self.first_sure
        return found if sure is None else found[: found.index(sure) + sure.follows]

    def may_hide_norm(self, each: ValueGap) -> bool:
        """Whether both runs may have folded a batch normalisation into a layer, which a fault may be of."""
        both = (each.pair.mine, self.mine), (each.pair.base, self.base)
        return all(
            (family(one.op) in LAYERS or rounds(one))
            and (run.is_frozen or any(map(rounds, run.operations)) or one.op.startswith(STATIC))
            for one, run in both
        )

    @property
    def largest_drop(self) -> ValueGap | None:
        """The pair with the largest fall of the signal-to-noise ratio since the pair before it that differs.

        The first pair that differs falls from the largest ratio of all. None if no ratio falls by 6 dB, or if
        the difference may begin in what was not seen.
        """
        if self.may_be_unseen:
            return None
        sure = [each for each in self.gaps if not each.pair.is_weak and -inf < each.gap.snr_db < inf]
        ratios = [each.gap.snr_db for each in sure]
        drops = [before - ratio for before, ratio in pairwise([max(ratios, default=inf), *ratios])]
        largest = max(drops, default=0.0)
        return sure[drops.index(largest)] if largest >= LEAST_DROP_DB else None


def chooses(operation: ObservedOperation) -> bool:
    """Whether whole numbers that it returns follow from comparisons of floats."""
    return family(operation.op) in CHOOSING
