"""``debug-archive join``."""

from __future__ import annotations

from functools import partial

import click

import archive
from archive.cli import batch
from archive.cli.jobs import Use, plan
from archive.report.outcome_text import join_line, join_text

WORDS = batch.Words("joining", join_text, join_line)


@click.command("join")
@batch.inputs_argument
@batch.out_option
@click.option(
    "-c",
    "--companion",
    metavar="COMPANION",
    type=click.Path(),
    show_default="IN.ptdbg",
    help="File or folder with the debug info.",
)
@batch.jobs_option
@batch.force_option
@batch.json_option
def command(
    inputs: tuple[str, ...], *, out: str, companion: str | None, jobs: int, force: bool, as_json: bool
) -> None:
    """Put the debug info from companions back into archives IN: the reverse of `split`.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, or a folder to search for those with a companion, take folders for OUT and COMPANION.

    \b
    Examples:
      debug-archive join small.ptl -c model.ptdbg -o model.ptl
      debug-archive join small/ -c companions/ -o models/
    """  # noqa: D301 (click reads the backspace)
    work = plan(inputs, out, companion, Use.READ)
    batch.run(work, partial(archive.join, force=force), WORDS, jobs=jobs, as_json=as_json)
