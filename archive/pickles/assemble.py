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

from heapq import merge
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.columns import gathered
from archive.pickles.brackets import Brackets
from archive.pickles.memo import last_puts
from archive.pickles.ops import (
    FILLS,
    IS_PUT,
    KIND,
    PROTO,
    STOP,
    TAKES,
    Takes,
    ValueKind,
    lookup,
)

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.pickles.scan import Tokens

ROUNDS = 48
"""Rounds of settling all opcodes at once; values that are nested more deeply are then settled one by one."""


class Run(NamedTuple):
    """Some opcodes and the values that they take; all are tokens.

    Attributes:
        maker: the opcodes (m).
        size: how many values each takes (m).
        parts: the values, one opcode's behind the other's.
    """

    maker: np.ndarray
    size: np.ndarray
    parts: np.ndarray


class Assembly(NamedTuple):
    """The values that the opcodes of some pickles take.

    Attributes:
        runs: all opcodes that take values, and these; of those that fill the first one (APPEND, SETITEM,
            BUILD) only the others.
        roots: the token that made the one value of each pickle (p).
        stands_for: the token that made the value which each token leaves (n): itself, but another one for a
            memo read and for an opcode that fills a container.
    """

    runs: list[Run]
    roots: np.ndarray
    stands_for: np.ndarray


def assemble(tokens: Tokens, allowance: Allowance) -> Assembly:
    """Find the values that each opcode takes.

    Raises:
        ArchiveError: the values don't add up.
        LimitError: the memo is written so that it costs more memory than allowed.
    """
    brackets = Brackets(tokens)
    assembler = _Assembler(tokens)
    closers, marks = brackets.pairs()
    assembler.take_fixed(closers, marks)
    del marks
    roots = assembler.roots()
    assembler.take_between(closers, brackets)
    del closers, brackets
    return Assembly(assembler.runs, roots, assembler.resolved(allowance))


