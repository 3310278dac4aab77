"""Where the texts of an ONNX model lie.

Behind a text stands the tag of the next field, whose bytes may be letters: who reads texts has to know where
each of them ends. Texts are all fields of a length that are neither messages nor numbers, known or not:
names, doc strings, where exporters write stacks of calls, keys and values, elements of tensors of texts.
``MESSAGES`` declares in which fields other messages are. Elements in ``raw_data`` and packed numbers are no
texts.

Source: ``onnx/onnx.proto`` of onnx 1.23 (IR version 14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.formats.tensor_files.gguf import TextPlace
from archive.formats.tensor_files.protobuf import LENGTH, Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.base.limits import Allowance

PLACE_BYTES = 200
"""Bytes of memory that the place of a text costs."""


class Kind(NamedTuple):
    """A kind of messages.

    Attributes:
        inner: the kind of message in a field, by the field's number.
        numbers: fields of packed numbers and of elements.
    """

    inner: Mapping[int, str]
    numbers: frozenset[int] = frozenset()


ENTRY = "entry"
MESSAGES = {
    "model": Kind({7: "graph", 8: "opset", 14: ENTRY, 20: "training", 25: "function"}),
    "graph": Kind(
        {
            1: "node",
            5: "tensor",
            14: "annotation",
            15: "sparse tensor",
            16: ENTRY,
            **dict.fromkeys((11, 12, 13), "value"),
        }
    ),
    "node": Kind({5: "attribute", 9: ENTRY}),
    "attribute": Kind(
        {
            5: "tensor",
            6: "graph",
            10: "tensor",
            11: "graph",
            14: "type",
            15: "type",
            22: "sparse tensor",
            23: "sparse tensor",
        },
        frozenset({7, 8}),
    ),
    "tensor": Kind({13: ENTRY, 16: ENTRY}, frozenset({1, 3, 4, 5, 7, 9, 10, 11})),
    "sparse tensor": Kind({1: "tensor", 2: "tensor"}, frozenset({3})),
    "value": Kind({2: "type", 4: ENTRY}),
    "type": Kind({1: "tensor type", 8: "tensor type", 4: "item", 9: "item", 5: "map"}),
    "tensor type": Kind({2: "shape"}),
    "shape": Kind({1: "dimension"}),
    "dimension": Kind({}),
    "item": Kind({1: "type"}),
    "map": Kind({2: "type"}),
    "annotation": Kind({2: ENTRY}),
    "training": Kind({1: "graph", 2: "graph", 3: ENTRY, 4: ENTRY}),
    "function": Kind({7: "node", 9: "opset", 11: "attribute", 12: "value", 14: ENTRY}),
    "opset": Kind({}),
    ENTRY: Kind({}),
}
"""The messages of ONNX that have texts or others in them, by their names here."""
VALUE = 2
"""The field of an entry that is its value."""


def places_of_texts(data: memoryview, allowance: Allowance) -> list[TextPlace]:
    """The places of all texts in an ONNX model, in the file's order.

    Raises:
        ArchiveError: the bytes are no messages.
        LimitError: there are more texts than allowed.
    """
    return sorted(_texts(Message(data), len(data), allowance))


def _texts(message: Message, size: int, allowance: Allowance) -> Iterator[TextPlace]:
    waiting = [("model", 0, size)]
    while waiting:
        name, start, stop = waiting.pop()
        kind = MESSAGES[name]
        for field in message.fields(start, stop):
            if field.wire != LENGTH or field.number in kind.numbers:
                continue
            allowance.take(PLACE_BYTES, "places of texts")
            if field.number in kind.inner:
                waiting.append((kind.inner[field.number], field.start, field.stop))
            else:
                is_value = name == ENTRY and field.number == VALUE
                yield TextPlace(field.start, field.stop, is_value)
