"""ONNX's messages as declared: models parse whole, with the tensors and texts that readers find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from archive.formats.schema.binary import build, parse
from archive.formats.schema.protobuf import BYTES_OF_TEXT, STRING, Message
from archive.formats.tensor_files import onnx_messages
from archive.formats.tensor_files.onnx import DATA_FIELDS, INSIDE, ONCE
from archive.formats.tensor_files.onnx_messages import ATTRIBUTE, MODEL, TENSOR
from archive.privacy.pieces.onnx_texts import places_of_texts
from tests.support.corpus import FIXTURES
from tests.support.slow_tensor_files import slow_onnx

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MODELS = sorted(FIXTURES.glob("*/*.onnx"))


def texts_of(message: Message, value: Mapping[str, Any]) -> Iterator[bytes]:
    """All texts of a parsed message."""
    for name, field in message.fields.values():
        given = value[name] if field.repeated else [value[name]]
        for one in given:
            if isinstance(field.value, Message) and one is not None:
                yield from texts_of(field.value, one)
            elif field.value in {STRING, BYTES_OF_TEXT} and one is not None:
                yield one.encode() if isinstance(one, str) else one


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_parse_to_the_tensors_and_texts_that_readers_find_and_build_the_same_again(path: Path) -> None:
    data = path.read_bytes()
    model = parse(MODEL, data)
    by_name = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, (shape, elements) in slow_onnx(data).items():
        assert tuple(by_name[name].dims) == shape
        if by_name[name].raw_data is not None:
            assert by_name[name].raw_data == elements
    texts = [data[place.start : place.stop] for place in places_of_texts(memoryview(data))]
    assert sorted(texts) == sorted(texts_of(MODEL, model))
    assert parse(MODEL, build(MODEL, model)) == model


def test_fields_that_readers_look_for_are_declared() -> None:
    assert set(DATA_FIELDS) <= set(TENSOR.names.values())
    assert set(INSIDE) <= set(ATTRIBUTE.names.values())
    assert set(ONCE) <= set(MODEL.names.values())


def test_names_and_numbers_of_fields_are_there_once() -> None:
    messages = [one for one in vars(onnx_messages).values() if isinstance(one, Message)]
    assert len({message.name for message in messages}) == len(messages)
    for message in messages:
        assert len(set(message.names.values())) == len(message.names) == len(message.docs_of)
