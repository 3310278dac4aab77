"""Texts that are no string: a number that may be somebody's, a text that is a list of its letters.

*A whole number may be anybody's* (a telephone, an account, a number of staff, a date of birth) if
it has seven digits or more and isn't round: not a number of two digits times a power of two or ten, not a
power of two less or more one, as sizes, limits and masks are. One of six digits may be a date. A key of five
digits may be anybody's, too, unless the keys count entries; and so may digits one by one. Offsets, sizes and
strides of tensors are known by their places, and not asked here.

*Letters are a text* where three strings of one letter, or four code points of letters, are consecutive: items
of a list, values or keys of a dict. An alphabet isn't one: letters that never fall.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.privacy.review.numbers import LONGEST_ORDERED, text_of_codes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

FEWEST_DIGITS, FEWEST_OF_KEY = 7, 5
"""Digits of a number that may be somebody's, and of one that is a key."""
MOST_DIGITS = 7
"""Digits of a code point that is written as text."""
EXACT = 1 << 53
"""Floats below it have whole numbers to the digit."""
ROUND = 100
"""Less than that times a power of two or ten is a round number."""
KNOWN = {67280421310721}
"""The seed that PyTorch's generators begin with (``c10/core/GeneratorImpl.h``)."""
OF_DATE, LEAST_DATE, LAST_MONTH, LAST_DAY = 6, 100_000, 12, 31
LAST_DIGIT, FEWEST_KINDS = 9, 5
"""Digits one by one are a number if they are of this many kinds."""
FEWEST_LETTERS, FEWEST_CODES, FEWEST_KEYS = 3, 4, 4
"""Consecutive letters that are a text: as strings, code points, keys."""
DENSE = 2
"""Keys that count leave out fewer numbers than they have, times this."""
LAST_CODE = 0x10FFFF


def whole_number(value: object) -> int | None:
    """The whole number that a value is, perhaps as a float; None for others, flags among them."""
    if type(value) is int:
        return value
    if type(value) is float and abs(value) < EXACT and value.is_integer():
        return int(value)
    return None


def _code(value: object) -> int | None:
    """The code point that a value may be, as a number or in digits."""
    if isinstance(value, str):
        return int(value) if len(value) <= MOST_DIGITS and value.isdecimal() else None
    return whole_number(value)


def may_identify(number: int, fewest: int = FEWEST_DIGITS) -> bool:
    """Whether a whole number may be somebody's."""
    size = abs(number)
    if size < 10 ** (fewest - 1) or size in KNOWN:
        return False
    is_mask = size & (size + 1) == 0 or (size - 1) & (size - 2) == 0
    return not is_mask and size // (size & -size) >= ROUND and int(str(size).rstrip("0")) >= ROUND


def identifying_keys(keys: Collection[int]) -> list[int]:
    """The keys of a dict that may be somebody's; none where they count its entries."""
    some = [key for key in keys if may_identify(key, FEWEST_OF_KEY)]
    if len(some) > 1 and max(keys) - min(keys) < DENSE * len(keys):
        return []
    return some


def may_be_date(number: int) -> bool:
    """Whether six digits are a day, a month and a year, or a year, a month and a day."""
    day, month, year = number // 10_000, number // 100 % 100, number % 100
    is_date = 0 < month <= LAST_MONTH and (0 < day <= LAST_DAY or 0 < year <= LAST_DAY)
    return LEAST_DATE <= number < 10**OF_DATE and is_date and may_identify(number, OF_DATE)


def spelled(values: Sequence[object], fewest: int = FEWEST_LETTERS) -> Iterator[str]:
    """The texts that consecutive values are the letters of; strings of a letter if they are not fewer."""
    if not any(isinstance(value, int | float | str) for value in values):
        return
    for is_letter, group in groupby(values, lambda value: isinstance(value, str) and len(value) == 1):
        run = list(group)
        if is_letter and len(run) >= fewest and is_no_alphabet(text := "".join(map(str, run))):
            yield text
    for is_digit, group in groupby(values, lambda value: type(value) is int and 0 <= value <= LAST_DIGIT):
        digits = "".join(map(str, group)) if is_digit else ""
        if len(digits) >= FEWEST_DIGITS and len(set(digits)) >= FEWEST_KINDS and is_no_alphabet(digits):
            yield digits
    codes = list(map(_code, values))
    for is_code, group in groupby(codes, lambda code: code is not None and 0 < code <= LAST_CODE):
        run = list(group)
        if is_code and len(run) >= FEWEST_CODES and (of_codes := text_of_codes(np.array(run))):
            yield of_codes


def is_no_alphabet(text: str) -> bool:
    """Whether letters aren't consecutive ones, all the same, or many that never fall."""
    steps = [ord(other) - ord(one) for one, other in pairwise(text)]
    return len(set(steps)) > 1 and not (len(text) >= LONGEST_ORDERED and min(steps) >= 0)
