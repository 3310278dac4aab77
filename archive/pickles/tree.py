"""The values of pickles as columns: the kind and the children of each.

A value is named by the number of the token that made it: its *node*. A shared object is one node with several
parents. The same, plainly, as Python objects made by a stack machine: ``load`` in
``tests/support/slow_reader.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.quick_dataclass import dataclass
from archive.base.strings import StringTable
from archive.pickles.ops import BINUNICODE, BINUNICODE8, HOLDS, KIND, VALUE_KINDS, ValueKind, lookup
from archive.pickles.scan import STATE_BYTES, Pickle, Tokens, scan

if TYPE_CHECKING:
    from collections.abc import Sequence


TEXT_BYTES = 32
"""Bytes of memory that a text's place takes, besides its opcode."""


@dataclass(slots=True, eq=False)
class Tree:
    """The values of several pickles.

    Attributes:
        tokens: the pickles' tokens (n); nodes are numbered like them.
        roots: the outermost value of each pickle (p nodes).
        bounds: where the children of each node that has some begin in ``children``, by its number, and where
            the last ones end (h + 2).
        children: nodes: the items of a tuple or list; the keys and values of a dict alternately; callee and
            arguments of an object.
        states: the state that an object was built with, by node.
        strings: the texts, in the order of their tokens.
        value: an integer's value, a text's index in ``strings``, a float's bits, a number in ``bounds`` (n);
            the tokens' arguments.
    """

    tokens: Tokens
    roots: np.ndarray
    bounds: np.ndarray
    children: np.ndarray
    states: dict[int, int]
    strings: StringTable
    value: np.ndarray

    @property
    def memory(self) -> int:
        """Bytes of memory that the columns and states take."""
        tokens, strings = self.tokens, self.strings
        columns = (tokens.op, tokens.at, tokens.arg, self.bounds, self.children)
        texts = (strings.buffer, strings.start, strings.length)
        return sum(column.nbytes for column in columns + texts) + STATE_BYTES * len(self.states)

    def kind(self, node: int) -> ValueKind:
        """The kind of a node."""
        kind: ValueKind = VALUE_KINDS[self.tokens.op[node]]
        return kind

    def kinds(self, nodes: np.ndarray) -> np.ndarray:
        """The kinds of some nodes, as numbers of ``ValueKind``."""
        return lookup(KIND, self.tokens.op[nodes])

    def are(self, nodes: np.ndarray, kind: ValueKind) -> np.ndarray:
        """Whether each of some nodes is of a kind (n)."""
        fits: np.ndarray = self.kinds(nodes) == kind.value  # NumPy compares with a member ten times slower
        return fits

    def spans(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the children of some nodes begin in ``children``, and how many each has; others have 0."""
        number = self.value[nodes]
        number *= lookup(HOLDS, self.tokens.op[nodes])
        first = self.bounds[number]
        number += 1
        return first, self.bounds[number] - first

    def parts(self, node: int) -> np.ndarray:
        """The children of a node as stored in the tree: a list would take ten times the memory."""
        if not HOLDS[self.tokens.op[node]]:
            return self.children[:0]
        number = self.value[node]
        return self.children[self.bounds[number] : self.bounds[number + 1]]

    def items(self, node: int) -> list[int]:
        """The children of a node."""
        items: list[int] = self.parts(node).tolist()
        return items

    def names(self, node: int) -> tuple[str, str]:
        """Module and name of a global."""
        tokens = self.tokens
        pickle = int(np.searchsorted(tokens.first, node, "right")) - 1
        at = int(tokens.at[node] - tokens.base[pickle]) + 1
        lines = bytes(tokens.pickles[pickle].data[at : at + int(tokens.arg[node])])
        module, name, _ = lines.decode("utf-8", "backslashreplace").split("\n", 2)
        return module, name


def read_trees(pickles: Sequence[Pickle], borrowed: Sequence[bool]) -> Tree:
    """Read pickles into one tree.

    Args:
        borrowed: for each record, whether its bytes are in the mapped file.
    """
    with memory.part():
        values = scan(pickles)
        strings = _strings(values.tokens, borrowed)
        tree = Tree(*values, strings, values.tokens.arg)
    memory.take(tree.memory, "values of pickles")
    return tree


def _strings(tokens: Tokens, borrowed: Sequence[bool]) -> StringTable:
    """The texts; in the tokens' arguments, a text's number takes the place of its length."""
    text = np.flatnonzero((tokens.op == BINUNICODE) | (tokens.op == BINUNICODE8))
    if len(text):
        name, at = tokens.place(int(text[0]))
        memory.take(TEXT_BYTES * len(text), "texts of pickles", record=name, place=f"byte {at}")
    buffer = np.searchsorted(tokens.first, text, "right") - 1
    start = tokens.at[text] - tokens.base[buffer]
    start += np.where(tokens.op[text] == BINUNICODE8, 9, 5)
    length = tokens.arg[text].astype(np.int64)
    tokens.arg[text] = np.arange(len(text))
    return StringTable([pickle.data for pickle in tokens.pickles], list(borrowed), buffer, start, length)
