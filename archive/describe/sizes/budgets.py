"""Budgets: bounds on the size or the growth of a file, or of a label in a view; and TOML files with some.

    [tool.debug-archive.budgets]
    "models/*.ptl" = ["5MB", "debug=100KB"]
    "models/large/**" = "source ranges=+10KB"

A glob is relative to the folder of the TOML file; ``*`` and ``?`` stay within a folder, ``**`` is for any
number of folders. A file has the budgets of all globs that fit. Labels are kinds of bytes: those of the view
``kind``; ``debug``, ``weights`` and ``code`` for all that counts as such, as in an inventory; none for the
whole file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from archive.base.amounts import AMOUNT, parsed_amount
from archive.base.errors import ArchiveError, one_line, shown
from archive.base.quick_dataclass import dataclass
from archive.describe.sizes.account import STRUCTURE, Part, View
from archive.formats.exported.node_metadata import KIND_BY_KEY
from archive.formats.record_kinds import Group, MetadataKind, RecordKind, SpareKind
from archive.io import settings
from archive.io.globs import Globs, check_amount
from archive.io.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.describe.sizes.account import Account

BUDGET = re.compile(rf"(?:(?P<label>.+)=)?(?P<growth>\+)?(?P<most>{AMOUNT})", re.IGNORECASE | re.DOTALL)
FILE, DEBUG = "", "debug"
GROUPS = {DEBUG: Group.DEBUG, "weights": Group.WEIGHTS, "code": Group.CODE}
"""Labels in every view: the whole file, and what counts as debug info, weights or code without headers."""

ALWAYS_KNOWN = {
    View.KIND: [*RecordKind, *MetadataKind, *SpareKind, *STRUCTURE],
    View.PART: [*Part, *KIND_BY_KEY, *(f"[{kind}]" for kind in RecordKind)],
}
"""Labels that a budget may name even if a file has no such bytes."""

LISTED = 20
"""Labels that a message lists."""


@dataclass(frozen=True, slots=True)
class SizeBudget:
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
    def parse(cls, text: str) -> SizeBudget:
        """Read ``5MB``, ``source ranges=100KiB`` or ``debug=+10 kB``; units: :mod:`archive.base.amounts`.

        Raises:
            ValueError: the text isn't a budget.
        """
        words = BUDGET.fullmatch(text)
        if not words:
            raise ValueError(
                f"could not parse the budget {shown(text)}: expected SIZE or LABEL=SIZE, "
                "like 5MB or 'source ranges=+10KiB'"
            )
        return cls(words["label"] or FILE, parsed_amount(words["most"]), bool(words["growth"]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one budget for one file.

    Attributes:
        measured: stored bytes, or those by which they grew; None if that was not checked.
        problem: why it was not checked; "" if it was.
    """

    budget: SizeBudget
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
    budget: SizeBudget, account: Account, base: Account | None, view: View, depth: int | None = None
) -> Verdict:
    """Check a budget. Growth without a base, and a label that the view lacks, are problems.

    Args:
        base: of the file from which growth is measured.
        view: the one whose label the budget names.
    """
    new = _measures(account, view, depth)
    old = _measures(base, view, depth) if base else {}
    known = dict.fromkeys([*new, *old, *ALWAYS_KNOWN.get(view, [])])
    if budget.label not in known:
        names = [one_line(label) for label in dict.fromkeys([*new, *old]) if label != FILE]
        more = f", and {len(names) - LISTED} others" if len(names) > LISTED else ""
        some = ", ".join(names[:LISTED])
        problem = f"no label {shown(budget.label)} by {view}; there are: {some}{more}"
        return Verdict(budget, None, problem)
    size = new.get(budget.label, 0)
    if not budget.growth:
        return Verdict(budget, size)
    if base is None:
        return Verdict(budget, None, f"a budget of +{budget.most:,} bytes is for the difference from a BASE")
    return Verdict(budget, size - old.get(budget.label, 0))


def _measures(account: Account, view: View, depth: int | None) -> dict[str, int]:
    by_label = {label: size.stored for label, size in account.by(view, depth).items()}
    stored = Counter[Group]()
    for piece in account.pieces:
        stored[account.group_of(piece)] += piece.stored
    groups = {label: stored[group] for label, group in GROUPS.items()}
    groups = {label: size for label, size in groups.items() if label not in by_label}
    return {**by_label, **groups, DEBUG: account.debug_bytes, FILE: account.size}


# --- TOML files

BUDGETS: settings.TableName = "budgets"


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """A budget for all files that a glob fits.

    Attributes:
        glob: relative to the folder of the TOML file.
        place: the TOML file, and where in there it stands.
    """

    glob: str
    place: str
    budget: SizeBudget


@dataclass(frozen=True)
class BudgetFile:
    """The budgets of a TOML file."""

    path: str
    rules: Sequence[BudgetRule]

    @classmethod
    def nearest(cls) -> BudgetFile | None:
        """The budgets of the nearest ``pyproject.toml`` that has some: here, or in a folder above."""
        table = settings.nearest(BUDGETS)
        return cls(table.path, list(_rules(table))) if table else None

    @classmethod
    def read(cls, path: str) -> BudgetFile:
        """The budgets of a TOML file."""
        return cls(path, list(_rules(settings.read(path, BUDGETS))))

    @property
    def folder(self) -> Path:
        """The folder that globs are relative to, without links."""
        return Path(os.path.realpath(Path(self.path).parent))

    def rules_of(self, file: str | Path) -> list[BudgetRule]:
        """The rules for a file; none for one outside of the folder, or remote."""
        if is_url(file):
            return []
        place = Path(os.path.realpath(Path(file).parent), Path(file).name)
        if not place.is_relative_to(self.folder):
            return []
        fitting = self._globs.fitting(place.relative_to(self.folder).parts)
        return [self.rules[number] for number in sorted(fitting)]

    def idle(self) -> list[str]:
        """The places of globs that fit no file below the folder."""
        idle = set(range(len(self.rules)))
        for path, fitting in self._globs.found(self.folder):
            if not fitting.isdisjoint(idle) and Path(path).is_file():
                idle -= fitting
            if not idle:
                break
        globs = dict.fromkeys(self.rules[number].glob for number in sorted(idle))
        return [_place(self.path, glob) for glob in globs]

    @cached_property
    def _globs(self) -> Globs:
        return Globs(PurePosixPath(rule.glob).parts for rule in self.rules)


def _rules(table: settings.Table) -> Iterator[BudgetRule]:
    check_amount(list(table.values), f"{table.path}: {settings.header(BUDGETS)}")
    for glob, budgets in table.values.items():
        parts = PurePosixPath(glob)
        if not parts.parts or parts.is_absolute() or ".." in parts.parts:
            raise ArchiveError(file=_place(table.path, glob), expected="a glob below the folder of this file")
        texts = budgets if isinstance(budgets, list) else [budgets]
        for number, text in enumerate(texts, 1):
            place = _place(table.path, glob) + (f", item {number}" if isinstance(budgets, list) else "")
            if not isinstance(text, str):
                raise ArchiveError(file=place, expected='text like "debug=100KB"', found=shown(text))
            try:
                budget = SizeBudget.parse(text)
            except ValueError as error:
                raise ArchiveError(str(error), file=place) from None
            yield BudgetRule(glob, place, budget)


def _place(path: str, glob: str) -> str:
    return f"{path}: {settings.header(BUDGETS)}, {shown(glob)}"
