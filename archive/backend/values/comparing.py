"""The values of two runs of one model, side by side, one pair of tensors in memory at a time."""

from __future__ import annotations

from math import inf, log10, nan
from typing import TYPE_CHECKING, NamedTuple

import torch

from archive.backend.values.beginning import Beginning
from archive.backend.values.masks import hidden_by
from archive.base.errors import ArchiveError
from archive.debuginfo.values.gaps import DEFAULT_TOLERANCE, Gap, ValueDiff, ValueGap, chooses
from archive.debuginfo.values.observed import elements
from archive.debuginfo.values.pairing import by_node, paired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.backend.values.observing import KeptValues
    from archive.debuginfo.values.extras import Side
    from archive.debuginfo.values.observed import Hides, Observed, Summary
    from archive.debuginfo.values.pairing import Pair

FLOATS = ("float", "bfloat", "complex")
"""Begin the names of dtypes whose numbers are not whole."""
SMALLEST = 1e-12
"""A reference whose largest value is smaller counts as this large in relative differences."""


def compared(
    mine: Observed,
    mine_values: KeptValues,
    base: Observed,
    base_values: KeptValues,
    tolerance: float = DEFAULT_TOLERANCE,
) -> ValueDiff:
    """How far a run is from another one, operation by operation.

    Raises:
        ArchiveError: the runs, or a node of their program, return different numbers of tensors, or tensors of
            different sizes: they are of different models, or of other inputs.
    """
    is_same = mine.program and mine.program == base.program
    pairs = by_node(mine, base) if is_same else paired(mine, base)
    made = ValueDiff(mine, base, pairs, tolerance=tolerance)

    def gap(one: Summary, other: Summary) -> Gap:
        return gap_of(mine_values.tensor(one), base_values.tensor(other))

    for pair in made.pairs.pairs:
        # Of results that are not all noted, it is not known which is which.
        is_whole = not is_same or len(pair.mine.results) == len(pair.base.results)
        if is_same and is_whole:
            _check_sizes(pair)
        gaps = [gap(*results) for results in _results(pair, are_chosen=False)] if is_whole else []
        if gaps:
            made.gaps.append(ValueGap(pair, max(gaps, key=lambda each: each.max_rel)))
        else:
            made.uncompared += 1
    _compare_outputs(made, gap)
    Beginning(made, _Values((mine_values, base_values), gap), is_of_program=bool(is_same)).mark()
    return made


class _Values(NamedTuple):
    """As :class:`archive.backend.values.beginning.Values`."""

    kept: tuple[KeptValues, KeptValues]
    gap_of: Callable[[Summary, Summary], Gap]

    def chosen_gap(self, pair: Pair) -> Gap | None:
        gaps = (self.gap_of(*results) for results in _results(pair, are_chosen=True))
        return next((each for each in gaps if each.max_abs), None)

    def hides(self, side: Side, mask: Summary, queries: int) -> Hides | None:
        is_matrix = len(mask.shape) > 1
        return hidden_by(self.kept[side].tensor(mask), queries, mask.shape[-1]) if is_matrix else None


def _compare_outputs(made: ValueDiff, gap: Callable[[Summary, Summary], Gap]) -> None:
    if made.mine.outputs is None or made.base.outputs is None:
        return
    outputs = made.mine.outputs, made.base.outputs
    sizes = [[elements(each.shape) for each in results] for results in outputs]
    if sizes[0] != sizes[1]:
        found = " and ".join(", ".join(str(each.shape) for each in results) or "none" for results in outputs)
        raise ArchiveError(expected="results of the same sizes from both", found=found)
    made.outputs = [gap(*pair) for pair in zip(*outputs, strict=True)]


def _check_sizes(pair: Pair) -> None:
    """Refuse results of one node that have other sizes in one of the runs."""
    shapes = [[*each.shape] for each in pair.mine.results], [[*each.shape] for each in pair.base.results]
    if shapes[0] != shapes[1]:
        what = (
            f"{pair.mine.op} at {pair.mine.line} returns {shapes[0]} in one run and {shapes[1]} in the other"
        )
        raise ArchiveError(f"{what}: they are of different programs, or of inputs of other sizes")


def _results(pair: Pair, *, are_chosen: bool) -> Iterator[tuple[Summary, Summary]]:
    """The results of two operations that have equally many elements.

    Args:
        are_chosen: only truth values, further whole numbers, and those that comparisons of floats choose: the
            smallest difference changes them. Without, all others.
    """
    for number, (one, other) in enumerate(zip(pair.mine.results, pair.base.results, strict=False)):
        is_whole = not one.dtype.startswith(FLOATS)
        is_chosen = "bool" in {one.dtype, other.dtype} or (is_whole and bool(number or chooses(pair.mine)))
        if is_chosen is are_chosen and elements(one.shape) == elements(other.shape):
            yield one, other


def gap_of(value: torch.Tensor, reference: torch.Tensor) -> Gap:
    """The difference of two tensors of equally many elements."""
    mine, base = (_flat(each) for each in (value, reference))
    finite = torch.isfinite(mine) & torch.isfinite(base)
    if not bool(finite.all()):
        same = (mine == base) | (torch.isnan(mine) & torch.isnan(base))
        odd = int((~finite & ~same).sum())
        if odd:
            return Gap(inf, inf, -inf, nan, odd, inf, inf)
        mine, base = mine[finite], base[finite]
    if not mine.numel():
        return Gap(0.0, 0.0, inf, 1.0, 0, 0.0, 0.0)
    difference = mine - base
    largest = float(difference.abs().max())
    noise, power = float(difference.square().sum()), float(base.square().sum())
    norms = float(mine.norm()) * float(base.norm())
    return Gap(
        largest,
        largest / max(float(base.abs().max()), SMALLEST),
        10 * log10(power / noise) if noise and power else -inf if noise else inf,
        float(mine @ base) / norms if norms else float(not noise),
        0,
        noise / difference.numel(),
        float(difference.abs().mean()),
    )


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in double precision; those of a complex tensor as pairs."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.reshape(-1).double()
