"""The archive id: what of an archive stays the same when its debug information is taken out or rewritten.

blake2b, 16 bytes, over the records that are not debug information, in the order of their names: of each
its name in UTF-8, a NUL, its size (u64, little-endian), and its bytes, inflated. The serialization id,
which PyTorch computes from all records, is left out, and so is an embedded companion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.container.serialization_id import RECORD_NAME
from archive.formats.record_kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.container.container import Record

ID_BYTES = 16


def archive_id(records: Mapping[str, Record]) -> bytes:
    """The 16 bytes of an archive's records.

    Raises:
        ArchiveError: a record cannot be inflated.
    """
    import hashlib  # noqa: PLC0415 (only those who ask for the id pay for it)

    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for name in sorted(records):
        if not counts(name):
            continue
        data = records[name].view()
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0" + len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


def counts(name: str) -> bool:
    """Whether a record is part of what the id is of."""
    return not kind_of(name).is_debug and name != RECORD_NAME
