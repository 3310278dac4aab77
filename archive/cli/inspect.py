"""``debug-archive inspect``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

import archive
from archive.base.mapped import source_of
from archive.batches.inputs import names_several
from archive.batches.reading import listing
from archive.cli import options, printing
from archive.cli.several import files_argument, jobs_option, problem, reading, status_of
from archive.cli.status import Status
from archive.describe.inspect import inspect
from archive.describe.inspect_effects import inspect_effects
from archive.describe.listing import listed
from archive.describe.summary import Summary, summarise
from archive.reader.recognition import OPENED_KINDS, READ_KINDS, FileKind, recognise
from archive.report.as_text import inspection_text
from archive.report.effects_text import effects_text
from archive.report.listing_text import listing_text
from archive.report.summary_text import summary_text, total_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive import Limits
    from archive.base.mapped import Source
    from archive.batches.reading import Listed

LISTED_KINDS = OPENED_KINDS | {FileKind.COMPANION, FileKind.LFS}
"""The kinds of files in folders that have a line. What a pointer stands for may be a model: nothing tells."""


@click.command("inspect")
@files_argument
@click.option(
    "--effects",
    is_flag=True,
    help="Show what its methods change besides giving results, as Python; of one file.",
)
@jobs_option
@options.no_map_option
@options.limit_option
@options.json_option("Print facts as JSON; a list for several files.")
def command(
    files: tuple[str, ...],
    *,
    effects: bool,
    jobs: int | None,
    mapped: bool,
    limits: Limits,
    as_json: bool,
) -> Status:
    """Show what is in a file: records, layouts of debug records, rows, handles, sizes.

    Of a zip that is no archive: its files, and the tensors in what torch.save wrote. Of a folder, or of
    several files: one line each, and the sums.

    \b
    Examples:
      debug-archive inspect model.ptl
      debug-archive inspect model.ptl --json | jq .generations
      debug-archive inspect model.ptl --effects
      debug-archive inspect state_dict.pth
      debug-archive inspect s3://bucket/model.ptl
      debug-archive inspect models/ -j 8
      debug-archive inspect models/ --json | jq -r '.[] | .file + " " + .archive_id'
    """  # noqa: D301 (click reads the backspace)
    if len(files) > 1 or names_several(files[0]):
        if effects:
            raise click.UsageError("--effects is of one file")
        return _several(files, jobs, limits, mapped=mapped, as_json=as_json)
    source = source_of(files[0], mapped=mapped)
    if effects:
        _print_effects(source, limits, as_json=as_json)
    elif _is_archive(source, limits):
        _print_inspection(source, limits, as_json=as_json)
    else:
        _print_listing(source, limits, as_json=as_json)
    return Status.WELL


def _is_archive(source: Source, limits: Limits) -> bool:
    found = recognise(source, look=False, limits=limits)
    return found.is_archive or found.kind is FileKind.COMPANION


def _several(
    inputs: Sequence[str], jobs: int | None, limits: Limits, *, mapped: bool, as_json: bool
) -> Status:
    """Print a line or the facts of each of several files, and the total."""
    files, json = listing(inputs, kinds=LISTED_KINDS, mapped=mapped), printing.JsonParts()
    statuses, summaries = {Status.WELL}, []
    read = partial(_facts if as_json else _summary, limits=limits, mapped=mapped)
    with reading(files, read, "inspecting", jobs, as_json=as_json) as (lines, results):
        for result in results:
            statuses.add(status_of(result))
            if result.facts is None:
                lines.note(problem(result))
            if as_json:
                json.add([result.facts or {"file": result.file.label, "error": problem(result)}])
            elif isinstance(result.facts, Summary):
                summaries.append(result.facts)
                lines.write_line(f"{result.file.label}: {summary_text(result.facts)}")
    if as_json:
        json.end()
    else:
        printing.write_line(total_text(summaries, len(files.files)))
    return max(statuses)


def _summary(file: Listed, *, limits: Limits, mapped: bool) -> object:
    return summarise(source_of(file.name, mapped=mapped), limits=limits)


def _facts(file: Listed, *, limits: Limits, mapped: bool) -> object:
    """An inspection, or what a zip that is no archive holds."""
    source = source_of(file.name, mapped=mapped)
    if not _is_archive(source, limits):
        return listed(source, limits=limits)
    with archive.open(source, limits=limits) as opened:
        return inspect(opened)


def _print_effects(source: Source, limits: Limits, *, as_json: bool) -> None:
    with archive.open(source, limits=limits, kinds=READ_KINDS) as opened:
        effects = inspect_effects(opened)
        if as_json:
            printing.write_json(effects)
        else:
            printing.show(effects_text(effects), soft_wrap=True)


def _print_inspection(source: Source, limits: Limits, *, as_json: bool) -> None:
    with archive.open(source, limits=limits) as opened:
        facts = inspect(opened)
        if as_json:
            printing.write_json(facts)
        else:
            printing.show(inspection_text(facts))


def _print_listing(source: Source, limits: Limits, *, as_json: bool) -> None:
    """Print what a zip that is no archive holds."""
    listing = listed(source, limits=limits)
    if as_json:
        printing.write_json(listing)
    else:
        printing.show(listing_text(listing))
