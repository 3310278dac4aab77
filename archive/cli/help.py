"""``debug-archive help``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.base.errors import shown
from archive.cli import printing
from archive.cli.status import ExitStatus

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _completed(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The commands that begin with what is typed."""
    root = context.find_root().command
    return root.shell_complete(context.find_root(), incomplete)


@click.command("help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...", shell_complete=_completed)
@click.pass_context
def command(context: click.Context, names: tuple[str, ...]) -> ExitStatus:
    """Show the help of a COMMAND, the same as with --help; without one, that of all.

    \b
    Examples:
      debug-archive help split
      debug-archive help store add
    """  # noqa: D301 (click reads the backspace)
    current = context.find_root()
    for name in names:
        above = current.command
        if not isinstance(above, click.Group):
            raise click.UsageError(f"{current.command_path} has no commands; found {shown(name)}")
        _, found, _ = above.resolve_command(current, [name])
        assert found is not None  # noqa: S101 (else an error is raised)
        current = click.Context(found, parent=current, info_name=name)
    printing.write(f"{current.get_help()}\n".encode())
    return ExitStatus.WELL
