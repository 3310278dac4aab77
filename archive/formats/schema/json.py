r"""The vocabulary in which JSON is declared, and whether a value matches a declaration.

A type is a plain one, ``str``, ``int``, ``bool``, ``float`` or ``any``; the name of another type;
or made from types: :class:`JsonClass`, :class:`JsonUnion`, :class:`ListOf` and the others below.

    >>> POINT = JsonClass({"x": "int", "y": "int"}, {"label": Nullable("str")}, {"x": "from the left"})
    >>> checked({"x": 1, "y": 2}, POINT)
    {'x': 1, 'y': 2}
    >>> checked([{"x": 1, "y": "2"}], ListOf(POINT))
    Traceback (most recent call last):
        ...
    archive.base.errors.ArchiveError: [0].y: expected an integer, found a text
    >>> print("\n".join(tree(ListOf(POINT))))
    [object]
      x: int    from the left
      y: int
      label: str or null, or left out

:func:`mismatches` lists whatever isn't as declared, in the order of the declaration.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, shown
from archive.base.json_text import MAX_DEPTH, words
from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping


# --- declarations


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; ``item`` is the type of each value."""

    item: Type


@dataclass(frozen=True, slots=True)
class Matching:
    """A text that fully matches a pattern; ``words`` say what it should be, for messages."""

    pattern: re.Pattern[str]
    words: str


@dataclass(frozen=True, slots=True)
class DictOf:
    """An object with any keys; ``item`` is the type of each value, ``key`` that of the keys, if any."""

    item: Type
    key: Matching | None = None


@dataclass(frozen=True, slots=True)
class Nullable:
    """A value or ``null``."""

    item: Type


@dataclass(frozen=True, slots=True)
class OneOrMore:
    """A value, or a list of such values."""

    item: Type


@dataclass(frozen=True, slots=True)
class UpTo:
    """An integer from 0 to ``most``."""

    most: int


class JsonClass(NamedTuple):
    """An object with fields.

    Attributes:
        required: the fields that must be there.
        others: those that may be left out.
        docs: the docs of fields, by name.
    """

    required: Mapping[str, Type]
    others: Mapping[str, Type] = {}
    docs: Mapping[str, str] = {}


class JsonUnion(NamedTuple):
    """An object with one key, its *tag*, which decides the type of the value."""

    tags: Mapping[str, Type]


Type = str | Matching | ListOf | DictOf | Nullable | OneOrMore | UpTo | JsonClass | JsonUnion
"""A plain type, a named one, or one made from these."""
WORDS = {
    "str": "a text",
    "int": "an integer",
    "bool": "true or false",
    "float": "a number",
    "any": "any value",
}
"""The plain types. JSON has no numbers for infinities and nan: their names as texts count as ``float``."""
EXACT = {"str": str, "int": int, "bool": bool}
NOT_IN_JSON = ("Infinity", "-Infinity", "NaN")
KEY_CHARACTERS, CHECKED_CHARACTERS = 200, 60
"""Most characters of a key in a JSON path, and in one of other JSON. PyTorch's own names have some 60."""


# --- comparison


class Fault(Enum):
    """What is wrong with a value.

    ``KIND``: it is of another kind. ``FIELD``: an object lacks a required field. ``KEY``: a key isn't as
    declared. ``KEYS``: a union has no key, or several. ``TAG``: a union's key isn't among its tags.
    """

    KIND = auto()
    FIELD = auto()
    KEY = auto()
    KEYS = auto()
    TAG = auto()


class Mismatch(NamedTuple):
    """A value that is not as declared.

    Attributes:
        place: its JSON path.
        problem: what was expected, and what is there.
        fault: what is wrong with it.
        kind: what it should be.
        value: the value found; for a wrong tag or key, that.
        step: the field or index where it is; None for the whole value.
    """

    place: str
    problem: str
    fault: Fault
    kind: Type
    value: object
    step: str | int | None


