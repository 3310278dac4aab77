"""The names in generated code, with their places: what ``reading`` finds, and how a text gets other ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(IntEnum):
    """What a name is."""

    WORD = 0  # of an attribute, a method, an argument or a variable
    DOTTED = 1  # of a class or function, with its module
    DEFINED = 2  # of a class or function of the record itself


class Use(NamedTuple):
    """A name in a text: its first byte, the byte behind it, and what it is."""

    start: int
    end: int
    kind: Kind


@dataclass(slots=True)
class Function:
    """A function's arguments, and the names with dots in its signature."""

    arguments: list[str] = field(default_factory=list)
    types: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Class:
    """What a class declares.

    Attributes:
        base: what it derives from: ``Module``, ``NamedTuple``, ``Enum``, ``Interface``; "" of others.
        fields: its attributes, and the members of an enum.
        types: the names with dots in the types of its attributes.
        methods: its functions by name.
    """

    base: str = ""
    fields: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    methods: dict[str, Function] = field(default_factory=dict)


@dataclass(slots=True)
class Code:
    """The names in a record of code.

    Attributes:
        uses: places of names that may change, in no order.
        classes: what each class declares, by its name in the record.
        called: names of methods that are called.
        spoken: texts that stay as they are, and words that are no names of the model's.
    """

    uses: list[Use] = field(default_factory=list)
    classes: dict[str, Class] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    spoken: set[str] = field(default_factory=set)


def renamed_uses(data: bytes, uses: list[Use], new: Iterator[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """A text with other names.

    Args:
        data: the text.
        uses: the names' places, sorted.
        new: what stands there instead.

    Returns:
        The new text; and for each name, where it began and how many bytes longer it became.
    """
    pieces, end, longer = [], 0, []
    for use, name in zip(uses, new, strict=True):
        pieces += [data[end : use.start], name]
        longer.append((use.start, len(name) - (use.end - use.start)))
        end = use.end
    return b"".join([*pieces, data[end:]]), longer
