"""Declarations of single values: Int, String, Const, Optional, Value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base import memory
from archive.base.quick_dataclass import dataclass
from archive.formats.schema.pickled.core import (
    NUMBER_WIDTH,
    Declaration,
    PickleMismatch,
    distinct,
    expect,
    gathering,
)
from archive.pickles import write
from archive.pickles.ops import BYTE_OF, ValueKind

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.formats.schema.pickled.core import Emit
    from archive.pickles.tree import Tree
    from archive.pickles.write import Writer


@dataclass(frozen=True, slots=True)
class Int(Declaration):
    """An integer between ``low`` and ``high``."""

    low: int = -(1 << 63)
    high: int = (1 << 63) - 1

    def __str__(self) -> str:
        return "int"

    def take(self, tree: Tree, nodes: Ints) -> Ints:
        memory.take(NUMBER_WIDTH * len(nodes), "columns")
        expect(nodes, tree.are(nodes, ValueKind.INT), "an int")
        values = tree.value[nodes]
        expect(
            nodes,
            (values >= self.low) & (values <= self.high),
            f"an int from {self.low} to {self.high}",
        )
        return values.astype(np.int64)

    def emitter(self, writer: Writer, columns: Ints) -> Emit:
        """Writes integers in the least width."""
        part, out = write.Integers(columns).part, writer.out.write

        def emit(index: int) -> None:
            out(part(index, index + 1))

        return emit


@dataclass(frozen=True, slots=True)
class String(Declaration):
    """A text; an error calls it ``expected``."""

    expected: str = "a str"

    def __str__(self) -> str:
        return "str"

    def take(self, tree: Tree, nodes: Ints) -> Ints:
        """The texts' indices in the tree's strings (n)."""
        memory.take(NUMBER_WIDTH * len(nodes), "columns")
        expect(nodes, tree.are(nodes, ValueKind.TEXT), self.expected)
        return tree.value[nodes].astype(np.int64)

    def index(self, tree: Tree, node: int) -> int:
        """One text's index, for readers that need few of many values."""
        if tree.kind(node) != ValueKind.TEXT:
            raise PickleMismatch(0, self.expected, node)
        return int(tree.value[node])

    def emitter(self, writer: Writer, columns: Ints) -> Emit:
        values, string = columns.data, writer.string
        return lambda index: string(values[index])


@dataclass(frozen=True, slots=True)
class Const(Declaration):
    """A text that is always the same."""

    value: str

    def __str__(self) -> str:
        return f'"{self.value}"'

    def take(self, tree: Tree, nodes: Ints) -> None:
        """Refuses every other text; there are no columns."""
        strings = String().take(tree, nodes)
        for string in distinct(strings).tolist():
            if tree.strings[string] != self.value:
                index = int(np.flatnonzero(strings == string)[0])
                raise PickleMismatch(index, repr(self.value), int(nodes[index]))

    def emitter(self, writer: Writer, columns: None) -> Emit:  # noqa: ARG002
        data = self.value.encode()

        def emit(_: int) -> None:
            writer.text(data)

        return emit


@dataclass(frozen=True, slots=True)
class Optional(Declaration):
    """None, or a value."""

    item: Declaration

    def __str__(self) -> str:
        return f"{self.item} or None"

    @gathering
    def take(self, tree: Tree, nodes: Ints) -> Any:  # noqa: ANN401
        """The item's columns; references and indices are -1 where the value is None."""
        there = np.flatnonzero(~tree.are(nodes, ValueKind.NONE))
        try:
            columns = self.item.take(tree, nodes[there])
        except PickleMismatch as mismatch:
            mismatch.index = int(there[mismatch.index])
            raise
        index = np.full(len(nodes), -1, np.int64)
        if isinstance(columns, np.ndarray):
            index[there] = columns
            return index
        index[there] = columns.index
        return replace(columns, index=index)

    def emitter(self, writer: Writer, columns: Any) -> Emit:  # noqa: ANN401
        emit_item, out, none = self.item.emitter(writer, columns), writer.out.write, BYTE_OF["NONE"]
        index = (columns if isinstance(columns, np.ndarray) else columns.index).data

        def emit(i: int) -> None:
            if index[i] < 0:
                out(none)
            else:
                emit_item(i)

        return emit


class Value(Declaration):
    """Any value, which is not read."""

    __slots__ = ()

    def __str__(self) -> str:
        return "value"

    def take(self, tree: Tree, nodes: Ints) -> Ints:  # noqa: ARG002
        return nodes

    def emitter(self, writer: Writer, columns: Ints) -> Emit:
        """Values that were not read are not written."""
        raise NotImplementedError
