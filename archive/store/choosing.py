"""The base that a new companion is kept by: of its kin, the one from which it differs least."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.store.files import MOST_SHARED
from archive.store.kept import build_kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from archive.reader.facts import Facts
    from archive.store.entries import Entry
    from archive.store.files import KeptFiles
    from archive.store.kept import Companion

MOST_DEPTH = 50
"""Bases below one another, all of which are inflated for the first companion that is read."""
MOST_TRIED = 4
"""Companions that are tried as the base."""
WORTH = 0.8
"""A base must make the file smaller by this factor: a companion that stands alone is read at once."""


def kin_of(facts: Facts, entries: Iterable[Entry]) -> Sequence[Entry]:
    """The companions that may resemble one, likeliest first: those of its top class, those added last."""
    others = [entry for entry in entries if entry.archive_id != facts.archive_id and entry.depth < MOST_DEPTH]
    others.sort(
        key=lambda entry: (entry.facts.qualified_top == facts.qualified_top, entry.added, entry.depth)
    )
    return others[: -MOST_TRIED - 1 : -1]  # by what the index says of depths, which `smallest` looks up


def smallest(one: Companion, kin: Iterable[Entry], files: KeptFiles) -> bytes:
    """The smallest file that keeps a companion: by one of its kin, or alone."""
    alone = build_kept(one, None)
    if len(one.plain) > MOST_SHARED:
        return alone
    found = alone
    for entry in kin:
        try:
            base = files.base(entry.archive_id)
        except (ArchiveError, OSError):  # it is broken or was removed meanwhile; `check` tells
            continue
        if len(base.body) <= MOST_SHARED and base.depth < MOST_DEPTH:
            found = min(found, build_kept(one, base), key=len)
    return found if len(found) < WORTH * len(alone) else alone
