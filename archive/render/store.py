"""What a store holds, and what was done to it → text and JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from archive.base.errors import counted
from archive.render.fitted_table import FittedTable
from archive.store.entries import ID_SHOWN, entry_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.store.entries import Addition, AnyEntry
    from archive.store.upkeep import Cleaned

OUTCOMES = {
    "added": "added",
    "replaced": "replaced",
    "same": "kept already",
    "no debug info": "without debug info, skipped",
    "failed": "failed",
}
"""The words for what became of files."""


def entries_table(entries: Sequence[AnyEntry]) -> FittedTable:
    """A line for each companion; with the ids of redacted archives, where some have others."""
    has_redacted = any(entry.facts.redacted_id for entry in entries)
    ids = ["archive id", "redacted id"] if has_redacted else ["archive id"]
    table = FittedTable([(heading, "text") for heading in (*ids, "prefix", "top")])
    table.columns = [
        *table.columns,
        ("file", "name"),
        ("bytes", "number"),
        ("kept in", "number"),
        ("added", "text"),
    ]
    for entry in entries:
        facts = entry.facts
        known_by = [facts.archive_id, facts.redacted_id][: len(ids)]
        names = *(one[:ID_SHOWN] for one in known_by), str(facts.prefix or ""), facts.top, entry.file
        table.add(*names, entry.size, entry.kept_size, day_of(entry.added))
    return table


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
    """A time as a day (UTC)."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def entry_facts(entry: AnyEntry) -> dict[str, Any]:
    """What a store knows of a companion, as JSON takes it."""
    return entry_json(entry, complete=True)


def added_line(file: str, addition: Addition[AnyEntry]) -> str:
    """What became of a file; the whole archive id, for an app to log."""
    entry = addition.entry
    prefix = f", prefix {entry.facts.prefix}" if entry.facts.prefix else ""
    what = OUTCOMES[addition.outcome]
    return f"{file}: {what}, {entry.archive_id}{prefix}, {entry.size:,} bytes in {entry.kept_size:,}"


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
