"""What tells of people and machines: texts that ``leaks`` found in an original, and that must go."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from archive.privacy.leaks.kinds import LeakKind
from archive.privacy.redact.forms import name_around
from archive.privacy.redact.search import SHORTEST, Search

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = frozenset({LeakKind.USER, LeakKind.HOST})
"""Names of people and machines, which are looked for as words and parts of names."""


class Telling:
    """Texts by kind.

    Args:
        by_kind: the texts.

    Attributes:
        by_kind: the same.
    """

    def __init__(self, by_kind: Mapping[LeakKind, set[bytes]] | None = None) -> None:
        self.by_kind = by_kind or {}
        self._told: dict[bytes, bool] = {}

    @cached_property
    def _names(self) -> set[bytes]:
        return {text.lower() for kind in NAMES & self.by_kind.keys() for text in self.by_kind[kind]}

    @cached_property
    def _search(self) -> Search:
        texts = {text.lower() for some in self.by_kind.values() for text in some}
        return Search(text for text in texts if len(text) >= SHORTEST)

    def tells(self, code: bytes) -> bool:
        """Whether code has one of the texts; that of many nodes is the same."""
        if code not in self._told:
            self._told[code] = bool(self.lines([code]))
        return self._told[code]

    def lines(self, lines: Sequence[bytes]) -> set[int]:
        """The numbers of lines that have one of the texts."""
        if not self.by_kind:
            return set()
        text = b"\n".join(lines)
        first = [0, *accumulate(len(line) + 1 for line in lines)]
        return {
            bisect_right(first, at) - 1
            for at, one in self._search.found(memoryview(text.lower()))
            if one not in self._names or name_around(text, at, len(one))
        }
