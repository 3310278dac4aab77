"""Hypothesis strategies: modules with lists that calls change in every way, and read whole or in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.support.made_effects import Statement, made

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from tests.support.made_effects import Made

START = """\
self.n = 0
self.t = torch.zeros(2, 3)
self.a = []
self.b = [torch.full((2, 3), 0.5)]
self.c = self.a
self.f = []
self.d = {'a': []}"""
CHANGES = (
    "self.#.append(x)",
    "self.#.append(x * self.n)",
    "self.#.insert(0, x)",
    "self.#.extend([x, x + 1])",
    "self.# += [x]",
    "self.# = self.# + [x]",
    "self.# = [x] + self.#",
    "self.# = self.#[-@:]",
    "self.# = self.#[@:]",
    "self.# = self.#[:-1]",
    "self.#[:] = self.#[-@:]",
    "self.#[:] = self.# + [x]",
    "del self.#[:-@]",
    "del self.#[@:]",
    "self.#.insert(-1, x)",
    "if len(self.#) > @: self.#.pop(0)",
    "if len(self.#) > @: del self.#[0]",
    "if self.#: self.#.pop()",
    "if len(self.#) >= 4: self.#.clear()",
    "if self.#: self.#[-1] = x",
    "if self.#: self.#[0] = x * 2",
    "if self.#: self.t = self.#[-1]",
    "if self.#: self.#[-1].add_(1)",
    "self.t = self.t + x",
    "self.t.add_(x)",
    "self.#.append(self.t)",
    "self.b = self.#",
    "self.b = list(self.#)",
    "self.b = self.#[1:]",
    "self.a = self.b.copy()",
    "self.a = self.a + self.b[-2:]",
    "self.d['a'].append(x)",
    "self.d['a'] = self.d['a'][-2:] + [x]",
    "self.d['b'] = self.#[-2:]",
    "self.f.append(float(x.sum()))",
    "self.f.append(x.size(0))",
    "self.f = self.f[-@:]",
    "self.n += 1",
    "self.n = len(self.#)",
)
READS = (
    "x = torch.stack(self.#).sum(0) if self.# else x",
    "x = x + torch.cat(self.#[-@:]).mean() if self.# else x",
    "x = x + torch.stack(self.# + [x]).mean(0)",
    "x = torch.cat([x] + self.#[1:]).mean() + x",
    "x = x + torch.stack(list(self.#) + self.b + [x]).sum(0)",
    "x = x * len(self.#)",
    "x = x * len(self.#[@:]) - len(self.#[-@:-1])",
    "x = x + sum(self.#)",
    "x = sum(self.#[-@:], x)",
    "x = x + self.#[-1] if self.# else x",
    "x = x - self.#[0] if len(self.#) > 1 else x",
    "x = x + sum(self.f)",
    "x = x * max(self.f) - min(self.f[-2:]) if self.f else x",
    "x = x + torch.tensor(self.f[-@:]).sum()",
    "x = x + torch.stack(self.d['a']).mean(0) if self.d['a'] else x",
    "part = self.#[-@:]; part.append(x); x = torch.stack(part).sum(0)",
    "x = x if self.#[@:] else x + 1",
    "x = x + 1 if self.n > @ else x * 2",
    "for one in self.#[-@:]: x = x + one",
)
CONDITIONS = ("self.n % 3 == @", "self.n > @", "len(self.#) > @", "self.#", "len(self.#[1:]) == @")
RESULTS = ("x", "[x, self.a[-2:]]", "(x, self.b)", "self.a + [x]")
MOST = 3
"""Entries that loops over parts may take are few, so numbers are small."""


def _filled(text: str) -> SearchStrategy[str]:
    drawn = st.tuples(st.sampled_from("aabc"), st.integers(1, MOST))
    return drawn.map(lambda one: text.replace("#", one[0]).replace("@", str(one[1])))


changes = st.sampled_from(CHANGES).flatmap(_filled)
reads = st.sampled_from(READS).flatmap(_filled)
branches = st.tuples(st.sampled_from(CONDITIONS).flatmap(_filled), changes | reads).map(
    lambda arm: "; ".join([f"if {arm[0]}:", *(f"    {line}" for line in arm[1].split("; "))])
)


def _model(change: str, body: list[str], read: str, result: str) -> Made:
    lines = ["same = self.a, self.b, self.c", change, *body, read]
    return made([Statement("; ".join(lines), START, "")], result)


def histories() -> SearchStrategy[Made]:
    """Modules with lists that grow."""
    bodies = st.lists(changes | reads | branches, min_size=1, max_size=5)
    return st.builds(_model, changes, bodies, reads, st.sampled_from(RESULTS))
