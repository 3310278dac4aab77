"""Arguments and options that commands of every kind take, each declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.base.mapped import in_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.decorators import FC

    from archive.base.mapped import Source

file_argument = click.argument("file", type=click.Path(dir_okay=False))
no_map_option = click.option(
    "--no-map",
    "mapped",
    flag_value=False,
    default=True,
    help="Read files into memory instead of mapping them; safe where another process may cut them short.",
)
force_option = click.option("--force", is_flag=True, help="Replace existing files.")


def source(file: str, *, mapped: bool) -> Source:
    """A file as the library's functions take it: its path, or with ``--no-map`` its content.

    Raises:
        ArchiveError: the path is no file, or the file changed while it was read.
        OSError: it cannot be read.
    """
    return file if mapped else in_memory(file)


def json_option(words: str = "Print facts as JSON.") -> Callable[[FC], FC]:
    """``--json``, with its help text; the command takes it as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help=words)
