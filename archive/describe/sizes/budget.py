"""Budgets: bounds on the size or the growth of a file, or of a label in a view."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from archive.base.errors import one_line, shown
from archive.describe.sizes.account import STRUCTURE, Part, View
from archive.formats.exported.node_metadata import KIND_BY_KEY
from archive.formats.record_kinds import MetadataKind, RecordKind, SpareKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.describe.sizes.account import Account

BUDGET = re.compile(
    r"""
    (?: (?P<label> .+ ) = )? (?P<growth> \+ )?
    (?P<number> [0-9]{1,15} (?: \. [0-9]{1,9} )? ) \s* (?P<unit> [KMG]i?B | B )?
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
FILE, DEBUG = "", "debug"
"""Labels in every view: the whole file, and all debug info without headers of records."""

ALWAYS_KNOWN = {
    View.KIND: [*RecordKind, *MetadataKind, *SpareKind, *STRUCTURE],
    View.PART: [*Part, *KIND_BY_KEY, *(f"[{kind}]" for kind in RecordKind)],
}
"""Labels that a budget may name even if a file has no such bytes."""

LISTED = 20
"""Labels that a message lists."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A bound on stored bytes.

    Attributes:
        label: one of the view; "debug" for all debug records; "" for the file.
        most: the bound in bytes.
        growth: whether it bounds the difference from the base file.
    """

    label: str
    most: int
    growth: bool

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read ``5MB``, ``source ranges=100KiB`` or ``debug=+10 kB``; a number alone is in bytes.

        Raises:
            ValueError: the text is no budget.
        """
        words = BUDGET.fullmatch(text)
        if not words:
            raise ValueError(
                f"expected SIZE or LABEL=SIZE like 5MB, 'source ranges=+10KiB'; found {shown(text)}"
            )
        most = int(Decimal(words["number"]) * UNITS[(words["unit"] or "B").lower()])
        return cls(words["label"] or FILE, most, bool(words["growth"]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one budget for one file.

    Attributes:
        budget: the budget.
        measured: stored bytes, or those by which they grew; None if that was not checked.
        problem: why it was not checked; "" if it was.
    """

    budget: Budget
    measured: int | None
    problem: str = ""

    @property
    def over(self) -> int:
        """Bytes over the budget; 0 if it is kept, or was not checked."""
        return max(0, (self.measured or 0) - self.budget.most)

    def __str__(self) -> str:
        where = f"{one_line(self.budget.label)}: " if self.budget.label else ""
        if self.problem:
            return f"{where}not checked: {self.problem}"
        grown = "grew by " if self.budget.growth else ""
        return f"{where}{grown}{self.measured:,} bytes, {self.over:,} over the budget of {self.budget.most:,}"


def verdict(
    budget: Budget, account: Account, base: Account | None, view: View, depth: int | None = None
) -> Verdict:
    """Check a budget. Growth without a base, and a label that the view lacks, are problems.

    Args:
        budget: the budget.
        account: the file's.
        base: of the file from which growth is measured.
        view: the one whose label the budget names.
        depth: as for :meth:`Account.by`.
    """
    new = _measures(account, view, depth)
    old = _measures(base, view, depth) if base else {}
    known = dict.fromkeys([*new, *old, *ALWAYS_KNOWN.get(view, [])])
    if budget.label not in known:
        problem = f"no label {shown(budget.label)} by {view}; there are: {_listed(known)}"
        return Verdict(budget, None, problem)
    size = new.get(budget.label, 0)
    if not budget.growth:
        return Verdict(budget, size)
    if base is None:
        return Verdict(budget, None, f"a budget of +{budget.most:,} bytes is for the difference from a BASE")
    return Verdict(budget, size - old.get(budget.label, 0))


def _measures(account: Account, view: View, depth: int | None) -> dict[str, int]:
    by_label = {label: size.stored for label, size in account.by(view, depth).items()}
    return {**by_label, DEBUG: account.debug_bytes, FILE: account.size}


def _listed(known: Collection[str]) -> str:
    names = [one_line(label) for label in known if label != FILE]
    more = f", and {len(names) - LISTED} others" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
