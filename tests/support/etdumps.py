"""ETDumps among the fixtures, what ExecuTorch's Inspector says of them, and dumps made by tests.

Reader and writer share no code with the library: they follow and make one offset after the other.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from tests.support.exported import RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from archive.formats.etdump import DumpBlock

DUMPS = sorted(path.stem for path in RECORDS.glob("*.etdp"))
PROFILE_EVENT = "siiisxQQ"
"""The fields of an event: s a string, x a vector, others as ``struct`` has them."""


def dump(name: str) -> Path:
    """The file of an ETDump."""
    return RECORDS / f"{name}.etdp"


def values_of(name: str) -> Path:
    """The file of the values that are noted in it."""
    return RECORDS / f"{name}.etdp.bin"


def inputs_of(name: str) -> Path:
    """The file of the arguments with which it was made."""
    return RECORDS / f"{name}.etdp.pt"


def gaps_of(name: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of the Inspector's ``calculate_numeric_gap``, by the program that it runs."""
    return json.loads((RECORDS / f"{name}.etdp.gaps.json").read_text("utf-8"))  # type: ignore[no-any-return]


def told(name: str) -> dict[str, Any]:
    """What the Inspector says of it."""
    return json.loads((RECORDS / f"{name}.etdp.json").read_text("utf-8"))  # type: ignore[no-any-return]


class Event(NamedTuple):
    """An event with a time, as an ETDump has it."""

    name: str | None
    chain: int
    instruction: int
    start: int
    end: int
    number: int = -1
    text: str | None = None


class Value(NamedTuple):
    """A value that is noted: tensors as dtype, sizes, strides and offset; a list, unless it is one."""

    chain: int
    instruction: int
    tensors: Sequence[tuple[int, Sequence[int], Sequence[int], int]]
    is_output: bool = False
    is_list: bool = False
    number: int = -1
    text: str | None = None


class Block(NamedTuple):
    """A block of events."""

    events: Sequence[Event | Value]
    name: str | None = "Execute"
    input: int = -1


INT32, UINT64 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**64 - 1)
TEXTS = st.none() | st.text(max_size=20)
EVENTS = st.builds(Event, TEXTS, INT32, INT32, UINT64, UINT64, INT32, TEXTS)
INT64 = st.integers(-(2**63), 2**63 - 1)
TENSORS = st.integers(0, 2).flatmap(
    lambda rank: st.tuples(
        st.integers(-128, 127), *[st.lists(INT64, min_size=rank, max_size=rank)] * 2, INT64
    )
)
VALUES = st.one_of(
    [
        st.builds(
            Value,
            INT64,
            INT32,
            st.lists(TENSORS, min_size=least, max_size=most),
            st.booleans(),
            st.just(most > 1),
            INT32,
            TEXTS,
        )
        for least, most in ((1, 1), (0, 2))
    ]
)
BLOCKS = st.lists(st.builds(Block, st.lists(EVENTS | VALUES, max_size=5), TEXTS, INT32), max_size=3)
"""All that a dump with times and tensors may have."""


# --- written


class Table(NamedTuple):
    """A table to be written: for each field its form and value; None where it has none."""

    fields: Sequence[tuple[str, Any] | None]


def built(
    blocks: Sequence[Block], *, size: bool = True, identifier: bytes = b"ED00", version: int = 0
) -> bytes:
    """An ETDump, in which the same block stands once, and so does the same event of a block."""
    tables = {key: _run(block) for key, block in {id(block): block for block in blocks}.items()}
    out = bytearray(4) + identifier
    _put(out, 0, Table([("I", version), ("x", [tables[id(block)] for block in blocks])]))
    return (struct.pack("<I", len(out)) if size else b"") + bytes(out)


def _run(block: Block) -> Table:
    different = {id(event): event for event in block.events}
    tables = {
        key: Table([None, None, ("x", _value(event))] if isinstance(event, Value) else [("x", _event(event))])
        for key, event in different.items()
    }
    events = [tables[id(event)] for event in block.events]
    return Table([("s", block.name), ("i", block.input), None, ("x", events)])


def _event(event: Event) -> Table:
    numbers = (event.chain, event.instruction, event.number)
    values = (event.name, *numbers, event.text, None, event.start, event.end)
    fields = zip(PROFILE_EVENT, values, strict=True)
    return Table([None if value is None else (form, value) for form, value in fields])


def _value(value: Value) -> Table:
    tensors = [
        Table([("b", scalar), ("x", Numbers(sizes)), ("x", Numbers(strides)), ("q", offset)])
        for scalar, sizes, strides, offset in value.tensors
    ]
    output = ("x", Table([("B", 1)])) if value.is_output else None
    one = None if value.is_list else ("x", tensors[0])
    several = ("x", Table([("x", tensors)])) if value.is_list else None
    entry = Table([("b", 6 if value.is_list else 5), one, several, None, None, None, None, output])
    text = None if value.text is None else ("s", value.text)
    return Table([("q", value.chain), ("i", value.instruction), ("x", entry), ("i", value.number), text])


class Numbers(NamedTuple):
    """A vector of int64."""

    numbers: Sequence[int]


