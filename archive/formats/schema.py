"""The vocabulary in which each record's format is declared, once.

A declaration parses (``take``: nodes of a tree -> columns), builds (``emitter``: columns -> pickle) and
describes itself (``str``). It works on all values of one kind at once: ``take`` is given the n nodes
that should match and returns columns of n entries:

=============  =============================================  ================================
declaration    value                                          columns
=============  =============================================  ================================
``Int``        an integer                                     int64 (n)
``Text``       a text                                         index into the tree's strings (n)
``Const``      one text that is always the same               nothing
``Optional``   None or the value                              as the value's, -1 for None
``Tuple``      a tuple of fixed fields                        a dict, by field
``Sequence``   a tuple of any number of items                 ``Rows``
``IntList``    ``build_intlist([…])``                         ``Rows``
``Shared``     a value kept once and referred to              ``Indexed``
``Chain``      a linked list: each tuple holds the next one   ``Links``
``Memo``       the value, with a memo entry of its own        the value's
=============  =============================================  ================================

``Shared``, ``Chain`` and ``Memo`` also say where PyTorch's pickler makes memo entries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from archive.errors import ArchiveError, LimitError, shown
from archive.pickles import write
from archive.pickles.ops import Kind
from archive.pickles.write import CLOSE, MARK, SMALL, Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.limits import Limits
    from archive.pickles.tree import Tree

    Emit = Callable[[int], None]
    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

INTLIST = ("torch.jit._pickle", "build_intlist")


@dataclass(frozen=True, slots=True)
class Rows:
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
        found = None if mismatch.node is None else found_at(tree, mismatch.node)
        raise ArchiveError(
            record=name, place=", ".join(mismatch.path) or None, expected=mismatch.expected, found=found
        ) from None
    except LimitError as error:
        raise error.within(record=tree.tokens.pickles[int(pickles[0])].name) from None


def build(schema: Schema, columns: Any, index: int, writer: Writer) -> bytes:  # noqa: ANN401
    """The pickle of value number ``index`` of some columns."""
    schema.emitter(writer, columns)(index)
    return writer.finish()


def found_at(tree: Tree, node: int) -> str:
    """A node, for a message."""
    kind = tree.kind(node)
    if kind == Kind.INT:
        return shown(int(tree.tokens.arg[node]))
    if kind == Kind.TEXT:
        return shown(str(tree.strings[int(tree.string[node])]))
    if kind in (Kind.TUPLE, Kind.LIST):
        return f"a {kind.name.lower()} of {int(tree.count[node])}"
    if kind == Kind.GLOBAL:
        return ".".join(tree.names(node))
    return {Kind.NONE: "None", Kind.BOOL: "a bool", Kind.OBJECT: "an object"}.get(
        kind, f"a {kind.name.lower()}"
    )


def _expect(nodes: Ints, good: np.ndarray, expected: str) -> None:
    if not good.all():
        index = int(np.flatnonzero(~good)[0])
        raise Mismatch(index, expected, int(nodes[index]))


@dataclass(frozen=True, slots=True)
class Int:
    """An integer between ``low`` and ``high``."""

    low: int = -(1 << 63)
    high: int = (1 << 63) - 1

    def __str__(self) -> str:
        return "int"

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Ints:  # noqa: ARG002
        """int64 (n)."""
        _expect(nodes, tree.kinds(nodes) == Kind.INT, "an int")
        values = tree.tokens.arg[nodes]
        _expect(
            nodes,
            (values >= self.low) & (values <= self.high),
            f"an int from {self.low} to {self.high}",
        )
        return values

    def emitter(self, writer: Writer, columns: Ints) -> Emit:
        """Writes integers of the least width."""
        values, out, wide = columns.tolist(), writer.out.append, write.integer

        def emit(index: int) -> None:
            value = values[index]
            out(SMALL[value] if 0 <= value < len(SMALL) else wide(value))

        return emit


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    def __str__(self) -> str:
        return "str"

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Ints:  # noqa: ARG002
        """Indices of strings (n)."""
        _expect(nodes, tree.kinds(nodes) == Kind.TEXT, "a str")
        return tree.string[nodes]

    def emitter(self, writer: Writer, columns: Ints) -> Emit:
        """Writes texts, memoised by value."""
        values, string = columns.tolist(), writer.string
        return lambda index: string(values[index])


@dataclass(frozen=True, slots=True)
class Const:
    """A text that is always the same."""

    value: str

    def __str__(self) -> str:
        return f'"{self.value}"'

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> None:
        """Nothing, if all texts are this one."""
        strings = Text().take(tree, nodes, limits)
        for string in np.unique(strings).tolist():
            if tree.strings[string] != self.value:
                index = int(np.flatnonzero(strings == string)[0])
                raise Mismatch(index, repr(self.value), int(nodes[index]))

    def emitter(self, writer: Writer, columns: None) -> Emit:  # noqa: ARG002
        """Writes the text."""
        data = self.value.encode()

        def emit(_: int) -> None:
            writer.text(data)

        return emit


@dataclass(frozen=True, slots=True)
class Optional:
    """None, or a value."""

    item: Schema

    def __str__(self) -> str:
        return f"{self.item} or None"

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Any:  # noqa: ANN401
        """As the item's; references and indices are -1 where the value is None."""
        there = np.flatnonzero(tree.kinds(nodes) != Kind.NONE)
        try:
            columns = self.item.take(tree, nodes[there], limits)
        except Mismatch as mismatch:
            mismatch.index = int(there[mismatch.index])
            raise
        index = np.full(len(nodes), -1, np.int64)
        if isinstance(columns, np.ndarray):
            index[there] = columns
            return index
        index[there] = columns.index
        return replace(columns, index=index)

    def emitter(self, writer: Writer, columns: Any) -> Emit:  # noqa: ANN401
        """Writes None or the item."""
        emit_item, out = self.item.emitter(writer, columns), writer.out.append
        index = (columns if isinstance(columns, np.ndarray) else columns.index).tolist()

        def emit(i: int) -> None:
            if index[i] < 0:
                out(write.NONE)
            else:
                emit_item(i)

        return emit


