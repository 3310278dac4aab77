"""Texts as paths in a tree of lines, so that stacks of frames share their outer frames.

A traced operation's text is its Python stack, innermost frame first, so the texts of one model end alike.
Each line is a *node*, and its parent is the line that follows it (-1 after the last one). A text is the node
of its first line::

    text 0: "f", "g", "main"        main (0) <- g (1) <- f (2)      text 0 is node 2
    text 1: "h", "g", "main"                        ^--- h (3)      text 1 is node 3

Equal texts are one node. Nodes are numbered by the first text that needs them, its last line first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, spread, sums_along

if TYPE_CHECKING:
    from archive.base.columns import Ints

DEEPEST_SHARED = 20_000
"""Lines from a text's end that may be shared; beyond, sharing takes too much time for the bytes it saves."""
FEW = 32
"""Up to this many texts are followed one by one."""


def pack_texts(first: Ints, lines: Ints) -> tuple[Ints, Ints, Ints]:
    """Build the tree of some texts.

    Args:
        first: where each text's lines begin in ``lines``, and the end of the last one (t + 1).
        lines: the lines of all texts, as numbers (first[-1]).

    Returns:
        The node of each text, -1 for those without lines (t); parent and line of each node (k).
    """
    left = np.diff(first)
    node = np.full(len(left), -1, np.int64)
    parents, numbers, owners, depths = [], [], [], []
    count, depth = 0, 0
    texts = np.flatnonzero(left)
    span = int(lines.max(initial=0)) + 1
    # Round d takes the d-th line from the end of each text. Texts that have the same node so far and the same
    # line share the next node, too.
    while len(texts):
        line = lines[first[texts] + left[texts] - 1]
        _, where, inverse = np.unique((node[texts] + 1) * span + line, return_index=True, return_inverse=True)
        parents.append(node[texts][where])
        numbers.append(line[where])
        owners.append(texts[where])
        depths.append(np.full(len(where), depth))
        node[texts] = count + inverse
        count += len(where)
        left[texts] -= 1
        depth += 1
        if len(where) == len(texts) or depth == DEEPEST_SHARED:
            break
        texts = texts[left[texts] > 0]
    texts = texts[left[texts] > 0] if len(texts) else texts
    if len(texts):  # nothing is shared from here on
        more = left[texts]
        begin = count + firsts(more)
        chain = np.arange(count, begin[-1]) - 1
        chain[begin[:-1] - count] = node[texts]
        parents.append(chain)
        numbers.append(lines[np.repeat(first[texts] + more - 1, more) - spread(np.zeros_like(more), more)])
        owners.append(np.repeat(texts, more))
        depths.append(depth + spread(np.zeros_like(more), more))
        node[texts] = begin[1:] - 1
    if not parents:
        return node, *(np.zeros(0, np.int64),) * 2
    return _ordered(node, *map(np.concatenate, (parents, numbers, owners, depths)))


def _ordered(node: Ints, parent: Ints, line: Ints, owner: Ints, depth: Ints) -> tuple[Ints, Ints, Ints]:
    """Nodes in the order of the texts that need them first."""
    order = np.lexsort((depth, owner))
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return rank[node], rank[parent[order]], line[order]


def roots(parent: Ints) -> Ints:
    """The node of the last line of each node's text (k)."""
    root = np.where(parent < 0, np.arange(len(parent)), parent)
    while not np.array_equal(further := root[root], root):
        root = further
    return root


def line_bounds(node: Ints, parent: Ints) -> Ints:
    """Where the lines of each text begin in their concatenation, and those of the last one end (t + 1).

    Args:
        node: of each text, -1 for those without lines (t).
        parent: of each node (k).
    """
    return firsts(np.append(sums_along(parent, np.ones(len(parent), np.int64)), 0)[node])


def unpack_texts(first: Ints, node: Ints, parent: Ints, line: Ints) -> Ints:
    """The concatenated lines of some texts (first[-1]).

    Args:
        first: their bounds, from :func:`line_bounds` (t + 1).
        node: as there (t).
        parent: as there (k).
        line: of each node (k).
    """
    lines = np.empty(int(first[-1]), np.int64)
    at, place = node.copy(), first[:-1].copy()
    texts = np.flatnonzero(at >= 0)
    while len(texts) > FEW:
        lines[place[texts]] = line[at[texts]]
        place[texts] += 1
        at[texts] = parent[at[texts]]
        texts = texts[at[texts] >= 0]
    for text in texts.tolist():
        _follow(int(at[text]), parent.data, line.data, lines[place[text] :].data)
    return lines


def _follow(node: int, parent: memoryview, line: memoryview, lines: memoryview) -> None:
    """Write the lines from a node on: for few texts faster than a round for each line of the longest."""
    at = 0
    while node >= 0:
        lines[at] = line[node]
        node = parent[node]
        at += 1
