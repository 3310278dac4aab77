"""``debug-archive store check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.base.errors import counted
from archive.cli import options, printing
from archive.cli.status import Status
from archive.cli.store.options import store_option
from archive.store.store import Store

if TYPE_CHECKING:
    from archive import Limits


@click.command("check")
@store_option
@options.limit_option
@options.json_option()
def command(*, path: str, limits: Limits, as_json: bool) -> Status:
    """Read all of a store: each companion is whole and comes back to the byte, and the index agrees.

    An index that does not agree is made anew.

    Exit status: 0 well, 1 something is wrong.
    """
    store = Store.open(path, limits=limits)
    found = []
    for one in store.check():
        found.append(one)
        if not as_json:
            printing.write_line(f"{path}: {one.severity}: {one}")
    if as_json:
        printing.write_json(found)
    elif not found:
        printing.write_line(f"{path}: {counted(len(store.entries()), 'companion')}, well")
    wrong = any(one.severity in {"error", "warning"} for one in found)
    return Status.FINDINGS if wrong else Status.WELL
