"""What a store holds, and what was done to it → text and JSON."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from archive.base.errors import counted, several, shown
from archive.base.tables import Column
from archive.formats.release_label import labels_in_words
from archive.render.fitted_table import FittedTable
from archive.render.rows import with_keys
from archive.store.entries import ID_SHOWN, entry_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.store.entries import Addition, AnyEntry
    from archive.store.upkeep import Cleaned

ENTRIES = (
    Column("archive_id", "archive id"),
    Column("redacted_id", "redacted id"),
    Column("prefix", "prefix"),
    Column("top", "top"),
    Column("file", "file", "name"),
    Column("labels", "label"),
    Column("size", "bytes", "number"),
    Column("kept_size", "kept in", "number"),
    Column("added", "added"),
)
LISTED = with_keys(*(column.key for column in ENTRIES if column.key != "file"), "digest")
OPTIONAL: Mapping[str, Callable[[AnyEntry], object]] = {
    "redacted_id": lambda entry: entry.facts.redacted_id,
    "labels": lambda entry: entry.labels,
}
"""Columns that are left out where no companion has such a thing."""
OUTCOMES = {
    "added": "added",
    "replaced": "replaced",
    "same": "kept already",
    "labelled": "labelled",
    "no debug info": "without debug info, skipped",
    "failed": "failed",
}
"""The words for what became of files."""


def entries_table(entries: Sequence[AnyEntry]) -> FittedTable:
    """A line for each companion; with ids of redacted archives and labels, where some have them."""
    shown = [
        column for column in ENTRIES if column.key not in OPTIONAL or any(map(OPTIONAL[column.key], entries))
    ]
    table = FittedTable([(column.title, column.holds) for column in shown])
    for entry in entries:
        cells = entry_cells(entry)
        table.add(*(cells[column.key] for column in shown))
    return table


def entry_cells(entry: AnyEntry) -> dict[str, str | int]:
    """The cell of each column."""
    facts = entry.facts
    return {
        "archive_id": facts.archive_id[:ID_SHOWN],
        "redacted_id": facts.redacted_id[:ID_SHOWN],
        "prefix": str(facts.prefix or ""),
        "top": facts.top,
        "file": entry.file,
        "labels": ", ".join(entry.labels),
        "size": entry.size,
        "kept_size": entry.kept_size,
        "added": day_of(entry.added),
    }


def entries_total(entries: Sequence[AnyEntry], bases: int) -> str:
    """How many companions there are, and the bytes that they take.

    Args:
        bases: bytes of what removed companions have left.
    """
    size = sum(entry.size for entry in entries)
    kept = sum(entry.kept_size for entry in entries) + bases
    left = f", {bases:,} of them of removed ones" if bases else ""
    return f"{counted(len(entries), 'companion')}, {size:,} bytes, kept in {kept:,}{left}"


def day_of(seconds: int) -> str:
    """A time as a day (UTC); the last one that has a name for those after it, which a server may claim."""
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return date.max.isoformat()


def entry_facts(entry: AnyEntry) -> dict[str, Any]:
    """What a store knows of a companion, as JSON takes it."""
    return entry_json(entry, complete=True)


def added_line(file: str, addition: Addition[AnyEntry]) -> str:
    """What became of a file; the whole archive id, for an app to log."""
    entry = addition.entry
    prefix = f", prefix {entry.facts.prefix}" if entry.facts.prefix else ""
    what = labels_in_words(OUTCOMES[addition.outcome], entry.labels)
    return f"{file}: {what}, {entry.archive_id}{prefix}, {entry.size:,} bytes in {entry.kept_size:,}"


def indistinct_text(entries: Sequence[AnyEntry]) -> str:
    """That failures of companions look like those of others of their top class, and the way out."""
    names = several([entry.titles[0] for entry in entries])
    return (
        f"{names}: failures look like those of other companions of {shown(entries[0].facts.top)}: "
        f"add the archive{'s' if entries[1:] else ''}, or split with --fingerprints"
    )


def added_total(counts: Mapping[str, int]) -> str:
    """What became of all files."""
    parts = [f"{counts[outcome]:,} {words}" for outcome, words in OUTCOMES.items() if counts.get(outcome)]
    return f"{counted(sum(counts.values()), 'file')}: {', '.join(parts)}"


def cleaned_line(cleaned: Cleaned) -> str:
    """What was removed."""
    if cleaned.claims is not None:
        return f"{counted(cleaned.claims, 'claim')} of a prefix removed, {cleaned.freed:,} bytes freed"
    parts = [counted(cleaned.bases, "base"), counted(cleaned.drafts, "draft")]
    repacked = f", {counted(cleaned.repacked, 'companion')} re-stored as deltas" if cleaned.repacked else ""
    return f"{' and '.join(parts)} removed{repacked}, {cleaned.freed:,} bytes freed"
