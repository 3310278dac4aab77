"""Arguments and options that commands of every kind take, each declared once."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

from archive.base.amounts import AMOUNT, AMOUNT_WORDS, parsed_amount
from archive.base.errors import shown
from archive.base.extras import how_to_install
from archive.base.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from click.decorators import FC
    from click.shell_completion import CompletionItem

STORE_VARIABLE = "DEBUG_ARCHIVE_STORE"
"""The environment variable that names the store."""
BOUND = rf"(?P<name>[a-z_]+)=(?P<number>{AMOUNT})"
"""The pattern of a bound; few commands are given one, and none compiles it at its start."""


def parsed_limits(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Limits:
    """The limits for files: the usual ones, except for those that ``--limit`` gives.

    Raises:
        BadParameter: a value isn't a limit, or no limit has that name.
    """
    known = [field.name for field in fields(Limits)]
    given: dict[str, int] = {}
    for value in values:
        bound = re.fullmatch(BOUND, value, re.IGNORECASE)
        if not bound:
            raise click.BadParameter(f"expected NAME=NUMBER like memory=4G; found {shown(value)}")
        if bound["name"] not in known:
            raise click.BadParameter(f"no bound {shown(bound['name'])}; available: {', '.join(known)}")
        given[bound["name"]] = parsed_amount(bound["number"])
    return replace(DEFAULT_LIMITS, **given)


limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=NUMBER",
    callback=parsed_limits,
    help="Raise or lower a limit for each file: NAME as the error names it, NUMBER like 64M or "
    f"4GB: {AMOUNT_WORDS}. May be repeated.",
)
program_option = click.option(
    "--program",
    type=click.Path(dir_okay=False),
    metavar="PTE",
    help="The program of ExecuTorch that the ETRecord was made with; one of other instructions is refused. "
    "It says which operator each instruction calls, and which nodes XNNPACK runs.",
)
no_map_option = click.option(
    "--no-map",
    "mapped",
    flag_value=False,
    default=True,
    help="Read files into memory instead of mapping them; safe where another process may cut them short.",
)


def force_option(words: str = "Replace existing files.") -> Callable[[FC], FC]:
    """``--force``, with its help text."""
    return click.option("--force", is_flag=True, help=words)


def companion_option(words: str, usual: str | None = None, *, is_file: bool = False) -> Callable[[FC], FC]:
    """``--companion``, with its help text, what it is by default, and whether it is never a folder."""
    return click.option(
        "-c",
        "--companion",
        metavar=None if is_file else "COMPANION",
        type=click.Path(dir_okay=not is_file),
        show_default=usual,
        help=words,
    )


def _label(_: click.Context, __: click.Parameter, value: str) -> str:
    """The label of a release, if one is given."""
    from archive.formats.release_label import LABEL_TEXT, LABEL_WORDS  # noqa: PLC0415 (formats, which few need)

    if value and not LABEL_TEXT.fullmatch(value):
        raise click.BadParameter(f"expected {LABEL_WORDS}; found {shown(value)}")
    return value


def label_option(words: str) -> Callable[[FC], FC]:
    """``--label``: what a release is called; "" where it is not given."""
    return click.option("--label", metavar="TEXT", default="", callback=_label, help=words)


def completed_as_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let a shell complete what may be a file, but may be something else, too."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 (a shell needs it)

    return [CompletionItem(incomplete, type="file")]


def top_option(words: str, name: str = "rows", default: int | None = 20) -> Callable[[FC], FC]:
    """``-n`` or ``--top``: how many rows or texts are shown, the first or largest; 0 for all."""
    return click.option(
        "-n",
        "--top",
        name,
        type=click.IntRange(min=0),
        metavar="N",
        default=default,
        show_default=True,
        help=words,
    )


def source_option(words: str) -> Callable[[FC], FC]:
    """``--source``: how much of the model's source a page shows; the command takes it as ``show``."""
    from archive.page.shown import Shown  # noqa: PLC0415 (few commands write pages)

    return click.option(
        "--source",
        "show",
        type=click.Choice([choice.value for choice in Shown]),
        default=Shown.FULL.value,
        show_default=True,
        help=words,
    )


def config_option(words: str, what: str) -> Callable[[FC], FC]:
    """``--config``: a TOML file with a table of the command; by default the nearest that has it."""
    return click.option(
        "--config",
        metavar="TOML",
        type=click.Path(),
        show_default=f"the nearest pyproject.toml that has {what}",
        help=words,
    )


QUIET = {"KINETO_LOG_LEVEL": "6", "TORCH_CPP_LOG_LEVEL": "ERROR"}
"""Levels at which PyTorch's profiler writes nothing to standard error, and its C++ code no warnings."""


@contextmanager
def importing_pytorch(who: str) -> Generator[None]:
    """A part that imports PyTorch, which then writes no warnings of its own to standard error.

    Args:
        who: the command or option that needs it.

    Raises:
        UsageError: PyTorch cannot be imported.
    """
    for name, level in QUIET.items():
        os.environ.setdefault(name, level)
    try:
        yield
    except ImportError as error:
        raise click.UsageError(
            f"{who} needs PyTorch, which cannot be imported ({error}): {how_to_install('torch')}"
        ) from error
