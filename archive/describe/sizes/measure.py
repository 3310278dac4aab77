"""The sizes of a file by one view, and the verdicts on its budgets: what the report on many files needs."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.describe.sizes import sizes
from archive.describe.sizes.account import View, by_size, changes
from archive.describe.sizes.budgets import verdict
from archive.describe.sizes.stacks import stacks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.describe.sizes.account import Account, Size, SizeChange
    from archive.describe.sizes.budgets import BudgetRule, SizeBudget, Verdict
    from archive.io.mapped import Source

VIEWS_OF_INSIDES = {View.PART, View.SOURCE}
"""Views that distinguish bytes inside of records."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every file.

    Attributes:
        depth: levels of folders or modules that labels keep.
        budgets: budgets for labels of the view.
        stacked: whether stacks for flame graphs are asked for.
    """

    view: View
    depth: int | None = None
    budgets: Sequence[SizeBudget] = ()
    limits: Limits = DEFAULT_LIMITS
    stacked: bool = False

    def account(self, source: Source) -> Account:
        """The labelled bytes of a file."""
        inside, weights = self.view in VIEWS_OF_INSIDES, self.stacked or self.view is View.WEIGHTS
        return sizes(source, inside=inside, weights=weights, limits=self.limits)


@dataclass(frozen=True, slots=True)
class Judged:
    """A budget's outcome, and the rule of a TOML file that it comes from; None for one of the question."""

    rule: BudgetRule | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Measures:
    """What is measured of a file.

    Attributes:
        debug_bytes: stored bytes of all debug records; the whole size of a companion.
        base: the same of the file that it is compared with; None where there is none.
        judged: the outcomes of its budgets.
        stacks: stored bytes by stack, where these are asked for: see :mod:`archive.describe.sizes.stacks`.
    """

    file: str
    size: int
    debug_bytes: int
    labels: Mapping[str, Size]
    base: Measures | None = None
    judged: Sequence[Judged] = ()
    stacks: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    @property
    def changes(self) -> dict[str, SizeChange]:
        """The changes since the base file, by label."""
        return changes(self.base.labels if self.base else {}, self.labels)


class FileSize(NamedTuple):
    """What is kept of each of many files."""

    file: str
    size: int
    debug_bytes: int
    old: int | None


class SizeTotals:
    """The sums over many files.

    Attributes:
        files: the sizes of each.
    """

    def __init__(self) -> None:
        self.files: list[FileSize] = []
        self._new: dict[str, Size] = {}
        self._old: dict[str, Size] = {}

    def add(self, measures: Measures) -> None:
        """Add a file."""
        base = measures.base
        old = base.size if base else None
        self.files.append(FileSize(measures.file, measures.size, measures.debug_bytes, old))
        _add(self._new, measures.labels)
        if base:
            _add(self._old, base.labels)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def old_size(self) -> int:
        """The bytes of all files that they are compared with."""
        return sum(file.old or 0 for file in self.files)

    @property
    def labels(self) -> dict[str, Size]:
        """The sizes of all files by label, largest first."""
        return by_size(self._new)

    @property
    def changes(self) -> dict[str, SizeChange]:
        """The changes of all files by label."""
        return changes(self._old, self._new)


def _add(sums: dict[str, Size], labels: Mapping[str, Size]) -> None:
    for label, size in labels.items():
        sums[label] = sums[label].plus(size) if label in sums else size


def measure(
    source: Source, base: Source | None, question: Question, rules: Sequence[BudgetRule] = ()
) -> Measures:
    """Measure a file, and check its budgets.

    Args:
        rules: the budgets for this file in a TOML file; they are about kinds of bytes, whatever the view.
    """
    new = question.account(source)
    old = question.account(base) if base is not None else None
    view, depth = question.view, question.depth
    judged = [Judged(None, verdict(budget, new, old, view, depth)) for budget in question.budgets]
    judged += [Judged(rule, verdict(rule.budget, new, old, View.KIND)) for rule in rules]
    before = None if old is None else _measures(old, question)
    return _measures(new, question, before, judged)


def _measures(
    account: Account, question: Question, base: Measures | None = None, judged: Sequence[Judged] = ()
) -> Measures:
    labels = account.by(question.view, question.depth)
    by_stack = stacks(account, question.view, question.depth) if question.stacked else {}
    return Measures(account.file, account.size, account.debug_bytes, labels, base, judged, by_stack)
