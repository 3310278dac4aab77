"""Files of compiled models without source information, and without weights.

Two builds of one model, and a redacted one, differ in paths, comments and debug sections. What is left of a
file is what is computed by: a shared object as far as it is mapped, without paths of source files and stack
traces; C++ code without comments. Two trainings of one model differ in the weights in its object, which are
apart (:func:`weights_in`).
"""

from __future__ import annotations

from archive.base.errors import ArchiveError, LimitError
from archive.formats.record_kinds import RecordKind

SOURCE_KINDS = {RecordKind.SHARED_OBJECT, RecordKind.CPP}
"""The kinds of records that have source information."""
COPIES = 3
"""Times that a record is in memory."""


def sourceless(data: memoryview, kind: RecordKind) -> bytes:
    """What is left of a file; those of other kinds than :data:`SOURCE_KINDS` stay as they are."""
    from archive.formats.compiled.code import without_comments  # noqa: PLC0415 (few archives have some)
    from archive.formats.elf.cutting import cut  # noqa: PLC0415 (the same)
    from archive.formats.elf.parse import is_elf, parse_object  # noqa: PLC0415 (the same)
    from archive.formats.elf.source_texts import without_source_texts  # noqa: PLC0415 (the same)

    if kind is RecordKind.CPP:
        return without_comments(bytes(data))
    if kind is not RecordKind.SHARED_OBJECT or not is_elf(data):
        return bytes(data)
    from archive.formats.elf.weights import weights_span  # noqa: PLC0415 (the same)

    try:
        parts = cut(data)
        mapped = data if parts is None else memoryview(parts.left)
        left = without_source_texts(mapped, parse_object(mapped))
    except LimitError:
        raise
    except ArchiveError:  # `verify` reports it
        return bytes(data)
    return _blanked(left, weights_span(mapped))


def weights_in(data: memoryview, kind: RecordKind) -> memoryview:
    """The weights in a shared object; none in other files, and where none are found."""
    from archive.formats.elf.weights import weights_span  # noqa: PLC0415 (the same)

    start, end = (kind is RecordKind.SHARED_OBJECT and weights_span(data)) or (0, 0)
    return data[start:end]


def without_weights(data: memoryview, kind: RecordKind) -> memoryview:
    """A file with zeros in the place of its weights."""
    from archive.formats.elf.weights import weights_span  # noqa: PLC0415 (the same)

    span = weights_span(data) if kind is RecordKind.SHARED_OBJECT else None
    return data if span is None else memoryview(_blanked(bytes(data), span))


def _blanked(data: bytes, span: tuple[int, int] | None) -> bytes:
    start, end = span or (0, 0)
    return data[:start] + bytes(end - start) + data[end:]
