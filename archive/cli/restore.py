"""``debug-archive restore``."""

from __future__ import annotations

import click

import archive
from archive.cli import batch
from archive.cli.jobs import plan
from archive.report.outcome_text import join_line, join_text

WORDS = batch.Words("restoring", join_text, join_line)


@click.command("restore")
@batch.files
@batch.manner
def command(inputs: tuple[str, ...], *, out: str, manner: batch.Manner) -> None:
    """Undo `shrink --level embed` for archives IN.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, or a folder to search for them, take a folder for OUT.

    \b
    Examples:
      debug-archive restore small.ptl -o model.ptl
      debug-archive restore small/ -o models/
    """  # noqa: D301 (click reads the backspace)
    manner.run(plan(inputs, out), archive.restore, WORDS)