def checked(value: object, kind: Type, named: Mapping[str, Type] | None = None) -> Any:  # noqa: ANN401 (any JSON)
    """Return a value if it is of a type."""
    for mismatch in mismatches(value, kind, named, CHECKED_CHARACTERS):
        raise ArchiveError(mismatch.problem, place=mismatch.place)
    return value


def mismatches(
    value: object,
    kind: Type,
    named: Mapping[str, Type] | None = None,
    key_characters: int = KEY_CHARACTERS,
) -> Iterator[Mismatch]:
    """The parts of a value that don't match a type, in the order of the type's fields.

    Args:
        key_characters: of a key in a JSON path.
    """
    return _Comparison(named or {}, key_characters).of(value, kind)


def short(key: str, most: int = KEY_CHARACTERS) -> str:
    """A key of any length, shortened for a JSON path."""
    return key if len(key) <= most else f"{key[:most]}…"


class _Comparison:
    """The comparison of a value with a type; ``path`` leads to the current value."""

    def __init__(self, named: Mapping[str, Type], key_characters: int) -> None:
        self.path: list[str | int] = []
        self.named = named
        self.key_characters = key_characters

    @property
    def place(self) -> str:
        """The JSON path."""
        steps = (
            f"[{step}]" if isinstance(step, int) else f".{short(step, self.key_characters)}"
            for step in self.path
        )
        return "".join(steps).removeprefix(".")

    def of(self, value: object, kind: Type) -> Iterator[Mismatch]:
        if isinstance(kind, str):
            kind = self.named.get(kind, kind)
        if isinstance(kind, str | UpTo | Matching):
            if not _is_plain(value, kind):
                yield self._other(_plain_words(kind), value, kind)
        elif isinstance(kind, Nullable):
            if value is not None:
                yield from self.of(value, kind.item)
        elif isinstance(kind, OneOrMore):
            yield from self.of(value, ListOf(kind.item) if isinstance(value, list) else kind.item)
        elif isinstance(kind, JsonClass):
            yield from self._fields(value, kind)
        elif isinstance(kind, JsonUnion):
            yield from self._tagged(value, kind)
        else:
            yield from self._items(value, kind)

    def _below(self, step: str | int, value: object, kind: Type) -> Iterator[Mismatch]:
        self.path.append(step)
        if len(self.path) > MAX_DEPTH:
            raise ArchiveError(place=self.place, expected=f"at most {MAX_DEPTH} values inside one another")
        yield from self.of(value, kind)
        self.path.pop()

    def _items(self, value: object, kind: ListOf | DictOf) -> Iterator[Mismatch]:
        if isinstance(kind, ListOf) and isinstance(value, list):
            for number, item in enumerate(value):
                if not _is_plain(item, kind.item):
                    yield from self._below(number, item, kind.item)
        elif isinstance(kind, DictOf) and isinstance(value, dict):
            for key, item in value.items():
                if kind.key is not None and not kind.key.pattern.fullmatch(key):
                    place = ".".join(filter(None, (self.place, short(key, self.key_characters))))
                    problem = f"expected {kind.key.words}, found {shown(key)}"
                    yield self._mismatch(problem, Fault.KEY, kind, key)._replace(place=place)
                yield from self._below(key, item, kind.item)
        else:
            yield self._other("a list" if isinstance(kind, ListOf) else "an object", value, kind)

    def _fields(self, value: object, kind: JsonClass) -> Iterator[Mismatch]:
        if not isinstance(value, dict):
            yield self._other("an object", value, kind)
            return
        for field, inner in kind.required.items():
            if field in value:
                if not _is_plain(value[field], inner):
                    yield from self._below(field, value[field], inner)
            else:
                yield self._mismatch(f"expected a field {field}, found none", Fault.FIELD, kind, value)
        for field, inner in kind.others.items():
            if field in value and not _is_plain(value[field], inner):
                yield from self._below(field, value[field], inner)

    def _tagged(self, value: object, kind: JsonUnion) -> Iterator[Mismatch]:
        if not isinstance(value, dict):
            yield self._other("an object", value, kind)
        elif len(value) != 1:
            yield self._mismatch(f"expected one key, found {len(value)} keys", Fault.KEYS, kind, value)
        else:
            ((tag, inner),) = value.items()
            if tag in kind.tags:
                yield from self._below(tag, inner, kind.tags[tag])
            else:
                problem = f"expected a tag like {next(iter(kind.tags))}, found {shown(tag)}"
                yield self._mismatch(problem, Fault.TAG, kind, tag)

    def _other(self, expected: str, value: object, kind: Type) -> Mismatch:
        is_text = isinstance(kind, Matching) and isinstance(value, str)
        found = shown(value) if is_text else words(value)
        return self._mismatch(f"expected {expected}, found {found}", Fault.KIND, kind, value)

    def _mismatch(self, problem: str, fault: Fault, kind: Type, value: object) -> Mismatch:
        return Mismatch(self.place, problem, fault, kind, value, self.path[-1] if self.path else None)


