"""The path of each byte of JSON: ``graph_module.graph.nodes[3].metadata.stack_trace``.

Brackets, commas and colons outside of strings are found in columns. What encloses a byte at some depth is the
last bracket of that depth before it: an earlier one has been closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.pieces.layers import with_quotes

if TYPE_CHECKING:
    from archive.base.columns import Ints
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
        self._quotes = np.flatnonzero(codes == QUOTE)
        marks = np.flatnonzero(np.frombuffer(data.translate(STRUCTURE), np.bool_))
        allowance.take(MARK * (len(marks) + len(self._quotes)), "places in JSON")
        marks = marks[np.searchsorted(self._quotes, marks) % 2 == 0]
        code = codes[marks]
        depth = np.cumsum(STEP[code], dtype=np.int64)
        self._marks, self._depth = marks, depth
        order = np.argsort(depth, kind="stable")
        self._first = np.searchsorted(depth[order], np.arange(1, MOST_DEEP + 2))
        self._by_depth = [
            tuple(some[np.isin(code[some], list(kind))] for kind in (OPEN, bytes([COMMA]), bytes([COLON])))
            for some in np.split(order, self._first)[1:-1]
        ]

    def path(self, position: int) -> str:
        """The path to the value that a byte is in; that of its object where it is in a key."""
        number = int(np.searchsorted(self._marks, position, "right")) - 1
        deep = min(int(self._depth[number]) if number >= 0 else 0, MOST_DEEP)
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
        end = int(np.searchsorted(self._quotes, self._marks[colons[colon]])) - 1
        key = self._data[self._quotes[end - 1] + 1 : self._quotes[end]]
        return "." + with_quotes(key[:MOST_KEY]).decode(errors="replace")

    def _is_past(self, commas: Ints, colon: int, number: int) -> bool:
        """Whether the value behind a colon has ended."""
        return bool(_before(commas, number) > _before(commas, colon))


def _before(numbers: Ints, number: int) -> int:
    """How many marks of some are not behind a mark."""
    return int(np.searchsorted(numbers, number, "right"))
