"""``debug-archive shrink``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import making

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus
    from archive.reader.halves.kept import HandleChoice


@click.command("shrink")
@making.takes_files
@click.option(
    "--level",
    type=click.Choice(["compact", "embed"]),
    default="compact",
    show_default=True,
    help="How small; PyTorch reads the debug info of compact ones only.",
)
@making.handles_options("compact: keep; embed: drop")
@making.kinds_options
@making.max_option
@making.takes_maker
def command(
    inputs: tuple[str, ...],
    *,
    out: str,
    level: str,
    handles: HandleChoice | None,
    salt: str,
    keep: tuple[str, ...],
    drop: tuple[str, ...],
    strength: int,
    maker: FileMaker,
) -> ExitStatus:
    """Make archives IN smaller, each in one file, and compare it with IN before it is kept.

    Compact: the debug info is rewritten in fewer bytes, which mean the same to PyTorch.
    Embed: it becomes a companion inside of the archive, which only debug-archive reads; `restore` undoes it.
    In exported programs (.pt2) modules stay, too, which torch.export.unflatten needs.

    The last lines say whether PyTorch loads the file, or that this was not checked. For several files, a line
    each says what PyTorch is known to refuse; `verify` checks the rest.

    Several archives, a folder or a glob take a folder for OUT. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive shrink model.ptl -o small.ptl
      debug-archive shrink model.ptl -o smaller.ptl --level embed --max
      debug-archive shrink model.pt2 -o small.pt2 --level embed --drop modules
      debug-archive shrink models/ -o small/ --jobs 4
    """  # noqa: D301 (click reads the backspace)
    if level == "compact" and handles == "drop":
        raise click.UsageError("compact archives keep their debug handles; `split` takes them out")
    if level == "compact" and (keep or drop):
        raise click.UsageError("compact archives keep all debug info; `split` takes it out")
    if level == "compact" and strength == making.MAX_LEVEL:
        raise click.UsageError("--max is for --level embed")
    return maker.run(
        "shrink",
        inputs,
        out,
        level=level,
        handles=handles,
        salt=salt,
        keep=keep,
        drop=drop,
        strength=strength,
    )
