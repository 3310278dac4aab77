r"""Protobuf: a message is a construct whose fields are found by number.

    >>> from archive.formats.schema.binary import build, parse
    >>> PLACE = Message("Place", "line" / Numbered(1, INT64) * "from 1", "names" / Repeated(2, STRING))
    >>> build(PLACE, {"line": 7, "names": ["a", "b"]})
    b'\x08\x07\x12\x01a\x12\x01b'
    >>> parse(PLACE, b"\x08\x07\x12\x01a\x12\x01b")
    Container(line=7, names=ListContainer(['a', 'b']))

A message is its concatenated fields, in any order. A field begins with its *tag*, an integer in variable
form: ``number << 3 | wire type``.

==========  ==============================================
wire type   the field's value
==========  ==============================================
0           an integer in variable form: 7 bits a byte, lowest first; all but the last have the top bit set
1           8 bytes
2           a length in variable form, and as many bytes: a text, a message, packed numbers
5           4 bytes
==========  ==============================================

Groups (3 and 4) are refused: no format read here has them. Repeated numbers may be packed or a field each,
whatever the format says; when built, they are packed. Fields that aren't declared are skipped.

Small messages are parsed whole. A file that is one message is walked (:class:`MessageReader`), which creates
nothing for what nobody reads.

Source: "Encoding" in Protocol Buffers' documentation.
"""

from __future__ import annotations

from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from construct import (
    Construct,
    Container,
    ExplicitError,
    Float32l,
    Float64l,
    IntegerError,
    LazyBound,
    ListContainer,
    Renamed,
    Subconstruct,
    stream_read,
    stream_write,
)

from archive.base.errors import ArchiveError
from archive.base.strings import decoded
from archive.formats.schema.varints import MORE, MOST_BYTES, build_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.io.ranged import Bytes

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
FIXED = {FIXED64: 8, FIXED32: 4}
MOST_FIELDS = 1 << 24
"""Most fields of a file that are read. The largest real model seen has less than a million."""
DEPTH = 100
"""Most messages inside one another; protobuf's own readers go no further."""
CHUNK = 4096
"""Bytes of a remote file that are read together."""


# --- types of values


class Varint(Construct):  # type: ignore[misc]  # it has no types
    """An integer in variable form, of 64 bits.

    Args:
        signed: whether its highest bit is a sign.
    """

    wire = VARINT

    def __init__(self, *, signed: bool) -> None:
        super().__init__()
        self.signed = signed

    def _parse(self, stream: Any, context: Container, path: str) -> int:  # noqa: ANN401, ARG002 (construct's own protocol)
        value = 0
        for place in range(MOST_BYTES):
            (byte,) = stream_read(stream, 1, path)
            value |= (byte & ~MORE) << 7 * place
            if byte < MORE:
                return signed(value) if self.signed else value
        raise IntegerError(f"an integer in variable form has more than {MOST_BYTES} bytes", path=path)

    def _build(self, value: int, stream: Any, context: Container, path: str) -> int:  # noqa: ANN401, ARG002 (the same)
        data = build_varint(value & (1 << 64) - 1)
        stream_write(stream, data, len(data), path)
        return value


class String(Construct):  # type: ignore[misc]  # it has no types
    """All remaining bytes, as a text in UTF-8; other bytes are shown escaped."""

    wire = LENGTH

    def _parse(self, stream: Any, context: Container, path: str) -> str:  # noqa: ANN401, ARG002 (the same)
        return decoded(stream.read())

    def _build(self, text: str, stream: Any, context: Container, path: str) -> str:  # noqa: ANN401, ARG002 (the same)
        data = text.encode()
        stream_write(stream, data, len(data), path)
        return text


class _Plain(Construct):  # type: ignore[misc]  # it has no types
    """All remaining bytes.

    Args:
        is_text: whether a format's documents call them a text, though they may be any bytes.
    """

    wire = LENGTH

    def __init__(self, *, is_text: bool) -> None:
        super().__init__()
        self.is_text = is_text

    def _parse(self, stream: Any, context: Container, path: str) -> bytes:  # noqa: ANN401, ARG002 (the same)
        data: bytes = stream.read()
        return data

    def _build(self, data: bytes, stream: Any, context: Container, path: str) -> bytes:  # noqa: ANN401, ARG002 (the same)
        stream_write(stream, data, len(data), path)
        return data


class _Fixed(Subconstruct):  # type: ignore[misc]  # it has no types
    """A number of 4 or 8 bytes."""

    def __init__(self, number: Construct) -> None:
        super().__init__(number)
        self.wire = FIXED32 if number.sizeof() == FIXED[FIXED32] else FIXED64


