"""``debug-archive sizes``: one file, or many with their sums, as a table or JSON, and verdicts on budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.base.amounts import AMOUNT_WORDS, human_amount
from archive.base.errors import ArchiveError, counted, one_line
from archive.base.quick_dataclass import dataclass
from archive.batches.inputs import InputFile
from archive.cli import options, printing
from archive.cli.files import Row, files_argument, is_single, unread_row
from archive.cli.forms import FOLDED, MODEL_EXPLORER, ROW_FORMS, SPEEDSCOPE
from archive.cli.reading import takes_reader
from archive.cli.status import Cause
from archive.describe.sizes import View
from archive.describe.sizes.account import WeightSize
from archive.describe.sizes.budgets import BudgetFile, SizeBudget
from archive.describe.sizes.measure import Question, SizeTotals, measure
from archive.io.mapped import source_of
from archive.io.places import is_folder, joined, last_part
from archive.io.urls import name_of
from archive.reader.recognition.kinds import FOLDER_KINDS
from archive.render.rows import CHANGES, SIZES, WEIGHTS
from archive.render.sizes import (
    changed_files_text,
    difference_text,
    exact,
    files_text,
    sizes_facts,
    sizes_text,
)
from archive.render.texts import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.batches.outcome import Reading
    from archive.batches.reading import FoundFiles
    from archive.cli.ci import Annotations
    from archive.cli.printing import AnyText
    from archive.cli.reading import FileReader
    from archive.cli.status import ExitStatus
    from archive.describe.sizes.budgets import BudgetRule
    from archive.describe.sizes.measure import Measures
    from archive.render.fitted_table import FittedTable
    from archive.render.node_data import NodeDataFacts
    from archive.render.sizes import Amount, ChangesFacts, SizesFacts

MEASURED_KINDS = FOLDER_KINDS["sizes"]
"""The kinds of files in folders that are measured."""


def _budgets(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[SizeBudget]:
    """The budget of each ``--budget``."""
    try:
        return [SizeBudget.parse(value) for value in values]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("sizes")
@files_argument
@click.option(
    "--by",
    "view",
    type=click.Choice([view.value for view in View]),
    default=View.KIND.value,
    show_default=True,
    help="What to group bytes by.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    help="Roll up records, modules and source files below this many folders.",
)
@options.top_option("Labels to show, the others as one; 0 for all.")
@click.option("--human", is_flag=True, help="Bytes as 12.2 KiB or 3.0 MiB, in powers of 1024.")
@click.option(
    "--base",
    metavar="BASE",
    type=click.Path(),
    help="Show what changed since this file; or, of a folder, since the files of the same relative paths.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="[LABEL=]SIZE",
    callback=_budgets,
    help="Exit with 1 if a file, or a label of the view, or `debug`, `weights` or `code` (all of it) is "
    f"larger than SIZE: 5MB, 100KiB ({AMOUNT_WORDS}); with --base, +10KB bounds the growth. May be repeated.",
)
@options.config_option(
    "Take budgets by glob from the table [tool.debug-archive.budgets] of this file.", "some"
)
@takes_reader(*ROW_FORMS, FOLDED, SPEEDSCOPE, MODEL_EXPLORER, annotations=True)
def command(
    files: tuple[str, ...],
    base: str | None,
    *,
    view: str,
    depth: int | None,
    rows: int,
    human: bool,
    budgets: list[SizeBudget],
    config: str | None,
    reader: FileReader,
) -> ExitStatus:
    """Show where the bytes of a file go, to the last one; with --base, what changed since an older file.

    With a folder, a glob in quotes, or several files, each file is a line, and a second table shows the
    sums. Labels in brackets are kinds of bytes to which the view has no answer.

    Budgets can be kept in pyproject.toml, by globs that are relative to its folder. Their labels are kinds,
    whatever the view:

    \b
      [tool.debug-archive.budgets]
      "models/*.ptl" = ["5MB", "debug=100KB"]
      "models/large/**" = "source ranges=+10KB"

    \b
    Examples:
      debug-archive sizes model.ptl
      debug-archive sizes model.ptl --by module --depth 4
      debug-archive sizes model.pt2 --by source
      debug-archive sizes new.ptl --base old.ptl --by part
      debug-archive sizes model.ptl --budget 5MB --budget 'source ranges=100KB'
      debug-archive sizes new.ptl --base old.ptl --budget debug=+10KB
      debug-archive sizes model.ptl --human
      debug-archive sizes models/ -j 8
      debug-archive sizes 'models/**/*.ptl' --budget debug=100KB
      debug-archive sizes models/ --base ../main/models/ --json
      debug-archive sizes model.pt2 --by weights --format folded > sizes.folded
      debug-archive sizes m.pt2 --by weights --format model-explorer > bytes.json
    """  # noqa: D301 (click reads the backspace)
    budget_file = BudgetFile.read(config) if config else BudgetFile.nearest()
    if base is not None and reader.form == SPEEDSCOPE:
        raise click.UsageError("speedscope shows no differences: --format folded does, in flamegraph.pl")
    if reader.form == MODEL_EXPLORER and not (
        view == View.WEIGHTS and depth is None and base is None and is_single(files)
    ):
        raise click.UsageError(
            "--format model-explorer has the tensors of one file: --by weights, without --depth and --base"
        )
    is_stacked = reader.form in {FOLDED, SPEEDSCOPE}
    question = Question(View(view), depth, budgets, reader.limits, is_stacked)
    run = _Measuring(
        _FileQuestion(question, base, budget_file, reader.mapped),
        reader,
        rows,
        human_amount if human else exact,
    )
    with reader.annotations.printed_last():
        if is_single(files):
            return run.single(files[0])
        return run.several(reader.listing(files, MEASURED_KINDS, [] if base is None else [base]))


@dataclass(frozen=True, slots=True)
class _FileQuestion:
    """What is asked of each file, in whichever process."""

    question: Question
    base: str | None
    budget_file: BudgetFile | None
    mapped: bool

    def of(self, file: InputFile) -> Measures:
        base = self.base_of(file)
        old = None if base is None else source_of(base, mapped=self.mapped)
        rules = self.budget_file.rules_of(file.name) if self.budget_file else []
        return measure(source_of(file.name, mapped=self.mapped), old, self.question, rules)

    def base_of(self, file: InputFile) -> str | None:
        """The file that a file is compared with; None where the folder to compare with has none."""
        return self.base if self.base is None or not is_folder(self.base) else file.in_folder(self.base)


class _Measuring:
    def __init__(self, asked: _FileQuestion, reader: FileReader, rows: int, amount: Amount) -> None:
        self._asked, self._reader, self._rows, self._amount = asked, reader, rows, amount
        self._gate = _Gate(asked.budget_file, reader.annotations)
        self._totals = SizeTotals()

    def single(self, name: str) -> ExitStatus:
        """Show where the bytes of a file go, or what changed in it."""
        file = InputFile(name, last_part(name))
        base = self._asked.base
        if base is not None and self._asked.base_of(file) is None:
            raise ArchiveError(f"holds no {file.relative} to compare with", file=name_of(base))
        measures = self._asked.of(file)
        for judged in measures.judged:
            if judged.verdict.problem and judged.rule is None:
                raise click.UsageError(judged.verdict.problem)
        self._gate.take(name_of(name), measures)
        if self._reader.as_json:
            printing.write_document(self._facts(measures), text=self._text(many=False))
        else:
            old_size = measures.base.size if measures.base else 0
            printing.show([self._shown(measures.size, old_size, measures)])
        return self._gate.report(has_base=measures.base is not None, many=False)

    def several(self, files: FoundFiles) -> ExitStatus:
        """Show the sizes of several files, and their sums."""
        self._check(files)
        base, totals = self._asked.base, self._totals
        text = self._text(many=True)
        status = self._reader.several(files, self._asked.of, "measuring", self._row, text=text)
        if not self._reader.as_json:
            of_files = (files_text if base is None else changed_files_text)(totals.files, self._amount)
            printing.show([of_files, "", self._shown(totals.size, totals.old_size, totals)])
            if self._gate.total:
                printing.write_line("")
                printing.write_line(self._gate.total)
        if base is not None and files.searched:
            here = {file.relative for file in files.files}
            old = self._reader.listing([base], MEASURED_KINDS).files
            gone = [file.label for file in old if file.relative not in here]
            if gone:
                printing.note(f"gone since BASE: {len(gone):,}: {first_of(gone, 'files')}")
        return max(status, self._gate.report(has_base=base is not None, many=True))

    def _row(self, reading: Reading[Measures]) -> Row:
        """Take a file's sizes; only JSON has a row of it."""
        name, measures = reading.job.label, reading.facts
        if measures is None:
            self._reader.annotations.add("error", name, "sizes", [reading.problem])
            return unread_row(reading)
        self._totals.add(measures)
        self._gate.take(name, measures)
        return Row(facts=self._facts(measures) if self._reader.as_json else None)

    def _check(self, files: FoundFiles) -> None:
        """Refuse what cannot be compared file by file."""
        base, growth = self._asked.base, [budget for budget in self._asked.question.budgets if budget.growth]
        if base is None:
            if growth:
                raise click.UsageError(
                    f"a budget of +{growth[0].most:,} bytes is for the difference from a BASE"
                )
            return
        if not is_folder(base):
            raise click.UsageError(
                f"several files are compared with those of a folder, and BASE isn't a folder: {name_of(base)}"
            )
        seen: dict[str, str] = {}
        for file in files.files:
            if file.relative in seen:
                both = f"{seen[file.relative]} and {file.name}"
                raise click.UsageError(
                    f"{both} would be compared with the same {name_of(joined(base, file.relative))}"
                )
            seen[file.relative] = file.name

    def _shown(self, new: int, old: int, measures: Measures | SizeTotals) -> FittedTable:
        view = self._asked.question.view
        if self._asked.base is None:
            return sizes_text(new, measures.labels, view, self._rows, amount=self._amount)
        return difference_text(old, new, measures.changes, view, self._rows, amount=self._amount)

    def _text(self, *, many: bool) -> AnyText:
        """The form that ``--format`` asks for, if it is neither text nor JSON."""
        since_base = self._asked.base is not None
        if self._reader.form == MODEL_EXPLORER:
            from archive.render.node_data import NodeDataText  # noqa: PLC0415 (few ask for it)

            return NodeDataText()
        if self._asked.question.stacked:
            from archive.render.stacks import FoldedSizes, SpeedscopeSizes  # noqa: PLC0415 (few ask for stacks)

            if self._reader.form == SPEEDSCOPE:
                return SpeedscopeSizes()
            return FoldedSizes(many=many, since_base=since_base)
        if since_base:
            return CHANGES
        return WEIGHTS if self._asked.question.view is View.WEIGHTS else SIZES

    def _facts(self, measures: Measures) -> SizesFacts | ChangesFacts | NodeDataFacts | Measures:
        """What JSON and rows have of a file; stacks are of the measures themselves."""
        question = self._asked.question
        if self._reader.form == MODEL_EXPLORER:
            from archive.render.node_data import weight_sizes  # noqa: PLC0415 (few ask for it)

            weights = {
                name: size
                for name, size in measures.labels.items()
                if isinstance(size, WeightSize) and size.dtypes
            }
            return {"file": measures.file, "data": weight_sizes(weights)}
        if question.stacked:
            return measures
        return sizes_facts(measures, question.view, since_base=self._asked.base is not None)


