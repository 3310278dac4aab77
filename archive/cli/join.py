"""``debug-archive join``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import making

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus


@click.command("join")
@making.takes_files
@making.companion_option("IN.ptdbg", "File or folder with the debug info.")
@making.takes_maker
def command(inputs: tuple[str, ...], *, out: str, companion: str | None, maker: FileMaker) -> ExitStatus:
    """Put the debug info from companions back into archives IN: the reverse of `split`.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, a folder or a glob take folders for OUT and COMPANION. Archives that had no debug info
    are copied. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive join small.ptl -c model.ptdbg -o model.ptl
      debug-archive join small/ -c companions/ -o models/
    """  # noqa: D301 (click reads the backspace)
    return maker.run("join", inputs, out, companion)
