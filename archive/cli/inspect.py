"""``debug-archive inspect``."""

from __future__ import annotations

import click

import archive
from archive.cli import common
from archive.reader.recognition import FileKind, recognise
from archive.report.as_text import inspection_text
from archive.report.effects_text import effects_text
from archive.report.listing_text import listing_text
from archive.verbs.inspect import inspect, inspect_effects
from archive.verbs.listing import listed


@click.command("inspect")
@common.file_argument
@click.option(
    "--effects", is_flag=True, help="Show what its methods change besides giving results, as Python."
)
@common.as_json
def command(file: str, *, effects: bool, as_json: bool) -> None:
    """Show what is in FILE: records, layouts of debug records, rows, handles, sizes.

    Of a zip that is no archive: its files, and the tensors in what torch.save wrote.

    \b
    Examples:
      debug-archive inspect model.ptl
      debug-archive inspect model.ptl --json | jq .generations
      debug-archive inspect model.ptl --effects
      debug-archive inspect state_dict.pth
    """  # noqa: D301 (click reads the backspace)
    found = recognise(file, look=False)
    if not (found.is_archive or found.kind is FileKind.COMPANION or effects):
        listing = listed(file)
        if as_json:
            common.write_json(listing)
        else:
            common.console().print(listing_text(listing))
        return
    with archive.open(file) as opened:
        if effects:
            changes = inspect_effects(opened)
            if as_json:
                common.write_json(changes)
            else:
                common.console().print(effects_text(changes), soft_wrap=True)
            return
        facts = inspect(opened)
        if as_json:
            common.write_json(facts)
        else:
            common.console().print(inspection_text(facts))
