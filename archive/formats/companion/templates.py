r"""Strings as templates and numbers: what generated names differ in.

Traced models have thousands of strings that differ in a number only: ``/a/b.py(12): forward``,
``code/__torch__/torch/nn/modules/linear/___torch_mangle_7.py``. Such a number (a line in brackets, or
behind ``___torch_mangle_``; decimal, without leading zeros, up to 18 digits) leaves byte 1 in the
string's template. Numbers stand template by template, and in one template place by place, each in the
order of the strings. Strings that hold byte 1 themselves stay as they are, and so do then all others.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.errors import ArchiveError
from archive.numbering import firsts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.numbering import Ints

DIGITS = re.compile(rb"([0-9]+)")
MANGLED, BRACKET, AFTER = b"___torch_mangle_", b"(", b"): "
LONGEST = 18
HOLE = b"\1"


def templated(strings: Sequence[bytes]) -> tuple[list[bytes], Ints, Ints]:
    """Templates, the template of each string (n), and the numbers."""
    if any(HOLE in string for string in strings):
        return list(strings), np.arange(len(strings)), np.zeros(0, np.int64)
    known: dict[bytes, int] = {}
    numbers: list[list[int]] = []
    which = []
    for string in strings:
        template, values = _template(string)
        number = known.setdefault(template, len(known))
        which.append(number)
        if number == len(numbers):
            numbers.append([])
        numbers[number] += values
    listed = [
        value
        for template, values in zip(known, numbers, strict=True)
        for place in range(template.count(HOLE))
        for value in values[place :: template.count(HOLE)]
    ]
    return list(known), np.array(which, np.int64), np.array(listed, np.int64)


def _template(string: bytes) -> tuple[bytes, list[int]]:
    """A string without its numbers, and those."""
    parts = DIGITS.split(string)
    values = []
    for at in range(1, len(parts), 2):
        digits, before = parts[at], parts[at - 1]
        named = before.endswith(MANGLED) or (before.endswith(BRACKET) and parts[at + 1].startswith(AFTER))
        if named and len(digits) <= LONGEST and (digits[0] != ord("0") or len(digits) == 1):
            values.append(int(digits))
            parts[at] = HOLE
    return b"".join(parts) if values else string, values


def filled(templates: Sequence[bytes], which: Ints, numbers: Ints) -> list[bytes]:
    """The strings again.

    Raises:
        ArchiveError: there are more or fewer numbers than places for them.
    """
    uses = np.bincount(which, minlength=len(templates))
    if not len(numbers):
        return [templates[template] for template in which.tolist()]
    places = np.array([template.count(HOLE) for template in templates], np.int64)
    first = firsts(uses * places)
    if first[-1] != len(numbers):
        raise ArchiveError(expected=f"{first[-1]} numbers for templates", found=f"{len(numbers)}")
    values = [b"%d" % number for number in numbers.tolist()]
    strings = []
    used = [0] * len(templates)
    split = [template.split(HOLE) for template in templates]
    bounds = first.tolist()
    counts = uses.tolist()
    for template in which.tolist():
        head, *rest = split[template]
        at = bounds[template] + used[template]
        used[template] += 1
        for part in rest:
            head += values[at] + part
            at += counts[template]
        strings.append(head)
    return strings


def cut(data: bytes | memoryview, length: Ints) -> list[bytes]:
    """Strings that stand one behind the other.

    Raises:
        ArchiveError: they are not as long as the data.
    """
    bounds = firsts(length).tolist()
    if bounds[-1] != len(data):
        raise ArchiveError(expected=f"strings of {bounds[-1]} bytes together", found=f"{len(data)}")
    whole = bytes(data)
    return [whole[start:end] for start, end in pairwise(bounds)]
