"""Texts that stand after their lengths: MessagePack, CBOR, marshal and Protobuf.

A length, or a tag, may be a byte that is a letter: `0` before 48 bytes, `r` before 18 in CBOR. Then a text
seems to begin too early, or to go on. So bytes that are entirely of such a form are read by it, and the bytes
between the texts are cut out. Nothing else is left out: numbers and bytes stay as they are.

A form counts only if it reads the bytes to their end. MessagePack, CBOR and marshal begin with a map or list,
as single numbers may be any bytes. In Protobuf, what has a length is a message or a text: a message if it can
be read as one, has a text, and isn't a text itself or begins with a newline. Code objects in marshal are not
read.

Sources: the MessagePack specification; RFC 8949, section 3; CPython 3.8 to 3.14, ``Python/marshal.c``;
protobuf.dev, "Encoding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SHORTEST = 6
"""Bytes of the shortest text that is cut out."""
MOST_ITEMS = 1 << 20
"""Items that are read; bytes with more are read as those of any other form."""
DEEPEST = 64
"""Nested lists and messages."""
CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r"})


class Framed(NamedTuple):
    """Where the texts of some bytes are.

    Attributes:
        texts: for each the first byte of its head, its own first byte, and the one after its last.
        entries: names and texts of maps, each by its first byte and the one after its last.
    """

    texts: list[tuple[int, int, int]]
    entries: list[tuple[tuple[int, int], tuple[int, int]]]


class Item(NamedTuple):
    """What stands at a place.

    Attributes:
        begin: the first byte of its content.
        end: the byte after it; for a map or list, after its head.
        inner: items that it has; -1 for all up to a mark, ``None`` if it has none.
        is_map: whether those are names and values.
        is_text: whether its content is text.
        is_mark: whether it ends what has no count.
        is_noted: whether it may be referred to again.
        asks: the noted item that it refers to.
    """

    begin: int
    end: int
    inner: int | None = None
    is_map: bool = False
    is_text: bool = False
    is_mark: bool = False
    is_noted: bool = False
    asks: int | None = None


def framed(data: bytes) -> Framed | None:
    """Where the texts are of bytes of such a form; None for others."""
    with memory.lent(
        2 * len(data) + 13 * memory.NUMBER * min(len(data) // SHORTEST, MOST_ITEMS), "places of texts"
    ):
        if len(data) < SHORTEST:
            return None
        if is_text(data):
            return _of_protobuf(data) if data[0] == FIRST_TAG else None
        for first, read in FORMS:
            if data[0] in first:
                found = _of_items(data, read)
                if found is not None and found.texts:
                    return found
        return _of_protobuf(data)


def without_heads(data: bytes, found: Framed) -> bytes:
    """Bytes with NUL in place of what stands before texts, and of the byte after each."""
    text = bytearray(data)
    for head, begin, end in found.texts:
        text[head:begin] = bytes(begin - head)
        text[end : end + 1] = bytes(end < len(data))
    return bytes(text)


# --- forms of items, of which lists and maps have a number


class _Within:
    """A list or map whose items are being read: how many are left, and the name that waits for its value."""

    def __init__(self, left: int, *, is_map: bool) -> None:
        self.left, self.is_map = left, is_map
        self.name: tuple[int, int] | None = None
        self.is_name = is_map


def _of_items(data: bytes, read: Callable[[bytes, int], Item | None]) -> Framed | None:
    """The texts of a list or map, or of several in a row, that make up all the bytes."""
    found, within, at = Framed([], []), list[_Within](), 0
    noted: list[Item] = []
    for _ in range(MOST_ITEMS):
        if at == len(data):
            return found if not within else None
        head = at
        item = read(data, at)
        if item is None or item.end > len(data) or (not within and item.inner is None):
            return None
        at = item.end
        if item.is_mark:
            if within[-1].left >= 0:
                return None
            within.pop()
        else:
            noted += [item] if item.is_noted else []
            is_again = item.asks is not None and item.asks < len(noted)
            _take(found, within[-1] if within else None, noted[item.asks or 0] if is_again else item, head)
        if item.inner is not None:
            within.append(_Within(item.inner, is_map=item.is_map))
            if len(within) > DEEPEST:
                return None
        while within and within[-1].left == 0:
            within.pop()
    return None


def _take(found: Framed, around: _Within | None, item: Item, head: int) -> None:
    """Keep the text that an item is, and count it in the list or map around."""
    place = (item.begin, item.end) if item.is_text else None
    if place and item.begin > head and item.end - item.begin >= SHORTEST:
        found.texts.append((head, *place))
    if around is None:
        return
    around.left -= around.left > 0
    if around.is_map:
        if not around.is_name and around.name and place:
            found.entries.append((around.name, place))
        around.name = place if around.is_name else None
        around.is_name = not around.is_name


MSGPACK: dict[int, tuple[str, int, int]] = {
    **dict.fromkeys([*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3], ("bytes", 0, 0)),
    **{0x80 + count: ("map", 0, count) for count in range(16)},
    **{0x90 + count: ("list", 0, count) for count in range(16)},
    **{0xA0 + count: ("text", 0, count) for count in range(32)},
    **{0xC4 + power: ("bytes", 1 << power, 0) for power in range(3)},
    **{0xC7 + power: ("bytes", 1 << power, 1) for power in range(3)},
    **{first + power: ("bytes", 0, 1 << power) for first in (0xCC, 0xD0) for power in range(4)},
    **{0xCA + power: ("bytes", 0, 4 << power) for power in range(2)},
    **{0xD4 + power: ("bytes", 0, 1 + (1 << power)) for power in range(5)},
    **{0xD9 + power: ("text", 1 << power, 0) for power in range(3)},
    **{0xDC + power: ("list", 2 << power, 0) for power in range(2)},
    **{0xDE + power: ("map", 2 << power, 0) for power in range(2)},
}
"""What an item's first byte says: kind, bytes of its count, least count. Numbers are bytes."""


