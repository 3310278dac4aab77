"""``debug-archive store ls``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from archive.cli import options, printing
from archive.cli.status import Status
from archive.cli.store.options import store_option
from archive.report.store_text import entries_table, entries_total, entry_facts
from archive.store.store import Store

if TYPE_CHECKING:
    from archive import Limits
    from archive.store.entries import Entry


@click.command("ls")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@store_option
@options.limit_option
@options.json_option()
def command(patterns: tuple[str, ...], *, path: str, limits: Limits, as_json: bool) -> Status:
    """List the companions of a store: all, or those that a PATTERN fits.

    A PATTERN with * and ? is compared with archive id, that of the redacted archive where that has another
    one, prefix, top class and file name.

    Exit status: 0 well, 1 a companion cannot be read, or no companion fits.

    \b
    Examples:
      debug-archive store ls --store symbols/
      debug-archive store ls 'Ranker*' 3f9a* --store symbols/
    """  # noqa: D301 (click reads the backspace)
    with Store.open(path, limits=limits) as store:
        entries = [entry for entry in store.entries() if _fits(entry, patterns)]
        unread = store.unread
        bases = sum(one.size for one in store.folder.base_files().values())
    for problem in unread.values():
        printing.note(problem)
    if as_json:
        printing.write_json([entry_facts(entry) for entry in entries])
    elif entries:
        printing.show(entries_table(entries))
        printing.write_line("")
        printing.write_line(entries_total(entries, 0 if patterns else bases))
    if patterns and not entries:
        printing.note(f"{path}: no companion fits {' or '.join(patterns)}")
    return Status.FINDINGS if unread or (patterns and not entries) else Status.WELL


def _fits(entry: Entry, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns fits, or there are none."""
    facts = entry.facts
    ids = (facts.archive_id, facts.redacted_id, str(facts.prefix))
    words = (*ids, facts.top, facts.qualified_top, entry.file, entry.label)
    return not patterns or any(fnmatchcase(word, pattern) for pattern in patterns for word in words)
