"""Arguments and options of the commands that make files out of files, each declared once."""

from __future__ import annotations

import os
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from archive.cli.files.batch import Manner
from archive.cli.options import force_option, json_option, limit_option, no_map_option
from archive.companion.build import DEFAULT_LEVEL
from archive.rewrite.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.decorators import FC

    from archive.base.limits import Limits
    from archive.cli.status import Status

MAX_LEVEL = 19
"""zstd's level behind ``--max``. Levels above it need much memory for reading, too."""

max_option = click.option(
    "--max",
    "strength",
    flag_value=MAX_LEVEL,
    type=int,
    default=DEFAULT_LEVEL,
    help="Compress the companion further; takes longer.",
)
_inputs_argument = click.argument("inputs", nargs=-1, required=True, metavar="IN...", type=click.Path())
_output_option = click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="OUT",
    type=click.Path(),
    help="File or folder to write; - for standard output, where one file is written.",
)
_jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="number of CPUs",
    help="How many files to work on at a time.",
)
_dask_option = click.option(
    "--dask",
    metavar="ADDRESS",
    help="Let the workers of this Dask scheduler do the work on several files. They see the same files by "
    "the same absolute paths.",
)
_manifest_option = click.option(
    "--manifest",
    metavar="FILE.jsonl",
    type=click.Path(),
    show_default="COMPANION/manifest.jsonl where companions are written, else OUT.manifest.jsonl",
    help="Where the work on several files is told; a second run goes on from there.",
)
_dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print what would be written, and write nothing."
)


def companion_option(usual: str, words: str) -> Callable[[FC], FC]:
    """``--companion``, with the file that it defaults to and its help text."""
    return click.option(
        "-c", "--companion", metavar="COMPANION", type=click.Path(), show_default=usual, help=words
    )


def handles_options(usual: str) -> Callable[[FC], FC]:
    """``--handles``, with its default, and ``--salt``; the verb decides where no option is given."""
    handles: Callable[[FC], FC] = click.option(
        "--handles",
        type=click.Choice(["unique", "keep", "drop"]),
        show_default=usual,
        help="By mobile_debug_handles.pkl failures on a device name their handles; unique ones name the "
        "archive, too: 18 digits, of which the first ten are the archive's.",
    )
    salt: Callable[[FC], FC] = click.option(
        "--salt",
        metavar="TEXT",
        default="",
        help="Any text: unique handles get other first digits, where another archive has the same.",
    )
    return lambda command: handles(salt(command))


def kinds_options(command: FC) -> FC:
    """``--keep`` and ``--drop``: which debug info stays in exported programs and compiled models."""
    kinds = click.Choice(list(KINDS))
    keep: Callable[[FC], FC] = click.option(
        "--keep",
        multiple=True,
        type=kinds,
        help="Debug info that stays in a .pt2; the companion has it, too. Repeatable.",
    )
    drop: Callable[[FC], FC] = click.option(
        "--drop",
        multiple=True,
        type=kinds,
        help="Debug info that does not: without modules, torch.export.unflatten does not work.",
    )
    return keep(drop(command))


def profile_option(**settings: Any) -> Callable[[FC], FC]:  # noqa: ANN401 (as click takes them)
    """``--profile``, with click's settings for whether it must be given."""
    return click.option(
        "--profile",
        type=click.Choice(["packed", "mapped"]),
        help="Of the companion: small, or opened in no time at any size.",
        **settings,
    )


def check_max(profile: str, strength: int) -> None:
    """Refuse ``--max`` where nothing is compressed.

    Raises:
        UsageError: the companion is a mapped one.
    """
    if strength == MAX_LEVEL and profile != "packed":
        raise click.UsageError("--max is for packed companions; a mapped one is not compressed")


def takes_files(command: Callable[..., Status]) -> Callable[..., Status]:
    """Let a command take ``IN...`` as ``inputs`` and ``--output`` as ``out``; the outermost decorator."""
    return _inputs_argument(_output_option(command))


def takes_manner(command: Callable[..., Status]) -> Callable[..., Status]:
    """Let a command take the options of :class:`Manner` as one ``manner``; the innermost decorator."""

    @wraps(command)
    def with_manner(
        *,
        jobs: int,
        dask: str | None,
        manifest: str | None,
        force: bool,
        dry_run: bool,
        mapped: bool,
        limits: Limits,
        as_json: bool,
        **others: object,
    ) -> Status:
        manner = Manner(jobs, force, as_json, mapped, limits, dry_run, dask, manifest)
        return command(**others, manner=manner)

    to_json = json_option("Print facts as JSON; a list for several files.")
    told = no_map_option(limit_option(to_json(with_manner)))
    return _jobs_option(_dask_option(_manifest_option(force_option(_dry_run_option(told)))))
