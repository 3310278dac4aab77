"""Facts to the bytes of a companion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.companion.layout import Profile
from archive.companion.mapped import build_mapped
from archive.companion.packed import build_packed

if TYPE_CHECKING:
    from archive.normalform.form import Facts

DEFAULT_LEVEL, HIGHEST = 9, 22


def build_companion(facts: Facts, profile: Profile = Profile.PACKED, level: int = DEFAULT_LEVEL) -> bytes:
    """A companion file.

    Args:
        facts: what it is to hold.
        profile: small, or fast to open.
        level: of zstd, 1 to 22, for the packed profile; 19 takes longer and gives less.

    Raises:
        ArchiveError: there is no such level.
    """
    if not 1 <= level <= HIGHEST:
        raise ArchiveError(expected=f"a level from 1 to {HIGHEST}", found=str(level))
    return build_packed(facts, level) if profile is Profile.PACKED else build_mapped(facts)
