"""The command group, and how errors leave: one line on standard error."""

from __future__ import annotations

import importlib
import os
import sys

import click

from archive.base.errors import ArchiveError, one_line

COMMANDS = {
    "inspect": "What is in an archive: records, layouts, handles, sizes.",
    "symbolicate": "Model source for debug handles, code positions or a whole log.",
    "verify": "Every inconsistency of archives, with its place.",
    "sizes": "Where the bytes of an archive go; what changed between two.",
    "split": "The debug info out of archives, into companion files.",
    "join": "Archives and their companions made one file each again.",
    "shrink": "Smaller archives that PyTorch runs as before.",
    "restore": "Archives as they were before `shrink --level embed`.",
    "migrate": "Archives as another PyTorch release writes and reads them.",
    "convert": "Companions that are small, or opened in no time.",
    "demo": "What lowering to a backend gives, step by step; needs PyTorch.",
}
FAILED = 2


class _Lazy(click.Group):
    """Commands are imported when they are run; ``--help`` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"archive.cli.{name}").command
        assert isinstance(command, click.Command)  # noqa: S101 (the table above names only such)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="debug-archive", message="%(package)s %(version)s")
def group() -> None:
    """Debug information in PyTorch model archives (.pt, .ptl), without PyTorch.

    \b
    Examples:
      debug-archive symbolicate model.ptl 42
      debug-archive symbolicate model.ptl < report.log
      debug-archive inspect model.ptl
      debug-archive verify *.ptl
      debug-archive split model.ptl -o small.ptl -c model.ptdbg
      debug-archive shrink models/ -o small/
      debug-archive migrate old.ptl -o new.ptl --to latest

    Exit status: 0 well, 1 findings (a handle is unknown, an archive is inconsistent), 2 error.
    """  # noqa: D301 (click reads the backspace)


def main() -> None:
    """Run the command; errors become one line and exit status 2."""
    try:
        group(prog_name="debug-archive")
    except ArchiveError as error:
        _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> None:
    sys.stderr.buffer.write(f"debug-archive: {one_line(message)}\n".encode())
    sys.exit(FAILED)
