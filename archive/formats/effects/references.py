"""References: the sources and values that a table may have, and how a message shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, shown
from archive.formats.effects.computed import COMPUTED, operand_count
from archive.formats.effects.containers import SPECIAL_KINDS, STATE_KINDS, check_container, head
from archive.formats.effects.gate import check_code, check_place
from archive.formats.effects.known_calls import is_template
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    Each,
    GlobalName,
    Item,
    Length,
    Local,
    Made,
    New,
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.source_text import literal_of, value_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from archive.formats.effects.model import Source, Value

NAMED_KINDS = {"dtype": re.compile(r"torch\.[a-z]\w*"), "device": re.compile(r"[a-z]+(:\d+)?")}
"""Kinds of :class:`Made` that are made of a text, and what the text looks like."""
CONTAINER_KINDS = ("list", "tuple", "dict", "size", *NAMED_KINDS, "format", "inference", *SPECIAL_KINDS)
"""Kinds of :class:`Made` that are values by themselves; hooks are not."""
MOST_SHOWN = 60
"""Characters of a value in a message."""


def short(value: Value) -> str:
    """A value as Python, cut for a message."""
    return value_text(value)[:MOST_SHOWN]


class References:
    """Checks sources and values of one method or of the state, each object once.

    Args:
        made: numbers of the method's temporaries; None for the state, which has none and may hold ``Stored``.
    """

    def __init__(self, made: Collection[int] | None) -> None:
        self._in_state = made is None
        self._made = frozenset(made or ())
        self._seen: dict[int, object] = {}  # by id; holding the object keeps the id its own

    def sources(self, sources: Iterable[Source]) -> None:
        """Check some sources."""
        for source in sources:
            self.source(source)

    def values(self, *values: Value | None) -> None:
        """Check some values, of which None is none."""
        for value in values:
            if value is not None:
                self.value(value)

    def subject(self, value: Value) -> None:
        """Check the subject of a guard, which alone may be computed, or all items of a list."""
        if isinstance(value, At) and isinstance(value.source, Each):
            self.source(value.source.base)
            return
        if not isinstance(value, Computed):
            self.value(value)
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if value.op not in COMPUTED:
            raise ArchiveError(expected=f"one of {', '.join(COMPUTED)}", found=shown(value.op))
        if len(value.items) != operand_count(value.op):
            raise ArchiveError(f"{value.op} of {len(value.items)} operands")
        for item in value.items:
            if not isinstance(item, At | Constant | Computed):
                raise ArchiveError(f"{value.op} of {short(item)}")
            if isinstance(item, Computed):
                self.subject(item)
            else:
                self.value(item)

    def place(self, source: Source) -> None:
        """Refuse a source at which there is no value of its own."""
        if isinstance(source, Length):
            raise ArchiveError("a length, which is no place for a value")
        self.source(source)

    def source(self, source: Source) -> None:
        """Refuse a source below a temporary that no effect makes, or one that the gate refuses."""
        if isinstance(source, Length):
            source = source.base
        while isinstance(source, Attribute | Item):
            if id(source) in self._seen:
                return
            self._seen[id(source)] = source
            if isinstance(source, Attribute):
                check_place(source.name)
            source = source.base
        if isinstance(source, Temporary) and source.number not in self._made:
            raise ArchiveError(f"temporary {source.number}, which nothing makes")
        if isinstance(source, GlobalName | ClosureCell):
            check_place(source.name)
        elif not isinstance(source, Temporary | Local):
            raise ArchiveError(expected="a source", found=shown(source))

    def value(self, value: Value) -> None:
        """Refuse a value that a method, or the state, cannot have."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        match value:
            case Made(kind, items):
                _check_made(value)
                if kind in STATE_KINDS and not self._in_state:
                    raise ArchiveError(f"a {kind}, which is for the state alone")
                for item in items:
                    self.value(item)
            case At(source):
                self.source(source)
            case New(number) if number not in self._made:
                raise ArchiveError(f"object {number}, which nothing makes")
            case Stored(number) if not self._in_state or number < 0:
                raise ArchiveError(f"stored tensor {number}, which is for the state alone")
            case Output(index) if self._in_state or index < 0:
                raise ArchiveError(f"output {index}, which there is not")
            case New() | Stored() | Output() | Constant():
                pass
            case _:
                raise ArchiveError(expected="a value", found=shown(value))


def _check_made(made: Made) -> None:
    """Refuse a kind that there is not, or one of other items."""
    kind, items = made.kind, made.items
    if kind not in CONTAINER_KINDS:
        raise ArchiveError(expected=f"one of {', '.join(CONTAINER_KINDS)}", found=shown(kind))
    check_container(made)
    if isinstance(which := head(made), str):
        check_code(which)
    if kind in NAMED_KINDS and not _is_named(kind, items):
        raise ArchiveError(f"no {kind}: {', '.join(map(short, items))}")
    if kind == "inference" and not (len(items) == 1 and isinstance(items[0], Output)):
        raise ArchiveError("an inference tensor of what is no output")
    if kind == "format" and not _is_formatted(items):
        raise ArchiveError(f"no template of its values: {', '.join(map(short, items[:1]))}")


def _is_named(kind: str, items: tuple[Value, ...]) -> bool:
    text = literal_of(items[0]) if len(items) == 1 else None
    return isinstance(text, str) and NAMED_KINDS[kind].fullmatch(text) is not None


def _is_formatted(items: tuple[Value, ...]) -> bool:
    template = literal_of(items[0]) if items else None
    return isinstance(template, str) and is_template(template, len(items) - 1)
