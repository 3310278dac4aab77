"""The texts of a piece of a file, each with its role: name, key or value.

*Names* are what a loader or a program needs: identifiers and dotted paths of code, of module trees, of
graphs, names of records. *Keys* are those of dicts of data, *values* all other texts. A reader for each form
says which texts are names and keys: ``pickled``, ``code``, ``framed``, and JSON here. All strings come from
the room ``pieces``: any that no reader has placed is a value. So a wrong reader makes a list longer, and
hides nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from archive.base.errors import forgiving
from archive.container.serialization_id import RECORD_NAME
from archive.formats.elf.parse import is_elf
from archive.formats.record_kinds import PROGRAM_RECORD, RecordKind
from archive.privacy.pieces.escaped_layers import JsonLayer, unescaped_text
from archive.privacy.pieces.layers import TO_NUL, PlainLayer, has_wide
from archive.privacy.pieces.pickle_strings import PickleLayer, is_pickle
from archive.privacy.pieces.piece import ShiftedPlaces
from archive.privacy.pieces.strings import NestedString, layers, layers_within, with_form
from archive.privacy.review.binary import is_long_binary, no_text, strings_by_chance, texts_of_binary
from archive.privacy.review.code import texts_of_code
from archive.privacy.review.framed import is_between, texts_between, texts_of_object, texts_of_tensor_file
from archive.privacy.review.json_numbers import spelled_in_json
from archive.privacy.review.pickled import (
    FEWEST_ENTRIES,
    STORAGE_ID,
    PickleRoles,
    constants_of_bytecode,
    roles_of_pickle,
)
from archive.privacy.review.tables import FEWEST_MERGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.privacy.pieces.layers import Layer
    from archive.privacy.pieces.piece import FilePiece

Role = Literal["name", "key", "value"]
OF_NUMPY = ("utf-32-le", "utf-32-be")
DEEPEST = 4
"""How deep strings in strings are read."""
INSIDE = "!"


class PlacedText(NamedTuple):
    """A text.

    Attributes:
        role: what it is for.
        text: the text.
        times: how often it occurs.
        at: the byte of the record at which it first occurs.
    """

    role: str
    text: str
    times: int
    at: int


class Apart(NamedTuple):
    """What is gathered besides the strings of a piece.

    Attributes:
        tables: tables from texts to integers, whose texts are no rows of their own.
        texts: numbers that may be somebody's, and letters in a row.
    """

    tables: list[Mapping[str, int]]
    texts: list[PlacedText]


class PieceTexts(NamedTuple):
    """The texts of a piece.

    Attributes:
        texts: each with its role.
        tables: tables from texts to integers, whose texts are not among these.
        passed_over: bytes of machine code that were not looked at.
    """

    texts: Iterator[PlacedText]
    tables: Sequence[Mapping[str, int]] = ()
    passed_over: int = 0


def texts_in(piece: FilePiece) -> PieceTexts:
    """The texts of a piece, by the reader of its form."""
    data, kind = piece.bytes, _kind(piece)
    apart = Apart([], [])
    if kind in PYTHON_KINDS or (kind is RecordKind.CPP and b"\0" not in data):
        code = data.decode("utf-8", "backslashreplace")
        found = texts_of_code(code, cpp=kind is RecordKind.CPP)
        return PieceTexts(_each_once(found, piece))
    if is_elf(piece.data):
        texts, passed = texts_of_object(piece)
        return PieceTexts(_each_once(iter(texts), piece), passed_over=passed)
    if is_between(piece):
        return PieceTexts(_each_once(texts_between(piece), piece))
    is_joined = kind in JOINED_KINDS and piece.record != PROGRAM_RECORD  # whose stretches are no texts
    if is_joined and isinstance(piece.place, ShiftedPlaces) and len(piece.place.at) > 1:
        if is_pickle(data):
            return PieceTexts(iter([*_of_old_header(piece, apart), *apart.texts]), apart.tables)
        return PieceTexts(_each_once(texts_of_tensor_file(piece), piece))
    of_strings = list(_of_strings(data, kind, piece.place, apart))
    return PieceTexts(iter([*of_strings, *apart.texts]), apart.tables)


def _of_old_header(piece: FilePiece, apart: Apart) -> Iterator[PlacedText]:
    """The texts of the pickles around the object that ``torch.save`` wrote before 1.6.

    What stands after the object is a list of the storages' ids: addresses, which are others each time.
    """
    place = piece.place
    assert isinstance(place, ShiftedPlaces)  # noqa: S101 (its caller)
    for start, stop in pairwise([*place.at, len(piece.bytes)]):
        outer = partial(_shifted, place, start)
        for text in _of_strings(piece.bytes[start:stop], piece.kind, outer, apart):
            if text.text not in SYSTEM and (not start or STORAGE_ID.fullmatch(text.text) is None):
                yield text


SYSTEM = {"protocol_version", "little_endian", "type_sizes"}
"""What the header says of the system, as ``_legacy_save`` of ``torch/serialization.py`` has it."""


def _shifted(place: ShiftedPlaces, start: int, position: int) -> int:
    return place(start + position)


PYTHON_KINDS = {RecordKind.CODE, RecordKind.PYTHON}
JOINED_KINDS = {RecordKind.VALUES, RecordKind.HEADER, RecordKind.GRAPH}
"""Kinds of records of files of tensors with texts that are put together."""
ENDINGS = (".py", ".json", ".pkl", ".debug_pkl", ".cpp", ".cu", ".h", ".so", ".o", RECORD_NAME)


def _kind(piece: FilePiece) -> RecordKind:
    """The kind of the record that a piece is as a whole; ``other`` for what is packed or encoded in one."""
    _, inside, own = piece.record.rpartition(INSIDE)
    return RecordKind.OTHER if inside and not own.endswith(ENDINGS) else piece.kind


def _each_once(found: Iterator[tuple[str, str, int]], piece: FilePiece) -> Iterator[PlacedText]:
    """Texts with how often they are there."""
    counts: dict[tuple[str, str], list[int]] = {}
    for role, text, at in found:
        known = counts.get((role, text))
        if known is None:
            counts[role, text] = [1, at]
        else:
            known[0] += 1
    return (PlacedText(role, text, count, piece.place(at)) for (role, text), (count, at) in counts.items())


# --- strings of JSON, of pickles, and between other bytes

ALL_NAMES = {RecordKind.CALLSTACKS, RecordKind.HANDLES, RecordKind.PATHS}
ALL_NAMES |= {RecordKind.WEIGHTS, RecordKind.INDEX, RecordKind.KERNELS}
"""Records with only names as texts."""
OF_RANGES = {RecordKind.RANGES, RecordKind.DELEGATED}
SOURCE_FILE = re.compile(
    r"[^\s\"']{1,400}\.(?:py|cpp|h|cu|pyi)(?:\(\d{1,9}\): [\w<>]{1,200}\n?)?|<[\w ]{1,40}>"
)
"""A source file, with the line and the function of a traced operation."""
NO_STRING = re.compile(
    rb"\s*+(?:[\[\]{}:,](?:[\s\[\]{}:,0-9.eE+-]++|true|false|null|NaN|Infinity)*+)?|-?(?:NaN|Infinity)"
)
"""What stands between the strings of JSON; it begins with a sign, as no telephone number does. Exported
programs have numbers that aren't finite as strings."""
BACKSLASHES = re.compile(r"\\{9,}+")
"""Those of an escape that was escaped more often than it is undone."""
LONG_NUMBERS = re.compile(rb"\[(?=[^.]*?[0-9]{7})[-0-9, ]++\]")
"""A string that is a list of whole numbers, one of them long: keys of a dict."""