INT64, UINT64 = Varint(signed=True), Varint(signed=False)
INT32 = ENUM = INT64
"""Protobuf writes a negative one with 64 bits."""
FLOAT, DOUBLE = _Fixed(Float32l), _Fixed(Float64l)
STRING = String()
BYTES_OF_TEXT, BYTES = _Plain(is_text=True), _Plain(is_text=False)
"""``bytes``: a text according to the format's documents, or not."""
ANY = {VARINT: UINT64, FIXED64: DOUBLE, LENGTH: BYTES, FIXED32: FLOAT}
"""How the value of an unknown field is skipped."""


# --- messages


class Numbered(Subconstruct):  # type: ignore[misc]  # it has no types
    """The value of a field of a message: the last one, if there are several.

    Args:
        number: of the field.
        value: its type: one of those above, a :class:`Message`, or a ``LazyBound`` for one that is declared
            later.
    """

    repeated = False

    def __init__(self, number: int, value: Construct) -> None:
        super().__init__(value)
        self.number = number

    @cached_property
    def value(self) -> Construct:
        """The type of its value."""
        return self.subcon.subconfunc() if isinstance(self.subcon, LazyBound) else self.subcon


class Repeated(Numbered):
    """The values of a field that may occur several times."""

    repeated = True


class Message(Construct):  # type: ignore[misc]  # it has no types
    """A message: all remaining bytes are its fields.

    Parsed, it is a container of all declared fields: None for a missing one, a list for one that may be
    repeated.

    Args:
        name: of the message.
        fields: its fields: ``"name" / Numbered(3, STRING) * "of the node"``.
    """

    wire = LENGTH

    def __init__(self, name: str, *fields: Renamed) -> None:
        super().__init__()
        self.name = name
        self.docs_of = {field.name: field.docs for field in fields}
        """What the declaration says of each field."""
        self.fields: dict[int, tuple[str, Numbered]] = {}
        """Name and declaration of each field, by number."""
        for field in fields:
            numbered = field
            while isinstance(numbered, Renamed):
                numbered = numbered.subcon
            self.fields[numbered.number] = field.name, numbered

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of each field, by number."""
        return {number: name for number, (name, _) in self.fields.items()}

    @cached_property
    def messages(self) -> dict[int, Message]:
        """The message of each field that is one, by number."""
        values = ((number, field.value) for number, (_, field) in self.fields.items())
        return {number: value for number, value in values if isinstance(value, Message)}

    @cached_property
    def elements(self) -> frozenset[int]:
        """The numbers of fields whose bytes are packed numbers, or bytes that aren't text."""
        return frozenset(
            number
            for number, (_, field) in self.fields.items()
            if field.value is BYTES or (field.repeated and field.value.wire != LENGTH)
        )

    def _parse(self, stream: Any, context: Container, path: str) -> Container:  # noqa: ANN401 (any stream)
        inner = Container(_=context, _params=context._params, _depth=context.get("_depth", 0) + 1)  # noqa: SLF001 (construct's own protocol)
        if inner["_depth"] > DEPTH:
            raise ExplicitError(f"more than {DEPTH} messages inside each other", path=path)
        found = Container(
            {name: ListContainer() if field.repeated else None for name, field in self.fields.values()}
        )
        while first := stream.read(1):
            tag = first[0]
            if tag >= MORE:
                tag = tag & ~MORE | UINT64._parse(stream, inner, path) << 7  # noqa: SLF001 (the same)
            number, wire = tag >> 3, tag & 7
            if not number or wire not in {VARINT, LENGTH, *FIXED}:
                raise ExplicitError(f"field {number} of wire type {wire}", path=path)
            name, field = self.fields.get(number, ("", None))
            place = f"{path} -> {name}" if name else path
            values = list(_values(field, wire, stream, inner, place))
            if field is not None and field.repeated:
                found[name] += values
            elif field is not None:
                found[name] = values[0]
        return found

    def _build(
        self,
        value: Mapping[str, Any],
        stream: Any,  # noqa: ANN401 (any stream)
        context: Container,
        path: str,
    ) -> Mapping[str, Any]:
        for number, (name, field) in self.fields.items():
            given = value.get(name)
            place = f"{path} -> {name}"
            values = given if field.repeated else [given]
            if given is None or not values:
                continue
            is_packed = field.repeated and field.value.wire != LENGTH
            built = [_built(field.value, one, context, place) for one in values]
            for data in [b"".join(built)] if is_packed else built:
                wire = LENGTH if is_packed else field.value.wire
                UINT64._build(number << 3 | wire, stream, context, place)  # noqa: SLF001 (construct's own protocol)
                if wire == LENGTH:
                    UINT64._build(len(data), stream, context, place)  # noqa: SLF001 (the same)
                stream_write(stream, data, len(data), place)
        return value