class Tuple:
    """A tuple of named fields."""

    __slots__ = ("fields",)

    def __init__(self, **fields: Schema) -> None:
        self.fields = fields

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {field}" for name, field in self.fields.items())
        return f"({inner}{',' if len(self.fields) == 1 else ''})"

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> dict[str, Any]:
        """A dict from field to its columns."""
        width = len(self.fields)
        good = (tree.kinds(nodes) == Kind.TUPLE) & (tree.count[nodes] == width)
        _expect(nodes, good, f"a tuple of {width}")
        first = tree.first[nodes]
        columns = {}
        for place, (name, field) in enumerate(self.fields.items()):
            try:
                columns[name] = field.take(tree, tree.children[first + place], limits)
            except Mismatch as mismatch:
                mismatch.path.insert(0, f"field {name}")
                raise
        return columns

    def emitter(self, writer: Writer, columns: dict[str, Any]) -> Emit:
        """Writes the fields and closes the tuple."""
        emits = [field.emitter(writer, columns[name]) for name, field in self.fields.items()]
        out, width = writer.out.append, len(emits)
        if width == 3:  # noqa: PLR2004 (the rows of every layout: worth unrolling)
            a, b, c = emits

            def emit_three(index: int) -> None:
                a(index)
                b(index)
                c(index)
                out(CLOSE[3])

            return emit_three
        opening, closing = _brackets(width)

        def emit(index: int) -> None:
            out(opening)
            for emit_field in emits:
                emit_field(index)
            out(closing)

        return emit


