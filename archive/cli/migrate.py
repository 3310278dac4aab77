"""``debug-archive migrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import making

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus


@click.command("migrate")
@making.takes_files
@click.option(
    "--to",
    required=True,
    metavar="RELEASE",
    help="A PyTorch release (1.9, 2.13, latest), a layout of source ranges (pair-rows, inline-rows, "
    "string-table), or original: what it was before it was migrated.",
)
@click.option("--lossy", is_flag=True, help="Go on without what the target has no place for.")
@click.option(
    "--no-aside",
    "aside",
    flag_value=False,
    default=True,
    help="Don't keep the original in the archive; smaller, but it can't be restored exactly.",
)
@making.takes_maker
def command(
    inputs: tuple[str, ...],
    *,
    out: str,
    to: str,
    lossy: bool,
    aside: bool,
    maker: FileMaker,
) -> ExitStatus:
    """Rewrite the debug info of archives IN as another PyTorch release writes and reads it.

    Source ranges, call stacks, handles and module paths are carried over, and what the target refuses is
    mended where rewriting records can mend it. What the target has no place for is listed, and needs --lossy.

    What an archive was is kept in it, in a record that PyTorch ignores: migrating it back gives the original,
    byte for byte.

    Several archives, a folder or a glob take a folder for OUT. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive migrate old.ptl -o new.ptl --to latest
      debug-archive migrate new.ptl -o old.ptl --to 1.9 --dry-run
      debug-archive migrate models/ -o migrated/ --to 2.13 --jobs 4
    """  # noqa: D301 (click reads the backspace)
    return maker.run("migrate", inputs, out, to=to, lossy=lossy, aside=aside)
