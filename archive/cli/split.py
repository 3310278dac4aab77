"""``debug-archive split``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import making

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus
    from archive.reader.halves.kept import HandleChoice


@click.command("split")
@making.takes_files
@making.companion_option(
    "OUT.ptdbg", "File for the debug info, which you don't ship; required where OUT is a folder."
)
@making.handles_options("unique")
@making.kinds_options
@making.layout_option(default="packed", show_default=True)
@making.max_option
@click.option(
    "--fingerprints",
    is_flag=True,
    help="Let the companion have digests of generated code, 3 bytes a line: they show whether a log fits.",
)
@making.takes_maker
def command(
    inputs: tuple[str, ...],
    *,
    out: str,
    companion: str | None,
    handles: HandleChoice | None,
    salt: str,
    keep: tuple[str, ...],
    drop: tuple[str, ...],
    layout: str,
    strength: int,
    fingerprints: bool,
    maker: FileMaker,
) -> ExitStatus:
    """Take the debug info out of archives IN, each into a companion file.

    What is left is the same model. Debug handles stay in it, unless they are dropped, and become unique: 18
    digits that name the archive, too. In exported programs modules stay, which torch.export.unflatten needs.
    Compiled models lose what their loader does not need: C++ sources, the source of kernels, and of shared
    objects all that is never mapped, such as DWARF. ETRecords keep debug handles, by which ExecuTorch's
    Inspector finds nodes.

    A companion is read like an archive, by `symbolicate` and `inspect`. `join` makes one file of both again,
    with the handles it had.

    Several archives, a folder or a glob take folders for OUT and COMPANION. OUT then holds every archive:
    one without debug info is copied. A second run goes on from COMPANION/manifest.jsonl.

    \b
    Examples:
      debug-archive split model.ptl -o small.ptl -c model.ptdbg
      debug-archive symbolicate model.ptdbg < report.log
      debug-archive split model.pt2 -o small.pt2 -c model.ptdbg --drop modules
      debug-archive split models/ -o small/ -c companions/
      debug-archive split 'models/**/*.ptl' -o small/ -c companions/ --dry-run
      debug-archive split s3://bucket/in/ -o s3://bucket/out/ -c s3://bucket/dbg/
    """  # noqa: D301 (click reads the backspace)
    making.check_max(layout, strength)
    return maker.run(
        "split",
        inputs,
        out,
        companion,
        handles=handles,
        salt=salt,
        keep=keep,
        drop=drop,
        layout=layout,
        level=strength,
        fingerprints=fingerprints,
    )
