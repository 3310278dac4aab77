"""What part of a record a byte is in: the path in JSON, the section of a shared object.

The path of a byte of JSON is like ``graph_module.graph.nodes[3].metadata.stack_trace``. Brackets, commas
and colons outside of strings are found in columns. What encloses a byte at some depth is the last bracket
of that depth before it: an earlier one has been closed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, LimitError
from archive.formats.elf.parse import is_elf, parse_object
from archive.privacy.pieces.json_strings import unescaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.limits import Allowance
    from archive.formats.elf.model import Stretch


# --- json places

QUOTE = ord('"')
OPEN, CLOSE, OPEN_LIST = b"{[", b"}]", ord("[")
STRUCTURE = bytes(code in OPEN + CLOSE + b':,"' for code in range(256))
STEP = np.array([(code in OPEN) - (code in CLOSE) for code in range(256)], np.int8)
KINDS = 4
"""Kinds of marks: 0 for brackets that open, 1 for commas, 2 for colons, 3 for brackets that close."""
KIND = np.array([max(b",:}".find(code) + 1, 3 * (code in CLOSE)) for code in range(256)], np.uint16)
MOST_DEEP = 64
"""Values in one another of which a path names the outer ones."""
MOST_KEY = 80
"""Characters of a key that a path shows."""
COST = 2
"""Bytes of memory that a byte of JSON costs; a mark or a quote costs ``MARK`` besides."""
MARK = 40


class JsonPlaces:
    """Paths in some JSON.

    Args:
        data: the JSON.
        allowance: takes the memory that it costs.

    Raises:
        LimitError: it would take more memory than allowed.
    """

    def __init__(self, data: bytes, allowance: Allowance) -> None:
        allowance.take(COST * len(data), "places in JSON")
        codes = np.frombuffer(data, np.uint8)
        marks = np.flatnonzero(np.frombuffer(data.translate(STRUCTURE), np.bool_))
        allowance.take(MARK * len(marks), "places in JSON")
        is_quote = codes[marks] == QUOTE
        quotes = marks[is_quote]
        cuts = unescaped(codes, quotes)
        quotes = quotes[cuts]
        outside = ~is_quote
        is_quote[is_quote] = cuts
        outside &= np.cumsum(is_quote) % 2 == 0
        marks = marks[outside]
        code = codes[marks]
        depth = np.cumsum(STEP[code], dtype=np.int64)
        self._data, self._quotes, self._marks, self._depth = data, quotes.data, marks.data, depth.data
        group = np.clip(depth, 0, MOST_DEEP + 1).astype(np.uint16) * KINDS + KIND[code]
        self._by_group = np.argsort(group, kind="stable")
        self._groups = np.append(0, np.cumsum(np.bincount(group, minlength=KINDS * (MOST_DEEP + 2)))).tolist()

    def _of(self, depth: int, kind: int) -> memoryview:
        """The numbers of the marks of a kind in values of some depth."""
        group = depth * KINDS + kind
        return self._by_group[self._groups[group] : self._groups[group + 1]].data

    def path(self, position: int) -> str:
        """The path to the value that a byte is in; that of its object where it is in a key."""
        number = bisect_right(self._marks, position) - 1
        deep = min(self._depth[number] if number >= 0 else 0, MOST_DEEP)
        return "".join(self._step(one, number) for one in range(1, deep + 1)).removeprefix(".")

    def _step(self, depth: int, number: int) -> str:
        """The key or the index of what is before a mark, of the value that encloses it at some depth."""
        opens, commas, colons = (self._of(depth, kind) for kind in range(KINDS - 1))
        begin = opens[_before(opens, number) - 1]
        if self._data[self._marks[begin]] == OPEN_LIST:
            return f"[{_before(commas, number) - _before(commas, begin)}]"
        colon = _before(colons, number) - 1
        if colon < 0 or colons[colon] < begin or self._is_past(commas, colons[colon], number):
            return ""
        end = bisect_left(self._quotes, self._marks[colons[colon]]) - 1
        if end < 1:  # no key of JSON
            return ""
        key = self._data[self._quotes[end - 1] + 1 : self._quotes[end]]
        return "." + key[:MOST_KEY].decode(errors="replace")

    def _is_past(self, commas: memoryview, colon: int, number: int) -> bool:
        """Whether the value behind a colon has ended."""
        return bool(_before(commas, number) > _before(commas, colon))


def _before(numbers: memoryview, number: int) -> int:
    """How many marks of some are not behind a mark."""
    return bisect_right(numbers, number)


# --- parts

MAPPED = ", mapped"
"""Ends the name of a part of a shared object that the loader maps: taken out, the object would not run."""


def json_parts(json: bytes, allowance: Allowance) -> Callable[[int], str]:
    """Tells paths in JSON.

    Args:
        json: the JSON.
        allowance: takes the memory that it costs.

    Raises:
        LimitError: it would take more memory than allowed.
    """
    return JsonPlaces(json, allowance).path


def object_parts(data: memoryview) -> Callable[[int], str]:
    """Tells sections of a shared object, and whether they are mapped; "" for any other bytes."""
    try:
        stretches = list(parse_object(data).stretches()) if is_elf(data) else []
    except LimitError:
        raise
    except ArchiveError:  # headers that contradict one another name no section
        stretches = []
    return lambda position: _section(stretches, position)


def _section(stretches: list[Stretch], position: int) -> str:
    number = bisect_right(stretches, position, key=lambda one: one.start) - 1
    if number < 0:
        return ""
    one = stretches[number]
    return f"{one.name or one.part}{MAPPED if one.mapped else ', not mapped'}"
