"""The option that all commands of stores take."""

from __future__ import annotations

import click

VARIABLE = "DEBUG_ARCHIVE_STORE"

store_option = click.option(
    "--store",
    "path",
    type=click.Path(file_okay=False),
    envvar=VARIABLE,
    required=True,
    metavar="DIR",
    help=f"The store's folder; by default ${VARIABLE}.",
)
