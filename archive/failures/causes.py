"""The failures of a log, grouped by their causes: what one wants to see first of ten thousand reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.failures.failures import Answer, Cause

MOST_CAUSES = 10_000
"""Causes that are told apart; failures of others are counted together."""


@dataclass(slots=True)
class Group:
    """The failures of one cause.

    Attributes:
        models: the files of the models that explain them; () where a log is explained by one model.
        cause: what failed.
        count: how many failures there are.
        first: the number of the line in which the first one begins.
        last: the same of the last one.
    """

    models: tuple[str, ...]
    cause: Cause
    count: int
    first: int
    last: int


class Causes:
    """Counts failures by their causes.

    Attributes:
        others: the number of failures of further causes.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[tuple[str, ...], Cause], Group] = {}
        self.others = 0

    def add(self, answer: Answer, line: int) -> None:
        """Count an explained failure.

        Args:
            answer: its answer.
            line: the number of the line that it begins in.
        """
        assert answer.cause is not None  # noqa: S101 (it is explained)
        key = answer.models, answer.cause
        group = self._groups.get(key)
        if group is not None:
            group.count += 1
            group.last = line
        elif len(self._groups) < MOST_CAUSES:
            self._groups[key] = Group(answer.models, answer.cause, 1, line, line)
        else:
            self.others += 1

    def top(self, most: int | None = None) -> Sequence[Group]:
        """The groups with most failures, those that come first in the log before others."""
        groups = sorted(self._groups.values(), key=lambda group: (-group.count, group.first))
        return groups[:most]
