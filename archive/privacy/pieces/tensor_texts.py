"""The texts of a file of tensors that isn't a zip, put together: each with its end, at its place in the file.

A key and its text, if that is one line, are ``KEY="VALUE"``, so that they are read as an entry. Bytes that
belong to no record, padding and those after the last tensor, are read as well.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from archive.formats.record_kinds import WEIGHT_KINDS, RecordKind
from archive.formats.tensor_files.described import TextPlace, header_around
from archive.formats.tensor_files.safetensors import LENGTH
from archive.privacy.pieces.piece import ShiftedPlaces
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.reader.tensor_files import ModelFile

END, BETWEEN, AFTER_VALUE = b"\0", b'="', b'"\0'
"""What stands after a text; between a key and its value; after a value."""

LONGEST_VALUE = 500
"""Bytes of a value that is read as a part of an entry."""


class RecordTexts(NamedTuple):
    """The texts of a record.

    Attributes:
        record: its name; "" for bytes that belong to no record.
        kind: of the record.
        places: of the texts, ascending.
        are_ids: whether they name parts of the model.
    """

    record: str
    kind: RecordKind
    places: Sequence[TextPlace]
    are_ids: bool = False


def texts_of(file: ModelFile) -> Iterator[RecordTexts]:
    """The texts of a file, by record."""
    kind = file.recognised.kind
    if kind is FileKind.GGUF:
        from archive.formats.tensor_files.gguf import PAIRS, TABLE, places_of_texts  # noqa: PLC0415 (only for this kind)

        texts, table = places_of_texts(file.data), file.own[TABLE].spans[0][0]
        names = bisect_left(texts, TextPlace(table, table))
        yield RecordTexts(PAIRS, RecordKind.VALUES, texts[:names])
        yield RecordTexts(TABLE, RecordKind.HEADER, texts[names:])
    elif kind is FileKind.ONNX:
        from archive.formats.tensor_files.onnx import GRAPH_RECORD  # noqa: PLC0415 (the same)
        from archive.privacy.pieces.onnx_texts import places_of_texts  # noqa: PLC0415 (the same)

        found = places_of_texts(file.data)
        ids = [text for text in found if text.is_id]
        yield RecordTexts(GRAPH_RECORD, RecordKind.GRAPH, [text for text in found if not text.is_id])
        yield RecordTexts(GRAPH_RECORD, RecordKind.GRAPH, ids, are_ids=True)
    else:
        for name, record in file.records.items():
            kind_of_record = file.kinds[name]
            if kind_of_record in WEIGHT_KINDS:
                continue
            if kind_of_record is RecordKind.OBJECT and file.sources:
                kind_of_record = RecordKind.MODULES  # with the source of its classes
            first = LENGTH.size if kind is FileKind.SAFETENSORS else 0  # JSON begins after its length
            places = [TextPlace(max(start, first), stop) for start, stop in record.spans]
            yield RecordTexts(name, kind_of_record, places)
    inside = (span for record in file.own.values() for span in record.spans)
    around = header_around(len(file.data), inside)
    yield RecordTexts("", RecordKind.OTHER, [TextPlace(start, stop) for start, stop in around])


class JoinedTexts(NamedTuple):
    """Consecutive texts.

    Attributes:
        data: their bytes; not copied if there is only one.
        place: the byte of the file that a position in them stands for.
    """

    data: memoryview
    place: ShiftedPlaces


def joined_texts(data: memoryview, places: Sequence[TextPlace]) -> JoinedTexts:
    """Put the texts of a file together.

    Args:
        data: the file.
        places: of texts; one at least.
    """
    if len(places) == 1:
        return JoinedTexts(data[places[0].start : places[0].stop], ShiftedPlaces([0], [places[0].start]))
    pieces: list[bytes | memoryview] = []
    at, length = [], 0
    entries = [text.is_value and _is_line(data[text.start : text.stop]) for text in places]
    for text, is_value, is_key in zip(places, entries, [*entries[1:], False], strict=True):
        end = BETWEEN if is_key else AFTER_VALUE if is_value else END
        pieces += [data[text.start : text.stop], end]
        at.append(length)
        length += text.stop - text.start + len(end)
    return JoinedTexts(memoryview(b"".join(pieces)), ShiftedPlaces(at, [text.start for text in places]))


def _is_line(value: memoryview) -> bool:
    """Whether a value may be a part of an entry."""
    return len(value) <= LONGEST_VALUE and b"\n" not in bytes(value)
