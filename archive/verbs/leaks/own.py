"""The lines of source text that are PyTorch's own: those of its modules that no other source has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.reader.opening import open as open_archive
from archive.reader.recognition import ARCHIVE_KINDS, FileKind
from archive.verbs.leaks.sources import OWN

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.base.mapped import Mapped

HAVE_RANGES = ARCHIVE_KINDS | {FileKind.COMPANION}
"""Kinds of files that have source ranges."""


def own_lines(mapped: Mapped, kind: FileKind, limits: Limits) -> frozenset[bytes]:
    """The lines of PyTorch's own source in a file; none where its source ranges cannot be read.

    Args:
        mapped: the file.
        kind: its kind.
        limits: what it may cost; of texts, no more than ``compared_bytes`` are read.
    """
    if kind not in HAVE_RANGES:
        return frozenset()
    try:
        with open_archive(mapped.data, limits=limits, name=mapped.name) as archive:
            table = archive.range_table.sources
            if int(table.lengths.sum()) > min(limits.compared_bytes, archive.allowance.memory // 4):
                return frozenset()
            own: set[bytes] = set()
            others: set[bytes] = set()
            for source in (table[number] for number in range(len(table))):
                name = "" if source.filename is None else str(source.filename)
                lines = str(source.text).encode(errors="surrogateescape").split(b"\n")
                (own if OWN.search(name.encode(errors="surrogateescape")) else others).update(
                    map(bytes.strip, lines)
                )
            return frozenset(own - others)
    except ArchiveError:  # then all lines count
        return frozenset()
