"""How output is shown, as the person asks: in colour, in a pager, with notes or without.

The options are the group's, and every command takes them, too: ``debug-archive -q inspect FILE`` is
``debug-archive inspect FILE -q``. What a command itself calls ``-q`` stays its own: ``verify FILE -q`` leaves
warnings and notes out of what it prints, and ``-q verify FILE`` does not.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from typing import TextIO

Color = Literal["auto", "always", "never"]
TEXT, JSON, CSV, HTML = "table", "json", "csv", "html"


class Showing:
    """What is asked for.

    Attributes:
        quiet: standard error has only errors, no notes and no progress.
        paged: whether a pager may show what is longer than the terminal.
        form: what facts are printed in: see :mod:`archive.cli.forms`.
    """

    def __init__(self) -> None:
        self.quiet = False
        self.verbose = False
        self.color: Color = "auto"
        self.paged = True
        self.form = TEXT

    def reset(self) -> None:
        """Ask for nothing."""
        self.__dict__.update(vars(Showing()))


showing = Showing()
"""The settings of the command that runs."""


def has_styles(stream: TextIO) -> bool:
    """Whether styles are written to a stream: as ``--color`` says, NO_COLOR, FORCE_COLOR, or to terminals."""
    if showing.color != "auto":
        return showing.color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def is_paged() -> bool:
    """Whether a pager may show output: a person sees it, and has a keyboard."""
    return showing.paged and sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()


def _noted(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Note an option that is given."""
    assert parameter.name is not None  # noqa: S101 (options have one)
    if context.get_parameter_source(parameter.name) is not click.core.ParameterSource.DEFAULT:
        setattr(showing, parameter.name, value)


DECLARATIONS: list[tuple[list[str], dict[str, Any]]] = [
    (["-q", "--quiet"], {"is_flag": True, "help": "Only errors on standard error: no notes, no progress."}),
    (["-v", "--verbose"], {"is_flag": True, "help": "Show the traceback of an error, too."}),
    (
        ["--color"],
        {
            "type": click.Choice(["auto", "always", "never"]),
            "default": "auto",
            "help": "Colours and bold type: on a terminal, always or never. NO_COLOR and FORCE_COLOR in the "
            "environment decide where this is auto.  [default: auto]",
        },
    ),
    (
        ["--pager/--no-pager", "paged"],
        {
            "default": True,
            "help": "Show what is longer than the terminal in $PAGER, or in less.  [default: pager]",
        },
    ),
]
"""The options and their settings."""


def add_options(command: click.Command, *, hidden: bool = False) -> click.Command:
    """Give a command, and those below it, the options that they lack."""
    own = {word for parameter in command.params for word in parameter.opts}
    for words, settings in DECLARATIONS:
        option = click.Option(words, expose_value=False, callback=_noted, hidden=hidden, **settings)
        if own.isdisjoint(option.opts):
            command.params.append(option)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_options(below, hidden=hidden)
    return command