def _built(kind: Construct, value: object, context: Container, path: str) -> bytes:
    stream = BytesIO()
    kind._build(value, stream, context, path)  # noqa: SLF001 (construct's own protocol)
    return stream.getvalue()


def _values(
    field: Numbered | None,
    wire: int,
    stream: Any,  # noqa: ANN401 (any stream)
    context: Container,
    path: str,
) -> Iterator[Any]:
    """The values of the field that follows a tag: several, if they are packed; any, for an unknown field."""
    kind: Construct = field.value if field is not None else ANY[wire]
    is_packed = wire == LENGTH != kind.wire and field is not None and field.repeated
    if kind.wire != wire and not is_packed:
        raise ExplicitError(f"a value of wire type {kind.wire} as a field of wire type {wire}", path=path)
    if wire != LENGTH:
        yield kind._parse(stream, context, path)  # noqa: SLF001 (construct's own protocol)
        return
    size = UINT64._parse(stream, context, path)  # noqa: SLF001 (the same)
    inner = BytesIO(stream_read(stream, size, path))
    while is_packed and inner.tell() < size:
        yield kind._parse(inner, context, path)  # noqa: SLF001 (the same)
    if not is_packed:
        yield kind._parse(inner, context, path)  # noqa: SLF001 (the same)


# --- files that are one message


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        wire: its wire type.
        value: the value of an integer; else 0.
        start: the first byte of its value, after tag and length.
        stop: the byte after its value.
        name: its declared name; "" if it has none.
    """

    number: int
    wire: int
    value: int
    start: int
    stop: int
    name: str


class MessageReader:
    """The fields of a file that is one message.

    Args:
        data: the file. Of a remote one, only the blocks where a field begins are fetched.
    """

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._buffer = data if isinstance(data, memoryview) else memoryview(b"")
        self._base = 0
        self._left = MOST_FIELDS

    def fields(self, message: Message, start: int, stop: int) -> Iterator[Field]:
        """The fields of a message between two bytes."""
        names, at = message.names, start
        while at < stop:
            self._left -= 1
            if self._left < 0:
                raise ArchiveError(expected=f"at most {MOST_FIELDS:,} fields", found="more")
            begin = at
            tag, at = self._integer(at, stop)
            number, wire, value = tag >> 3, tag & 7, 0
            first = at
            if wire == LENGTH:
                length, first = self._integer(at, stop)
                at = first + length
            elif wire == VARINT:
                value, at = self._integer(at, stop)
            elif wire in FIXED:
                at += FIXED[wire]
            else:
                number = 0
            if not number:
                found = f"field {tag >> 3}, wire type {wire}"
                raise ArchiveError(place=f"byte {begin:,}", expected="a field of protobuf", found=found)
            if at > stop:
                found = f"{stop - first:,} bytes"
                raise ArchiveError(
                    place=f"byte {begin:,}", expected=f"a field of {at - first:,}", found=found
                )
            yield Field(number, wire, value, first, at, names.get(number, ""))

    def data(self, field: Field) -> memoryview:
        """The bytes of a field's value."""
        return self._data[field.start : field.stop]

    def integers(self, start: int, stop: int) -> Iterator[int]:
        """Consecutive integers in variable form."""
        at = start
        while at < stop:
            value, at = self._integer(at, stop)
            yield value

    def _integer(self, at: int, stop: int) -> tuple[int, int]:
        """An integer in variable form, and the position after it."""
        place = at - self._base
        if 0 <= place < len(self._buffer) and at < stop and (byte := self._buffer[place]) < MORE:
            return byte, at + 1
        if not 0 <= place <= len(self._buffer) - MOST_BYTES and not isinstance(self._data, memoryview):
            self._buffer, self._base, place = self._data[at : at + CHUNK], at, 0
        value = shift = 0
        for byte in self._buffer[place : min(place + MOST_BYTES, place + stop - at)]:
            value |= (byte & ~MORE) << shift
            shift += 7
            if byte < MORE:
                return value, at + shift // 7
        raise ArchiveError(place=f"byte {at:,}", expected="an integer in variable form", found="none")


def signed(value: int) -> int:
    """An integer of 64 bits as one with a sign: its highest bit."""
    value &= (1 << 64) - 1
    return value - (value >> 63 << 64)