class _Assembler:
    """The columns that are needed meanwhile.

    Attributes:
        runs: as above, so far.
        kind: the kind of value that each token leaves (n).
        before: as drawn above, memo writes left out; -1 while unknown (n).
        taken: whether an opcode of fixed arity takes the value (n).
        same: pairs of tokens and the tokens whose values they leave again.

    Tokens are numbered by integers of ``index``, 32 bits where the pickles are not larger: memory is short
    in here, not time.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.op = tokens.op
        self.index = tokens.at.dtype
        self.kind = lookup(KIND, self.op)
        last = np.zeros(len(self.op) + 1, self.index)  # the last token that is no memo write, behind each
        last[1:] = np.arange(len(self.op), dtype=self.index)
        last[1:][lookup(IS_PUT, self.op)] = 0
        self.before = np.maximum.accumulate(last, out=last)[:-1]
        self.taken = np.zeros(len(self.op), np.bool_)
        self.runs: list[Run] = []
        self.same: list[tuple[np.ndarray, np.ndarray]] = []

    def take_fixed(self, closers: np.ndarray, marks: np.ndarray) -> None:
        """Find the parts of opcodes of fixed arity, round by round, where their beginnings are known."""
        before, takes_of = self.before, lookup(TAKES, self.op)
        waiting = {takes: self._where(takes_of == takes) for takes in (1, 2, 3)}
        waiting[1] = waiting[1][self.op[waiting[1]] != STOP]
        # APPENDS and SETITEMS fill the container below their MARK: they begin where that one begins.
        filling = takes_of[closers] == Takes.TARGET_TO_MARK
        del takes_of
        parts = {takes: gathered(before, nodes) for takes, nodes in waiting.items()}
        for nodes in waiting.values():
            before[nodes] = -1
        before[closers] = before[marks]
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
        order = np.argsort(fill)
        fixed = ((nodes, parts[takes], takes - 1) for takes, nodes in waiting.items())
        self._find_deep([(fill[order], targets[order], 0), *fixed])
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
            operands.insert(0, gathered(self.before, operands[0]))
            known &= operands[0] >= 0
        before = gathered(self.before, operands[0])
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

    def _find_deep(self, waiting: list[tuple[np.ndarray, np.ndarray, int]]) -> None:
        """Find the beginnings that are left one by one, in the order of tokens, which needs no rounds.

        Args:
            waiting: opcodes (rising); the last operand of each, or the container that each fills; and how
                many operands stand before that one.
        """
        before = self.before.data  # read in place: a list would take ten times the memory
        columns = [zip(nodes.data, parts.data, repeat(more)) for nodes, parts, more in waiting if len(nodes)]
        for node, part, more in merge(*columns):
            for _ in range(more):
                part = before[part]  # noqa: PLW2901 (a step back)
            before[node] = before[part]

    def _check(self, nodes: np.ndarray, parts: np.ndarray) -> None:
        """Refuse opcodes that take a token which makes no value."""
        kinds = gathered(self.kind, parts)
        if not kinds.all():  # ValueKind.NOTHING is 0
            raise self.tokens.fault(
                int(nodes[kinds == 0].min()), "too few values on the stack for this opcode"
            )

    def roots(self) -> np.ndarray:
        """The one value of each pickle, on the stack at its STOP; refuses a pickle with more values."""
        stops = np.flatnonzero(self.op == STOP)
        roots = self.before[stops]
        self._check(stops, roots)
        more = np.flatnonzero(self.op[self.before[roots]] != PROTO)
        if len(more):
            raise self.tokens.fault(int(stops[more[0]]), "more than one value on the stack at STOP")
        self.taken[roots] = True
        return roots

    def resolved(self, allowance: Allowance) -> np.ndarray:
        """The node of each token: the value that the memo held, the container it fills, or itself."""
        puts = self._where(lookup(IS_PUT, self.op))
        gets = self._where(self.kind == ValueKind.GET)
        made = self.before[puts]
        empty = np.flatnonzero(self.kind[made] == ValueKind.NOTHING)
        if len(empty):
            raise self.tokens.fault(int(puts[empty[0]]), "nothing on the stack to put into the memo")
        self.same.append((gets, made[last_puts(self.tokens, puts, gets, allowance)]))
        others = np.concatenate([nodes for nodes, _ in self.same])
        nodes = np.arange(len(self.op), dtype=self.index)
        nodes[others] = np.concatenate([same for _, same in self.same])
        is_own = np.ones(len(self.op), np.bool_)
        is_own[others] = False
        # A read of a read, or of a container filled twice, forms a chain: each round halves its length.
        while len(others):
            others = others[~is_own[nodes[others]]]
            nodes[others] = nodes[nodes[others]]
        return nodes

    def take_between(self, closers: np.ndarray, brackets: Brackets) -> None:
        """Find the parts of closers, and how many each takes: the values that are free yet."""
        free = np.flatnonzero(~self.taken & (self.kind != ValueKind.NOTHING))
        size, parts = brackets.between(free, closers)
        self.runs.append(Run(closers, size, parts))

    def _where(self, there: np.ndarray) -> np.ndarray:
        """The tokens where a column is true."""
        return np.flatnonzero(there).astype(self.index)

    def _add_fixed(self, nodes: np.ndarray, parts: list[np.ndarray]) -> None:
        """Keep operands; of opcodes that fill their first one (APPEND, SETITEM, BUILD) only the others."""
        fills = FILLS[self.op[nodes]]
        if fills.any():
            self.same.append((nodes[fills], parts[0][fills]))
            self._add_run(nodes[fills], [part[fills] for part in parts[1:]])
            nodes, parts = nodes[~fills], [part[~fills] for part in parts]
        self._add_run(nodes, parts)

    def _add_run(self, nodes: np.ndarray, parts: list[np.ndarray]) -> None:
        size = np.full(len(nodes), len(parts), np.int8)
        self.runs.append(Run(nodes, size, np.stack(parts, 1).ravel()))