def _put(out: bytearray, at: int, value: Table | Numbers | list[Table] | str) -> int:
    """Write a value behind what there is, and its distance at a place; where it begins."""
    inner: list[tuple[int, Any]] = []
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
        start = len(out)
        out += struct.pack("<I", len(data)) + data + b"\0"
    elif isinstance(value, Numbers):
        start = len(out)
        out += struct.pack(f"<I{len(value.numbers)}q", len(value.numbers), *value.numbers)
    elif isinstance(value, list):
        start = len(out)
        out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        inner = [(start + 4 + 4 * number, one) for number, one in enumerate(value)]
    else:
        places, body = [], bytearray(4)
        for field in value.fields:
            places.append(0 if field is None else len(body))
            if field is not None and field[0] in "sx":
                inner.append((len(body), field[1]))
                body += bytes(4)
            elif field is not None:
                body += struct.pack("<" + field[0], field[1])
        vtable = struct.pack(f"<{2 + len(places)}H", 4 + 2 * len(places), len(body), *places)
        start = len(out) + len(vtable)
        body[:4] = struct.pack("<i", len(vtable))
        out += vtable + body
        inner = [(start + place, one) for place, one in inner]
    struct.pack_into("<I", out, at, start - at)
    written: dict[int, int] = {}
    for place, one in inner:
        if id(one) in written:
            struct.pack_into("<I", out, place, written[id(one)] - place)
        elif one is not None:
            written[id(one)] = _put(out, place, one)
    return start


# --- read


def read(data: bytes) -> list[Block]:
    """The blocks of an ETDump that is well formed."""
    start = 0 if data[4:8] == b"ED00" else 4
    return [
        Block([*_events(data, run)], _text(data, _field(data, run, 0)), _number(data, run, 1, "i", -1))
        for run in _elements(data, _field(data, start + _at(data, start, "I"), 1))
    ]


def _events(data: bytes, run: int) -> Iterator[Event | Value]:
    for event in _elements(data, _field(data, run, 3)):
        if place := _field(data, event, 2):
            yield _read_value(data, place + _at(data, place, "I"))
        if place := _field(data, event, 0):
            table = place + _at(data, place, "I")
            yield Event(
                _text(data, _field(data, table, 0)),
                _number(data, table, 1, "i", 0),
                _number(data, table, 2, "i", -1),
                _number(data, table, 6, "Q", 0),
                _number(data, table, 7, "Q", 0),
                _number(data, table, 3, "i", -1),
                _text(data, _field(data, table, 4)),
            )


def _read_value(data: bytes, event: int) -> Value:
    entry = _field(data, event, 2)
    entry += _at(data, entry, "I")
    is_list = _number(data, entry, 0, "b", 0) == 6
    place = _field(data, entry, 2 if is_list else 1)
    inner = place + _at(data, place, "I") if place else 0
    tables = _elements(data, _field(data, inner, 0)) if is_list else [inner] if inner else []
    tensors = [
        (
            _number(data, table, 0, "b", 0),
            _longs(data, _field(data, table, 1)),
            _longs(data, _field(data, table, 2)),
            _number(data, table, 3, "q", 0),
        )
        for table in tables
    ]
    output = _field(data, entry, 7)
    is_output = bool(output and _number(data, output + _at(data, output, "I"), 0, "B", 0))
    return Value(
        _number(data, event, 0, "q", 0),
        _number(data, event, 1, "i", -1),
        tensors,
        is_output,
        is_list,
        _number(data, event, 3, "i", -1),
        _text(data, _field(data, event, 4)),
    )


def _longs(data: bytes, place: int) -> list[int]:
    if not place:
        return []
    place += _at(data, place, "I")
    return list(struct.unpack_from(f"<{_at(data, place, 'I')}q", data, place + 4))


def _at(data: bytes, place: int, form: str) -> int:
    return int(struct.unpack_from("<" + form, data, place)[0])


def _field(data: bytes, table: int, number: int) -> int:
    vtable = table - _at(data, table, "i")
    if 4 + 2 * number + 2 > _at(data, vtable, "H"):
        return 0
    within = _at(data, vtable + 4 + 2 * number, "H")
    return table + within if within else 0


def _number(data: bytes, table: int, number: int, form: str, default: int) -> int:
    place = _field(data, table, number)
    return _at(data, place, form) if place else default


def _text(data: bytes, place: int) -> str | None:
    if not place:
        return None
    place += _at(data, place, "I")
    length = _at(data, place, "I")
    return data[place + 4 : place + 4 + length].decode("utf-8", "backslashreplace")


def _elements(data: bytes, place: int) -> Iterator[int]:
    if place:
        place += _at(data, place, "I")
        for number in range(_at(data, place, "I")):
            element = place + 4 + 4 * number
            yield element + _at(data, element, "I")


Plain = tuple[str, int, list[tuple[object, ...]], list[tuple[object, ...]]]
"""A block: name, input, events and values, as the library gives them."""


def as_read(blocks: Sequence[Block]) -> list[Plain]:
    """Blocks as the library should give them."""
    made = []
    for block in blocks:
        events, values = list[tuple[object, ...]](), list[tuple[object, ...]]()
        for event in block.events:
            if isinstance(event, Value):
                values.append(_value_as_read(event, len(events)))
            else:
                events.append(_as_read(event))
        made.append((block.name or "", block.input, events, values))
    return made


def _value_as_read(value: Value, before: int) -> tuple[object, ...]:
    delegate = str(value.number) if value.number != -1 else value.text or ""
    tensors = tuple(
        (scalar, tuple(sizes), tuple(strides), offset) for scalar, sizes, strides, offset in value.tensors
    )
    return value.chain, value.instruction, delegate, tensors, value.is_output, before


def _as_read(event: Event) -> tuple[object, ...]:
    delegate = str(event.number) if event.number != -1 else event.text or ""
    return event.name or "", event.chain, event.instruction, delegate, event.start, event.end


def plain(blocks: Sequence[DumpBlock]) -> list[Plain]:
    """Blocks as the library gives them."""
    return [
        (block.name, block.input, [tuple(event) for event in block.events], [*map(tuple, block.values)])
        for block in blocks
    ]
