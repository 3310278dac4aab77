"""Common to all declarations: the columns they return, and how a mismatch finds its place.

A mismatch rises through the declarations that hold the value, and each adds its part of the path: ``field
tag``, then ``row 17``. ``parse`` turns it into an ``ArchiveError``.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from archive.base import memory
from archive.base.columns import distinct_values
from archive.base.errors import ArchiveError, LimitError, one_line, shown
from archive.base.quick_dataclass import dataclass
from archive.pickles.ops import ValueKind
from archive.pickles.write import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.base.columns import Ints
    from archive.base.strings import Strings
    from archive.pickles.tree import Tree
    from archive.pickles.write import Receive

    Emit = Callable[[int], None]

    Declared = TypeVar("Declared")
    Columns = TypeVar("Columns")
    Take = Callable[[Declared, Tree, Ints], Columns]

NUMBER_WIDTH = 8
"""Bytes of a number in a column."""
GATHER_BYTES = 24
"""Bytes of memory for each node while its children are found, gathered and read."""
DISTINCT_BYTES = 72
"""Bytes of memory for each of some numbers while the distinct ones are found."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """A ragged column: n concatenated sequences.

    Attributes:
        first: where each sequence begins; sequence i has ``items[first[i]:first[i + 1]]`` (n + 1).
        items: the columns of all items.
        head: the columns of the value before the items (n), if the declaration has one.
    """

    first: Ints
    items: Any
    head: Any = None

    def bounds(self, index: int) -> tuple[int, int]:
        """Where a sequence begins and ends among the items."""
        return int(self.first[index]), int(self.first[index + 1])


@dataclass(frozen=True, slots=True)
class Repeated:
    """n sequences to be written, several of which may be the same one.

    Attributes:
        index: the number of each sequence (n).
        lists: the distinct ones.
    """

    index: np.ndarray
    lists: Ragged

    def bounds(self, index: int) -> tuple[int, int]:
        """Where a sequence begins and ends among the items."""
        return self.lists.bounds(int(self.index[index]))

    @property
    def items(self) -> Any:  # noqa: ANN401
        """The columns of all items."""
        return self.lists.items


@dataclass(frozen=True, slots=True)
class Gathered:
    """A column of integers to be written, whose parts are looked up in another one on demand.

    Attributes:
        values: the other column.
        index: the row there of each value (n).
    """

    values: Ints
    index: Ints

    def __getitem__(self, part: slice) -> Ints:
        return self.values[self.index[part]]


@dataclass(frozen=True, slots=True)
class Indexed:
    """n references to shared values.

    Attributes:
        index: the number of the value; -1: None (n).
        items: the columns of the distinct values.
    """

    index: Ints
    items: Any


@dataclass(frozen=True, slots=True)
class Links:
    """n chains, which may share links.

    Attributes:
        index: the first link of each chain; -1: None (n).
        next: the link after each link; -1: none (links).
        items: the links' columns.
    """

    index: Ints
    next: Ints
    items: Any


class PickleMismatch(Exception):  # noqa: N818 (leaves `formats` as an ArchiveError, or not at all)
    """Value ``index`` of those given isn't as declared.

    Args:
        expected: the declared value, for the message.
        node: the value found instead.
    """

    def __init__(self, index: int, expected: str, node: int) -> None:
        super().__init__(expected)
        self.index, self.expected, self.node = index, expected, node
        self.path: list[str] = []


class Documented(NamedTuple):
    """A declaration with the doc of its field."""

    item: Declaration
    docs: str


class Declaration:
    """What all declarations have: ``Int() * "bytes"`` has a doc, which a tuple keeps for its field."""

    __slots__ = ()

    def take(self, tree: Tree, nodes: Ints) -> Any:  # noqa: ANN401 (columns differ)
        """The columns of n nodes, after asking for their memory."""
        raise NotImplementedError

    def emitter(self, writer: Writer, columns: Any) -> Emit:  # noqa: ANN401
        """Returns a function that writes value number i of the columns.

        Reading is done by column, but pickles are written value by value: their memo depends on the order.
        """
        raise NotImplementedError

    def __mul__(self, docs: str) -> Documented:
        return Documented(self, docs)


def gathering(take: Take[Declared, Columns]) -> Take[Declared, Columns]:
    """A ``take`` that asks for what each node takes until the columns are done."""

    @wraps(take)
    def lending(self: Declared, tree: Tree, nodes: Ints) -> Columns:
        with memory.lent(GATHER_BYTES * len(nodes), "columns"):
            return take(self, tree, nodes)

    return lending


def parse(schema: Declaration, tree: Tree, pickles: Ints) -> Any:  # noqa: ANN401
    """The columns of whole pickles, given by their numbers; one declaration reads them all."""
    try:
        return schema.take(tree, tree.roots[pickles])
    except PickleMismatch as mismatch:
        raise _fault(tree, mismatch, ", ".join(mismatch.path)) from None
    except LimitError as error:
        raise error.within(record=tree.tokens.pickles[int(pickles[0])].name) from None


@contextmanager
def at_byte(tree: Tree) -> Iterator[None]:
    """Turn mismatches of values that are read one by one into errors; their place is the byte."""
    try:
        yield
    except PickleMismatch as mismatch:
        raise _fault(tree, mismatch) from None


def _fault(tree: Tree, mismatch: PickleMismatch, place: str = "") -> ArchiveError:
    """The error of a mismatch; its place is the byte if no other is given."""
    name, at = tree.tokens.place(mismatch.node)
    found = found_at(tree, mismatch.node)
    return ArchiveError(record=name, place=place or f"byte {at}", expected=mismatch.expected, found=found)


def build(
    schema: Declaration,
    columns: Any,  # noqa: ANN401
    strings: Strings,
    receive: Receive | None = None,
) -> bytes:
    """The pickle of the only value of some columns; nothing, if its bytes are received part by part."""
    with memory.part():
        writer = Writer(strings, receive)
        schema.emitter(writer, columns)(0)
        return writer.finish()


def first_item(tree: Tree, node: int) -> int | None:
    """The first item of a tuple, or None. The others, however many, are not read."""
    parts = tree.parts(node)
    return int(parts[0]) if tree.kind(node) == ValueKind.TUPLE and len(parts) else None


def distinct(numbers: Ints) -> Ints:
    """The distinct ones of some numbers, in ascending order."""
    with memory.lent(DISTINCT_BYTES * len(numbers), "columns"):
        return distinct_values(numbers)


def found_at(tree: Tree, node: int) -> str:
    """A node's value in a few words, for a message."""
    kind = tree.kind(node)
    if kind == ValueKind.INT:
        return shown(int(tree.value[node]))
    if kind == ValueKind.TEXT:
        return shown(str(tree.strings[int(tree.value[node])]))
    if kind in (ValueKind.TUPLE, ValueKind.LIST):
        return f"a {kind.name.lower()} of {len(tree.parts(node))}"
    if kind == ValueKind.GLOBAL:
        return one_line(".".join(tree.names(node)))
    return {ValueKind.NONE: "None", ValueKind.BOOL: "a bool", ValueKind.OBJECT: "an object"}.get(
        kind, f"a {kind.name.lower()}"
    )


def expect(nodes: Ints, good: np.ndarray, expected: str) -> None:
    """Raise a mismatch for the first node that isn't good."""
    if not good.all():
        index = int(np.flatnonzero(~good)[0])
        raise PickleMismatch(index, expected, int(nodes[index]))
