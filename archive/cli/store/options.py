"""The option that all commands of stores take."""

from __future__ import annotations

import click

from archive.base.urls import is_url
from archive.cli import printing
from archive.store.waiting import MOST_SECONDS, Waiting

VARIABLE = "DEBUG_ARCHIVE_STORE"


def _folder(_: click.Context, __: click.Parameter, path: str) -> str:
    """The folder of a store, and no server's address."""
    if is_url(path):
        raise click.BadParameter(
            "this needs the store's folder; a server takes `store add` and `symbolicate`"
        )
    return path


store_option = click.option(
    "--store",
    "path",
    type=click.Path(file_okay=False),
    callback=_folder,
    envvar=VARIABLE,
    required=True,
    metavar="DIR",
    help=f"The store's folder; by default ${VARIABLE}.",
)
added_store_option = click.option(
    "--store",
    "path",
    envvar=VARIABLE,
    required=True,
    metavar="STORE",
    help="The store's folder, or the address of a server like http://host:8080, which asks for the token in "
    f"$DEBUG_ARCHIVE_TOKEN; by default ${VARIABLE}.",
)
wait_option = click.option(
    "--wait",
    "waiting",
    type=click.FloatRange(0),
    default=MOST_SECONDS,
    show_default=True,
    metavar="SECONDS",
    callback=lambda _, __, seconds: Waiting(seconds, printing.note),
    help="How long another process that changes the store is waited for.",
)