def _brackets(width: int) -> tuple[bytes, bytes]:
    return (b"", CLOSE[width]) if width < len(CLOSE) else (MARK, write.TUPLE)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple of any number of items, behind a ``head`` if there is one."""

    item: Schema
    head: Schema | None = None

    def __str__(self) -> str:
        return f"({f'{self.head}, ' if self.head else ''}{self.item}, ...)"

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Rows:
        """The items of all sequences."""
        skip = int(self.head is not None)
        good = (tree.kinds(nodes) == Kind.TUPLE) & (tree.count[nodes] >= skip)
        _expect(nodes, good, "a tuple with a head" if skip else "a tuple")
        head = None if self.head is None else self.head.take(tree, tree.children[tree.first[nodes]], limits)
        return replace(_take_items(self.item, tree, nodes, skip, limits), head=head)

    def emitter(self, writer: Writer, columns: Rows) -> Emit:
        """Writes head and items."""
        emit_item, out, first = self.item.emitter(writer, columns.items), writer.out.append, columns.first
        emit_head = None if self.head is None else self.head.emitter(writer, columns.head)

        def emit(index: int) -> None:
            begin, end = int(first[index]), int(first[index + 1])
            opening, closing = _brackets(end - begin + (emit_head is not None))
            out(opening)
            if emit_head is not None:
                emit_head(index)
            for item in range(begin, end):
                emit_item(item)
            out(closing)

        return emit


def _take_items(schema: Schema, tree: Tree, nodes: Ints, skip: int, limits: Limits) -> Rows:
    """The columns of all children of some nodes, but for the first ``skip`` of each."""
    counts = tree.count[nodes] - skip
    first = np.concatenate(([0], np.cumsum(counts)))
    inside = np.arange(first[-1]) - np.repeat(first[:-1], counts)
    children = tree.children[np.repeat(tree.first[nodes] + skip, counts) + inside]
    try:
        return Rows(first, schema.take(tree, children, limits))
    except Mismatch as mismatch:
        owner = int(np.searchsorted(first, mismatch.index, "right")) - 1
        mismatch.path.insert(0, f"row {mismatch.index - int(first[owner])}")
        mismatch.index = owner
        raise


@dataclass(frozen=True, slots=True)
class IntList:
    """A typed list of integers: ``torch.jit._pickle.build_intlist([...])``."""

    def __str__(self) -> str:
        return "[int, ...]"

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Rows:
        """The integers of all lists."""
        _expect(nodes, tree.kinds(nodes) == Kind.REDUCE, "build_intlist([...])")
        callee = tree.children[tree.first[nodes]]
        for node in np.unique(callee).tolist():
            if tree.kind(node) != Kind.GLOBAL or tree.names(node) != INTLIST:
                raise Mismatch(int(np.flatnonzero(callee == node)[0]), "build_intlist([...])", node)
        arguments = tree.children[tree.first[nodes] + 1]
        _expect(nodes, (tree.kinds(arguments) == Kind.TUPLE) & (tree.count[arguments] == 1), "one list")
        lists = tree.children[tree.first[arguments]]
        _expect(lists, tree.kinds(lists) == Kind.LIST, "a list")
        return _take_items(Int(), tree, lists, 0, limits)

    def emitter(self, writer: Writer, columns: Rows) -> Emit:
        """Writes the list with its builder."""
        emit_item, out, first = (
            Int().emitter(writer, columns.items),
            writer.out.append,
            columns.first.tolist(),
        )

        def emit(index: int) -> None:
            writer.name(*INTLIST)
            out(MARK + write.EMPTY_LIST + MARK)
            for item in range(first[index], first[index + 1]):
                emit_item(item)
            out(write.APPENDS + write.TUPLE + write.REDUCE)

        return emit


@dataclass(frozen=True, slots=True)
class Memo:
    """A value that gets a memo entry, though nothing refers to it."""

    item: Schema

    def __str__(self) -> str:
        return str(self.item)

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Any:  # noqa: ANN401
        """The item's columns."""
        return self.item.take(tree, nodes, limits)

    def emitter(self, writer: Writer, columns: Any) -> Emit:  # noqa: ANN401
        """Writes the item and its memo entry."""
        emit_item = self.item.emitter(writer, columns)

        def emit(index: int) -> None:
            emit_item(index)
            writer.put()

        return emit