def _of_msgpack(data: bytes, at: int) -> Item | None:
    if data[at] not in MSGPACK:
        return None
    kind, width, count = MSGPACK[data[at]]
    begin = at + 1 + width
    count += int.from_bytes(data[at + 1 : begin])
    if kind in ("list", "map"):
        is_map = kind == "map"
        return Item(begin, begin, count * (1 + is_map), is_map)
    return Item(begin, begin + count, is_text=kind == "text")


CBOR_BREAK = 0xFF
INDEFINITE, SMALLEST_WIDE = 31, 24
BYTES, TEXT, LIST, MAP, TAG = 2, 3, 4, 5, 6


def _of_cbor(data: bytes, at: int) -> Item | None:
    if data[at] == CBOR_BREAK:
        return Item(at + 1, at + 1, is_mark=True)
    major, low, begin = data[at] >> 5, data[at] & 31, at + 1
    count = low
    if SMALLEST_WIDE <= low < SMALLEST_WIDE + 4:
        width = 1 << (low - SMALLEST_WIDE)
        count, begin = int.from_bytes(data[begin : begin + width]), begin + width
    elif low >= SMALLEST_WIDE and not (low == INDEFINITE and major in (BYTES, TEXT, LIST, MAP)):
        return None
    is_open = low == INDEFINITE
    if major in (BYTES, TEXT):
        return Item(begin, begin, -1) if is_open else Item(begin, begin + count, is_text=major == TEXT)
    if major in (LIST, MAP):
        inner = -1 if is_open else count * (1 + (major == MAP))
        return Item(begin, begin, inner, major == MAP)
    if major == TAG:  # stands before an item, and isn't one
        return _of_cbor(data, begin) if begin < len(data) and data[begin] >> 5 != TAG else None
    return Item(begin, begin)


MARSHAL_TEXTS = {ord("s"): 4, ord("t"): 4, ord("u"): 4, ord("a"): 4, ord("A"): 4, ord("z"): 1, ord("Z"): 1}
MARSHAL_LISTS = {ord("("): 4, ord("["): 4, ord("<"): 4, ord(">"): 4, ord(")"): 1}
MARSHAL_FIXED = {**dict.fromkeys(b"NFTS.", 0), ord("i"): 4, ord("I"): 8, ord("g"): 8, ord("y"): 16}
NOTED = 0x80
"""The bit of what is referred to again."""


def _of_marshal(data: bytes, at: int) -> Item | None:
    item = _marshalled(data, at)
    return item._replace(is_noted=True) if item and data[at] & NOTED else item


