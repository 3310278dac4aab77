"""``debug-archive split``."""

from __future__ import annotations

from functools import partial
from typing import Literal

import click

import archive
from archive.cli import batch
from archive.cli.jobs import Use, plan
from archive.report.outcome_text import size_line, split_text

WORDS = batch.Words("splitting", split_text, size_line)


@click.command("split")
@batch.files
@batch.companion_option("OUT.ptdbg", "File or folder for the debug info.")
@batch.handles_option("keep")
@batch.profile_option("packed")
@batch.max_option
@batch.manner
def command(
    inputs: tuple[str, ...],
    *,
    out: str,
    companion: str | None,
    handles: Literal["keep", "drop"] | None,
    profile: str,
    strength: int,
    manner: batch.Manner,
) -> None:
    """Take the debug info out of archives IN, each into a companion file.

    What is left is the same model; debug handles stay in it unless they are dropped. A companion is read like
    an archive, by `symbolicate` and `inspect`. `join` makes one file of both again.

    Several archives, or a folder to search for them, take folders for OUT and COMPANION.

    \b
    Examples:
      debug-archive split model.ptl -o small.ptl -c model.ptdbg
      debug-archive symbolicate model.ptdbg < report.log
      debug-archive split models/ -o small/ -c companions/
    """  # noqa: D301 (click reads the backspace)
    batch.check_max(profile, strength)
    verb = partial(archive.split, handles=handles, profile=profile, level=strength)
    manner.run(plan(inputs, out, companion, Use.WRITTEN), verb, WORDS)