def _of_strings(
    data: bytes,
    kind: RecordKind,
    outer: Callable[[int], int],
    apart: Apart,
) -> Iterator[PlacedText]:
    """The texts of bytes by the roles that their form gives them."""
    if b"\0" not in data.translate(TO_NUL) and not with_form([data]):
        role = "name" if kind is RecordKind.FORMAT else "value"
        yield PlacedText(role, data.decode("utf-8", "backslashreplace"), 1, outer(0))
        return
    stack = [(layer, kind, 0) for layer in layers(data, outer, 1)]
    while stack:
        layer, kind_of_layer, depth = stack.pop()
        role_of = _roles(layer, kind_of_layer, apart)
        raws = list(layer.counts)
        wholes = [_whole(layer, raw) for raw in raws]
        nested = set(with_form(wholes)) if depth < DEEPEST else set[int]()
        if isinstance(layer, PickleLayer) and depth < DEEPEST:
            nested.update(number for number, whole in enumerate(wholes) if has_wide(whole))
        by_chance = set[bytes]()
        if isinstance(layer, PlainLayer) and (by_chance := set(strings_by_chance(layer))):
            yield PlacedText("value", no_text(layer.whole), 1, layer.outer(0))
        inner: dict[RecordKind, list[NestedString]] = {}
        for number, (raw, whole) in enumerate(zip(raws, wholes, strict=True)):
            if isinstance(layer, JsonLayer) and NO_STRING.fullmatch(raw) and not LONG_NUMBERS.fullmatch(raw):
                continue
            if raw in by_chance:
                continue
            text = whole.decode("utf-8", "backslashreplace")
            role = role_of(text, layer.counts[raw])
            if not role:
                continue
            is_pickle_value = isinstance(layer, PickleLayer) and role == "value"
            meant = _of_bytes(text) if is_pickle_value else text
            if meant != text:
                yield PlacedText(role, meant, layer.counts[raw], layer.place(raw, 0))
            elif is_pickle_value and number not in nested and is_long_binary(whole):
                latin = _in_latin(text)
                for found, at in texts_of_binary(latin or whole):
                    before = at if latin is None else len(text[:at].encode())
                    yield PlacedText(role, found, layer.counts[raw], layer.place(raw, before))
            elif number in nested and len(raw) < len(layer.data):
                below = kind_of_layer if role == "name" else RecordKind.OTHER
                inner.setdefault(below, []).append(NestedString(raw, whole))
            else:
                plain = _without_escapes(text) if b"\\" in whole else text
                is_plain = role == "name" or "".join(plain.split()).isprintable()
                yield PlacedText(role, plain if is_plain else text, layer.counts[raw], layer.place(raw, 0))
        for below, strings in inner.items():
            stack += [(one, below, depth + 1) for one in layers_within(layer, strings, 1)]


