"""Tokens -> parts: which values each opcode takes, for many pickles at once.

A pickle is a postfix program: values, then the opcode that takes them. Reading it needs no stack machine:

- The value on top of the stack is the one that the token before made. So the last value an opcode takes
  is made by the token before it, the one before that by the token before the *beginning* of that value,
  and so on. Values without parts begin at themselves, others where their first part begins, which is found
  from the inside out, for all opcodes of a depth at once.
- What stands between a MARK and its opcode, and is not taken by anything else, that opcode takes.

A value is named by the number of the token that made it: its *node*. Values read from the memo are
replaced by the nodes they stand for, so a shared object is one node with several parents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.pickles.memo import last_puts
from archive.pickles.ops import CODE, FILLS, IS_PUT, KIND, LEVEL, TAKES, Takes, ValueKind, lookup

if TYPE_CHECKING:
    from archive.pickles.scan import Tokens

MARK, PROTO, STOP = CODE["MARK"], CODE["PROTO"], CODE["STOP"]
ROUNDS = 48  # deeper values are found one by one


class Assembly:
    """Which values the opcodes of some pickles take.

    Attributes:
        chunks: opcodes, how many values each takes, and those values, all as tokens.
        roots: the token that made the one value of each pickle (p).
        stands_for: the token that made the value which each token leaves (n): another one for memo reads and
            where a container is filled.

    Inside, ``before`` is the last token before the beginning of the value that each token makes, memo writes
    aside, and -1 while that is unknown; ``taken`` is whether an opcode of fixed arity takes the value (n).

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
        """The opcodes that take all from a MARK on, and their MARKs, by level and position."""
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
        """Find what opcodes of fixed arity take, round by round where their parts' beginnings are known."""
        before = self.before
        waiting = {takes: np.flatnonzero(self.takes == takes) for takes in (1, 2, 3)}
        waiting[1] = waiting[1][self.op[waiting[1]] != STOP]
        parts = {takes: before[nodes] for takes, nodes in waiting.items()}
        for nodes in waiting.values():
            before[nodes] = -1
        before[closers] = before[marks]
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
        """Give opcodes their operands; returns those for which a beginning is still missing.

        Args:
            nodes: the opcodes.
            last: the last operand of each.
            takes: how many each takes.
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
        """Find beginnings one after the other; ``target``: by opcode, the container it fills."""
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
        kinds = self.kind[parts]
        if not kinds.all():  # ValueKind.NOTHING is 0
            raise self.tokens.fault(
                int(nodes[kinds == 0].min()), "too few values on the stack for this opcode"
            )

    def _roots(self) -> np.ndarray:
        """The one value that each pickle leaves."""
        stops = np.flatnonzero(self.op == STOP)
        roots = self.before[stops]
        self._check(stops, roots)
        more = np.flatnonzero(self.op[self.before[roots]] != PROTO)
        if len(more):
            raise self.tokens.fault(int(stops[more[0]]), "more than one value on the stack at STOP")
        self.taken[roots] = True
        return roots

    def _resolve(self) -> np.ndarray:
        """For each token its node: what the memo held, the container it fills, or itself."""
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
        stands_alone = np.ones(len(op), np.bool_)
        stands_alone[others] = False
        while len(others):
            others = others[~stands_alone[nodes[others]]]
            nodes[others] = nodes[nodes[others]]
        return nodes

    def _between(self, closers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What stands between MARKs and their opcodes, in their order, and how much each takes."""
        free = np.flatnonzero(~self.taken & (self.kind != ValueKind.NOTHING))
        depth = self.depth[free]
        order = np.argsort(_small(depth), kind="stable")
        free, depth = free[order], depth[order]
        key = depth.astype(np.int64) * len(self.op) + free
        ends = np.searchsorted(key, (self.depth[closers].astype(np.int64) + 1) * len(self.op) + closers)
        return free, np.diff(ends, prepend=0)

    def _add_fixed(self, nodes: np.ndarray, parts: list[np.ndarray]) -> None:
        """Note operands; of opcodes that leave their first one, APPEND and the like, the others."""
        same = FILLS[self.op[nodes]]
        if same.any():
            self.same.append((nodes[same], parts[0][same]))
            self._add_chunk(nodes[same], [part[same] for part in parts[1:]])
            nodes, parts = nodes[~same], [part[~same] for part in parts]
        self._add_chunk(nodes, parts)

    def _add_chunk(self, nodes: np.ndarray, parts: list[np.ndarray]) -> None:
        self.chunks.append((nodes, np.full(len(nodes), len(parts)), np.stack(parts, 1).ravel()))


def _small(depth: np.ndarray) -> np.ndarray:
    """Depths in 16 bits where they fit: those are sorted in linear time."""
    return depth.astype(np.int16) if depth.max(initial=0) < 1 << 15 else depth
