"""The archive id: it stays the same when an archive's debug information is taken out or rewritten.

It is the blake2b digest, 16 bytes, of all records that are not debug information, in the order of their
names: for each its name in UTF-8, a NUL, its size (u64, little-endian), and its bytes, inflated. The
serialization id is left out, for PyTorch computes it from all records; so is an embedded companion. Of an
exported program, it is the record without its nodes' metadata: :mod:`archive.formats.exported.rewriting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.limits import unbounded
from archive.container.serialization_id import RECORD_NAME
from archive.formats.record_kinds import EXPORTED_FORMAT as FORMAT
from archive.formats.record_kinds import is_program, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.container.record import Record

ID_BYTES = 16


def archive_id(records: Mapping[str, Record], left: Mapping[str, bytes] | None = None) -> bytes:
    """The archive id of some records, 16 bytes.

    Args:
        records: by name.
        left: all exported programs without metadata by the names of their records, where they are known;
            those of which the whole record counts are not among them.

    Raises:
        ArchiveError: a record cannot be inflated.
    """
    import hashlib  # noqa: PLC0415 (only those who ask for the id pay for it)

    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for name in sorted(records):
        if not counts(name):
            continue
        program = None
        if FORMAT in records and is_program(name):
            program = _left_of(records[name]) if left is None else left.get(name)
        size = records[name].size if program is None else len(program)
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0" + size.to_bytes(8, "little"))
        for piece in records[name].pieces() if program is None else [program]:
            digest.update(piece)
    return digest.digest()


def _left_of(record: Record) -> bytes | None:
    from archive.formats.exported.rewriting import left_of  # noqa: PLC0415 (few archives have programs)

    return left_of(record.view(), unbounded())


def counts(name: str) -> bool:
    """Whether the archive id depends on a record."""
    return not kind_of(name).is_debug and name != RECORD_NAME
