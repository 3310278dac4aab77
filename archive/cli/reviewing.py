"""The options of a review, which ``leaks`` and ``redact`` take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli.files import is_single

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.decorators import FC


def review_options(words: str) -> Callable[[FC], FC]:
    """``--review`` with its help text, ``--accept-names``, ``--reviewer``."""
    options = [
        click.option("--review", metavar="FILE", type=click.Path(), help=words),
        click.option(
            "--accept-names",
            is_flag=True,
            help="Accept all names in --review without looking at each: of classes, functions, attributes, "
            "records.",
        ),
        click.option(
            "--reviewer",
            metavar="NAME",
            help="Who has looked at the rows, noted in the first line of --review.",
        ),
    ]

    def decorated(command: FC) -> FC:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def check_review(
    review: str | None, files: Sequence[str], *, accept_names: bool = False, reviewer: str | None = None
) -> None:
    """Refuse what has no review to go into, a review of several files, and one that has no path."""
    if review is None and (accept_names or reviewer is not None):
        raise click.UsageError(f"{'--accept-names' if accept_names else '--reviewer'} needs --review FILE")
    if review is not None and not is_single(files):
        raise click.UsageError("--review is of one file: give each its own")
    if review in {"", "-"}:
        raise click.UsageError("--review takes the path of a file, which is read and written again")
