"""``debug-archive sizes``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from archive.base.mapped import source_of
from archive.cli import options, printing
from archive.cli.status import Status
from archive.report.sizes_text import difference_text, sizes_text
from archive.verbs.sizes import View, sizes
from archive.verbs.sizes.budget import Budget, exceeded

if TYPE_CHECKING:
    from archive import Limits
    from archive.verbs.sizes import Account

VIEWS_OF_INSIDES = {View.PART, View.SOURCE}
"""Views that tell the bytes inside of records apart."""


def _budgets(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[Budget]:
    """The budget of each ``--budget``."""
    try:
        return [Budget.parse(value) for value in values]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("sizes")
@options.file_argument
@click.argument("base", required=False, type=click.Path(dir_okay=False))
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
    help="Rows to show, the others as one; 0 for all.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="[LABEL=]SIZE",
    callback=_budgets,
    help="Exit with 1 if the file, or a label of the view, or `debug` (all debug info) is larger than SIZE: "
    "5MB, 100KiB; with BASE, +10KB bounds the growth. May be repeated.",
)
@options.no_map_option
@options.limit_option
@options.json_option()
def command(
    file: str,
    base: str | None,
    *,
    view: str,
    depth: int | None,
    rows: int,
    budgets: list[Budget],
    mapped: bool,
    limits: Limits,
    as_json: bool,
) -> Status:
    """Show where the bytes of FILE go, to the last one; or what changed since BASE.

    Labels in brackets are kinds of bytes to which the view has no answer.

    \b
    Examples:
      debug-archive sizes model.ptl
      debug-archive sizes model.ptl --by module --depth 4
      debug-archive sizes new.ptl old.ptl --by part
      debug-archive sizes model.ptl --budget 5MB --budget 'source ranges=100KB'
      debug-archive sizes new.ptl old.ptl --budget debug=+10KB
    """  # noqa: D301 (click reads the backspace)
    by = View(view)
    account = partial(sizes, inside=by in VIEWS_OF_INSIDES, limits=limits)
    new = account(source_of(file, mapped=mapped))
    old = account(source_of(base, mapped=mapped)) if base else None
    try:
        over = exceeded(budgets, new, old, by, depth)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        printing.write_json(_facts(new, old, by, depth))
    elif old is None:
        printing.show(sizes_text(new, new.by(by, depth), by, rows))
    else:
        printing.show(difference_text(new, old, new.difference(old, by, depth), by, rows))
    for line in over:
        printing.note(f"{file}: {line}")
    return Status.FINDINGS if over else Status.WELL


def _facts(new: Account, old: Account | None, view: View, depth: int | None) -> dict[str, object]:
    """The sizes, or the changes since an old file, for JSON."""
    facts = {"file": new.file, "size": new.size, "debug_bytes": new.debug_bytes, "by": view}
    if old is None:
        return {**facts, "labels": new.by(view, depth)}
    base = {"file": old.file, "size": old.size, "debug_bytes": old.debug_bytes}
    return {**facts, "base": base, "labels": new.difference(old, view, depth)}
