"""Files of compiled models without what they tell of their source.

Two builds of one model, and a redacted one, differ in paths, comments and debug sections. What is left of a
file is what is computed by: a shared object as far as it is mapped, without paths of source files and stack
traces; C++ code without comments.
"""

from __future__ import annotations

from archive.base.errors import ArchiveError
from archive.formats.record_kinds import RecordKind

KINDS = {RecordKind.SHARED_OBJECT, RecordKind.CPP}
"""The kinds of records that tell of their source."""
COPIES = 3
"""Times that a record is in memory."""


def sourceless(data: memoryview, kind: RecordKind) -> bytes:
    """What is left of a file.

    Args:
        data: the file.
        kind: of its record; others than :data:`KINDS` stay as they are.
    """
    from archive.formats.compiled.code import without_comments  # noqa: PLC0415 (few archives have some)
    from archive.formats.elf.cutting import cut  # noqa: PLC0415 (the same)
    from archive.formats.elf.parse import is_elf, parse_object  # noqa: PLC0415 (the same)
    from archive.formats.elf.source_texts import without_source_texts  # noqa: PLC0415 (the same)

    if kind is RecordKind.CPP:
        return without_comments(bytes(data))
    if kind is not RecordKind.SHARED_OBJECT or not is_elf(data):
        return bytes(data)
    try:
        parts = cut(data)
        mapped = data if parts is None else memoryview(parts.left)
        return without_source_texts(mapped, parse_object(mapped))
    except ArchiveError:  # `verify` tells
        return bytes(data)
