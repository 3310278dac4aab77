"""``debug-archive store ls``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from archive.base.errors import one_line
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

    Exit status: 0 well, 1 a companion cannot be read, something else lies in the store, or no companion fits.

    \b
    Examples:
      debug-archive store ls --store symbols/
      debug-archive store ls 'Ranker*' 3f9a* --store symbols/
    """  # noqa: D301 (click reads the backspace)
    with Store.open(path, limits=limits) as store:
        found = store.listing()
    entries = [entry for entry in found.entries if _fits(entry, patterns)]
    for problem in found.unread.values():
        printing.note(problem)
    for other in found.foreign:
        printing.note(f"{one_line(str(other))}: no file of a store; it is left alone")
    if as_json:
        printing.write_json([entry_facts(entry) for entry in entries])
    elif entries:
        printing.show(entries_table(entries))
        printing.write_line("")
        printing.write_line(entries_total(entries, 0 if patterns else found.bases))
    if patterns and not entries:
        printing.note(f"{path}: no companion fits {' or '.join(patterns)}")
    is_wrong = found.unread or found.foreign or (patterns and not entries)
    return Status.FINDINGS if is_wrong else Status.WELL


def _fits(entry: Entry, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns fits, or there are none."""
    facts = entry.facts
    ids = (facts.archive_id, facts.redacted_id, str(facts.prefix))
    words = (*ids, facts.top, facts.qualified_top, entry.file, entry.label)
    return not patterns or any(fnmatchcase(word, pattern) for pattern in patterns for word in words)
