"""``debug-archive store rm``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli import options, printing
from archive.cli.status import Status
from archive.cli.store.options import store_option, wait_option
from archive.store.store import Store

if TYPE_CHECKING:
    from archive import Limits
    from archive.store.waiting import Waiting


@click.command("rm")
@click.argument("words", nargs=-1, required=True, metavar="ID...")
@store_option
@wait_option
@options.limit_option
@options.json_option()
def command(words: tuple[str, ...], *, path: str, waiting: Waiting, limits: Limits, as_json: bool) -> Status:
    """Remove companions. What others have in common with them stays until `gc`.

    ID is an archive id or its beginning, the prefix of unique handles, or a name, if only one companion has
    it. A companion that cannot be read is removed by its whole archive id.
    """
    with Store.open(path, limits=limits, waiting=waiting) as store:
        ids = [word if word in store.unread else store.one(word).archive_id for word in words]
        ids = list(dict.fromkeys(ids))
        for archive_id in ids:
            store.remove(archive_id)
            if not as_json:
                printing.write_line(f"{archive_id} removed")
    if as_json:
        printing.write_json([{"archive_id": archive_id, "outcome": "removed"} for archive_id in ids])
    return Status.WELL
