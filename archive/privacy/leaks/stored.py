"""Entries as pickles, JSON and settings store them: names and values, with the byte at which a value stands.

A value is read however its name is stored. A pickle memoizes strings, so from its second use on a name is a
number there: the pickle is read as a machine would, and what fills its dicts are entries. A list of names
isn't an entry, though its names are consecutive. A value may be a list.

Settings (YAML, INI) have no quotes; any text has lines that look like them. So a text is settings only if all
of its lines are entries, headings, items or comments, if two are entries or headings, and if all entries have
the same sign between name and value.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from archive.base.patterns import pattern_of
from archive.privacy.leaks.people import LONGEST_NAME, MOST_OF_VALUE
from archive.privacy.leaks.vocabulary import places_of
from archive.privacy.pieces.escaped_layers import JsonLayer
from archive.privacy.pieces.layers import PlainLayer
from archive.privacy.pieces.pickle_strings import MOST_IN_ROW, MOST_OPCODES, PickleLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.privacy.pieces.layers import Layer
    from archive.privacy.pieces.strings import PieceStrings


class StoredEntry(NamedTuple):
    """A name and a value.

    Attributes:
        name: of the entry.
        value: a text, or a text of a list.
        at: the byte of the record at which the value stands, or at which a pickle gets it from the memo.
    """

    name: bytes
    value: bytes
    at: int


def stored_entries(strings: PieceStrings, is_telling: Callable[[bytes], bool]) -> Iterator[StoredEntry]:
    """The entries of all layers with a name that means something, and texts as values."""
    for layer in strings.layers:
        if isinstance(layer, PickleLayer):
            if any(is_telling(raw) for raw in layer.counts if len(raw) <= LONGEST_NAME):
                for entry in _of_pickle(layer):
                    if is_telling(entry.name) and len(entry.value) <= MOST_OF_VALUE:
                        yield entry._replace(at=layer.outer(entry.at))
        elif isinstance(layer, JsonLayer):
            yield from _of_json(layer, is_telling)
        elif isinstance(layer, PlainLayer):
            yield from _of_maps(layer, is_telling)
        yield from _of_settings(layer, is_telling)


# --- pickles

FILLED = {"SETITEMS", "DICT"}
LISTED = {"LIST", "TUPLE", "FROZENSET"}
EMPTY = {"EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_SET"}
ADDED = {"APPENDS", "ADDITEMS"}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
PAIR = 2
HEADS = {"BINUNICODE": 5, "SHORT_BINUNICODE": 2, "BINUNICODE8": 9, "BINSTRING": 5, "SHORT_BINSTRING": 2}
HEADS |= {"BINBYTES": 5, "SHORT_BINBYTES": 2, "BINBYTES8": 9, "BYTEARRAY8": 9, "STRING": 2}
"""Bytes of an instruction before its text; 1 for all others."""
MOST_OF_LIST = 1 << 8
"""Texts of a list that are kept."""


class _Text(NamedTuple):
    """A text on the stack, and its instruction."""

    at: int
    text: bytes


_Item = _Text | list["_Item"] | None


def _of_pickle(layer: PickleLayer) -> Iterator[StoredEntry]:
    """What the dicts of a pickle, and tuples of two texts, have; nothing is made of it."""
    import pickletools  # noqa: PLC0415 (few pickles have such entries)

    file, left = BytesIO(layer.data), MOST_OPCODES
    with suppress(ValueError, OverflowError, UnicodeError, IndexError):  # no pickle from there on
        for _ in range(MOST_IN_ROW):
            machine = _Machine(pickletools.markobject)
            for op, argument, at in islice(pickletools.genops(file), left):
                left -= 1
                for name, value in machine.step(op, argument, at or 0):
                    for text in value if isinstance(value, list) else [value]:
                        if isinstance(name, _Text) and isinstance(text, _Text):
                            yield StoredEntry(name.text, text.text, text.at)


class _Machine:
    """The stack of a pickle, on which only texts and lists of them are kept."""

    def __init__(self, mark: object) -> None:
        self._mark = mark
        self._stack: list[_Item] = []
        self._marks: list[int] = []
        self._memo: dict[int, _Item] = {}

    def step(self, op: object, argument: object, at: int) -> Iterator[tuple[_Item, _Item]]:
        """Take an instruction; pairs of what a dict is filled with."""
        name, stack = str(getattr(op, "name", "")), self._stack
        if name == "MARK":
            self._marks.append(len(stack))
        elif "PUT" in name or name == "MEMOIZE":
            self._memo[len(self._memo) if argument is None else int(str(argument))] = stack[-1]
        elif "GET" in name:
            stack.append(self._remembered(self._memo.get(int(str(argument))), at))
        elif ("UNICODE" in name or "STRING" in name) and isinstance(argument, str):
            stack.append(_Text(at + HEADS.get(name, 1), argument.encode(errors="surrogatepass")))
        elif isinstance(argument, bytes | bytearray):
            stack.append(_Text(at + HEADS.get(name, 1), bytes(argument)))
        elif name in FILLED:
            items = self._cut()
            yield from zip(items[::2], items[1::2], strict=False)
            if name == "DICT":
                stack.append(None)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            yield key, value
        elif name in EMPTY:
            stack.append([])
        elif name in ADDED:
            self._add(self._cut())
        elif name == "APPEND":
            self._add([stack.pop()])
        elif name in LISTED or name in TUPLES:
            items = self._cut() if name in LISTED else self._last(TUPLES[name])
            if len(items) == PAIR and name != "LIST":
                yield items[0], items[1]
            stack.append(items[:MOST_OF_LIST])
        else:
            self._other(op)

    @staticmethod
    def _remembered(item: _Item, at: int) -> _Item:
        """What is memoized stands at the instruction that gets it."""
        return item._replace(at=at) if isinstance(item, _Text) else item

    def _cut(self) -> list[_Item]:
        """What stands above the last mark, taken off."""
        return self._last(len(self._stack) - self._marks.pop())

    def _last(self, count: int) -> list[_Item]:
        at = len(self._stack) - count
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _add(self, items: Sequence[_Item]) -> None:
        """Add to the list on top, if it is one."""
        top = self._stack[-1]
        if isinstance(top, list):
            top += [item for item in items if isinstance(item, _Text)][: MOST_OF_LIST - len(top)]

    def _other(self, op: object) -> None:
        """Take off what an instruction takes, and put on as many as it puts."""
        taken, put = list(getattr(op, "stack_before", ())), list(getattr(op, "stack_after", ()))
        if self._mark in taken:
            self._cut()
            self._last(taken.index(self._mark))
        elif taken:
            self._last(len(taken))
        self._stack += [None] * len(put)


# --- JSON

JSON_TEXT = rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
JSON_TEXTS = rb"\[((?:\s{0,40},?\s{0,40}" + JSON_TEXT + rb"){1,256}+)"
JSON_VALUE = pattern_of(rb"\s{0,40}:\s{0,40}(?:" + JSON_TEXT + rb"|" + JSON_TEXTS + rb")", re.DOTALL)
JSON_STRING = pattern_of(JSON_TEXT, re.DOTALL)


def _of_json(layer: JsonLayer, is_telling: Callable[[bytes], bool]) -> Iterator[StoredEntry]:
    """Entries of JSON, without escapes."""
    data = layer.data
    for raw in layer.counts:
        if len(raw) > LONGEST_NAME or not is_telling(raw):
            continue
        quoted = b'"' + raw + b'"'
        for at in places_of(data, quoted):
            value = JSON_VALUE.match(data, at + len(quoted))
            if value is None:
                continue
            begin, end = value.span(1) if value[1] is not None else value.span(2)
            texts = [value] if value[1] is not None else JSON_STRING.finditer(data, begin, end)
            for text in texts:
                if len(text[1]) <= MOST_OF_VALUE:
                    yield StoredEntry(raw, _plain(text[1]), layer.outer(text.start(1)))


def _plain(raw: bytes) -> bytes:
    """A string of JSON without escapes; as stored where one is unknown to JSON."""
    with suppress(ValueError):
        return str(json.loads(b'"%s"' % raw, strict=False)).encode(errors="surrogatepass")
    return raw


# --- texts after their lengths


def _of_maps(layer: PlainLayer, is_telling: Callable[[bytes], bool]) -> Iterator[StoredEntry]:
    """Entries of maps in MessagePack, CBOR, marshal and Protobuf."""
    for name, value in layer.entries:
        called, text = layer.data[slice(*name)], layer.data[slice(*value)]
        if len(called) <= LONGEST_NAME and len(text) <= MOST_OF_VALUE and is_telling(called):
            yield StoredEntry(called, text, layer.outer(value[0]))


# --- settings

SETTING = rb"[ \t]{0,40}(?:- )?([A-Za-z_][\w.-]{0,63})(?: ?(:)(?: +|$)|[ \t]{0,8}(=)[ \t]{0,8})([^\n]*+)"
SETTING_LINE = pattern_of(
    rb"(?:"
    + SETTING
    + rb"|[ \t]*+(?:#|;|//)[^\n]*+|[ \t]*+\[[\w. -]+\][ \t]*+|[ \t]*+- [^\n]*+|---|[ \t\r]*+)\Z",
)
ITEM = pattern_of(rb"[ \t]*+- ([^\n]*+)\Z")
FEWEST_SETTINGS = 2
MOST_OF_SETTINGS = 1 << 16
"""Bytes of the longest text that may be settings."""
CODE_IN_VALUE = pattern_of(rb"[(){}\[\]=]|self\.|\.\w+\(")
"""What values of Python have, where lines are assignments."""


def _of_settings(layer: Layer, is_telling: Callable[[bytes], bool]) -> Iterator[StoredEntry]:
    """Entries of texts each of whose lines is one, or a heading, an item or a comment."""
    if isinstance(layer, JsonLayer):
        return
    for raw in layer.counts:
        if b"\n" not in raw or len(raw) > MOST_OF_SETTINGS or not (b":" in raw or b"=" in raw):
            continue
        text = layer.decoded(raw)
        for name, value, at in _settings(text):
            if is_telling(name):
                yield StoredEntry(name, value, layer.place(raw, at))


def _settings(text: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """Names, values and places in settings; nothing for other texts."""
    if text.find(b"\n", 0, -1) < 0:  # one line
        return
    found: list[tuple[bytes, bytes, int]] = []
    at, count, name, signs = 0, 0, b"", set()
    for line in text.split(b"\n"):
        match = SETTING_LINE.match(line)
        if match is None:
            return
        item = ITEM.match(line)
        if match[1] is not None:
            name, count = match[1], count + 1
            signs.add(match[2] or match[3])
            value, begin = match[4], match.start(4)
        elif item is not None:
            value, begin = item[1], item.start(1)
        else:
            value, begin = b"", 0
            count += line.lstrip().startswith(b"[")
        if name and value and CODE_IN_VALUE.search(value) is None:
            stripped = value.strip(b" \t\r")
            found.append((name, stripped.strip(b"\"'"), at + begin))
        at += len(line) + 1
    if count >= FEWEST_SETTINGS and len(signs) == 1:
        yield from found
