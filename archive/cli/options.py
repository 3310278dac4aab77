"""Arguments and options that commands of every kind take, each declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.decorators import FC

file_argument = click.argument("file", type=click.Path(dir_okay=False))
force_option = click.option("--force", is_flag=True, help="Replace existing files.")


def json_option(words: str = "Print facts as JSON.") -> Callable[[FC], FC]:
    """``--json``, with its help text; the command takes it as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help=words)
