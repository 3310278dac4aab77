"""``debug-archive inspect``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import archive
from archive.base.mapped import source_of
from archive.cli import options, printing
from archive.cli.status import Status
from archive.reader.recognition import FileKind, recognise
from archive.report.as_text import inspection_text
from archive.report.effects_text import effects_text
from archive.report.listing_text import listing_text
from archive.verbs.inspect import inspect
from archive.verbs.inspect_effects import inspect_effects
from archive.verbs.listing import listed

if TYPE_CHECKING:
    from archive import Limits
    from archive.base.mapped import Source


@click.command("inspect")
@options.file_argument
@click.option(
    "--effects", is_flag=True, help="Show what its methods change besides giving results, as Python."
)
@options.no_map_option
@options.limit_option
@options.json_option()
def command(file: str, *, effects: bool, mapped: bool, limits: Limits, as_json: bool) -> Status:
    """Show what is in FILE: records, layouts of debug records, rows, handles, sizes.

    Of a zip that is no archive: its files, and the tensors in what torch.save wrote.

    \b
    Examples:
      debug-archive inspect model.ptl
      debug-archive inspect model.ptl --json | jq .generations
      debug-archive inspect model.ptl --effects
      debug-archive inspect state_dict.pth
    """  # noqa: D301 (click reads the backspace)
    source = source_of(file, mapped=mapped)
    found = recognise(source, look=False, limits=limits)
    if effects:
        _print_effects(source, limits, as_json=as_json)
    elif found.is_archive or found.kind is FileKind.COMPANION:
        _print_inspection(source, limits, as_json=as_json)
    else:
        _print_listing(source, limits, as_json=as_json)
    return Status.WELL


def _print_effects(source: Source, limits: Limits, *, as_json: bool) -> None:
    with archive.open(source, limits=limits) as opened:
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
