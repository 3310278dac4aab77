"""Companions by a word that a person gives: an id, a prefix, a name."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.store.entries import Entry

LISTED = 3
"""Companions that a message names."""
BEGINNING = re.compile(r"[0-9a-f]{4,32}")
"""The beginning of an archive id."""
TOO_SHORT = re.compile(r"[0-9a-f]{1,3}")
"""What is no beginning of an archive id yet."""


def found_by(word: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The companions that a word may mean; see :meth:`archive.store.store.Store.find`."""
    name, _, beginning = word.rpartition("@")
    found = [entry for entry in entries if word in _words(entry)]
    if not found and BEGINNING.fullmatch(beginning.lower()):
        found = [entry for entry in entries if _begins(entry, beginning.lower())]
        found = [entry for entry in found if not name or PurePath(entry.file).stem == name]
    return found


def not_one(word: str, found: Sequence[Entry]) -> str:
    """Why a word does not mean one companion."""
    if not found:
        short = "; of an id, give four digits or more" if TOO_SHORT.fullmatch(word.lower()) else ""
        return f"no companion has the id, prefix or name {word!r}{short}"
    labels = ", ".join(entry.label for entry in found[:LISTED])
    more = f" and {len(found) - LISTED:,} more" if len(found) > LISTED else ""
    return f"{word!r} may be {labels}{more}; give the id"


def _begins(entry: Entry, digits: str) -> bool:
    """Whether an id of the model, or of what it was redacted to, begins with some digits."""
    return any(one.startswith(digits) for one in (entry.archive_id, entry.facts.redacted_id))


def _words(entry: Entry) -> set[str]:
    """The words that mean a companion alone, or a few."""
    return {*entry.facts.ids, entry.label, *entry.facts.names(entry.file)}
