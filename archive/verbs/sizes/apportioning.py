"""Whole numbers split in proportion."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def apportioned(total: int, weights: Sequence[int]) -> list[int]:
    """Split a number in proportion to weights, by largest remainder; of equal ones the first gets more.

    >>> apportioned(10, [1, 1, 0, 1])
    [4, 3, 0, 3]
    """
    whole = sum(weights)
    if not whole:
        return [total, *[0] * len(weights)][: len(weights)]
    shares = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: -(total * weights[i] % whole))
    for i in order[: total - sum(shares)]:
        shares[i] += 1
    return shares
