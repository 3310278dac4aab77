"""Declarations of tuples and lists: Tuple, Sequence, IntList."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base.columns import firsts, spread
from archive.formats.schema.core import (
    GATHER_BYTES,
    NUMBER_BYTES,
    Mismatch,
    Ragged,
    Repeated,
    distinct,
    expect,
    gathering,
)
from archive.formats.schema.scalars import Int
from archive.pickles import write
from archive.pickles.ops import BYTE_OF, ValueKind
from archive.pickles.write import TUPLE_CLOSINGS

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.formats.schema.core import Emit, Schema
    from archive.pickles.tree import Tree
    from archive.pickles.write import Writer

ITEMS = 1 << 9
"""Items of a sequence, or of lists, after which the bytes of the pickle are counted."""
INTLIST = ("torch.jit._pickle", "build_intlist")


class Tuple:
    """A tuple of named fields."""

    __slots__ = ("fields",)

    def __init__(self, **fields: Schema) -> None:
        self.fields = fields

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {field}" for name, field in self.fields.items())
        return f"({inner}{',' if len(self.fields) == 1 else ''})"

    @gathering
    def take(self, tree: Tree, nodes: Ints, allowance: Allowance) -> dict[str, Any]:
        """The columns of each field, by its name."""
        width = len(self.fields)
        good = (tree.kinds(nodes) == ValueKind.TUPLE) & (tree.count[nodes] == width)
        expect(nodes, good, f"a tuple of {width}")
        first = tree.first[nodes]
        columns = {}
        for place, (name, field) in enumerate(self.fields.items()):
            try:
                columns[name] = field.take(tree, tree.children[first + place], allowance)
            except Mismatch as mismatch:
                mismatch.path.insert(0, f"field {name}")
                raise
        return columns

    def emitter(self, writer: Writer, columns: dict[str, Any]) -> Emit:
        """Writes the fields and closes the tuple."""
        emits = [field.emitter(writer, columns[name]) for name, field in self.fields.items()]
        out, width = writer.out.write, len(emits)
        opening, closing = brackets(width)
        if width == 3:  # noqa: PLR2004 (the rows of every layout: worth unrolling)
            a, b, c = emits

            def emit_three(index: int) -> None:
                a(index)
                b(index)
                c(index)
                out(closing)

            return emit_three

        def emit(index: int) -> None:
            out(opening)
            for emit_field in emits:
                emit_field(index)
            out(closing)

        return emit


def brackets(width: int) -> tuple[bytes, bytes]:
    """The instructions that open and close a tuple of so many items."""
    if width < len(TUPLE_CLOSINGS):
        return b"", TUPLE_CLOSINGS[width]
    return BYTE_OF["MARK"], BYTE_OF["TUPLE"]


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple of any number of items, behind a ``head`` if there is one."""

    item: Schema
    head: Schema | None = None

    def __str__(self) -> str:
        return f"({f'{self.head}, ' if self.head else ''}{self.item}, ...)"

    @gathering
    def take(self, tree: Tree, nodes: Ints, allowance: Allowance) -> Ragged:
        """The items of all sequences."""
        skip = int(self.head is not None)
        good = (tree.kinds(nodes) == ValueKind.TUPLE) & (tree.count[nodes] >= skip)
        expect(nodes, good, "a tuple with a head" if skip else "a tuple")
        head = (
            None if self.head is None else self.head.take(tree, tree.children[tree.first[nodes]], allowance)
        )
        return replace(_take_items(self.item, tree, nodes, skip, allowance), head=head)

    def emitter(self, writer: Writer, columns: Ragged) -> Emit:
        """Writes the head, the items, and the end of the tuple."""
        emit_item, out, bounds = self.item.emitter(writer, columns.items), writer.out.write, columns.bounds
        emit_head = None if self.head is None else self.head.emitter(writer, columns.head)

        def emit(index: int) -> None:
            begin, end = bounds(index)
            opening, closing = brackets(end - begin + (emit_head is not None))
            out(opening)
            if emit_head is not None:
                emit_head(index)
            for low in range(begin, end, ITEMS):
                for item in range(low, min(low + ITEMS, end)):
                    emit_item(item)
                writer.count()
            out(closing)

        return emit


def _take_items(schema: Schema, tree: Tree, nodes: Ints, skip: int, allowance: Allowance) -> Ragged:
    """The columns of all children of some nodes, except the first ``skip`` of each."""
    allowance.take(3 * NUMBER_BYTES * len(nodes), "columns")
    counts = tree.count[nodes] - skip
    first = firsts(counts)
    name, at = tree.tokens.place(int(nodes[counts.argmax()])) if len(nodes) else ("", 0)
    with allowance.lent(GATHER_BYTES * int(first[-1]), "items", record=name, place=f"byte {at}"):
        children = tree.children[spread(tree.first[nodes] + skip, counts)]
        try:
            return Ragged(first, schema.take(tree, children, allowance))
        except Mismatch as mismatch:
            owner = int(np.searchsorted(first, mismatch.index, "right")) - 1
            mismatch.path.insert(0, f"row {mismatch.index - int(first[owner])}")
            mismatch.index = owner
            raise


class IntList:
    """A typed list of integers: ``torch.jit._pickle.build_intlist([...])``."""

    __slots__ = ()

    def __str__(self) -> str:
        return "[int, ...]"

    @gathering
    def take(self, tree: Tree, nodes: Ints, allowance: Allowance) -> Ragged:
        """The integers of all lists."""
        expect(nodes, tree.kinds(nodes) == ValueKind.REDUCE, "build_intlist([...])")
        callee = tree.children[tree.first[nodes]]
        for node in distinct(callee, allowance):
            if tree.kind(node) != ValueKind.GLOBAL or tree.names(node) != INTLIST:
                raise Mismatch(int(np.flatnonzero(callee == node)[0]), "build_intlist([...])", node)
        arguments = tree.children[tree.first[nodes] + 1]
        expect(nodes, (tree.kinds(arguments) == ValueKind.TUPLE) & (tree.count[arguments] == 1), "one list")
        lists = tree.children[tree.first[arguments]]
        expect(lists, tree.kinds(lists) == ValueKind.LIST, "a list")
        return _take_items(Int(), tree, lists, 0, allowance)

    def emitter(self, writer: Writer, columns: Ragged | Repeated) -> Emit:
        """Writes the list and the call that builds it."""
        out = writer.out.write
        part, bounds = write.Integers(columns.items).part, columns.bounds
        opening = BYTE_OF["MARK"] + BYTE_OF["EMPTY_LIST"] + BYTE_OF["MARK"]
        closing = BYTE_OF["APPENDS"] + BYTE_OF["TUPLE"] + BYTE_OF["REDUCE"]

        def emit(index: int) -> None:
            writer.name(*INTLIST)
            begin, end = bounds(index)
            out(opening + part(begin, end) + closing)
            if end - begin > ITEMS:
                writer.count()

        return emit
