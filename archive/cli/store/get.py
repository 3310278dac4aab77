"""``debug-archive store get``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from archive.base.errors import ArchiveError
from archive.base.output import STANDARD_OUTPUT, replacing
from archive.cli import options, printing
from archive.cli.status import Status
from archive.cli.store.options import store_option
from archive.report.store_text import entry_facts
from archive.store.store import Store

if TYPE_CHECKING:
    from archive import Limits


@click.command("get")
@click.argument("word", metavar="ID")
@click.option("-o", "--output", "out", required=True, metavar="OUT", help="The file; - is standard output.")
@store_option
@options.force_option
@options.limit_option
@options.json_option()
def command(word: str, *, out: str, path: str, force: bool, limits: Limits, as_json: bool) -> Status:
    """Write a companion to a file, as it was added, to the byte.

    ID is an archive id or its beginning, the prefix of unique handles, or a name, if only one companion has
    it.

    \b
    Examples:
      debug-archive store get 3f9a1234abcd -o model.ptdbg --store symbols/
      debug-archive store get 2597103980 -o - --store symbols/ | sha256sum
    """  # noqa: D301 (click reads the backspace)
    if as_json and out == "-":
        raise click.UsageError("-o - writes the companion where --json writes facts: give a file")
    store = Store.open(path, limits=limits)
    entry = store.one(word)
    data, is_exact = store.given(entry.archive_id)
    if out != "-":
        with replacing(out, force=force) as file:
            file.write(data)
    elif sys.stdout.isatty():
        raise ArchiveError("is a terminal, and companions are no text", file=STANDARD_OUTPUT)
    else:
        printing.write_file(data)
    if as_json:
        printing.write_json({"output": out, "exact": is_exact, **entry_facts(entry)})
    elif not is_exact:
        printing.note(f"{entry.label}: the facts that were added, compressed to other bytes")
    return Status.WELL