class _Gate:
    """Takes the verdicts on budgets file by file; prints what is over, and what could not be checked."""

    def __init__(self, file: BudgetFile | None, annotations: Annotations) -> None:
        self._file = file
        self._annotations = annotations
        self._over: list[str] = []
        self._kept = 0
        self._without_base = 0
        self._checked: set[BudgetRule | SizeBudget] = set()
        self._unknown: dict[BudgetRule | SizeBudget, str] = {}

    def take(self, name: str, measures: Measures) -> None:
        """Take the verdicts on a file."""
        over = [
            f"{judged.verdict} ({one_line(judged.rule.glob)})" if judged.rule else str(judged.verdict)
            for judged in measures.judged
            if judged.verdict.over
        ]
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

    @property
    def total(self) -> str:
        """One line: how many budgets are kept; "" without budgets."""
        if not self._checked and not self._without_base:
            return ""
        not_checked = f", {self._without_base:,} not checked" if self._without_base else ""
        return f"budgets: {self._kept:,} kept, {len(self._over):,} exceeded{not_checked}"

    def report(self, *, has_base: bool, many: bool) -> ExitStatus:
        """Print what is over its budget, and what could not be checked; the exit status.

        Args:
            has_base: whether there are files to compare with.
            many: whether several files were asked for, so that each glob should fit one.
        """
        printing.flush()  # a log has both outputs, and the table comes first
        for line in self._over:
            printing.print_error(line)
        if self._without_base:
            why = "no such file in BASE" if has_base else "--base names what to compare with"
            printing.note(f"{counted(self._without_base, 'budget')} of growth not checked: {why}")
        problems = list(self._problems(many=many))
        for problem in problems:
            printing.print_error(problem)
        if self._file:
            self._annotations.add("error", self._file.path, "budgets", problems)
        return max(Cause.BAD_BUDGET.when(problems), Cause.OVER_BUDGET.when(self._over))

    def _problems(self, *, many: bool) -> Iterator[str]:
        """Labels that no file has, and globs that fit none."""
        for asked, problem in self._unknown.items():
            if asked not in self._checked:
                yield f"--budget: {problem}" if isinstance(asked, SizeBudget) else f"{asked.place}: {problem}"
        if many and self._file:
            yield from (f"{place}: fits no file" for place in self._file.idle())
