"""``debug-archive sizes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.batches.inputs import names_several
from archive.batches.reading import listing
from archive.cli import options
from archive.cli.annotations import annotations_of, annotations_option
from archive.cli.gate import Gate
from archive.cli.measuring import MEASURED_KINDS, Asked, Run
from archive.cli.several import files_argument, jobs_option
from archive.describe.sizes import View
from archive.describe.sizes.budget import Budget
from archive.describe.sizes.budget_file import BudgetFile
from archive.describe.sizes.measure import Question

if TYPE_CHECKING:
    from archive import Limits
    from archive.cli.status import Status


def _budgets(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[Budget]:
    """The budget of each ``--budget``."""
    try:
        return [Budget.parse(value) for value in values]
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
    help="What to tell bytes apart by.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    help="Roll up records, modules and source files below so many folders.",
)
@click.option(
    "-n",
    "rows",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Labels to show, the others as one; 0 for all.",
)
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
    help="Exit with 1 if a file, or a label of the view, or `debug` (all debug info) is larger than SIZE: "
    "5MB, 100KiB; with --base, +10KB bounds the growth. May be repeated.",
)
@click.option(
    "--config",
    metavar="TOML",
    type=click.Path(),
    show_default="the nearest pyproject.toml that has some",
    help="Take budgets by glob from the table [tool.debug-archive.budgets] of this file.",
)
@jobs_option
@annotations_option
@options.no_map_option
@options.limit_option
@options.json_option("Print facts as JSON; a list for several files.")
def command(
    files: tuple[str, ...],
    base: str | None,
    *,
    view: str,
    depth: int | None,
    rows: int,
    budgets: list[Budget],
    config: str | None,
    jobs: int | None,
    annotations: str | None,
    mapped: bool,
    limits: Limits,
    as_json: bool,
) -> Status:
    """Show where the bytes of a file go, to the last one; with --base, what changed since an older file.

    Of a folder, a glob in quotes, or several files, each file is a line, and a second table shows the
    sums. Labels in brackets are kinds of bytes to which the view has no answer.

    Budgets can be kept in pyproject.toml, by globs that are relative to its folder. Their labels are kinds,
    whatever the view:

    \b
      [tool.debug-archive.budgets]
      "models/*.ptl" = ["5MB", "debug=100KB"]
      "models/large/**" = "source ranges=+10KB"

    Exit status: 0 well, 1 a budget is exceeded, 2 a file cannot be read, or a budget names what there is
    not.

    \b
    Examples:
      debug-archive sizes model.ptl
      debug-archive sizes model.ptl --by module --depth 4
      debug-archive sizes model.pt2 --by source
      debug-archive sizes new.ptl --base old.ptl --by part
      debug-archive sizes model.ptl --budget 5MB --budget 'source ranges=100KB'
      debug-archive sizes new.ptl --base old.ptl --budget debug=+10KB
      debug-archive sizes models/ -j 8
      debug-archive sizes 'models/**/*.ptl' --budget debug=100KB
      debug-archive sizes models/ --base ../main/models/ --json
    """  # noqa: D301 (click reads the backspace)
    single = len(files) == 1 and not names_several(files[0])
    budget_file = BudgetFile.read(config) if config else BudgetFile.nearest()
    asked = Asked(Question(View(view), depth, budgets, limits), base, budget_file, mapped)
    notes = annotations_of(annotations, as_json=as_json)
    run = Run(asked, Gate(budget_file, notes), rows, as_json=as_json)
    with notes.behind():
        if single:
            return run.one(files[0])
        searched = listing(files, [] if base is None else [base], kinds=MEASURED_KINDS, mapped=mapped)
        return run.several(searched, jobs)
