"""``debug-archive inspect``."""

from __future__ import annotations

import click

import archive
from archive.cli import common
from archive.inspection import inspect
from archive.report.as_text import inspection_text


@click.command("inspect")
@common.file_argument
@common.as_json
def command(file: str, *, as_json: bool) -> None:
    """Show what is in FILE: records, layouts of debug records, rows, handles, sizes.

    \b
    Examples:
      debug-archive inspect model.ptl
      debug-archive inspect model.ptl --json | jq .generations
    """  # noqa: D301 (click reads the backspace)
    with archive.open(file) as opened:
        facts = inspect(opened)
        if as_json:
            common.write_json(facts)
        else:
            common.console().print(inspection_text(facts))
