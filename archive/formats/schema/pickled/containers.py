"""Declarations of tuples and lists: Tuple, Opening, Keyed, Sequence, IntList."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from archive.base import memory
from archive.base.columns import firsts, spread, windows
from archive.base.quick_dataclass import dataclass
from archive.formats.schema.pickled.core import (
    GATHER_BYTES,
    NUMBER_WIDTH,
    Declaration,
    Documented,
    PickleMismatch,
    Ragged,
    Repeated,
    distinct,
    expect,
    gathering,
)
from archive.formats.schema.pickled.scalars import Int, Value
from archive.pickles import write
from archive.pickles.ops import BYTE_OF, ValueKind
from archive.pickles.write import TUPLE_CLOSINGS, Run, rows_of

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.formats.schema.pickled.core import Emit
    from archive.pickles.tree import Tree
    from archive.pickles.write import Sliced, Writer

    Written = bytes | Sliced | Emit
    """How a part of each row is written: as fixed bytes, as a column of integers, or by a function."""

Item = TypeVar("Item", bound="Declaration")
ITEMS = 1 << 9
"""Number of items after which the bytes of the pickle are counted."""
INTLIST = ("torch.jit._pickle", "build_intlist")


class Tuple(Declaration):
    """A tuple of named fields.

    Args:
        expected: what an error calls it, if not "a tuple of 3".
        fields: their declarations, in order, each with a doc where the name doesn't say it all:
            ``start=Int(low=0) * "the first byte"``.
    """

    __slots__ = ("docs", "expected", "fields")
    more = False
    """Whether other values may follow the fields."""

    def __init__(self, expected: str = "", /, **fields: Declaration | Documented) -> None:
        self.expected = expected or f"a tuple of {len(fields)}"
        self.fields, self.docs = parted(fields)

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {field}" for name, field in self.fields.items())
        return f"({inner}{', ...' if self.more else ',' if len(self.fields) == 1 else ''})"

    @gathering
    def take(self, tree: Tree, nodes: Ints) -> dict[str, Any]:
        """The columns of each field, by its name."""
        (first, count), width = tree.spans(nodes), len(self.fields)
        fits = count >= width if self.more else count == width
        expect(nodes, tree.are(nodes, ValueKind.TUPLE) & fits, self.expected)
        columns = {}
        for place, (name, field) in enumerate(self.fields.items()):
            try:
                columns[name] = field.take(tree, tree.children[first + place])
            except PickleMismatch as mismatch:
                mismatch.path.insert(0, f"field {name}")
                raise
        return columns

    def nodes(self, tree: Tree, node: int) -> list[int]:
        parts, width = tree.parts(node), len(self.fields)
        count = len(parts)
        if tree.kind(node) != ValueKind.TUPLE or count < width or (count > width and not self.more):
            raise PickleMismatch(0, self.expected, node)
        fields: list[int] = parts[:width].tolist()
        return fields

    def emitter(self, writer: Writer, columns: dict[str, Any]) -> Emit:
        """Writes the fields and closes the tuple."""
        return emitter_of(self.written(writer, columns), writer)

    def written(self, writer: Writer, columns: dict[str, Any]) -> list[Written]:
        """What is written for each row, in order."""
        opening, closing = brackets(len(self.fields))
        return [opening, *written(self.fields, writer, columns), closing]


def parted(fields: dict[str, Item | Documented]) -> tuple[dict[str, Item], dict[str, str]]:
    """The declarations of fields, and the docs of those that have one."""
    docs = {name: item.docs for name, item in fields.items() if isinstance(item, Documented)}
    items: Any = {name: item.item if isinstance(item, Documented) else item for name, item in fields.items()}
    return items, docs


def written(fields: dict[str, Declaration], writer: Writer, columns: dict[str, Any]) -> list[Written]:
    """What is written for each row of some fields, in order."""
    parts: list[Written] = []
    for name, field in fields.items():
        if isinstance(field, Tuple):
            parts += field.written(writer, columns[name])
        else:
            parts.append(columns[name] if isinstance(field, Int) else field.emitter(writer, columns[name]))
    return parts


def emitter_of(parts: list[Written], writer: Writer) -> Emit:
    """Writes the parts of each row: integers, with the fixed bytes around them, at once."""
    emits: list[Emit] = []
    runs: list[Run] = []
    fixed = b""
    for part in [*parts, _nothing]:
        if isinstance(part, bytes):
            fixed += part
        elif not callable(part):
            runs.append(Run(fixed, part, b""))
            fixed = b""
        else:
            if runs:
                runs[-1] = runs[-1]._replace(tail=fixed)
                emits.append(_run_emitter(runs, writer))
            elif fixed:
                emits.append(_fixed_emitter(fixed, writer))
            emits.append(part)
            runs, fixed = [], b""
    *emits, _ = emits
    if len(emits) == 1:
        return emits[0]
    if len(emits) == 3:  # noqa: PLR2004 (the rows of every layout: worth unrolling)
        a, b, c = emits

        def emit_three(index: int) -> None:
            a(index)
            b(index)
            c(index)

        return emit_three

    def emit(index: int) -> None:
        for emit_part in emits:
            emit_part(index)

    return emit


def _nothing(_: int) -> None:
    """Ends the last run."""


def _fixed_emitter(fixed: bytes, writer: Writer) -> Emit:
    out = writer.out.write

    def emit(_: int) -> None:
        out(fixed)

    return emit


def _run_emitter(runs: list[Run], writer: Writer) -> Emit:
    """Writes rows of runs; consecutive ones are made many at a time."""
    out = writer.out.write
    begin, rows = 0, list[bytes]()

    def emit(index: int) -> None:
        nonlocal begin, rows
        at = index - begin
        if at == len(rows):
            begin, rows, at = index, rows_of(runs, index, index + ITEMS), 0
        if 0 <= at < len(rows):
            out(rows[at])
        else:
            out(rows_of(runs, index, index + 1)[0])

    return emit


def brackets(width: int) -> tuple[bytes, bytes]:
    """The instructions that open and close a tuple of ``width`` items."""
    if width < len(TUPLE_CLOSINGS):
        return b"", TUPLE_CLOSINGS[width]
    return BYTE_OF["MARK"], BYTE_OF["TUPLE"]


class Opening(Tuple):
    """A tuple that opens with named fields; what follows them is not read."""

    __slots__ = ()
    more = True


class Keyed(Value):
    """A tuple of pairs of key and value; fields are looked up by key, one table at a time.

    Args:
        owner: what an error calls the owner of the table: "a method".
        fields: the declarations of values, by their keys: sequences.
    """

    __slots__ = ("docs", "fields", "owner")

    def __init__(self, owner: str, /, **fields: Sequence | Documented) -> None:
        self.owner = owner
        self.fields, self.docs = parted(fields)

    def __str__(self) -> str:
        pairs = (f'("{key}", {value})' for key, value in self.fields.items())
        return f"({', '.join(pairs)}, ...)"

    def node(self, tree: Tree, node: int, key: str) -> int:
        """The value under the first key of this name."""
        if tree.kind(node) != ValueKind.TUPLE:
            raise PickleMismatch(0, f"{self.owner}'s table", node)
        wanted = key.encode()
        for entry in tree.parts(node).data:
            name, value = _PAIR.nodes(tree, entry)
            if tree.kind(name) == ValueKind.TEXT and tree.strings.data(int(tree.value[name])) == wanted:
                return value
        raise PickleMismatch(0, f"{self.owner} with {key}", node)

    def nodes(self, tree: Tree, node: int, key: str) -> memoryview:
        """The items of the sequence under a key, for readers that need few of many values."""
        return self.fields[key].nodes(tree, self.node(tree, node, key))


_PAIR = Opening("a pair of key and value", key=Value(), value=Value())


@dataclass(frozen=True, slots=True)
class Sequence(Declaration):
    """A tuple of any number of items, after a ``head`` if there is one.

    Attributes:
        expected: what an error calls it, if not "a tuple".
    """

    item: Declaration
    head: Declaration | None = None
    expected: str = ""

    def __str__(self) -> str:
        return f"({f'{self.head}, ' if self.head else ''}{self.item}, ...)"

    @gathering
    def take(self, tree: Tree, nodes: Ints) -> Ragged:
        skip = int(self.head is not None)
        first, count = tree.spans(nodes)
        good = tree.are(nodes, ValueKind.TUPLE) & (count >= skip)
        expect(nodes, good, self.expected or ("a tuple with a head" if skip else "a tuple"))
        head = None if self.head is None else self.head.take(tree, tree.children[first])
        first += skip
        count -= skip
        return replace(_take_items(self.item, tree, nodes, (first, count)), head=head)

    def nodes(self, tree: Tree, node: int) -> memoryview:
        skip = int(self.head is not None)
        parts = tree.parts(node)
        if tree.kind(node) != ValueKind.TUPLE or len(parts) < skip:
            raise PickleMismatch(0, self.expected or "a tuple", node)
        return parts[skip:].data

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


def _take_items(schema: Declaration, tree: Tree, nodes: Ints, spans: tuple[Ints, Ints]) -> Ragged:
    """The columns of children of some nodes.

    Args:
        spans: where the children of each node begin among the tree's, and how many they are.
    """
    memory.take(3 * NUMBER_WIDTH * len(nodes), "columns")
    begin, counts = spans
    first = firsts(counts)
    name, at = tree.tokens.place(int(nodes[counts.argmax()])) if len(nodes) else ("", 0)
    with memory.lent(GATHER_BYTES * int(first[-1]), "items", record=name, place=f"byte {at}"):
        children = tree.children[spread(begin, counts)]
        try:
            return Ragged(first, schema.take(tree, children))
        except PickleMismatch as mismatch:
            owner = int(np.searchsorted(first, mismatch.index, "right")) - 1
            mismatch.path.insert(0, f"row {mismatch.index - int(first[owner])}")
            mismatch.index = owner
            raise


def _take_integers(tree: Tree, nodes: Ints, dtype: np.dtype[np.signedinteger]) -> Ragged:
    """The integers in some lists, part by part, so that only the integers themselves take memory."""
    memory.take(3 * NUMBER_WIDTH * len(nodes), "columns")
    begin, counts = tree.spans(nodes)
    first = firsts(counts)
    name, at = tree.tokens.place(int(nodes[counts.argmax()])) if len(nodes) else ("", 0)
    memory.take(dtype.itemsize * int(first[-1]), "items", record=name, place=f"byte {at}")
    items = np.empty(int(first[-1]), dtype)
    for low, high in windows(first):
        with memory.part():
            try:
                spans = begin[low:high], counts[low:high]
                part = _take_items(Int(), tree, nodes[low:high], spans)
            except PickleMismatch as mismatch:
                mismatch.index += low
                raise
            items[int(first[low]) : int(first[high])] = part.items
    return Ragged(first, items)


@dataclass(frozen=True, slots=True)
class IntList(Declaration):
    """A typed list of integers: ``torch.jit._pickle.build_intlist([...])``.

    Attributes:
        narrow: whether their column may have 32 bits, if the numbers of the whole tree do.
    """

    narrow: bool = False

    def __str__(self) -> str:
        return "[int, ...]"

    @gathering
    def take(self, tree: Tree, nodes: Ints) -> Ragged:
        expect(nodes, tree.are(nodes, ValueKind.REDUCE), "build_intlist([...])")
        call, _ = tree.spans(nodes)
        callee = tree.children[call]
        for node in distinct(callee).tolist():
            if tree.kind(node) != ValueKind.GLOBAL or tree.names(node) != INTLIST:
                raise PickleMismatch(int(np.flatnonzero(callee == node)[0]), "build_intlist([...])", node)
        arguments = tree.children[call + 1]
        first, count = tree.spans(arguments)
        expect(nodes, tree.are(arguments, ValueKind.TUPLE) & (count == 1), "one list")
        lists = tree.children[first]
        expect(lists, tree.are(lists, ValueKind.LIST), "a list")
        dtype = tree.value.dtype if self.narrow else np.dtype(np.int64)
        return _take_integers(tree, lists, dtype)

    def emitter(self, writer: Writer, columns: Ragged | Repeated) -> Emit:
        """Writes the list and the call that builds it."""
        out = writer.out.write
        part, bounds = write.Integers(columns.items).part, columns.bounds
        name, once = write.global_name(*INTLIST), writer.once
        opening = BYTE_OF["MARK"] + BYTE_OF["EMPTY_LIST"] + BYTE_OF["MARK"]
        closing = BYTE_OF["APPENDS"] + BYTE_OF["TUPLE"] + BYTE_OF["REDUCE"]

        known = b""

        def emit(index: int) -> None:
            nonlocal known
            begin, end = bounds(index)
            if known:
                out(known + part(begin, end) + closing)
            else:
                known = write.memo_read(once(name)) + opening
                out(opening + part(begin, end) + closing)
            if end - begin > ITEMS:
                writer.count()

        return emit
