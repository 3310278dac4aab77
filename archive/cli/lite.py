"""``debug-archive lite``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import making
from archive.cli.options import importing_pytorch

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus


@click.command("lite")
@making.takes_files
@making.takes_maker
def command(inputs: tuple[str, ...], *, out: str, maker: FileMaker) -> ExitStatus:
    """Write TorchScript archives IN for the lite interpreter, with debug info.

    PyTorch's own way, to load and save, leaves calls out of call stacks: those of functions with short names,
    and most calls in archives of 1.9 and before. Here each operation has all of its calls, and a lowered
    archive keeps its debug handles. A model that was frozen before it was saved has no calls in its archive.

    Needs PyTorch, which loads IN: trust its code as with torch.jit.load.

    Several archives, a folder or a glob take a folder for OUT. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive lite model.pt -o model.ptl
      debug-archive lite models/ -o lite/
    """  # noqa: D301 (click reads the backspace)
    with importing_pytorch("lite"):
        import archive.backend.lite  # noqa: F401, PLC0415 (imports PyTorch)
    return maker.run("lite", inputs, out)
