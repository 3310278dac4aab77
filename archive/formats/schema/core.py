"""What all declarations share: the columns they give, and how a mismatch finds its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from archive.base.errors import ArchiveError, LimitError, shown
from archive.pickles.ops import ValueKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.limits import Limits
    from archive.pickles.tree import Tree
    from archive.pickles.write import Writer

    Emit = Callable[[int], None]
    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Items of n sequences, one after the other: sequence i has ``items[first[i]:first[i + 1]]``.

    ``head`` holds the columns of what stands before the items, if anything does.
    """

    first: Ints
    items: Any
    head: Any = None


@dataclass(frozen=True, slots=True)
class Indexed:
    """n references into the columns of the distinct values; -1 is None."""

    index: Ints
    items: Any


@dataclass(frozen=True, slots=True)
class Links:
    """n references to first links, for each link the next one (-1: none), and the links' columns."""

    index: Ints
    next: Ints
    items: Any


class Mismatch(Exception):  # noqa: N818 (becomes an ArchiveError at once)
    """Value ``index`` of those given is not as declared; ``path`` leads to the part that is not."""

    def __init__(self, index: int, expected: str, node: int | None = None) -> None:
        super().__init__(expected)
        self.index, self.expected, self.node = index, expected, node
        self.path: list[str] = []


class Schema(Protocol):
    """A declaration."""

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Any:  # noqa: ANN401 (columns differ)
        """The columns of n nodes."""

    def emitter(self, writer: Writer, columns: Any) -> Emit:  # noqa: ANN401
        """A function that writes value number i of the columns."""


def parse(schema: Schema, tree: Tree, pickles: Ints, limits: Limits) -> Any:  # noqa: ANN401
    """The columns of whole pickles, given by their numbers.

    Raises:
        ArchiveError: naming record, row and field of the first value that is not as declared.
    """
    try:
        return schema.take(tree, tree.roots[pickles], limits)
    except Mismatch as mismatch:
        name = tree.tokens.pickles[int(pickles[mismatch.index])].name
        place, found = ", ".join(mismatch.path), None
        if mismatch.node is not None:
            place, found = (
                place or f"byte {tree.tokens.place(mismatch.node)[1]}",
                found_at(tree, mismatch.node),
            )
        raise ArchiveError(record=name, place=place, expected=mismatch.expected, found=found) from None
    except LimitError as error:
        raise error.within(record=tree.tokens.pickles[int(pickles[0])].name) from None


def build(schema: Schema, columns: Any, index: int, writer: Writer) -> bytes:  # noqa: ANN401
    """The pickle of value number ``index`` of some columns."""
    schema.emitter(writer, columns)(index)
    return writer.finish()


def found_at(tree: Tree, node: int) -> str:
    """A node, for a message."""
    kind = tree.kind(node)
    if kind == ValueKind.INT:
        return shown(int(tree.value[node]))
    if kind == ValueKind.TEXT:
        return shown(str(tree.strings[int(tree.value[node])]))
    if kind in (ValueKind.TUPLE, ValueKind.LIST):
        return f"a {kind.name.lower()} of {int(tree.count[node])}"
    if kind == ValueKind.GLOBAL:
        return ".".join(tree.names(node))
    return {ValueKind.NONE: "None", ValueKind.BOOL: "a bool", ValueKind.OBJECT: "an object"}.get(
        kind, f"a {kind.name.lower()}"
    )


def expect(nodes: Ints, good: np.ndarray, expected: str) -> None:
    """Refuse the first node that is not good."""
    if not good.all():
        index = int(np.flatnonzero(~good)[0])
        raise Mismatch(index, expected, int(nodes[index]))
