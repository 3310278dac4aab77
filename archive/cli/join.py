"""``debug-archive join``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli.files import options

if TYPE_CHECKING:
    from archive.cli.files.batch import Manner
    from archive.cli.status import Status


@click.command("join")
@options.takes_files
@options.companion_option("IN.ptdbg", "File or folder with the debug info.")
@options.takes_manner
def command(inputs: tuple[str, ...], *, out: str, companion: str | None, manner: Manner) -> Status:
    """Put the debug info from companions back into archives IN: the reverse of `split`.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, a folder or a glob take folders for OUT and COMPANION. Archives that had no debug info
    are copied. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive join small.ptl -c model.ptdbg -o model.ptl
      debug-archive join small/ -c companions/ -o models/
    """  # noqa: D301 (click reads the backspace)
    return manner.run("join", inputs, out, companion)
