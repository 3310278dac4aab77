"""Debug handles in the blobs of lowered modules, which the call-stack map should have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.record_kinds import DATA

if TYPE_CHECKING:
    from archive.reader.archive import Archive


def handles_in_blobs(archive: Archive) -> list[int]:
    """The debug handles that lowered modules name; none where no call-stack map could have them."""
    if archive.handle_table is None or DATA not in archive.records:
        return []
    return [handle for state in archive.lowered.values() for handle in state.handles]
