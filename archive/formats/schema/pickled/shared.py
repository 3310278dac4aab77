"""Declarations of shared values and of memo entries: Memo, Shared, Chain.

Sharing is part of the format: a source that 1,000 ranges refer to is in the pickle once, followed by 999 memo
reads. So ``take`` finds the distinct nodes, and ``emitter`` writes a value the first time and its memo read
from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base import memory
from archive.base.columns import sums_along
from archive.base.errors import LimitError
from archive.base.quick_dataclass import dataclass
from archive.formats.schema.pickled.containers import Tuple, brackets, emitter_of, written
from archive.formats.schema.pickled.core import (
    NUMBER_WIDTH,
    Declaration,
    Indexed,
    Links,
    PickleMismatch,
    distinct,
)
from archive.pickles.ops import BYTE_OF, ValueKind
from archive.pickles.write import MEMO_BYTES, memo_read

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.formats.schema.pickled.core import Emit
    from archive.pickles.tree import Tree
    from archive.pickles.write import Writer

SEEN_BYTES = 1
"""Bytes of memory for each token of the tree while distinct nodes are found."""
LINK_BYTES = 24
"""Bytes of memory for each link of one round, while the next ones are found."""
DEPTH_BYTES = 48
"""Bytes of memory for each link while its depth is counted, and besides its columns."""


@dataclass(frozen=True, slots=True)
class Memo(Declaration):
    """A value with a memo entry that nothing reads: PyTorch held a second reference to it."""

    item: Declaration

    def __str__(self) -> str:
        return str(self.item)

    def take(self, tree: Tree, nodes: Ints) -> Any:  # noqa: ANN401
        return self.item.take(tree, nodes)

    def emitter(self, writer: Writer, columns: Any) -> Emit:  # noqa: ANN401
        """Writes the item and its memo entry."""
        emit_item = self.item.emitter(writer, columns)

        def emit(index: int) -> None:
            emit_item(index)
            writer.put()

        return emit


@dataclass(frozen=True, slots=True)
class Shared(Declaration):
    """A value that several others hold: written at its first use, referred to by memo reads later."""

    item: Declaration

    def __str__(self) -> str:
        return f"shared {self.item}"

    def take(self, tree: Tree, nodes: Ints) -> Indexed:
        """References to the distinct values, which are in the order of their first use."""
        # A node is the token that made the value, so ascending nodes are values in order of first use.
        memory.take(2 * NUMBER_WIDTH * len(nodes), "columns")
        with memory.lent(SEEN_BYTES * len(tree.value), "columns"):
            seen = np.zeros(len(tree.value), np.bool_)
            seen[nodes] = True
            values = np.flatnonzero(seen)
            del seen
        try:
            return Indexed(np.searchsorted(values, nodes), self.item.take(tree, values))
        except PickleMismatch as mismatch:
            mismatch.index = int(np.flatnonzero(nodes == values[mismatch.index])[0])
            raise

    def emitter(self, writer: Writer, columns: Indexed) -> Emit:
        """Writes the value, or its memo read if it was already written."""
        count = int(columns.index.max(initial=-1)) + 1
        writer.take(count, np.dtype(np.int32).itemsize)
        emit_item, out = self.item.emitter(writer, columns.items), writer.out.write
        index, entries = columns.index.data, np.full(count, -1, np.int32).data

        def emit(i: int) -> None:
            item = index[i]
            if entries[item] >= 0:
                out(memo_read(entries[item]))
            else:
                emit_item(item)
                entries[item] = writer.entries
                writer.put()

        return emit


class NextInChain(Declaration):
    """The field of a chain's tuple that holds the next one. ``Chain`` itself reads and writes it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "the next or None"

    def take(self, tree: Tree, nodes: Ints) -> None:
        """Nothing to read."""

    def emitter(self, writer: Writer, columns: None) -> Emit:  # noqa: ARG002
        """Nothing to write."""
        return lambda _: None


