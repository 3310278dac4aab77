"""Declarations of values that several others hold, and of memo entries: Memo, Shared, Chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.errors import LimitError
from archive.formats.schema.containers import Tuple, brackets
from archive.formats.schema.core import Indexed, Links, Mismatch
from archive.pickles import write
from archive.pickles.ops import Kind

if TYPE_CHECKING:
    from archive.formats.schema.core import Emit, Ints, Schema
    from archive.limits import Limits
    from archive.pickles.tree import Tree
    from archive.pickles.write import Writer


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
        opening, closing = brackets(len(names))

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