def _is_plain(value: object, kind: Type) -> bool:
    """Whether a type is plain, or one of texts or integers, and a value is of it."""
    if isinstance(kind, str):
        if type(value) is EXACT.get(kind) or kind == "any":
            return True
        return kind == "float" and (type(value) in (int, float) or value in NOT_IN_JSON)
    if isinstance(kind, UpTo):
        return type(value) is int and 0 <= value <= kind.most
    return isinstance(kind, Matching) and isinstance(value, str) and bool(kind.pattern.fullmatch(value))


def _plain_words(kind: str | UpTo | Matching) -> str:
    if isinstance(kind, str):
        return WORDS[kind]
    return f"an integer from 0 to {kind.most}" if isinstance(kind, UpTo) else kind.words


# --- description


def tree(kind: Type, named: Mapping[str, Type] | None = None) -> list[str]:
    """A type as lines: each field in one with its type and doc, the fields of its own type below it.

    Args:
        kind: the type.
        named: the named types, each of which is written out at its first use.
    """
    return _Description(named or {}).lines(kind)


class _Description:
    def __init__(self, named: Mapping[str, Type]) -> None:
        self._named = named
        self._written: set[str] = set()

    def lines(self, kind: Type) -> list[str]:
        return [self._words(kind), *self._below(kind)]

    def _below(self, kind: Type) -> list[str]:
        """The lines for the fields in a type."""
        if isinstance(kind, str):
            if kind not in self._named or kind in self._written:
                return []
            self._written.add(kind)
            return self._below(self._named[kind])
        if isinstance(kind, JsonClass):
            fields = [(name, inner, "") for name, inner in kind.required.items()]
            fields += [(name, inner, ", or left out") for name, inner in kind.others.items()]
            return self._several(fields, kind.docs)
        if isinstance(kind, JsonUnion):
            return self._several([(tag, inner, "") for tag, inner in kind.tags.items()], {})
        return [] if isinstance(kind, UpTo | Matching) else self._below(kind.item)

    def _several(self, fields: list[tuple[str, Type, str]], docs: Mapping[str, str]) -> list[str]:
        lines = []
        for name, kind, missing in fields:
            doc = f"    {docs[name]}" if name in docs else ""
            lines.append(f"  {name}: {self._words(kind)}{missing}{doc}")
            lines += [f"  {line}" for line in self._below(kind)]
        return lines

    def _words(self, kind: Type) -> str:
        """A type in a few words."""
        if isinstance(kind, str):
            return kind
        if isinstance(kind, UpTo):
            return f"0 to {kind.most}"
        if isinstance(kind, Matching):
            return kind.words
        if isinstance(kind, JsonClass):
            return "object"
        if isinstance(kind, JsonUnion):
            return "one of"
        inner = self._words(kind.item)
        if isinstance(kind, ListOf):
            return f"[{inner}]"
        if isinstance(kind, DictOf):
            return f"{{{kind.key.words if kind.key else 'str'}: {inner}}}"
        return f"{inner} or null" if isinstance(kind, Nullable) else f"{inner} or [{inner}]"
