"""The work of ``sizes``: one file, or many with their sums, as a table or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from archive.base.errors import ArchiveError
from archive.base.mapped import source_of
from archive.base.urls import name_of
from archive.batches.places import exists, is_folder, joined, last_part
from archive.batches.reading import READ_KINDS, Listed, listing
from archive.cli import printing
from archive.cli.gate import verdict_facts
from archive.cli.several import problem, reading, status_of
from archive.cli.status import Status
from archive.describe.sizes.measure import Totals, measure
from archive.reader import recognition
from archive.report.sizes_text import changed_files_text, difference_text, files_text, sizes_text
from archive.report.texts import first_of

if TYPE_CHECKING:
    from archive.batches.reading import Listing, Reading
    from archive.cli.gate import Gate
    from archive.describe.sizes.budget_file import BudgetFile
    from archive.describe.sizes.measure import Measures, Question

MEASURED_KINDS = READ_KINDS | recognition.OPENED_KINDS
"""The kinds of files in folders that are measured."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of each file.

    Attributes:
        question: what is measured.
        base: the file or folder that is compared with.
        budget_file: the TOML file with budgets.
        mapped: whether files are mapped.
    """

    question: Question
    base: str | None
    budget_file: BudgetFile | None
    mapped: bool

    def of(self, file: Listed) -> Measures:
        """Measure a file.

        Raises:
            ArchiveError: it or its base is no archive, or contradicts itself.
            OSError: one of them cannot be read.
        """
        base = self.base_of(file)
        old = None if base is None else source_of(base, mapped=self.mapped)
        rules = self.budget_file.rules_of(file.name) if self.budget_file else []
        return measure(source_of(file.name, mapped=self.mapped), old, self.question, rules)

    def base_of(self, file: Listed) -> str | None:
        """The file that a file is compared with; None where the folder to compare with has none."""
        if self.base is None or not is_folder(self.base):
            return self.base
        path = joined(self.base, file.relative)
        return path if exists(path) else None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the command.

    Attributes:
        asked: what is asked of each file.
        gate: takes the verdicts on budgets.
        rows: labels that a table shows.
        as_json: whether facts are printed as JSON.
    """

    asked: Asked
    gate: Gate
    rows: int
    as_json: bool

    def one(self, name: str) -> Status:
        """Show where the bytes of a file go, or what changed in it.

        Raises:
            ArchiveError: it or its base is no archive, or contradicts itself, or there is no base.
            OSError: one of them cannot be read.
            UsageError: a budget names an unknown label, or bounds growth and there is no base.
        """
        file = Listed(name, last_part(name))
        if self.asked.base is not None and self.asked.base_of(file) is None:
            raise ArchiveError(f"holds no {file.relative} to compare with", file=name_of(self.asked.base))
        measures = self.asked.of(file)
        self._refuse_problems(measures)
        self.gate.take(name_of(name), measures)
        if self.as_json:
            printing.write_json(self._facts(measures))
        else:
            self._show(measures.size, measures.base.size if measures.base else 0, measures)
        return self.gate.tell(has_base=measures.base is not None, many=False)

    def _refuse_problems(self, measures: Measures) -> None:
        """Refuse budgets that say nothing about a single file.

        Raises:
            UsageError: one of the command line does.
        """
        for judged in measures.judged:
            if judged.verdict.problem and judged.rule is None:
                raise click.UsageError(judged.verdict.problem)

    def several(self, files: Listing, jobs: int | None) -> Status:
        """Show the sizes of several files, and their sums.

        Raises:
            UsageError: there is nothing to compare them with, or two would be compared with one.
        """
        self._check(files)
        totals, json, statuses = Totals(), printing.JsonParts(), {Status.WELL}
        with reading(files, self.asked.of, "measuring", jobs, as_json=self.as_json) as (lines, results):
            for result in results:
                statuses.add(status_of(result))
                if result.facts is None:
                    lines.note(problem(result))
                    self.gate.lack(result.file.label, problem(result))
                else:
                    totals.add(result.facts)
                    self.gate.take(result.file.label, result.facts)
                if self.as_json:
                    json.add([self._facts_or_problem(result)])
        if self.as_json:
            json.end()
        else:
            self._show_files(totals)
        self._note_gone(files)
        return max(*statuses, self.gate.tell(has_base=self.asked.base is not None, many=True))

    def _check(self, files: Listing) -> None:
        """Refuse what cannot be compared file by file.

        Raises:
            UsageError: there is nothing to compare with, or two files would be compared with one.
        """
        base, growth = self.asked.base, [one for one in self.asked.question.budgets if one.growth]
        if base is None:
            if growth:
                raise click.UsageError(
                    f"a budget of +{growth[0].most:,} bytes is for the difference from a BASE"
                )
            return
        if not is_folder(base):
            raise click.UsageError(
                f"several files are compared with those of a folder, and BASE is no folder: {name_of(base)}"
            )
        seen: dict[str, str] = {}
        for name, relative in files.files:
            if relative in seen:
                both = f"{seen[relative]} and {name}"
                raise click.UsageError(
                    f"{both} would be compared with the same {name_of(joined(base, relative))}"
                )
            seen[relative] = name

    def _show(self, new: int, old: int, measures: Measures | Totals) -> None:
        """Show the table of labels."""
        view = self.asked.question.view
        if self.asked.base is None:
            printing.show(sizes_text(new, measures.labels, view, self.rows))
        else:
            printing.show(difference_text(old, new, measures.changes, view, self.rows))

    def _show_files(self, totals: Totals) -> None:
        """Show the table of files, and that of the labels of all."""
        of_files = files_text if self.asked.base is None else changed_files_text
        printing.show(of_files(totals.files))
        printing.write_line("")
        self._show(totals.size, totals.old_size, totals)
        if self.gate.total:
            printing.write_line("")
            printing.write_line(self.gate.total)

    def _note_gone(self, files: Listing) -> None:
        """Note the files that are in the folder to compare with alone, if folders are compared."""
        if self.asked.base is None or not files.searched:
            return
        old = listing([self.asked.base], kinds=MEASURED_KINDS, mapped=self.asked.mapped).files
        here = {file.relative for file in files.files}
        gone = [file.label for file in old if file.relative not in here]
        if gone:
            printing.note(f"gone since BASE: {len(gone):,}: {first_of(gone, 'files')}")

    def _facts_or_problem(self, result: Reading[Measures]) -> dict[str, Any]:
        if result.facts is None:
            return {"file": result.file.label, "error": problem(result)}
        return self._facts(result.facts)

    def _facts(self, measures: Measures) -> dict[str, Any]:
        """The sizes, or the changes since an old file, and the verdicts on budgets, for JSON."""
        facts = _head(measures) | {"by": self.asked.question.view}
        if self.asked.base is None:
            facts["labels"] = measures.labels
        else:
            facts["base"] = _head(measures.base) if measures.base else None
            facts["labels"] = measures.changes
        if measures.judged:
            facts["budgets"] = [verdict_facts(one) for one in measures.judged]
        return facts


def _head(measures: Measures) -> dict[str, Any]:
    return {"file": measures.file, "size": measures.size, "debug_bytes": measures.debug_bytes}
