"""Where the texts of an ONNX model lie.

Behind a text stands the tag of the next field, whose bytes may be letters: who reads texts has to know where
each of them ends. Texts are all fields of a length that are neither messages nor numbers, known or not:
names, doc strings, where exporters write stacks of calls, keys and values, elements of tensors of texts.
``onnx_messages`` declares in which fields other messages are. Elements in ``raw_data`` and packed numbers are
no texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.tensor_files.described import PLACE_BYTES, TextPlace
from archive.formats.tensor_files.onnx_messages import ENTRY, MESSAGES, Entry
from archive.formats.tensor_files.protobuf import LENGTH, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Allowance


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
                is_value = name == ENTRY and field.number == Entry.VALUE
                yield TextPlace(field.start, field.stop, is_value)