def _marshalled(data: bytes, at: int) -> Item | None:
    code, begin = data[at] & ~NOTED, at + 1
    if code == ord("r"):
        return Item(begin + 4, begin + 4, asks=int.from_bytes(data[begin : begin + 4], "little"))
    if code == ord("0"):
        return Item(begin, begin, is_mark=True)
    if code == ord("{"):
        return Item(begin, begin, -1, is_map=True)
    if code in MARSHAL_FIXED:
        return Item(begin, begin + MARSHAL_FIXED[code])
    if code == ord("l"):
        digits = abs(int.from_bytes(data[begin : begin + 4], "little", signed=True))
        return Item(begin, begin + 4 + 2 * digits)
    if code in MARSHAL_TEXTS:
        width = MARSHAL_TEXTS[code]
        end = begin + width + int.from_bytes(data[begin : begin + width], "little")
        return Item(begin + width, end, is_text=True)
    if code in MARSHAL_LISTS:
        width = MARSHAL_LISTS[code]
        return Item(begin + width, begin + width, int.from_bytes(data[begin : begin + width], "little"))
    return None


LISTS_OF_MSGPACK = frozenset({*range(0x80, 0xA0), *range(0xDC, 0xE0)})
LISTS_OF_CBOR = frozenset(range(0x80, 0xDC))
LISTS_OF_MARSHAL = frozenset({*b"{[()<>", *(code | NOTED for code in b"{[()<>")})
FORMS = (
    (LISTS_OF_MSGPACK, _of_msgpack),
    (LISTS_OF_CBOR, _of_cbor),
    (LISTS_OF_MARSHAL, _of_marshal),
)
"""First bytes of lists and maps, and the function that reads an item."""

# --- Protobuf

VARINT, FIXED64, COUNTED, FIXED32 = 0, 1, 2, 5
MOST_VARINT, GOES_ON = 10, 0x80
NAME, VALUE = 1, 2
ENTRY = {NAME, VALUE}
"""Numbers of the fields of an entry of a map."""
FIRST_TAG = NAME << 3 | COUNTED
"""The tag of a first field that has a length: a newline, which few texts begin with."""


def _of_protobuf(data: bytes) -> Framed | None:
    reader = _Messages(data)
    return reader.found if reader.is_message(0, len(data), 0) and reader.found.texts else None


class _Messages:
    """The messages in some bytes, and their texts."""

    def __init__(self, data: bytes) -> None:
        self._data, self._left = data, MOST_ITEMS
        self.found = Framed([], [])

    def is_message(self, at: int, stop: int, depth: int) -> bool:
        """Whether a stretch is a message; its texts are kept if it is."""
        data, found = self._data, self.found
        texts, entries = len(found.texts), len(found.entries)
        entry: dict[int, tuple[int, int]] = {}
        count = 0
        for number, head, begin, end in _fields(data, at, stop):
            self._left -= 1
            if number < 0 or self._left < 0:
                del found.texts[texts:], found.entries[entries:]
                return False
            count += 1
            if begin in (end, head):
                continue
            is_line = is_text(data[begin:end])
            may_be_message = (not is_line or data[begin] == FIRST_TAG) and depth < DEEPEST
            if not (may_be_message and self.is_message(begin, end, depth + 1)) and is_line:
                entry[number] = begin, end
                if end - begin >= SHORTEST:
                    found.texts.append((head, begin, end))
        if count == len(ENTRY) and entry.keys() == ENTRY:
            found.entries.append((entry[NAME], entry[VALUE]))
        return not depth or bool(entry) or len(found.texts) > texts


def _fields(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, head, first byte and end of fields; those of numbers have no content. -1 where none can be."""
    while at < stop:
        head = at
        tag, at = _varint(data, at, stop)
        number, wire = tag >> 3, tag & 7
        begin = end = at
        if wire == COUNTED:
            size, begin = _varint(data, at, stop)
            end = at = begin + size if size >= 0 else stop + 1
        elif wire == VARINT:
            at = _varint(data, at, stop)[1]
        elif wire in (FIXED64, FIXED32):
            at += 8 if wire == FIXED64 else 4
        else:
            number = -1
        if not 0 < number < 1 << 29 or at > stop:
            yield -1, 0, 0, 0
            return
        yield number, (head if wire == COUNTED else begin), begin, end


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """A number, and the byte after it; without a number, the byte after the stretch."""
    value = shift = 0
    for place in range(at, min(at + MOST_VARINT, stop)):
        value |= (data[place] & ~GOES_ON) << shift
        if not data[place] & GOES_ON:
            return value, place + 1
        shift += 7
    return -1, stop + 1


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8 without controls."""
    if len(data.translate(None, CONTROLS)) < len(data):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
