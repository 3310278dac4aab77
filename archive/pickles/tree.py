"""Tokens -> trees: which values each container holds, for many pickles at once.

A pickle is a postfix program: values, then the opcode that takes them. Reading it therefore needs
no stack machine: an opcode whose values all stand before it is *contracted*, with them, into one
value; doing that to all such opcodes at once, again and again, leaves one value a pickle, after as many
rounds as values are nested. What little remains after some rounds (deep chains) a plain loop finishes.

A value is named by the number of the token that made it: its *node*. Values read from the memo are
replaced by the nodes they stand for, so a shared object is one node with several parents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from archive.pickles.ops import CODE, KIND, PUTS, SAME, TAKES, Kind, Takes
from archive.pickles.scan import Pickle, Tokens, scan
from archive.strings import StringTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.limits import Limits

MARK, STOP, BUILD = CODE["MARK"], CODE["STOP"], CODE["BUILD"]
TEXT64 = CODE["BINUNICODE8"]
NEWTRUE = CODE["NEWTRUE"]
WORTH = 64  # a round pays if it contracts one in so many items


@dataclass(slots=True, eq=False)
class Tree:
    """The values of several pickles.

    Attributes:
        tokens: where they were read (n tokens; nodes are numbered like them).
        roots: the outermost value of each pickle (p nodes).
        stands_for: the node a token's value is; its own number, but for memo reads (n).
        first: where a node's children begin in ``children`` (n).
        count: how many children it has (n).
        children: nodes: items; keys and values alternating; callee and arguments.
        states: the state an object was built with, by node.
        strings: the texts, in the order of their tokens.
        string: the index of a text's string; meaningless for other nodes (n).
    """

    tokens: Tokens
    roots: np.ndarray
    stands_for: np.ndarray
    first: np.ndarray
    count: np.ndarray
    children: np.ndarray
    states: dict[int, int]
    strings: StringTable
    string: np.ndarray

    def kind(self, node: int) -> Kind:
        """What a node is."""
        return Kind(int(KIND[self.tokens.op[node]]))

    def kinds(self, nodes: np.ndarray) -> np.ndarray:
        """What each of some nodes is (as numbers of ``Kind``)."""
        kinds: np.ndarray = KIND[self.tokens.op[nodes]]
        return kinds

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


def read_trees(pickles: Sequence[Pickle], borrowed: Sequence[bool], limits: Limits) -> Tree:
    """Read pickles into one tree.

    Args:
        pickles: records with their bytes.
        borrowed: of each record, whether its bytes lie in the mapped file.
        limits: bounds.

    Raises:
        ArchiveError: not a pickle of known opcodes, or one whose values don't add up.
    """
    tokens = scan(pickles, limits)
    stands_for = _resolve_memo(tokens)
    keep = np.flatnonzero(~np.isin(tokens.op, PUTS))
    build = _Contraction(tokens, stands_for, keep)
    build.run()
    return _finish(tokens, stands_for, build, borrowed)


def _resolve_memo(tokens: Tokens) -> np.ndarray:
    """For each token the node its value is: itself, or what the memo held at that point."""
    op = tokens.op
    nodes = np.arange(len(op))
    is_put = np.isin(op, PUTS)
    puts = np.flatnonzero(is_put)
    gets = np.flatnonzero(KIND[op] == Kind.GET)
    before = np.maximum.accumulate(np.where(is_put, -1, nodes))
    made = before[puts]
    empty = np.flatnonzero((made < 0) | (KIND[op[made]] == Kind.NOTHING))
    if len(empty):
        raise tokens.fault(int(puts[empty[0]]), "nothing on the stack to put into the memo")
    # One key for (pickle, memo index, token), so that the last PUT before a GET is its neighbour.
    place = np.concatenate((puts, gets))
    pickle = np.searchsorted(tokens.first, place, "right")
    slots = np.unique((pickle << 32) + tokens.arg[place], return_inverse=True)[1] * (len(op) + 1)
    put_key, get_key = slots[: len(puts)] + puts, slots[len(puts) :] + gets
    order = np.argsort(put_key, kind="stable")
    found = np.searchsorted(put_key[order], get_key) - 1
    if len(gets) and not len(puts):
        raise tokens.fault(int(gets[0]), "the memo has no such entry")
    unset = np.flatnonzero((found < 0) | (slots[order[found]] != slots[len(puts) :]))
    if len(unset):
        raise tokens.fault(int(gets[unset[0]]), "the memo has no such entry")
    nodes[gets] = made[order[found]]
    while len(more := gets[KIND[op[nodes[gets]]] == Kind.GET]):
        nodes[more] = nodes[nodes[more]]
    return nodes


@dataclass(slots=True)
class _Contraction:
    """The items that are left (tokens, finished or not) and the children found so far."""

    tokens: Tokens
    stands_for: np.ndarray
    item: np.ndarray
    pending: np.ndarray = field(init=False)
    owner: list[np.ndarray] = field(default_factory=list)
    maker: list[np.ndarray] = field(default_factory=list)
    size: list[np.ndarray] = field(default_factory=list)
    child: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        op = self.tokens.op[self.item]
        self.pending = (KIND[op] == Kind.NOTHING) | (TAKES[op] != 0)
        self.pending[op == STOP] = True

    def run(self) -> None:
        """Contract until one value a pickle is left; ``item`` then holds PROTO, value, STOP in turn."""
        while len(self.item) > 32 * WORTH:
            before = len(self.item)
            self._round()
            if before - len(self.item) < before // WORTH:
                break
        self._loop()

    def _round(self) -> None:
        """Contract every opcode whose values all stand before it."""
        spots = np.flatnonzero(self.pending)
        op = self.tokens.op[self.item[spots]]
        takes = TAKES[op].astype(np.int64)
        gap = np.diff(spots, prepend=-1) - 1
        after_mark = np.append(False, op[:-1] == MARK)
        below = np.append(0, gap[:-1])
        ready = (takes > 0) & (gap >= takes) & (op != STOP)
        ready |= (takes == Takes.TO_MARK) & after_mark
        ready |= (takes == Takes.TARGET_TO_MARK) & after_mark & (below > 0)
        chosen = np.flatnonzero(ready)
        spots, op, takes, gap = spots[chosen], op[chosen], takes[chosen], gap[chosen]
        size = np.where(takes > 0, takes, gap)
        inside = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        members = np.repeat(spots - size, size) + inside
        child = self.stands_for[self.item[members]]
        token = self.item[spots]
        target = np.where(takes > 0, spots - size, spots - size - 2)
        same = SAME[op]
        owner = np.where(same, self.stands_for[self.item[np.where(same, target, spots)]], token)
        self._record(owner, token, size, child, drop_first=same & (takes > 0))
        keep = np.ones(len(self.item), np.bool_)
        keep[members] = False
        keep[(spots - size - 1)[takes < 0]] = False
        keep[target[same]] = False
        self.item[spots] = owner
        self.pending[spots] = False
        self.item, self.pending = self.item[keep], self.pending[keep]

    def _record(
        self,
        owner: np.ndarray,
        token: np.ndarray,
        size: np.ndarray,
        child: np.ndarray,
        drop_first: np.ndarray,
    ) -> None:
        """Note children; of APPEND, SETITEM and BUILD the first one is the owner itself."""
        if drop_first.any():
            ends = np.cumsum(size)
            child = np.delete(child, (ends - size)[drop_first])
            size = size - drop_first
        self.owner.append(owner)
        self.maker.append(token)
        self.size.append(size)
        self.child.append(child)

    def _loop(self) -> None:
        """The same, one item after the other."""
        stack: list[int] = []
        marks: list[int] = []
        out: list[tuple[int, int, list[int]]] = []
        finished: list[int] = []
        takes_of, stands_for = TAKES.tolist(), self.stands_for
        ops = self.tokens.op[self.item].tolist()
        for node, op, pending in zip(self.item.tolist(), ops, self.pending.tolist(), strict=True):
            if not pending:
                stack.append(int(stands_for[node]))
            elif op == MARK:
                marks.append(len(stack))
            elif op == STOP:
                if len(stack) != 1 or marks:
                    raise self.tokens.fault(node, f"{len(stack)} values and {len(marks)} open MARKs at STOP")
                finished.append(stack.pop())
            elif takes_of[op]:
                children = self._pop(stack, marks, node, takes_of[op])
                owner = (stack.pop() if takes_of[op] < 0 else children.pop(0)) if SAME[op] else node
                out.append((owner, node, children))
                stack.append(owner)
        self.item = np.array(finished, np.int64)
        self.owner.append(np.array([o for o, _, _ in out], np.int64))
        self.maker.append(np.array([t for _, t, _ in out], np.int64))
        self.size.append(np.array([len(c) for _, _, c in out], np.int64))
        self.child.append(np.array([c for _, _, children in out for c in children], np.int64))

    def _pop(self, stack: list[int], marks: list[int], node: int, takes: int) -> list[int]:
        """What an opcode takes off the stack; of the container below a MARK only that it is there."""
        if takes < 0 and not marks:
            raise self.tokens.fault(node, "no MARK for this opcode")
        floor = marks.pop() if takes < 0 else len(stack) - takes
        bottom = marks[-1] if marks else 0
        if floor - (takes == Takes.TARGET_TO_MARK) < bottom:
            raise self.tokens.fault(node, "too few values on the stack for this opcode")
        children = stack[floor:]
        del stack[floor:]
        return children


def _finish(tokens: Tokens, stands_for: np.ndarray, build: _Contraction, borrowed: Sequence[bool]) -> Tree:
    owner, maker, size = (np.concatenate(part) for part in (build.owner, build.maker, build.size))
    child = np.concatenate(build.child)
    start = np.cumsum(size) - size
    built = tokens.op[maker] == BUILD
    order = np.flatnonzero(built)[np.argsort(maker[built])]
    states = dict(zip(owner[order].tolist(), child[start[order]].tolist(), strict=True))
    filled = np.flatnonzero(~built)
    _check_targets(tokens, owner[filled], maker[filled])
    first = np.zeros(len(tokens.op), np.int64)
    count = np.zeros(len(tokens.op), np.int64)
    first[owner[filled]] = start[filled]
    count[owner[filled]] = size[filled]
    total = np.bincount(owner[filled], weights=size[filled], minlength=len(count)).astype(np.int64)
    if np.any(split := total != count):
        child = _merge(np.flatnonzero(split), (owner, maker, start, size, child), filled, first, count)
    is_text = KIND[tokens.op] == Kind.TEXT
    text = np.flatnonzero(is_text)
    buffer = np.searchsorted(tokens.first, text, "right") - 1
    skip = np.where(tokens.op[text] == TEXT64, 9, 5)
    strings = StringTable(
        [pickle.data for pickle in tokens.pickles],
        list(borrowed),
        buffer,
        tokens.at[text] - tokens.base[buffer] + skip,
        tokens.arg[text],
    )
    return Tree(tokens, build.item, stands_for, first, count, child, states, strings, np.cumsum(is_text) - 1)


def _check_targets(tokens: Tokens, owner: np.ndarray, maker: np.ndarray) -> None:
    """APPEND goes to lists, SETITEM to dicts, in pairs; other containers are their own makers."""
    wrong = np.flatnonzero(KIND[tokens.op[owner]] != KIND[tokens.op[maker]])
    if len(wrong):
        kind = Kind(int(KIND[tokens.op[maker[wrong[0]]]])).name.lower()
        raise tokens.fault(int(maker[wrong[0]]), f"expected a {kind} to fill")


def _merge(
    split: np.ndarray,
    chunks: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    filled: np.ndarray,
    first: np.ndarray,
    count: np.ndarray,
) -> np.ndarray:
    """Join the children of containers that were filled in several steps, in the order of the steps."""
    owner, maker, start, size, child = chunks
    mine = filled[np.isin(owner[filled], split)]
    mine = mine[np.lexsort((maker[mine], owner[mine]))]
    extent = size[mine]
    inside = np.arange(extent.sum()) - np.repeat(np.cumsum(extent) - extent, extent)
    moved = child[np.repeat(start[mine], extent) + inside]
    holders, total = np.unique(np.repeat(owner[mine], extent), return_counts=True)
    count[split] = 0
    count[holders] = total
    first[holders] = len(child) + np.cumsum(total) - total
    return np.concatenate((child, moved))
