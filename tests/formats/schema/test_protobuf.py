"""Messages of protobuf: what is built is parsed as it was, walked as it was, and cut anywhere refused."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any

import pytest
from construct import LazyBound
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.formats.schema.binary import build, parse
from archive.formats.schema.protobuf import (
    BYTES,
    BYTES_OF_TEXT,
    DEPTH,
    DOUBLE,
    FLOAT,
    INT64,
    LENGTH,
    STRING,
    UINT64,
    Message,
    MessageReader,
    Numbered,
    Repeated,
)
from archive.io.ranged import RangedBytes
from tests.support.protobuf import field, varint
from tests.support.sampling import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES = {
    INT64: st.integers(-(1 << 63), (1 << 63) - 1),
    UINT64: st.integers(0, (1 << 64) - 1),
    FLOAT: st.floats(width=32).filter(isfinite),
    DOUBLE: st.floats().filter(isfinite),
    STRING: st.text(max_size=5),
    BYTES_OF_TEXT: st.binary(max_size=5),
    BYTES: st.binary(max_size=5),
}
TREE: Message = Message(
    "Tree",
    *(f"one_{number}" / Numbered(number, kind) for number, kind in enumerate(TYPES, 1)),
    *(f"many_{number}" / Repeated(20 * number, kind) * "some" for number, kind in enumerate(TYPES, 1)),
    "inner" / Numbered(300, LazyBound(lambda: TREE)) * "one more",
    "branches" / Repeated(400, LazyBound(lambda: TREE)),
)


VALUES = {
    **{f"many_{number}": st.lists(kind, max_size=2) for number, kind in enumerate(TYPES.values(), 1)},
    **{f"one_{number}": st.none() | kind for number, kind in enumerate(TYPES.values(), 1)},
}
LEAVES = st.fixed_dictionaries({**VALUES, "inner": st.none(), "branches": st.builds(list)})
TREES = st.fixed_dictionaries({**VALUES, "inner": LEAVES, "branches": st.lists(LEAVES, max_size=1)})


@settings(max_examples=examples(60), deadline=None)
@given(TREES)
def test_what_is_built_is_parsed_and_cut_anywhere_refused_or_shorter(value: dict[str, Any]) -> None:
    data = build(TREE, value)
    assert parse(TREE, data) == value
    for size in range(0, len(data), 3):
        with suppress(ArchiveError):
            assert parse(TREE, data[:size]) != value


def walked(reader: MessageReader, data: bytes, message: Message, start: int, stop: int) -> Mapping[str, Any]:
    """A message as the walker sees it: numbers as they are on the wire."""
    found: dict[str, Any] = {}
    for one in reader.fields(message, start, stop):
        inner = message.messages.get(one.number)
        value: object = one.value
        if inner is not None:
            value = walked(reader, data, inner, one.start, one.stop)
        elif one.wire == LENGTH:
            value = bytes(reader.data(one))
        found.setdefault(one.name, []).append(value)
    return found


@settings(max_examples=examples(60), deadline=None)
@given(TREES)
def test_the_walker_finds_the_fields_that_are_parsed_in_memory_and_by_ranges(value: dict[str, Any]) -> None:
    data = build(TREE, value)
    here = walked(MessageReader(memoryview(data)), data, TREE, 0, len(data))
    remote = RangedBytes(lambda start, stop: data[start:stop], len(data), block=16)
    assert walked(MessageReader(remote), data, TREE, 0, len(data)) == here
    assert here.keys() == {name for name, part in value.items() if part not in (None, [])}
    assert [text.decode() for text in here.get("many_5", [])] == value["many_5"]
    assert [tree.keys() for tree in here.get("branches", [])] == [
        {name for name, part in tree.items() if part not in (None, [])} for tree in value["branches"]
    ]


def test_unknown_fields_are_passed_over_and_the_last_of_several_counts() -> None:
    known = Message("Known", "name" / Numbered(3, STRING), "sizes" / Repeated(4, INT64))
    data = field(3, "a") + field(99, 7) + field(98, "x") + b"\x0d\0\0\0\0" + b"\x09" + bytes(8)
    data += field(4, 5) + field(4, varint(-1) + varint(6)) + field(3, "b")
    assert parse(known, data) == {"name": "b", "sizes": [5, -1, 6]}


def deep(depth: int) -> bytes:
    """Messages inside of messages."""
    data = b""
    for _ in range(depth):
        data = field(300, data)
    return data


REFUSED = {
    "a group": (b"\x0b", "byte 1: field 1 of wire type 3"),
    "the number 0": (b"\x00\x00", "byte 1: field 0 of wire type 0"),
    "an integer without end": (b"\x08" + b"\xff" * 11, "byte 11, field one_1: an integer in variable form"),
    "a number that is a text": (
        field(1, "a"),
        "field one_1: a value of wire type 0 as a field of wire type 2",
    ),
    "a text that is a number": (field(5, 1), "field one_5: a value of wire type 2 as a field of wire type 0"),
    "more bytes than there are": (b"\x2a\xff\xff\xff\xff\x0f" + b"a", "field one_5: expected more bytes"),
    "more bytes than any file has": (b"\x2a" + b"\xff" * 9 + b"\1", "field one_5: expected more bytes"),
    "a text cut short in two messages": (
        field(300, field(400, b"\x2a\2a")),
        "field inner, field branches, field one_5: expected more bytes",
    ),
    "packed numbers cut short": (field(60, bytes(5)), "field many_3: expected more bytes"),
    "messages inside of messages": (deep(DEPTH), f"more than {DEPTH} messages inside each other"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_message_is_refused_with_the_field(name: str) -> None:
    data, problem = REFUSED[name]
    with pytest.raises(ArchiveError) as caught:
        parse(TREE, data)
    assert problem in str(caught.value)


def test_messages_as_deep_as_allowed_are_parsed() -> None:
    assert parse(TREE, deep(DEPTH - 1)).inner is not None
