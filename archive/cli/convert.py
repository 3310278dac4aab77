"""``debug-archive convert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import making

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus


@click.command("convert")
@making.takes_files
@making.layout_option()
@click.option(
    "--canonical",
    is_flag=True,
    help="For exported programs: number the ids in them that differ from run to run by their first use.",
)
@making.max_option
@making.takes_maker
def command(
    inputs: tuple[str, ...],
    *,
    out: str,
    layout: str | None,
    canonical: bool,
    strength: int,
    maker: FileMaker,
) -> ExitStatus:
    """Write companions IN in another layout, or exported programs IN in canonical form.

    In another layout, the debug info stays the same. In canonical form, two exports of one model by one
    release of PyTorch are the same bytes, if they differ only in such ids. The archive id stays; `verify`
    checks if PyTorch loads the file.

    Several files, a folder or a glob take a folder for OUT. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive convert model.ptdbg -o fast.ptdbg --layout mapped
      debug-archive convert companions/ -o small/ --layout packed --max
      debug-archive convert model.pt2 -o same.pt2 --canonical
    """  # noqa: D301 (click reads the backspace)
    if canonical == (layout is not None):
        raise click.UsageError("give --layout LAYOUT, or --canonical")
    if layout is None:
        if strength == making.MAX_LEVEL:
            raise click.UsageError("--max is for companions")
        return maker.run("canonicalise", inputs, out)
    making.check_max(layout, strength)
    return maker.run("convert", inputs, out, layout=layout, level=strength)
