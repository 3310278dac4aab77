"""The values of pickles as columns: the kind and the children of each.

A value is named by the number of the token that made it: its *node*. A shared object is one node with several
parents. Plainly, as Python objects made by a stack machine: ``load`` in ``tests/support/slow_reader.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.base.strings import StringTable
from archive.pickles.assemble import Assembly
from archive.pickles.ops import BINUNICODE, BINUNICODE8, BUILD, FILLS, KIND, ValueKind, lookup
from archive.pickles.scan import Pickle, Tokens, scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.limits import Allowance


@dataclass(slots=True, eq=False)
class Tree:
    """The values of several pickles.

    Attributes:
        tokens: the pickles' tokens (n); nodes are numbered like them.
        roots: the outermost value of each pickle (p nodes).
        first: where a node's children begin in ``children`` (n).
        count: how many children it has (n).
        children: nodes: the items of a tuple or list; the keys and values of a dict in turn; callee and
            arguments of an object.
        states: the state that an object was built with, by node.
        strings: the texts, in the order of their tokens.
        value: an integer's value, a text's index in ``strings``, a float's bits (n).
    """

    tokens: Tokens
    roots: np.ndarray
    first: np.ndarray
    count: np.ndarray
    children: np.ndarray
    states: dict[int, int]
    strings: StringTable
    value: np.ndarray

    def kind(self, node: int) -> ValueKind:
        """The kind of a node."""
        return ValueKind(int(KIND[self.tokens.op[node]]))

    def kinds(self, nodes: np.ndarray) -> np.ndarray:
        """The kinds of some nodes, as numbers of ``ValueKind``."""
        return lookup(KIND, self.tokens.op[nodes])

    def items(self, node: int) -> list[int]:
        """The children of a node."""
        first = int(self.first[node])
        items: list[int] = self.children[first : first + int(self.count[node])].tolist()
        return items

    def names(self, node: int) -> tuple[str, str]:
        """Module and name of a global."""
        tokens = self.tokens
        pickle = int(np.searchsorted(tokens.first, node, "right")) - 1
        at = int(tokens.at[node] - tokens.base[pickle]) + 1
        lines = bytes(tokens.pickles[pickle].data[at : at + int(tokens.arg[node])])
        module, name, _ = lines.decode("utf-8", "backslashreplace").split("\n", 2)
        return module, name


def read_trees(pickles: Sequence[Pickle], borrowed: Sequence[bool], allowance: Allowance) -> Tree:
    """Read pickles into one tree.

    Args:
        pickles: records with their bytes.
        borrowed: for each record, whether its bytes lie in the mapped file.
        allowance: the memory that they may cost, and the length of names.

    Raises:
        ArchiveError: a record is no pickle of known opcodes, or its values don't add up.
        LimitError: there are more tokens, or longer names, than allowed.
    """
    tokens = scan(pickles, allowance)
    assembly = Assembly(tokens)
    stands_for = assembly.stands_for
    maker, size, child = (np.concatenate(parts) for parts in zip(*assembly.chunks, strict=True))
    owner, child = stands_for[maker], stands_for[child]
    start = np.cumsum(size) - size
    states: dict[int, int] = {}
    built = tokens.op[maker] == BUILD  # a state is no child: of several, the last one stays
    if built.any():
        _check_states(tokens, owner[built], maker[built])
        order = np.flatnonzero(built)[np.argsort(maker[built])]
        states = dict(zip(owner[order].tolist(), child[start[order]].tolist(), strict=True))
        owner, maker, start, size = (part[~built] for part in (owner, maker, start, size))
    _check_targets(tokens, owner, maker)
    first = np.zeros(len(tokens.op), np.int64)
    count = np.zeros(len(tokens.op), np.int64)
    first[owner], count[owner] = start, size
    # A container that was filled in several steps (APPENDS …) has several runs of children.
    again = (first[owner] != start) | (count[owner] != size)
    if again.any():
        child = _merge(np.isin(owner, owner[again]), (owner, maker, start, size, child), first, count)
    roots = stands_for[assembly.roots]
    return Tree(tokens, roots, first, count, child, states, *_texts(tokens, borrowed))


def _texts(tokens: Tokens, borrowed: Sequence[bool]) -> tuple[StringTable, np.ndarray]:
    """The strings; and the tokens' arguments, where a text's length is replaced by the text's number."""
    text = np.flatnonzero((tokens.op == BINUNICODE) | (tokens.op == BINUNICODE8))
    buffer = np.searchsorted(tokens.first, text, "right") - 1
    skip = np.where(tokens.op[text] == BINUNICODE8, 9, 5)
    value = tokens.arg
    strings = StringTable(
        [pickle.data for pickle in tokens.pickles],
        list(borrowed),
        buffer,
        tokens.at[text] - tokens.base[buffer] + skip,
        value[text],
    )
    value[text] = np.arange(len(text))
    return strings, value


def _check_states(tokens: Tokens, owner: np.ndarray, maker: np.ndarray) -> None:
    """Refuse a BUILD that gives a state to anything but the result of a call."""
    wrong = maker[~np.isin(KIND[tokens.op[owner]], (ValueKind.OBJECT, ValueKind.REDUCE))]
    if len(wrong):
        raise tokens.fault(int(wrong.min()), "expected an object to give a state")


def _check_targets(tokens: Tokens, owner: np.ndarray, maker: np.ndarray) -> None:
    """Refuse an APPEND to anything but a list, and a SETITEM to anything but a dict."""
    filling = np.flatnonzero(FILLS[tokens.op[maker]])
    kinds = KIND[tokens.op[maker[filling]]]
    wrong = np.flatnonzero(KIND[tokens.op[owner[filling]]] != kinds)
    if len(wrong):
        kind = ValueKind(int(kinds[wrong[0]])).name.lower()
        raise tokens.fault(int(maker[filling[wrong[0]]]), f"expected a {kind} to fill")


def _merge(
    split: np.ndarray,
    chunks: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    first: np.ndarray,
    count: np.ndarray,
) -> np.ndarray:
    """Join the children of containers that were filled in several steps, in the order of the steps."""
    owner, maker, start, size, child = chunks
    mine = np.flatnonzero(split)
    mine = mine[np.lexsort((maker[mine], owner[mine]))]
    extent = size[mine]
    inside = np.arange(extent.sum()) - np.repeat(np.cumsum(extent) - extent, extent)
    moved = child[np.repeat(start[mine], extent) + inside]
    holders, total = np.unique(np.repeat(owner[mine], extent), return_counts=True)
    count[owner[mine]] = 0
    count[holders] = total
    first[holders] = len(child) + np.cumsum(total) - total
    return np.concatenate((child, moved))