@dataclass(frozen=True, slots=True)
class Shared:
    """A value that several others hold: written at its first use, referred to by memo reads later."""

    item: Schema

    def __str__(self) -> str:
        return f"shared {self.item}"

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Indexed:
        """References to the distinct values, which stand in the order of their first use."""
        seen = np.zeros(len(tree.count), np.bool_)
        seen[nodes] = True
        distinct = np.flatnonzero(seen)
        number = np.cumsum(seen) - 1
        try:
            return Indexed(number[nodes], self.item.take(tree, distinct, limits))
        except Mismatch as mismatch:
            mismatch.index = int(np.flatnonzero(nodes == distinct[mismatch.index])[0])
            raise

    def emitter(self, writer: Writer, columns: Indexed) -> Emit:
        """Writes the value, or the memo read of it."""
        emit_item, out, index = (
            self.item.emitter(writer, columns.items),
            writer.out.append,
            columns.index.tolist(),
        )
        written: dict[int, bytes] = {}

        def emit(i: int) -> None:
            item = index[i]
            if item in written:
                out(written[item])
            else:
                emit_item(item)
                written[item] = writer.put()

        return emit


@dataclass(frozen=True, slots=True)
class Chain:
    """Tuples that each hold the next one in the field ``link``, or None; every tuple may be shared."""

    item: Tuple
    link: str

    def __str__(self) -> str:
        return f"chain by {self.link} of {self.item}"

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> Links:
        """The links of all chains, each once."""
        width, place = len(self.item.fields), list(self.item.fields).index(self.link)
        seen = np.zeros(len(tree.count), np.bool_)
        new = nodes
        rounds = 0
        while len(new):
            good = (tree.kinds(new) == Kind.TUPLE) & (tree.count[new] == width)
            if not good.all():
                culprit = int(new[np.flatnonzero(~good)[0]])
                raise self._blame(tree, nodes, place, culprit, Mismatch(0, f"a tuple of {width}", culprit))
            seen[new] = True
            inner = tree.children[tree.first[new] + place]
            new = np.unique(inner[(tree.kinds(inner) != Kind.NONE) & ~seen[inner]])
            rounds += 1
            if rounds > limits.stack_frames:
                raise LimitError("stack_frames", limits.stack_frames, rounds)
        links = np.flatnonzero(seen)
        number = np.cumsum(seen) - 1
        inner = tree.children[tree.first[links] + place]
        following = np.where(tree.kinds(inner) == Kind.NONE, -1, number[inner])
        rest = Tuple(**{**self.item.fields, self.link: _Skipped()})
        try:
            return Links(number[nodes], following, rest.take(tree, links, limits))
        except Mismatch as mismatch:
            raise self._blame(tree, nodes, place, int(links[mismatch.index]), mismatch) from None

    @staticmethod
    def _blame(tree: Tree, nodes: Ints, place: int, culprit: int, mismatch: Mismatch) -> Mismatch:
        """Find a chain that leads to the culprit."""
        for index, first in enumerate(nodes.tolist()):
            node, frame = first, 0
            while node != culprit and tree.kind(node) == Kind.TUPLE and tree.count[node] > place:
                node, frame = int(tree.children[tree.first[node] + place]), frame + 1
            if node == culprit:
                mismatch.index = index
                mismatch.path.insert(0, f"frame {frame}")
                break
        return mismatch

    def emitter(self, writer: Writer, columns: Links) -> Emit:
        """Writes a chain from its first link that is not written yet."""
        index, following = columns.index.tolist(), columns.next.tolist()
        written: dict[int, bytes] = {}
        out = writer.out.append
        names = list(self.item.fields)
        place = names.index(self.link)
        emits = [
            None if name == self.link else field.emitter(writer, columns.items[name])
            for name, field in self.item.fields.items()
        ]
        before, after = emits[:place], emits[place + 1 :]
        opening, closing = _brackets(len(names))

        def emit(i: int) -> None:
            link = index[i]
            opened = []
            while link >= 0 and link not in written:
                out(opening)
                for field in before:
                    if field:
                        field(link)
                opened.append(link)
                link = following[link]
            out(written[link] if link >= 0 else write.NONE)
            for done in reversed(opened):
                for field in after:
                    if field:
                        field(done)
                out(closing)
                written[done] = writer.put()

        return emit


class _Skipped:
    """A field that is taken elsewhere."""

    def take(self, tree: Tree, nodes: Ints, limits: Limits) -> None:
        """Nothing."""

    def emitter(self, writer: Writer, columns: None) -> Emit:  # noqa: ARG002
        """Nothing to write."""
        return lambda _: None
