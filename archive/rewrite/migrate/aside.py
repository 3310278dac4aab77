"""The original of a migrated archive, kept in a record that PyTorch ignores.

``extra/migrated.ptdbg`` is a companion file (:mod:`archive.companion`) of the original. Besides the debug
records it has, raw, the records that a migration rewrites or moves: the archive's version, ``byteorder``, and
rescued code. A join of archive and record gives the original.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, in_file
from archive.companion.build import build_companion
from archive.companion.parse import parse_companion
from archive.container.container import Container
from archive.container.serialization_id import RECORD_NAME
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import MIGRATED, RecordKind, kind_of
from archive.io.mapped import Mapped
from archive.reader.collect import collect
from archive.reader.halves.joined import joined_to, with_digest

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import BinaryIO

    from archive.reader.archive import Archive


def kept_aside(original: Archive, rewritten: Collection[str]) -> tuple[bytes, bool]:
    """The record for an archive, and whether it gives the whole file again, or only its records.

    Args:
        rewritten: names of the rewritten records that aren't debug records.
    """
    original.digests.begin()
    moved = [name for name in original.records if is_format(name) or name in rewritten]
    with memory.part():
        contents = with_digest(collect(original, moved), original)
        data = build_companion(contents)
    memory.take(len(data), "bytes of a record", record=MIGRATED)
    return data, "file.digest" in contents.columns


def is_format(name: str) -> bool:
    """Whether a record says how to read the archive: ``version``, ``byteorder`` and the like."""
    return kind_of(name) is RecordKind.FORMAT and name != RECORD_NAME


def write_original(file: BinaryIO, migrated: Container) -> None:
    """Write the original of a migrated archive."""
    with in_file(migrated.file, MIGRATED):
        contents = parse_companion(migrated.records[MIGRATED].view())
    records = {
        name: record
        for name, record in migrated.records.items()
        if not is_format(name) and name not in contents.records
    }
    try:
        _, exact = joined_to(file, migrated.root, records, contents)
        with Container(Mapped(file)) as original:
            same = archive_id(original.records) == contents.archive_id
    except LimitError:
        raise
    except ArchiveError as problem:
        raise _changed(migrated) from problem
    if exact is False or not same:
        raise _changed(migrated)


def _changed(migrated: Container) -> ArchiveError:
    return ArchiveError(
        f"the archive was changed after it was migrated, and {MIGRATED} in it is of what it was before; pass "
        "--no-aside to go on without",
        file=migrated.file,
        in_python="aside=False",
    )
