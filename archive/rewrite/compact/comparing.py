"""Columns of two archives are compared, value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, shown
from archive.base.strings import decoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.columns import Ints

    Where = Callable[[int], tuple[str, str]]
    Describe = Callable[[int], str]
    Known = dict[bytes, int]

SHOWN_WIDTH = 200


def compare(where: Where, expected: Ints, found: Ints, said: Describe = str) -> None:
    """Refuse the first of n values that differs; ``where`` gives its record and place."""
    differing = np.flatnonzero(expected != found)
    if len(differing):
        first = int(differing[0])
        record, place = where(first)
        one, other = said(int(expected[first])), said(int(found[first]))
        raise ArchiveError(record=record, place=place, expected=one, found=other)


def count_of(what: str) -> Describe:
    """Describe numbers as counts of things, given in the plural."""
    return lambda count: f"{count} {what}"


def quoted(known: Known) -> Describe:
    """Describe numbers by the strings that have them."""
    return lambda number: "None" if number < 0 else shown(decoded(list(known)[number]), SHOWN_WIDTH)


def refuse_missing(name: str, *, before: bool, after: bool) -> None:
    """Refuse a record that is in one of the archives only."""
    if before != after:
        expected, found = ("a record" if there else "no record" for there in (before, after))
        raise ArchiveError(record=name, expected=expected, found=found)
