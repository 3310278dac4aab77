"""Kinds of debug information that stay in a ``.pt2`` that is split; its companion has all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, UnfitOptionsError
from archive.formats.record_kinds import MetadataKind, SpareKind

if TYPE_CHECKING:
    from collections.abc import Collection
    from enum import StrEnum

    from archive.reader.archive import Archive

KINDS = {kind.name.lower(): kind for kind in (*MetadataKind, *SpareKind)}
"""The kinds by the words that options take."""
KEPT = ("modules", "handles")
"""Kinds that stay by default: what ``torch.export.unflatten`` and ExecuTorch's Inspector read."""


def kept_kinds(
    opened: Archive, keep: Collection[str], drop: Collection[str]
) -> frozenset[MetadataKind | SpareKind]:
    """The kinds that stay in an archive, whether or not it has some.

    Args:
        opened: the archive.
        keep: kinds that stay beside those that do by default.
        drop: kinds that do not stay.

    Raises:
        UnfitOptionsError: kinds are given, and the archive has no exported programs or compiled models.
        ArchiveError: there is no such kind, or one is both kept and dropped.
    """
    kept, dropped = _named(keep), _named(drop)
    if both := kept & dropped:
        raise ArchiveError(f"{', '.join(sorted(both))} cannot be both kept and dropped", file=opened.file)
    if (keep or drop) and not opened.programs and not opened.spare.kinds:
        why = "kinds are kept and dropped in exported programs and compiled models, and it has none"
        raise UnfitOptionsError(why, file=opened.file, options=("keep", "drop"))
    return (_named(KEPT) | kept) - dropped


def left_in(opened: Archive, kinds: Collection[StrEnum]) -> tuple[list[str], dict[str, bytes]]:
    """What a ``.pt2`` keeps of its debug information.

    Args:
        opened: the archive.
        kinds: that stay.

    Returns:
        The records that stay, of those that are debug information; and what is left of exported programs and
        shared objects, by name.
    """
    stays = [name for name, kind in opened.spare.records.items() if kind in kinds]
    return stays, {**opened.programs.left_with(kinds), **opened.spare.left(kinds)}


def _named(words: Collection[str]) -> frozenset[MetadataKind | SpareKind]:
    """Kinds by their words.

    Raises:
        ArchiveError: there is no kind of that name.
    """
    for word in words:
        if word not in KINDS:
            raise ArchiveError(expected=f"a kind: {', '.join(KINDS)}", found=word)
    return frozenset(KINDS[word] for word in words)
