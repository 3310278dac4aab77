"""Kinds of debug information that stay in a ``.pt2`` that is split; its companion has all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, UnfitOptionsError
from archive.formats.exported.kinds import MetadataKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.reader.archive import Archive

KINDS = {kind.name.lower(): kind for kind in MetadataKind}
"""The kinds by the words that options take."""
KEPT = ("modules",)
"""Kinds that stay by default: what ``torch.export.unflatten`` reads."""


def kept_kinds(opened: Archive, keep: Collection[str], drop: Collection[str]) -> frozenset[MetadataKind]:
    """The kinds that stay in an archive, whether or not it has some.

    Args:
        opened: the archive.
        keep: kinds that stay beside those that do by default.
        drop: kinds that do not stay.

    Raises:
        UnfitOptionsError: kinds are given, and the archive has no exported programs.
        ArchiveError: there is no such kind, or one is both kept and dropped.
    """
    kept, dropped = _named(keep), _named(drop)
    if both := kept & dropped:
        raise ArchiveError(f"{', '.join(sorted(both))} cannot be both kept and dropped", file=opened.file)
    if not opened.programs and (keep or drop):
        why = "kinds are kept and dropped in exported programs (.pt2), and it has none"
        raise UnfitOptionsError(why, file=opened.file, options=("keep", "drop"))
    return (_named(KEPT) | kept) - dropped


def _named(words: Collection[str]) -> frozenset[MetadataKind]:
    """Kinds by their words.

    Raises:
        ArchiveError: there is no kind of that name.
    """
    for word in words:
        if word not in KINDS:
            raise ArchiveError(expected=f"a kind: {', '.join(KINDS)}", found=word)
    return frozenset(KINDS[word] for word in words)
