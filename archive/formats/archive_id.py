"""The archive id: it stays the same when an archive's debug information is taken out or rewritten.

So it says which companion belongs to an archive (``Companion.check_fits``), stores find companions by it, and
whatever rewrites an archive checks it before and after. Whether two archives are the same model in other
respects, too, is decided by :mod:`archive.compare.sameness`.

It is the blake2b digest, 16 bytes, of all records that are not debug information, in the order of their
names: for each its name in UTF-8, a NUL, its size (u64, little-endian), and its bytes, inflated. The
serialization id is left out, because PyTorch computes it from all records; so is an embedded companion. For
an exported program, it is the record without its nodes' metadata: :mod:`archive.formats.exported.program`.
For a compiled model, what its loader does not need is left out: :mod:`archive.formats.compiled.spare`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.container.serialization_id import RECORD_NAME
from archive.formats.record_kinds import COMPILED, divided_programs, kind_of
from archive.formats.record_kinds import EXPORTED_FORMAT as FORMAT
from archive.io.mapped import same_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.container.record import Record

ID_WIDTH = 16
ID_TEXT = re.compile(rf"[0-9a-f]{{{2 * ID_WIDTH}}}")
"""An archive id as text; the digests of companions look the same."""
ID_WORDS = f"{2 * ID_WIDTH} hexadecimal digits"
WOULD_CHANGE = "records besides debug info would change; nothing is written"
"""Why an archive isn't written: its model would differ from the one that was read."""


def archive_id(
    records: Mapping[str, Record],
    left: Mapping[str, bytes] | None = None,
) -> bytes:
    """The archive id of some records, 16 bytes.

    Args:
        left: the exported programs without metadata, by the names of their records, where they are known;
            without programs whose whole record counts.
    """
    return digest_of(_pieces(records, left))


def _pieces(records: Mapping[str, Record], left: Mapping[str, bytes] | None) -> Iterator[bytes | memoryview]:
    """All that is digested, in its order."""
    programs = set(divided_programs(records))
    for name in sorted(counted_names(records)):
        program = None
        if name in programs:
            if left is None:
                from archive.formats.exported.program import left_of  # noqa: PLC0415 (few have programs)

                with memory.part():
                    program = left_of(records[name].view())
            else:
                program = left.get(name)
        size, pieces = counted_pieces(records[name], exported=FORMAT in records)
        if program is not None:
            size, pieces = len(program), [program]
        yield name.encode("utf-8", "surrogateescape") + b"\0" + size.to_bytes(8, "little")
        yield from pieces


def digest_of(pieces: Iterable[bytes | memoryview]) -> bytes:
    """The archive id, of all that it depends on."""
    import hashlib  # noqa: PLC0415 (only those who ask for the id pay for it)

    digest = hashlib.blake2b(digest_size=ID_WIDTH)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def has_divided(records: Mapping[str, Record]) -> bool:
    """Whether only a part of some records counts: of exported programs, or of shared objects."""
    return FORMAT in records or bool(divided_programs(records))


def plain_pieces(records: Mapping[str, Record]) -> list[bytes | memoryview]:
    """All that the archive id depends on, of records that count whole; checked and in memory, or mapped."""
    return list(_pieces(records, {}))


def same_counted(records: Mapping[str, Record], others: Mapping[str, Record]) -> bool:
    """Whether two archives, read from files of this machine, have the same id, since the same bytes count.

    False where only a part of some records counts.
    """
    if has_divided(records) or has_divided(others):
        return False
    names = counted_names(records)
    return sorted(names) == sorted(counted_names(others)) and all(
        same_bytes(records[name].view(), others[name].view()) for name in names
    )


def check_same_id(before: bytes, after: bytes, file: str | None = None) -> None:
    """Refuse to write an archive if its archive id would change."""
    if before != after:
        raise ArchiveError(
            WOULD_CHANGE,
            file=file,
            expected=f"archive id {before.hex()}",
            found=after.hex(),
        )


def counted_pieces(record: Record, *, exported: bool) -> tuple[int, Iterable[bytes | memoryview]]:
    """The bytes of a record that the id depends on, unless it is a program: their number, and the pieces."""
    if exported and record.name.startswith(COMPILED):
        from archive.formats.compiled.spare import cut_of  # noqa: PLC0415 (fewer have compiled models)

        parts = cut_of(record)
        if parts is not None:
            return parts.size, [parts.header, parts.rest]
    return record.size, record.pieces()


def counted_names(records: Mapping[str, Record]) -> list[str]:
    """The names of the records that the archive id depends on, in their order."""
    names = [name for name in records if counts(name)]
    if FORMAT not in records or not any(name.startswith(COMPILED) for name in names):
        return names
    from archive.formats.compiled.spare import spare_records  # noqa: PLC0415 (few archives have such models)

    spare = spare_records(records)
    return [name for name in names if name not in spare]


def counts(name: str) -> bool:
    """Whether the archive id depends on the record of a name: see :func:`counted_names`."""
    return not kind_of(name).is_debug and name != RECORD_NAME
