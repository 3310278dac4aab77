"""Companions of a store whose failures look like those of other releases of their model."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from archive.base.errors import ArchiveError
from archive.store.entries import CompanionEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from archive.store.stores import OwnStore

EntryT = TypeVar("EntryT", bound=CompanionEntry)


def indistinct(
    store: OwnStore[EntryT], entries: Sequence[EntryT], taken: Collection[str]
) -> Sequence[Sequence[EntryT]]:
    """The companions just taken whose failures look like those of others of their top class.

    They have neither unique handles nor digests of lines. Those of each top class together.

    Args:
        taken: the archive ids of those that were just taken.
    """
    kin = defaultdict[str, set[str]](set)
    for entry in entries:
        if entry.facts.qualified_top:
            kin[entry.facts.qualified_top].add(entry.archive_id)
    found = defaultdict[str, list[EntryT]](list)
    for entry in entries:
        top = entry.facts.qualified_top
        if entry.archive_id in taken and not entry.facts.prefix and len(kin[top]) > 1:
            with (
                suppress(ArchiveError, OSError),
                store.opened_of(entry) as archive,
            ):  # it may be removed by now
                if not archive.line_digests:
                    found[top].append(entry)
    return [*found.values()]
