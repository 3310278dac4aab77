"""The path of each byte of JSON: ``graph_module.graph.nodes[3].metadata.stack_trace``.

Brackets, commas and colons outside of strings are found in columns. What encloses a byte at some depth is the
last bracket of that depth before it: an earlier one has been closed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from archive.pieces.layers import with_quotes

if TYPE_CHECKING:
    from archive.base.limits import Allowance

QUOTE, COLON, COMMA = b'":,'
OPEN, CLOSE = b"{[", b"}]"
STRUCTURE = bytes(code in OPEN + CLOSE + b",:" for code in range(256))
STEP = np.array([(code in OPEN) - (code in CLOSE) for code in range(256)], np.int8)
MOST_DEEP = 64
"""Values in one another of which a path names the outer ones."""
MOST_KEY = 80
"""Characters of a key that a path shows."""
COST = 2
"""Bytes of memory that a byte of JSON costs; one of its marks costs ``MARK`` besides."""
MARK = 40


class JsonPlaces:
    """Paths in some JSON.

    Args:
        data: the JSON, with other bytes in the place of escaped quotes.
        allowance: takes the memory that it costs.

    Raises:
        LimitError: it would take more memory than allowed.
    """

    def __init__(self, data: bytes, allowance: Allowance) -> None:
        allowance.take(COST * len(data), "places in JSON")
        codes = np.frombuffer(data, np.uint8)
        self._data = data
        quotes = np.flatnonzero(codes == QUOTE)
        marks = np.flatnonzero(np.frombuffer(data.translate(STRUCTURE), np.bool_))
        allowance.take(MARK * (len(marks) + len(quotes)), "places in JSON")
        marks = marks[np.searchsorted(quotes, marks) % 2 == 0]
        code = codes[marks]
        depth = np.cumsum(STEP[code], dtype=np.int64)
        self._quotes, self._marks, self._depth = quotes.data, marks.data, depth.data
        order = np.argsort(depth, kind="stable")
        first = np.searchsorted(depth[order], np.arange(1, MOST_DEEP + 2))
        kinds = (OPEN, bytes([COMMA]), bytes([COLON]))
        self._by_depth = [
            tuple(some[np.isin(code[some], list(kind))].data for kind in kinds)
            for some in np.split(order, first)[1:-1]
        ]

    def path(self, position: int) -> str:
        """The path to the value that a byte is in; that of its object where it is in a key."""
        number = bisect_right(self._marks, position) - 1
        deep = min(self._depth[number] if number >= 0 else 0, MOST_DEEP)
        return "".join(self._step(one, number) for one in range(deep)).removeprefix(".")

    def _step(self, depth: int, number: int) -> str:
        """The key or the index of what is before a mark, of the value that encloses it at some depth."""
        opens, commas, colons = self._by_depth[depth]
        begin = opens[_before(opens, number) - 1]
        if self._data[self._marks[begin]] == OPEN[1]:
            return f"[{_before(commas, number) - _before(commas, begin)}]"
        colon = _before(colons, number) - 1
        if colon < 0 or colons[colon] < begin or self._is_past(commas, colons[colon], number):
            return ""
        end = bisect_left(self._quotes, self._marks[colons[colon]]) - 1
        if end < 1:  # no key of JSON
            return ""
        key = self._data[self._quotes[end - 1] + 1 : self._quotes[end]]
        return "." + with_quotes(key[:MOST_KEY]).decode(errors="replace")

    def _is_past(self, commas: memoryview, colon: int, number: int) -> bool:
        """Whether the value behind a colon has ended."""
        return bool(_before(commas, number) > _before(commas, colon))


def _before(numbers: memoryview, number: int) -> int:
    """How many marks of some are not behind a mark."""
    return bisect_right(numbers, number)
