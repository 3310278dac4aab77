"""``debug-archive store gc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import options, printing
from archive.cli.status import Status
from archive.cli.store.options import store_option, wait_option
from archive.report.store_text import cleaned_line
from archive.store.store import Store

if TYPE_CHECKING:
    from archive import Limits
    from archive.store.waiting import Waiting


@click.command("gc")
@store_option
@wait_option
@options.limit_option
@options.json_option()
def command(*, path: str, waiting: Waiting, limits: Limits, as_json: bool) -> Status:
    """Remove what nobody needs: what removed companions and killed processes have left.

    Companions of one model that were added at the same moment are kept by one another from then on.
    """
    with Store.open(path, limits=limits, waiting=waiting) as store:
        cleaned = store.gc()
    if as_json:
        printing.write_json(cleaned._asdict())
    else:
        printing.write_line(f"{path}: {cleaned_line(cleaned)}")
    return Status.WELL
