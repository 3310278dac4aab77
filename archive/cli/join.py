"""``debug-archive join``."""

from __future__ import annotations

import click

import archive
from archive.cli import batch
from archive.cli.jobs import Use, plan
from archive.report.outcome_text import join_line, join_text

WORDS = batch.Words("joining", join_text, join_line)


@click.command("join")
@batch.files
@batch.companion_option("IN.ptdbg", "File or folder with the debug info.")
@batch.manner
def command(inputs: tuple[str, ...], *, out: str, companion: str | None, manner: batch.Manner) -> None:
    """Put the debug info from companions back into archives IN: the reverse of `split`.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, or a folder to search for those with a companion, take folders for OUT and COMPANION.

    \b
    Examples:
      debug-archive join small.ptl -c model.ptdbg -o model.ptl
      debug-archive join small/ -c companions/ -o models/
    """  # noqa: D301 (click reads the backspace)
    manner.run(plan(inputs, out, companion, Use.READ), archive.join, WORDS)
