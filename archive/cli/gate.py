"""The verdicts on the budgets of all files: what is printed of them, and the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import counted, one_line
from archive.cli import printing
from archive.cli.status import Status
from archive.describe.sizes.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.cli.annotations import Annotations
    from archive.describe.sizes.budget_file import BudgetFile, Rule
    from archive.describe.sizes.measure import Judged, Measures


class Gate:
    """Takes the verdicts file by file, and tells of them in the end.

    Args:
        file: the TOML file with budgets, if there is one.
        annotations: those of the command.
    """

    def __init__(self, file: BudgetFile | None, annotations: Annotations) -> None:
        self._file = file
        self._annotations = annotations
        self._over: list[str] = []
        self._kept = 0
        self._without_base = 0
        self._checked: set[Rule | Budget] = set()
        self._unknown: dict[Rule | Budget, str] = {}

    def take(self, name: str, measures: Measures) -> None:
        """Take the verdicts on a file."""
        over = [_line(one) for one in measures.judged if one.verdict.over]
        self._over += (f"{name}: {line}" for line in over)
        self._annotations.add("error", name, "over budget", over)
        for judged in measures.judged:
            verdict, asked = judged.verdict, judged.rule or judged.verdict.budget
            if not verdict.problem:
                self._checked.add(asked)
                self._kept += not verdict.over
            elif verdict.budget.growth and measures.base is None:
                self._without_base += 1
            else:
                self._unknown.setdefault(asked, verdict.problem)

    def lack(self, name: str, problem: str) -> None:
        """Annotate a file that could not be measured."""
        self._annotations.add("error", name, "sizes", [problem])

    @property
    def total(self) -> str:
        """One line: how many budgets are kept; "" where there are none."""
        if not self._checked and not self._without_base:
            return ""
        not_checked = f", {self._without_base:,} not checked" if self._without_base else ""
        return f"budgets: {self._kept:,} kept, {len(self._over):,} exceeded{not_checked}"

    def tell(self, *, has_base: bool, many: bool) -> Status:
        """Print what is over its budget, and what could not be checked; the exit status.

        Args:
            has_base: whether there are files to compare with.
            many: whether several files were asked for, so that each glob should fit one.
        """
        printing.flush()  # a log has both outputs, and the table comes first
        for line in self._over:
            printing.note(line)
        if self._without_base:
            why = "no such file in BASE" if has_base else "--base names what to compare with"
            printing.note(f"{counted(self._without_base, 'budget')} of growth not checked: {why}")
        problems = list(self._problems(many=many))
        for problem in problems:
            printing.note(problem)
        if self._file:
            self._annotations.add("error", self._file.path, "budgets", problems)
        return Status.FAILED if problems else Status.FINDINGS if self._over else Status.WELL

    def _problems(self, *, many: bool) -> Iterator[str]:
        """Labels that no file has, and globs that fit none."""
        for asked, problem in self._unknown.items():
            if asked not in self._checked:
                yield f"--budget: {problem}" if isinstance(asked, Budget) else f"{asked.place}: {problem}"
        if many and self._file:
            yield from (f"{place}: fits no file" for place in self._file.idle())


def _line(judged: Judged) -> str:
    where = f" ({one_line(judged.rule.glob)})" if judged.rule else ""
    return f"{judged.verdict}{where}"


def verdict_facts(judged: Judged) -> dict[str, Any]:
    """The outcome of a budget for JSON."""
    verdict, budget = judged.verdict, judged.verdict.budget
    return {
        "glob": judged.rule.glob if judged.rule else None,
        "label": budget.label,
        "growth": budget.growth,
        "most": budget.most,
        "measured": verdict.measured,
        "over": verdict.over,
        "problem": verdict.problem,
    }
