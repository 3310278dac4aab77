"""``debug-archive restore``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import making

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus


@click.command("restore")
@making.takes_files
@making.takes_maker
def command(inputs: tuple[str, ...], *, out: str, maker: FileMaker) -> ExitStatus:
    """Undo `shrink --level embed` for archives IN.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, a folder or a glob take a folder for OUT; archives without a companion in them are
    copied. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive restore small.ptl -o model.ptl
      debug-archive restore small/ -o models/
    """  # noqa: D301 (click reads the backspace)
    return maker.run("restore", inputs, out)
