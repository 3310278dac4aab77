"""The bytes of a companion to facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.companion.layout import Profile, read_directory
from archive.formats.companion.mapped import parse_mapped
from archive.formats.companion.packed import parse_packed

if TYPE_CHECKING:
    from archive.formats.companion.facts import Facts
    from archive.limits import Limits


def parse_companion(data: memoryview, limits: Limits) -> Facts:
    """All that a companion holds, checked.

    Raises:
        ArchiveError: this is no companion, one of an unknown version, or one that was changed.
        LimitError: it asks for more than allowed.
    """
    directory = read_directory(data, limits)
    parse = parse_packed if directory.profile is Profile.PACKED else parse_mapped
    return parse(data, directory, limits)
