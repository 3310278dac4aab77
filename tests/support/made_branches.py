"""Hypothesis strategies: modules that branch on what calls change, and change it in each arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.support.made_effects import Made, Statement, made

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

AROUND = """
TOTAL = 0


class Note:
    def __init__(self, value):
        self.value = value
        self.reads = 0
"""
START = """\
self.n = 0
self.t = 0.5
self.flag = False
self.mode = "a"
self.last = None
self.note = None
self.keys = torch.zeros(0, 3)
self.history = []
self.table = {}
self.register_buffer("seen", torch.zeros(3))"""
CONDITIONS = (
    "self.n > @",
    "self.n % 3 == @",
    "self.n == len(self.history)",
    "self.n",
    "self.n < x.size(0)",
    "self.t > 1.@",
    "self.flag",
    "not self.flag",
    "self.mode == 'a'",
    "self.last is None",
    "self.note is not None",
    "self.history",
    "len(self.history) > @",
    "len(self.history) >= 2 and self.flag",
    "self.history == []",
    "'k' in self.table",
    "len(self.table) > 1",
    "not self.table",
    "hasattr(self, 'lazy')",
    "self.keys.size(0) > 2",
    "TOTAL > @",
    "TOTAL + self.n == @",
    "(self.n + @) * 2 - len(self.history) > 4",
    "1 <= self.n <= @",
    "max(self.n, 2) > @ or self.flag",
)
ACTIONS = (
    "self.n += 1",
    "self.n += @",
    "self.n = 0",
    "self.n = len(self.history)",
    "self.n = min(self.n + 1, 3)",
    "self.t = self.t * 1.5",
    "self.t = 0.25",
    "self.flag = not self.flag",
    "self.flag = self.n > @",
    "self.mode = 'b' if self.mode == 'a' else 'a'",
    "self.mode = 'c'",
    "self.last = x.detach()",
    "self.last = None",
    "x = x if self.last is None else x + self.last",
    "self.last = x if self.last is None else self.last * 0.5",
    "self.note = Note(x.sum())",
    "self.note = None",
    "if self.note is not None: self.note.reads += 1",
    "x = x if self.note is None else x + self.note.value * self.note.reads",
    "self.history.append(x.sum())",
    "self.history.append(self.n)",
    "self.history.insert(0, x.mean())",
    "self.history = self.history[-2:]",
    "if self.history: self.history.pop(0)",
    "if len(self.history) > @: self.history.pop()",
    "del self.history[:1]",
    "self.history.clear()",
    "x = x * len(self.history)",
    "x = x + sum(self.history)",
    "x = x + (self.history[-1] if self.history else 1)",
    "for one in self.history: x = x + one",
    "self.table['k'] = x",
    "self.table['l'] = self.n",
    "self.table.pop('k', None)",
    "self.table.setdefault('m', 2.5)",
    "if 'k' in self.table: x = x + self.table['k']",
    "for one in self.table.values(): x = x + one",
    "self.table.clear()",
    "self.lazy = getattr(self, 'lazy', @) + 1",
    "if hasattr(self, 'lazy'): del self.lazy",
    "x = x + self.n",
    "x = x * self.t",
    "for _ in range(self.n % 3): x = x + 1",
    "x = x * [1, 2, 3][self.n % 3]",
    "self.seen.add_(x.detach().sum(0))",
    "self.seen = self.seen * 0.5",
    "x = x - self.seen",
    "self.keys = torch.cat([self.keys, x.detach()])[-3:]",
    "x = x + self.keys.sum()",
    "self.same = self.history",
    "self.held = self.last",
    "TOTAL += 1",
)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _block(inner: SearchStrategy[list[str]]) -> SearchStrategy[list[str]]:
    return st.lists(inner, min_size=1, max_size=2).map(lambda some: [line for one in some for line in one])


def _numbered(text: str) -> SearchStrategy[str]:
    return st.integers(0, 3).map(lambda number: text.replace("@", str(number)))


actions = st.sampled_from(ACTIONS).flatmap(_numbered).map(lambda text: [text])
conditions = st.sampled_from(CONDITIONS).flatmap(_numbered)


def _branch(inner: SearchStrategy[list[str]]) -> SearchStrategy[list[str]]:
    arms = st.tuples(conditions, _block(inner), st.none() | _block(inner))
    return arms.map(
        lambda arm: [
            f"if {arm[0]}:",
            *_indented(arm[1]),
            *(["else:", *_indented(arm[2])] if arm[2] is not None else []),
        ]
    )


bodies = st.lists(actions | _branch(actions | _branch(actions)), min_size=3, max_size=7)


def branching() -> SearchStrategy[Made]:
    """Modules with branches."""
    return bodies.map(
        lambda some: made(
            [Statement("; ".join(["global TOTAL", *(line for one in some for line in one)]), START, AROUND)]
        )
    )
