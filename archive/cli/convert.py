"""``debug-archive convert``."""

from __future__ import annotations

from functools import partial

import click

import archive
from archive.cli import batch
from archive.cli.jobs import plan
from archive.reader.recognition import FileKind
from archive.report.outcome_text import convert_text, size_line

WORDS = batch.Words("converting", convert_text, size_line)


@click.command("convert")
@batch.files
@batch.profile_option()
@batch.max_option
@batch.manner
def command(inputs: tuple[str, ...], *, out: str, profile: str, strength: int, manner: batch.Manner) -> None:
    """Write companions IN in another profile. The debug info stays the same.

    Several companions, or a folder to search for them, take a folder for OUT.

    \b
    Examples:
      debug-archive convert model.ptdbg -o fast.ptdbg --profile mapped
      debug-archive convert companions/ -o small/ --profile packed --max
    """  # noqa: D301 (click reads the backspace)
    batch.check_max(profile, strength)
    verb = partial(archive.convert, profile=profile, level=strength)
    manner.run(plan(inputs, out, wanted={FileKind.COMPANION}), verb, WORDS)
