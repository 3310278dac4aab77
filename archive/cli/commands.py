"""The command group: finds commands by name, and gives back their status."""

from __future__ import annotations

import importlib
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from archive import __version__
from archive.base.errors import shown
from archive.cli import ending
from archive.cli.showing import add_options, showing
from archive.cli.status import causes_text

if TYPE_CHECKING:
    from collections.abc import Generator

    from click.shell_completion import CompletionItem

    from archive.cli.status import ExitStatus

MATRIX_THREADS = "OPENBLAS_NUM_THREADS"
"""The variable that says how many threads NumPy starts for products of matrices when it is imported."""

WIDEST_HELP, NARROWEST_HELP, MARGIN = 80, 52, 2
"""Columns of help texts, with the margin that click leaves beside them."""


class CommandEntry(NamedTuple):
    """A command that is imported when it is run.

    Attributes:
        module: the module whose ``command`` it is; a module of several has it by its name.
    """

    module: str
    summary: str


COMMANDS = {
    "inspect": CommandEntry(
        "archive.cli.inspect", "What is in an archive: records, layouts, handles, sizes."
    ),
    "symbolicate": CommandEntry(
        "archive.cli.symbolicate", "Model source for debug handles, code positions or a whole log."
    ),
    "report": CommandEntry("archive.cli.report", "A page for a browser: sizes, source and code, findings."),
    "verify": CommandEntry("archive.cli.verify", "Every inconsistency of archives, with its place."),
    "leaks": CommandEntry("archive.cli.leaks", "What files reveal: paths, names, source text, keys."),
    "sizes": CommandEntry("archive.cli.sizes", "Where the bytes of an archive go; what changed between two."),
    "diff": CommandEntry("archive.cli.diff", "What differs between two files, from model to line."),
    "digest": CommandEntry("archive.cli.digest", "Digests of models, whoever saved them."),
    "split": CommandEntry("archive.cli.verbs", "The debug info out of archives, into companion files."),
    "join": CommandEntry("archive.cli.verbs", "Archives and their companions made one file each again."),
    "shrink": CommandEntry("archive.cli.verbs", "Smaller archives that PyTorch runs as before."),
    "restore": CommandEntry("archive.cli.verbs", "Archives as they were before `shrink --level embed`."),
    "redact": CommandEntry("archive.cli.redact", "Paths and source text out of debug info, with proof."),
    "migrate": CommandEntry(
        "archive.cli.verbs", "Archives as another PyTorch release writes and reads them."
    ),
    "lite": CommandEntry(
        "archive.cli.verbs",
        "Lite archives with all call stacks; needs PyTorch.",
    ),
    "profile": CommandEntry(
        "archive.cli.profile", "Times and memory of a run at the model's source; needs PyTorch."
    ),
    "run": CommandEntry("archive.cli.run", "Values by source line; where two forms part; needs PyTorch."),
    "store": CommandEntry("archive.cli.store", "Companions of many models in one folder, found by a log."),
    "convert": CommandEntry("archive.cli.verbs", "Companions in another layout, programs in canonical form."),
    "serve": CommandEntry("archive.cli.serve", "A store over HTTP: logs explained, companions given out."),
    "demo": CommandEntry("archive.cli.demo.command", "The main job on a small real model, step by step."),
    "help": CommandEntry("archive.cli.help", "The help of a command, as `--help` shows it."),
}


class _Lazy(click.Group):
    """Imports a command when it is run; ``--help`` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        with _one_matrix_thread():
            module = vars(importlib.import_module(COMMANDS[name].module))
        command = module.get("command") or module[name]
        assert isinstance(command, click.Command)  # noqa: S101 (the table above names only such)
        add_options(command, hidden=True)
        _add_causes(name, command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing and not name.startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 (only a mistake needs it)

            close = get_close_matches(name, COMMANDS)
            meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise click.UsageError(f"No such command {shown(name)}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # noqa: PLC0415 (a shell needs it)

        commands = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(self, *arguments: Any, **others: Any) -> click.Context:  # noqa: ANN401 (as click has it)
        showing.reset()
        with ending.held():
            return super().make_context(*arguments, terminal_width=help_width(), **others)

    def invoke(self, ctx: click.Context) -> object:
        with ending.held():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


def _add_causes(name: str, command: click.Command) -> None:
    """Let the help of a command, and of those below it, end with what leads to which exit status."""
    command.epilog = causes_text(name)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _add_causes(f"{name} {below.name}", below)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="debug-archive", message="%(package)s %(version)s")
def group() -> None:
    """Debug information in PyTorch model archives (.pt, .ptl), without PyTorch.

    \b
    Examples:
      debug-archive symbolicate model.ptl 42
      debug-archive symbolicate model.ptl < report.log
      debug-archive inspect model.ptl
      debug-archive verify *.ptl
      debug-archive leaks model.pt
      debug-archive report model.ptl -o report.html
      debug-archive split model.ptl -o small.ptl -c model.ptdbg
      debug-archive store add build/*.ptdbg --store symbols/
      debug-archive shrink models/ -o small/
      debug-archive migrate old.ptl -o new.ptl --to latest

    \b
    Exit status:
      0    well
      1    findings: a handle is unknown, an archive is inconsistent, a budget is
           exceeded
      2    error: a broken file, an exceeded limit, a usage error, a full disk
      70   internal error: a fault of this program; please report its line
      130  interrupted
      141  the reader of the output has closed the pipe
    """  # noqa: D301 (click reads the backspace)


add_options(group)


@group.result_callback()
@click.pass_context
def leave(context: click.Context, status: ExitStatus) -> None:
    """Let click give back the status that the command returned."""
    context.exit(status)


def help_width() -> int:
    """The width of help texts, which click would import ``shutil`` for, a twentieth of ``--help``."""
    columns = 0
    with suppress(KeyError, ValueError):
        columns = int(os.environ["COLUMNS"])
    if columns <= 0:
        with suppress(OSError):
            columns = os.get_terminal_size().columns
    return max(min(columns, WIDEST_HELP) if columns > 0 else WIDEST_HELP, NARROWEST_HELP) - MARGIN


@contextmanager
def _one_matrix_thread() -> Generator[None]:
    """Import NumPy without threads, which take as long to start as NumPy itself: no command multiplies."""
    given = os.environ.get(MATRIX_THREADS)
    os.environ.setdefault(MATRIX_THREADS, "1")
    try:
        yield
    finally:
        if given is None:
            del os.environ[MATRIX_THREADS]


def run() -> int:
    """Run the command that the arguments name; its status."""
    return int(group.main(prog_name="debug-archive", standalone_mode=False))
