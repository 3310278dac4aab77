r"""Tokens -> parts: the values that each opcode takes, for many pickles at once.

A pickle is a postfix program: values first, then the opcode that takes them. ``(7, ("a", "b"), None)``::

    token     0 PROTO   1 K 7   2 X a   3 X b   4 TUPLE2   5 N   6 TUPLE3   7 STOP
    before                 0       1       2        1        4       0
                       '-----'  '----------------------'  '-----'
                       part 1            part 2            part 3

              6             A value is named by the number of the token that made it: its node.
            / | \
           1  4  5          before[t] is the token right before the first token of value t:
             / \             value 4 begins at token 2, so before[4] is 1.
            2   3

So parts are found without a stack:

- The value on top of the stack was made by the token before. So the last part of token 6 is 5, the one before
  that is before[5] = 4, and the first is before[4] = 1. The whole begins where its first part does: before[6]
  = before[1].
- A value without parts begins at itself. From there beginnings are found from the inside out, in rounds: each
  round settles all opcodes whose parts' beginnings are known.
- An opcode that takes all from a MARK on begins at that MARK. Its parts are the values in between that no
  opcode of fixed arity has taken.

A value read from the memo is replaced by the node that it stands for, so a shared object is one node with
several parents. Plainly, by a stack machine: ``load`` in ``tests/support/slow_reader.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.pickles.memo import last_puts
from archive.pickles.ops import (
    FILLS,
    IS_PUT,
    KIND,
    LEVEL,
    MARK,
    PROTO,
    STOP,
    TAKES,
    Takes,
    ValueKind,
    lookup,
)

if TYPE_CHECKING:
    from archive.pickles.scan import Tokens

ROUNDS = 48
"""Rounds of settling all opcodes at once; values that are nested more deeply are then settled one by one."""


class Assembly:
    """The values that the opcodes of some pickles take.

    Attributes:
        chunks: triples of opcodes, how many values each takes, and those values; all are tokens.
        roots: the token that made the one value of each pickle (p).
        stands_for: the token that made the value which each token leaves (n): itself, but another one for a
            memo read and for an opcode that fills a container.

    Inside:
        before: as drawn above, memo writes left out; -1 while unknown (n).
        taken: whether an opcode of fixed arity takes the value (n).
        depth: open MARKs behind the token (n).
        same: pairs of tokens and the tokens whose values they leave again.

    Raises:
        ArchiveError: the values don't add up.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.op = tokens.op
        self.kind = lookup(KIND, self.op)
        self.takes = lookup(TAKES, self.op)
        self.is_put = lookup(IS_PUT, self.op)
        last = np.maximum.accumulate(np.where(self.is_put, 0, np.arange(len(self.op))))
        self.before = np.concatenate(([0], last[:-1]))
        self.taken = np.zeros(len(self.op), np.bool_)
        self.depth = np.cumsum(lookup(LEVEL, self.op), dtype=np.int32)
        self.chunks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

        self.same: list[tuple[np.ndarray, np.ndarray]] = []
        closers, marks = self._pairs()
        self._take_fixed(closers, marks)
        self.roots = self._roots()
        between, size = self._between(closers)
        self.chunks.append((closers, size, between))
        self.stands_for = self._resolve()

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The opcodes that take all from a MARK on (*closers*), and the MARK of each.

        Brackets match by depth: within one depth, MARKs and closers alternate. So both, sorted by depth and
        position, stand in the same order.
        """
        op, depth = self.op, self.depth
        stops = np.flatnonzero(op == STOP)
        lone = np.flatnonzero(depth < 0)
        open_ = stops[depth[stops] > 0]
        if len(lone) and not (len(open_) and open_[0] < lone[0]):
            raise self.tokens.fault(int(lone[0]), "no MARK for this opcode")
        if len(open_):
            raise self.tokens.fault(int(open_[0]), f"{int(depth[open_[0]])} open MARKs at STOP")
        marks = np.flatnonzero(op == MARK)
        closers = np.flatnonzero(self.takes < 0)
        marks = marks[np.argsort(_small(depth[marks]), kind="stable")]
        return closers[np.argsort(_small(depth[closers]), kind="stable")], marks

    def _take_fixed(self, closers: np.ndarray, marks: np.ndarray) -> None:
        """Find the parts of opcodes of fixed arity, round by round, where their beginnings are known."""
        before = self.before
        waiting = {takes: np.flatnonzero(self.takes == takes) for takes in (1, 2, 3)}
        waiting[1] = waiting[1][self.op[waiting[1]] != STOP]
        parts = {takes: before[nodes] for takes, nodes in waiting.items()}
        for nodes in waiting.values():
            before[nodes] = -1
        before[closers] = before[marks]
        # APPENDS and SETITEMS fill the container below their MARK: they begin where that one begins.
        filling = self.takes[closers] == Takes.TARGET_TO_MARK
        fill, targets = closers[filling], before[marks[filling]]
        self._check(fill, targets)
        self.taken[targets] = True
        self.same.append((fill, targets))
        before[fill] = -1
        for _ in range(ROUNDS):
            known = before[targets] >= 0
            before[fill[known]] = before[targets[known]]
            fill, targets = fill[~known], targets[~known]
            for takes, nodes in waiting.items():
                waiting[takes], parts[takes] = self._settle(nodes, parts[takes], takes)
            if not len(fill) and not any(map(len, waiting.values())):
                return
        self._find_deep(waiting, parts, dict(zip(fill.tolist(), targets.tolist(), strict=True)))
        for takes, nodes in waiting.items():
            self._settle(nodes, parts[takes], takes)

    def _settle(self, nodes: np.ndarray, last: np.ndarray, takes: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the operands of opcodes, from the last to the first.

        Args:
            nodes: the opcodes.
            last: the last operand of each.
            takes: how many each takes.

        Returns:
            The opcodes with an operand whose beginning is still unknown, and the last operand of each.
        """
        if not len(nodes):
            return nodes, last
        operands = [last]
        known = np.ones(len(nodes), np.bool_)
        for _ in range(takes - 1):
            operands.insert(0, self.before[operands[0]])
            known &= operands[0] >= 0
        before = self.before[operands[0]]
        known &= before >= 0
        left = nodes[~known], last[~known]
        if len(left[0]):
            nodes, before = nodes[known], before[known]
            operands = [operand[known] for operand in operands]
        self.before[nodes] = before
        for operand in operands:
            self._check(nodes, operand)
            self.taken[operand] = True
        self._add_fixed(nodes, operands)
        return left

    def _find_deep(
        self, waiting: dict[int, np.ndarray], parts: dict[int, np.ndarray], target: dict[int, int]
    ) -> None:
        """Find the beginnings that are left one by one, in the order of tokens, which needs no rounds.

        Args:
            waiting: opcodes by arity.
            parts: the last operand of each.
            target: the container that an opcode fills.
        """
        before = self.before.tolist()
        todo = [(node, 0, container) for node, container in target.items()]
        for takes, nodes in waiting.items():
            todo += zip(nodes.tolist(), [takes - 1] * len(nodes), parts[takes].tolist(), strict=True)
        for node, more, part in sorted(todo):
            for _ in range(more):
                part = before[part]  # noqa: PLW2901 (a step back)
            before[node] = before[part]
        self.before[:] = before

    def _check(self, nodes: np.ndarray, parts: np.ndarray) -> None:
        """Refuse opcodes that take a token which makes no value."""
        kinds = self.kind[parts]
        if not kinds.all():  # ValueKind.NOTHING is 0
            raise self.tokens.fault(
                int(nodes[kinds == 0].min()), "too few values on the stack for this opcode"
            )

    def _roots(self) -> np.ndarray:
        """The one value of each pickle, on the stack at its STOP; refuses a pickle with more values."""
        stops = np.flatnonzero(self.op == STOP)
        roots = self.before[stops]
        self._check(stops, roots)
        more = np.flatnonzero(self.op[self.before[roots]] != PROTO)
        if len(more):
            raise self.tokens.fault(int(stops[more[0]]), "more than one value on the stack at STOP")
        self.taken[roots] = True
        return roots

    def _resolve(self) -> np.ndarray:
        """The node of each token: the value that the memo held, the container it fills, or itself."""
        op = self.op
        puts = np.flatnonzero(self.is_put)
        gets = np.flatnonzero(self.kind == ValueKind.GET)
        made = self.before[puts]
        empty = np.flatnonzero(self.kind[made] == ValueKind.NOTHING)
        if len(empty):
            raise self.tokens.fault(int(puts[empty[0]]), "nothing on the stack to put into the memo")
        self.same.append((gets, made[last_puts(self.tokens, puts, gets)]))
        others = np.concatenate([nodes for nodes, _ in self.same])
        nodes = np.arange(len(op), dtype=np.int64)
        nodes[others] = np.concatenate([same for _, same in self.same])
        is_own = np.ones(len(op), np.bool_)
        is_own[others] = False
        # A read of a read, or of a container filled twice, forms a chain: each round halves its length.
        while len(others):
            others = others[~is_own[nodes[others]]]
            nodes[others] = nodes[nodes[others]]
        return nodes

    def _between(self, closers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The parts of closers in the order of these, and how many each takes.

        A value belongs to the first closer behind it at its depth. Depth and position form one key, so that a
        single search among the sorted values finds where each closer's parts end.
        """
        free = np.flatnonzero(~self.taken & (self.kind != ValueKind.NOTHING))
        depth = self.depth[free]
        order = np.argsort(_small(depth), kind="stable")
        free, depth = free[order], depth[order]
        key = depth.astype(np.int64) * len(self.op) + free
        ends = np.searchsorted(key, (self.depth[closers].astype(np.int64) + 1) * len(self.op) + closers)
        return free, np.diff(ends, prepend=0)

    def _add_fixed(self, nodes: np.ndarray, parts: list[np.ndarray]) -> None:
        """Keep operands; of opcodes that fill their first one (APPEND, SETITEM, BUILD) only the others."""
        fills = FILLS[self.op[nodes]]
        if fills.any():
            self.same.append((nodes[fills], parts[0][fills]))
            self._add_chunk(nodes[fills], [part[fills] for part in parts[1:]])
            nodes, parts = nodes[~fills], [part[~fills] for part in parts]
        self._add_chunk(nodes, parts)

    def _add_chunk(self, nodes: np.ndarray, parts: list[np.ndarray]) -> None:
        self.chunks.append((nodes, np.full(len(nodes), len(parts)), np.stack(parts, 1).ravel()))


def _small(depth: np.ndarray) -> np.ndarray:
    """Depths in 16 bits where they fit: numpy sorts those in linear time."""
    return depth.astype(np.int16) if depth.max(initial=0) < 1 << 15 else depth