def _of_bytes(text: str) -> str:
    """The text of bytes, which pickles of protocol 2 have in Latin-1, or of NumPy; others as they are."""
    if text.isascii() and "\0" not in text:
        return text
    with suppress(UnicodeError):
        data = text.encode("latin-1")
        for codec in OF_NUMPY if "\0" in text else ():
            with suppress(UnicodeError):
                wide = data.decode(codec).replace("\0", "\n")
                if wide.strip() and wide.replace("\n", "").isprintable():
                    return wide
        return data.decode()
    return text


def _in_latin(text: str) -> bytes | None:
    """Bytes that pickles of protocol 2 have as text, if it can be such."""
    with suppress(UnicodeError):
        return text.encode("latin-1")
    return None


def _without_escapes(text: str) -> str:
    """A text with what its escapes stand for: these are no parts of a name."""
    plain = unescaped_text(BACKSLASHES.sub(r"\\", text).encode(errors="surrogatepass"))
    return plain.decode("utf-8", "backslashreplace")


def _whole(layer: Layer, raw: bytes) -> bytes:
    """A string with its controls; a class as its dotted name."""
    if isinstance(layer, PickleLayer):
        whole = layer.whole(raw)
        return raw.strip(b"\n").replace(b"\n", b".") if raw in layer._classes else whole  # noqa: SLF001
    return layer.decoded(raw)


def _roles(layer: Layer, kind: RecordKind, apart: Apart) -> Callable[[str, int], str]:
    """What finds the role of a text of a layer, by how often it occurs; "" for what is listed separately."""
    if kind in ALL_NAMES:
        return lambda _text, _count: "name"
    if kind in OF_RANGES:
        return lambda text, _count: "name" if SOURCE_FILE.fullmatch(text) else "value"
    if isinstance(layer, PickleLayer):
        data = memoryview(layer.data)
        roles = roles_of_pickle(data)
        at = layer.outer(0)
        apart.texts.extend(PlacedText(*found, times, at) for found, times in roles.spelled.items())
        if kind is RecordKind.BYTECODE:
            with forgiving():  # of another form: roles are those of any pickle
                constants = constants_of_bytecode(data)
                return lambda text, _count: "value" if text in constants else "name"
        apart.tables.extend(roles.tables)
        apart.texts.extend(PlacedText("value", " ".join(pair), 1, at) for pair in roles.pairs)
        return _by_pickle(roles)
    if isinstance(layer, JsonLayer):
        found = spelled_in_json(layer.data, kind)
        apart.texts.extend(PlacedText("value", one, 1, layer.outer(at)) for one, at in found)
        text = layer.data.decode("utf-8", "surrogateescape")
        if kind is RecordKind.PROGRAM:
            values = _values_of_program(text)
            return lambda text, _count: "value" if text in values else "name"
        return _by_json(text, kind, apart, layer.outer)
    return lambda _text, _count: "value"


