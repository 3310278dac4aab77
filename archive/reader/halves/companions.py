"""An archive → the contents of its companion, and the companion itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import memory
from archive.companion.build import build_companion
from archive.reader.collect import check_debug_info, collect
from archive.reader.halves.joined import check_gives, with_digest
from archive.reader.halves.kept import kept_handles
from archive.reader.rewriting import check_archive

if TYPE_CHECKING:
    from archive.companion.contents import Contents
    from archive.reader.archive import Archive
    from archive.reader.halves.kept import KeptHandles


def companion_contents(
    opened: Archive, kept: KeptHandles, *, fingerprints: bool = False, label: str = ""
) -> Contents:
    """What the companion of an archive holds, if some handles stay in the archive."""
    contents = collect(opened, fingerprints=fingerprints)
    return kept.noted(with_digest(contents, opened)).labelled(label)


def companion_of(opened: Archive, *, fingerprints: bool = False) -> bytes:
    """The companion that ``split`` makes of an archive by default; the archive stays as it is."""
    check_archive(opened)
    check_debug_info(opened)
    contents = companion_contents(
        opened, kept_handles(opened, None, "", by_default="unique"), fingerprints=fingerprints
    )
    data = build_companion(contents)
    with memory.part():
        check_gives(contents, memoryview(data), opened.archive_id)
    return data
