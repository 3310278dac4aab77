"""The contents of a companion to its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.companion.layout import CompanionProfile
from archive.companion.mapped import build_mapped
from archive.companion.packed import build_packed

if TYPE_CHECKING:
    from archive.companion.contents import Contents

DEFAULT_LEVEL, HIGHEST = 9, 22


def build_companion(
    contents: Contents, profile: CompanionProfile = CompanionProfile.PACKED, level: int = DEFAULT_LEVEL
) -> bytes:
    """A companion file.

    Args:
        contents: of the file.
        profile: small, or fast to open.
        level: of zstd, 1 to 22, for the packed profile; 19 takes longer and gives less.

    Raises:
        ArchiveError: there is no such level.
    """
    if not 1 <= level <= HIGHEST:
        raise ArchiveError(expected=f"a level from 1 to {HIGHEST}", found=str(level))
    packed = profile is CompanionProfile.PACKED
    return build_packed(contents, level) if packed else build_mapped(contents)
