"""Where the texts of an ONNX model lie.

After a text comes the tag of the next field, whose bytes may be letters: a reader of texts has to know where
each ends. Texts are all fields with a length that are neither messages nor numbers, known or not: names, doc
strings, where exporters write call stacks, keys and values, elements of tensors of texts.
``onnx_messages`` declares which fields are messages or packed numbers; elements in ``raw_data`` aren't texts
either.

Names of values and nodes are ids: exporters make them of the names of modules, separated by slashes, as in
``/encoder/0/conv/Conv_output_0``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import memory
from archive.formats.schema.protobuf import LENGTH, MessageReader
from archive.formats.tensor_files.described import PLACE_BYTES, TextPlace
from archive.formats.tensor_files.onnx_messages import (
    ENTRY,
    FUNCTION,
    MODEL,
    NODE,
    SHARDING_SPEC,
    TENSOR,
    TENSOR_ANNOTATION,
    VALUE_INFO,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


IDS = {
    (NODE.name, "input"),
    (NODE.name, "output"),
    (NODE.name, "name"),
    (VALUE_INFO.name, "name"),
    (TENSOR.name, "name"),
    (TENSOR_ANNOTATION.name, "tensor_name"),
    (SHARDING_SPEC.name, "tensor_name"),
    (FUNCTION.name, "input"),
    (FUNCTION.name, "output"),
}
"""Fields that name a value or a node, each with its message."""


def places_of_texts(data: memoryview) -> list[TextPlace]:
    """The places of all texts in an ONNX model, in the file's order."""
    return sorted(_texts(MessageReader(data), len(data)))


def _texts(reader: MessageReader, size: int) -> Iterator[TextPlace]:
    waiting = [(MODEL, 0, size)]
    while waiting:
        message, start, stop = waiting.pop()
        messages, elements = message.messages, message.elements
        for field in reader.fields(message, start, stop):
            if field.wire != LENGTH or field.number in elements:
                continue
            memory.take(PLACE_BYTES, "places of texts")
            if field.number in messages:
                waiting.append((messages[field.number], field.start, field.stop))
            else:
                is_value = message is ENTRY and field.name == "value"
                is_id = (message.name, field.name) in IDS
                yield TextPlace(field.start, field.stop, is_value, is_id)
