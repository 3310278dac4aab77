"""``debug-archive shrink``."""

from __future__ import annotations

from functools import partial
from typing import Literal

import click

import archive
from archive.cli import batch
from archive.cli.jobs import plan
from archive.report.outcome_text import shrink_text, size_line

WORDS = batch.Words("shrinking", shrink_text, size_line)


@click.command("shrink")
@batch.files
@click.option(
    "--level",
    type=click.Choice(["compact", "embed"]),
    default="compact",
    show_default=True,
    help="How small; PyTorch reads the debug info of compact ones only.",
)
@batch.handles_option("drop")
@batch.max_option
@batch.manner
def command(
    inputs: tuple[str, ...],
    *,
    out: str,
    level: str,
    handles: Literal["keep", "drop"] | None,
    strength: int,
    manner: batch.Manner,
) -> None:
    """Make archives IN smaller, each in one file that PyTorch loads where it loads IN.

    Compact: the debug info is written anew, in fewer bytes; PyTorch shows the same model source as before.
    Embed: it becomes a companion inside of the archive, which only debug-archive reads; `restore` undoes it.

    Several archives, or a folder to search for them, take a folder for OUT.

    \b
    Examples:
      debug-archive shrink model.ptl -o small.ptl
      debug-archive shrink model.ptl -o smaller.ptl --level embed --max
      debug-archive shrink models/ -o small/ --jobs 4
    """  # noqa: D301 (click reads the backspace)
    if level == "compact" and (handles or strength == batch.MAX):
        raise click.UsageError("--handles and --max are for --level embed")
    verb = partial(archive.shrink, level=level, handles=handles, strength=strength)
    manner.run(plan(inputs, out), verb, WORDS)