def _by_pickle(roles: PickleRoles) -> Callable[[str, int], str]:
    entries = roles.numbers.union(*roles.tables, *roles.pairs)
    elsewhere = roles.values | roles.keys | roles.names

    def role_of(text: str, _count: int) -> str:
        if text in roles.arrays:
            return ""
        if text in roles.names:
            return "name"
        if text in roles.keys:
            return "key"
        return "" if text in entries and text not in elsewhere else "value"

    return role_of


# --- JSON

STRING = r'"((?:[^"\\]|\\.)*+)(?:"|\\?\Z)'
VALUE_KEY = re.compile(r'"(?:as_string|as_strings|as_str|custom|description|string|doc)"\s*+:\s*+')
"""Keys of exported programs after which texts aren't names."""
TOKEN = re.compile(STRING + r"(?:\s*+(:)\s*+(?:(\{)|(-?\d++)(?=\s*+[,}]))?)?", re.DOTALL)
"""A string of JSON; after a key a colon, and the beginning of an object or a whole integer."""
PAIR = re.compile(rf"\[\s*+{STRING}\s*+,\s*+{STRING}\s*+\]", re.DOTALL)
PAIRS = re.compile(rf"\[\s*+(?:{PAIR.pattern}\s*+,?\s*+)++\]", re.DOTALL)
"""Lists of two texts, as tokenizers have what they merge."""
METADATA = "__metadata__"


def _values_of_program(text: str) -> set[str]:
    """The texts of an exported program that aren't names: constants, and its author's notes."""
    decoder, values = json.JSONDecoder(strict=False), set[str]()
    for match in VALUE_KEY.finditer(text):
        with suppress(ValueError, RecursionError):
            value, _ = decoder.raw_decode(text, match.end())
            stack = [value]
            while stack:
                one = stack.pop()
                if isinstance(one, str):
                    values.add(one)
                elif isinstance(one, list):
                    stack += one
                elif isinstance(one, dict):
                    stack += [*one, *one.values()]
    return values


def _by_json(
    text: str, kind: RecordKind, apart: Apart, outer: Callable[[int], int]
) -> Callable[[str, int], str]:
    """Roles by what follows a string; keys of objects in a header are names of tensors."""
    merged = Counter[str]()
    for match in PAIRS.finditer(text):
        pairs = PAIR.findall(match[0])
        if len(pairs) >= FEWEST_MERGES:
            at = outer(len(text[: match.start()].encode(errors="surrogateescape")))
            meant = [(_meant(one), _meant(other)) for one, other in pairs]
            apart.texts.extend(PlacedText("value", " ".join(pair), 1, at) for pair in meant)
            merged.update(one for pair in meant for one in pair)
    names, keys, entries = set[str](), set[str](), dict[str, int]()
    run: dict[str, int] = {}

    def end_run() -> None:
        if len(run) >= FEWEST_ENTRIES:
            apart.tables.append(dict(run))
            entries.update(run)
        else:
            keys.update(run)
        run.clear()

    for match in TOKEN.finditer(text):
        raw, colon, opens, number = match.groups()
        if colon and number and _meant(raw) not in run:
            run[_meant(raw)] = int(number)
            continue
        end_run()
        if colon:
            is_name = kind is RecordKind.HEADER and opens and raw != METADATA
            (names if is_name else keys).add(_meant(raw))
    end_run()

    def role_of(string: str, count: int) -> str:
        if string in names:
            return "name"
        if string in keys:
            return "key"
        is_all = count == merged[string] + (string in entries)
        return "" if is_all else "value"

    return role_of


def _meant(raw: str) -> str:
    """A string of JSON without escapes."""
    if "\\" in raw:
        with suppress(ValueError):
            return (
                str(json.loads(f'"{raw}"', strict=False))
                .encode(errors="surrogatepass")
                .decode("utf-8", "backslashreplace")
            )
    return raw.encode(errors="surrogateescape").decode("utf-8", "backslashreplace")
