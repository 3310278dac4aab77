"""``debug-archive restore``."""

from __future__ import annotations

from functools import partial

import click

import archive
from archive.cli import batch
from archive.cli.jobs import plan
from archive.report.outcome_text import join_line, join_text

WORDS = batch.Words("restoring", join_text, join_line)


@click.command("restore")
@batch.inputs_argument
@batch.out_option
@batch.jobs_option
@batch.force_option
@batch.json_option
def command(inputs: tuple[str, ...], *, out: str, jobs: int, force: bool, as_json: bool) -> None:
    """Undo `shrink --level embed` for archives IN.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, or a folder to search for *.pt, *.ptl and *.pth, take a folder for OUT.

    \b
    Examples:
      debug-archive restore small.ptl -o model.ptl
      debug-archive restore small/ -o models/
    """  # noqa: D301 (click reads the backspace)
    batch.run(plan(inputs, out), partial(archive.restore, force=force), WORDS, jobs=jobs, as_json=as_json)
