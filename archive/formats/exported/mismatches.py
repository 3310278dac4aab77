"""What of a value is not of the schema of ``.pt2`` JSON.

``_dict_to_dataclass`` in ``torch/_export/serde/serialize.py`` takes values; it checks objects and tags.
It does not check which plain values stand where, so a number in the place of a name is refused where the
name is used, or nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.diagnostics import Diagnostic, wrong
from archive.base.errors import ArchiveError, shown
from archive.base.json_text import MAX_DEPTH, words
from archive.formats.exported.schema import CLASSES, ENUMS, UNIONS, DictOf, ListOf, Optional, Type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.exported.schema import Class

WORDS = {"str": "a text", "int": "an integer", "bool": "true or false", "float": "a number"} | dict.fromkeys(
    ENUMS, "an integer"
)
UNREAD = {"opset_version", "guards_code", "forward_arg_names", "field_names", "sizes", "strides"}
"""Fields with lists and objects that PyTorch takes unseen; sizes and strides are seen where they are used."""
NO_TYPE = "tuple index out of range"
"""What PyTorch says of an object in the place of a list, or of values inside of what should be plain."""

KEY_CHARACTERS = 200
"""Characters of a key in a JSON path. PyTorch's own names have some 60."""
MISSING_FIELD = "required positional argument"


def short(key: str) -> str:
    """A key of any length, for a JSON path."""
    return key if len(key) <= KEY_CHARACTERS else f"{key[:KEY_CHARACTERS]}…"


def key_error(key: object) -> str:
    """What Python says of a key that is not there; "" of what is no name."""
    return f"KeyError: {short(key)!r}".removesuffix("…'") if isinstance(key, str) else ""


def mismatches(value: object, name: str) -> Iterator[Diagnostic]:
    """The values in a record that are not of the schema, in the order of the schema's fields.

    The messages are those that PyTorch has while it takes values; uses of plain values are not looked at.

    Args:
        value: of the record.
        name: the class that it should be.

    Raises:
        ArchiveError: values are nested too deeply.
    """
    return _Comparison().of(value, name)


class _Comparison:
    """A value is compared with a type; ``path`` leads to the value that is looked at."""

    def __init__(self) -> None:
        self.path: list[str | int] = []

    @property
    def place(self) -> str:
        """The JSON path."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{short(step)}" for step in self.path)
        return "".join(steps).removeprefix(".")

    def of(self, value: object, kind: Type) -> Iterator[Diagnostic]:
        if isinstance(kind, Optional):
            if value is not None:
                yield from self.of(value, kind.item)
        elif not isinstance(kind, str):
            yield from self._items(value, kind)
        elif kind in CLASSES:
            yield from self._fields(value, CLASSES[kind])
        elif kind in UNIONS:
            yield from self._tagged(value, UNIONS[kind])
        elif not _is_plain(value, kind):
            yield self._other(WORDS[kind], value, _plain_message(value, kind))

    def _below(self, step: str | int, value: object, kind: Type) -> Iterator[Diagnostic]:
        self.path.append(step)
        if len(self.path) > MAX_DEPTH:
            raise ArchiveError(place=self.place, expected=f"at most {MAX_DEPTH} values inside one another")
        yield from self.of(value, kind)
        self.path.pop()

    def _items(self, value: object, kind: ListOf | DictOf) -> Iterator[Diagnostic]:
        if isinstance(kind, ListOf) and isinstance(value, list):
            for number, item in enumerate(value):
                yield from self._below(number, item, kind.item)
        elif isinstance(kind, DictOf) and isinstance(value, dict):
            for key, item in value.items():
                yield from self._below(key, item, kind.item)
        else:
            expected = "a list" if isinstance(kind, ListOf) else "an object"
            yield self._other(expected, value, self._items_message(value, kind))

    def _items_message(self, value: object, kind: ListOf | DictOf) -> str | None:
        """What PyTorch says of a value that is no list or object."""
        if isinstance(value, dict):
            return NO_TYPE
        if value == "" and isinstance(kind, ListOf):  # which has no items either
            return None
        return None if UNREAD.intersection(self.path[-1:]) else ""

    def _fields(self, value: object, kind: Class) -> Iterator[Diagnostic]:
        if not isinstance(value, dict):
            message = MISSING_FIELD if isinstance(value, list | str) else "is not iterable"
            yield self._other("an object", value, message)
            return
        for field, inner in kind.required.items():
            if field in value:
                yield from self._below(field, value[field], inner)
            else:
                yield wrong(self.place, f"expected a field {field}, found none", MISSING_FIELD)
        for field, inner in kind.others.items():
            if field in value:
                yield from self._below(field, value[field], inner)

    def _tagged(self, value: object, tags: Mapping[str, Type]) -> Iterator[Diagnostic]:
        if not isinstance(value, dict):
            yield self._other("an object", value, "expected dict, got ")
        elif len(value) != 1:
            found = f"{len(value)} keys"
            yield wrong(self.place, f"expected one key, found {found}", "expected dict with 1 key, got ")
        else:
            ((tag, inner),) = value.items()
            if tag in tags:
                yield from self._below(tag, inner, tags[tag])
            else:
                problem = f"expected a tag like {next(iter(tags))}, found {shown(tag)}"
                yield wrong(self.place, problem, key_error(tag))

    def _other(self, expected: str, value: object, message: str | None) -> Diagnostic:
        return wrong(self.place, f"expected {expected}, found {words(value)}", message)


def _is_plain(value: object, kind: str) -> bool:
    """Whether a value is of a plain type; ``json`` has no numbers beyond floats, so PyTorch writes texts."""
    if kind == "str":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "float":
        return type(value) in (int, float) or value in ("Infinity", "-Infinity", "NaN")
    return type(value) is int


def _plain_message(value: object, kind: str) -> str | None:
    """What PyTorch says of a value that is not of a plain type."""
    if isinstance(value, dict) or (isinstance(value, list) and value):
        return NO_TYPE
    if kind == "float" and value is None:
        return "float() argument must be a string or a real number, not 'NoneType'"
    if kind == "float" and isinstance(value, str) and not _is_float(value):
        return "could not convert string to float"
    return None


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
