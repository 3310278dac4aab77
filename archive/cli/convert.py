"""``debug-archive convert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli.files import options

if TYPE_CHECKING:
    from archive.cli.files.batch import Manner
    from archive.cli.status import Status


@click.command("convert")
@options.takes_files
@options.profile_option(required=True)
@options.max_option
@options.takes_manner
def command(inputs: tuple[str, ...], *, out: str, profile: str, strength: int, manner: Manner) -> Status:
    """Write companions IN in another profile. The debug info stays the same.

    Several companions, a folder or a glob take a folder for OUT. A second run goes on from
    OUT/manifest.jsonl.

    \b
    Examples:
      debug-archive convert model.ptdbg -o fast.ptdbg --profile mapped
      debug-archive convert companions/ -o small/ --profile packed --max
    """  # noqa: D301 (click reads the backspace)
    options.check_max(profile, strength)
    return manner.run("convert", inputs, out, profile=profile, level=strength)
