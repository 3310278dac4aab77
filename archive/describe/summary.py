"""A file in one line: what it is, how large, and how much of it is debug info."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.describe.listing import listed
from archive.describe.sizes import sizes
from archive.formats.record_kinds import kind_of
from archive.reader.opening import open as open_archive
from archive.reader.provenance import provenance
from archive.reader.recognition import PROGRAM_KINDS, FileKind, recognise

if TYPE_CHECKING:
    from archive.base.mapped import Source
    from archive.reader.archive import Archive


@dataclass(frozen=True, slots=True)
class Summary:
    """What is told of one of many files.

    Attributes:
        kind: of the file.
        size: in bytes.
        debug_bytes: stored bytes of all debug records and of metadata, without zip overhead; the whole size
            of a companion.
        handles: the number of debug handles.
        origin: the PyTorch releases that may have written it, in words; "" where that is not known.
    """

    kind: FileKind
    size: int
    debug_bytes: int = 0
    handles: int = 0
    origin: str = ""


@bounded
def summarise(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> Summary:
    """Summarise a file. No tensor is read.

    Args:
        source: a path, a bytes-like object, or a binary file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the file is no zip and no companion (the message says what it is), or a debug record is
            broken.
        OSError: the file cannot be read.
    """
    found = recognise(source, look=False, limits=limits)
    if not found.is_archive and found.kind is not FileKind.COMPANION:
        listing = listed(source, limits=limits)
        debug = sizes(source, inside=False, limits=limits).debug_bytes if listing.kind in PROGRAM_KINDS else 0
        return Summary(listing.kind, listing.size, debug)
    with open_archive(source, limits=limits) as archive:
        return _of_archive(archive)


def _of_archive(archive: Archive) -> Summary:
    kind, handles = archive.recognised.kind, len(archive.handles)
    if not archive.has_code:
        return Summary(kind, archive.size, archive.size, handles)
    archive.container.check_sizes()
    kinds = {name: kind_of(name) for name in archive.records}
    debug = sum(record.stored_size for name, record in archive.records.items() if kinds[name].is_debug)
    origin = "" if archive.companion else str(provenance(archive))
    return Summary(kind, archive.size, debug, handles, origin)