@dataclass(frozen=True, slots=True)
class Chain(Declaration):
    """Linked lists: each tuple holds the next one, or None, in its field ``link``. Every tuple may be shared.

    ::

        stack of row 1 ── (module, tag, inner, function)
                                          └── (module, tag, inner, function)
        stack of row 2 ───────────────────┘                  └── None
    """

    item: Tuple
    link: str

    def __str__(self) -> str:
        return f"chain by {self.link} of {self.item}"

    def take(self, tree: Tree, nodes: Ints) -> Links:
        """The links of all chains, each only once.

        All chains advance by one link in each round; links that were seen before are not followed again.
        """
        with memory.lent(SEEN_BYTES * len(tree.value), "columns"):
            seen = self._reached(tree, nodes)
            count = int(np.count_nonzero(seen))
            memory.take(NUMBER_WIDTH * len(nodes) + DEPTH_BYTES * count, "columns")
            links = np.flatnonzero(seen)
            del seen
        inner = self._inner(tree, links)
        following = np.where(tree.are(inner, ValueKind.NONE), -1, np.searchsorted(links, inner))
        depth = sums_along(following, np.ones(len(links), np.int64))
        if depth.max(initial=0) > memory.limits().frames:
            name, at = tree.tokens.place(int(links[depth.argmax()]))
            most = memory.limits().frames
            raise LimitError("frames", most, int(depth.max()), record=name, place=f"byte {at}")
        del depth
        try:
            return Links(np.searchsorted(links, nodes), following, self.item.take(tree, links))
        except PickleMismatch as mismatch:
            raise self._blame(tree, nodes, links, int(links[mismatch.index]), mismatch) from None

    def _reached(self, tree: Tree, nodes: Ints) -> np.ndarray:
        """For each token of the tree, whether it is a link of one of the chains."""
        width = len(self.item.fields)
        seen = np.zeros(len(tree.value), np.bool_)
        new = nodes
        rounds = 0
        while len(new):
            good = tree.are(new, ValueKind.TUPLE) & (tree.spans(new)[1] == width)
            if not good.all():
                culprit = int(new[np.flatnonzero(~good)[0]])
                mismatch = PickleMismatch(0, f"a tuple of {width}", culprit)
                raise self._blame(tree, nodes, np.flatnonzero(seen), culprit, mismatch)
            seen[new] = True
            with memory.lent(LINK_BYTES * len(new), "columns"):
                inner = self._inner(tree, new)
                further = inner[~tree.are(inner, ValueKind.NONE) & ~seen[inner]]
                new = distinct(further)
            rounds += 1
            if rounds > memory.limits().frames:
                raise LimitError("frames", memory.limits().frames, rounds)
        return seen

    def _inner(self, tree: Tree, links: Ints) -> Ints:
        """What each link has as its next one."""
        inner: Ints = tree.children[tree.spans(links)[0] + list(self.item.fields).index(self.link)]
        return inner

    def _blame(
        self, tree: Tree, nodes: Ints, links: Ints, culprit: int, mismatch: PickleMismatch
    ) -> PickleMismatch:
        """Say which chain leads to the culprit, and in how many steps."""
        # An inner link precedes the outer one in the pickle, so one pass finds all that lead there.
        frame = {culprit: 0}
        for link, following in zip(links.tolist(), self._inner(tree, links).tolist(), strict=True):
            if following in frame:
                frame[link] = frame[following] + 1
        mismatch.index, first = next((i, node) for i, node in enumerate(nodes.tolist()) if node in frame)
        mismatch.path.insert(0, f"frame {frame[first]}")
        return mismatch

    def emitter(self, writer: Writer, columns: Links) -> Emit:
        """Writes a chain's links that are not yet written, then the memo read of the rest, or None.

        PyTorch writes a link's fields in order, the inner link among them. So all links are opened from the
        outside in (fields before ``link``), then closed from the inside out (fields after it, memo entry).
        """
        writer.take(len(columns.next), MEMO_BYTES)
        index, following = columns.index.data, columns.next.data
        reads: dict[int, bytes] = {}
        out, none = writer.out.write, BYTE_OF["NONE"]
        names = list(self.item.fields)
        place = names.index(self.link)
        fields = list(self.item.fields.items())
        opening, closing = brackets(len(names))
        before = emitter_of([opening, *written(dict(fields[:place]), writer, columns.items)], writer)
        after = emitter_of([*written(dict(fields[place + 1 :]), writer, columns.items), closing], writer)

        def emit(i: int) -> None:
            link = index[i]
            opened = []
            while link >= 0 and link not in reads:
                before(link)
                opened.append(link)
                link = following[link]
            out(reads[link] if link >= 0 else none)
            for done in reversed(opened):
                after(done)
                reads[done] = memo_read(writer.put())
            writer.count()

        return emit
