"""``debug-archive restore``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

import archive
from archive.cli.files import options
from archive.cli.files.jobs import plan
from archive.cli.files.words import WORDS

if TYPE_CHECKING:
    from archive.cli.files.batch import Manner
    from archive.cli.status import Status


@click.command("restore")
@options.takes_files
@options.takes_manner
def command(inputs: tuple[str, ...], *, out: str, manner: Manner) -> Status:
    """Undo `shrink --level embed` for archives IN.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, or a folder to search for them, take a folder for OUT.

    \b
    Examples:
      debug-archive restore small.ptl -o model.ptl
      debug-archive restore small/ -o models/
    """  # noqa: D301 (click reads the backspace)
    verb = partial(archive.restore, limits=manner.limits)
    return manner.run(plan(inputs, out), verb, WORDS["restore"])
