"""Models made of random operations on one container, by two names of it, in an object and in a list."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from tests.support.made_effects import Made

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


class Kind(NamedTuple):
    """A kind of container.

    Attributes:
        starts: expressions that make one.
        operations: statements on ``C``, which may append to ``seen`` and change ``x``.
    """

    starts: tuple[str, ...]
    operations: tuple[str, ...]


DICTS = (
    "C['k'] = x",
    "C['n'] = C['n'] + 1 if 'n' in C else 0",
    "C['new'] = x * 2",
    "seen.append(C.get('k', 3))",
    "seen.append('k' in C)",
    "seen.append(C.pop('k', None))",
    "seen.append(C.setdefault('s', 0.5))",
    "C.update(u=1, v=x)",
    "C.clear()",
    "seen.append(len(C))",
    "seen.append(list(C))",
    "seen.append(list(C.values()))",
    "for key, one in C.items(): x = x + one * (key != 'k')",
    "if 'n' in C: del C['n']",
    "seen.append(dict(C))",
    "seen.append(bool(C))",
    "C |= {'k': 4.0}",
)
LISTS = (
    "C.append(x)",
    "C.append(1)",
    "C.extend([x, 2])",
    "C += [0.5]",
    "C.insert(0, x * 3)",
    "if C: seen.append(C.pop())",
    "if len(C) > 1: seen.append(C.pop(0))",
    "if C: C[0] = x",
    "if C: del C[-1]",
    "C.clear()",
    "seen.append(len(C))",
    "seen.append(list(C))",
    "seen.append(C[-1] if C else 0)",
    "C.reverse()",
    "for one in C: x = x + one",
)
ELEMENTS = ("C.add('c')", "C.discard('a')", "if 'a' in C: C.remove('a')", "C.update({'d'}, ['e'])")
KINDS = {
    "deque": Kind(
        ("deque()", "deque([1, 2.5])", "deque([torch.ones(3), 1], 2)", "deque(maxlen=3)"),
        (
            *(one for one in LISTS if "insert" not in one),
            "C.appendleft(x * 2)",
            "C.extendleft([x, 2])",
            "if C: seen.append(C.popleft())",
            "C.rotate(1)",
            "C.rotate(-2)",
            "seen.append(C.maxlen)",
            "seen.append(C.copy())",
            "if C.maxlen is None: C.insert(1, 5)",
        ),
    ),
    "set": Kind(
        ("set()", "{'a', 'b'}", "{'c'}"),
        (
            *ELEMENTS,
            "C.clear()",
            "C |= {'z', 'a'}",
            "C &= {'a', 'c', 'd'}",
            "C -= {'a'}",
            "C ^= {'a'}",
            "seen.append(sorted(C))",
            "seen.append(len(C))",
            "seen.append('a' in C)",
            "seen.append(C == {'a'})",
            "seen.append(C.union({'q'}))",
            "seen.append(C <= {'a', 'b', 'c'})",
            "seen.append(C.isdisjoint({'x'}))",
            "seen.append(set(C))",
            "seen.append(frozenset(C) - {'a'})",
            "seen.append({'a', 'y'} & C)",
            "x = x + len(C)",
            "if not C: C.add('n')",
            "seen.append(max(C, default='none'))",
        ),
    ),
    "ordered": Kind(
        ("OrderedDict()", "OrderedDict(k=1.0, n=2)"),
        (
            *DICTS,
            "if 'k' in C: C.move_to_end('k')",
            "if 'k' in C: C.move_to_end('k', last=False)",
            "if C: seen.append(C.popitem())",
            "if C: seen.append(C.popitem(last=False))",
            "seen.append(C == OrderedDict(k=1.0))",
            "seen.append(C.copy())",
        ),
    ),
    "default": Kind(
        ("defaultdict(int)", "defaultdict(float, k=1.0)"),
        (*DICTS, "C['m'] += 1", "seen.append(C['missing'])", "seen.append(C.default_factory is None)"),
    ),
    "default_lists": Kind(
        ("defaultdict(list)",),
        (
            "C['a'].append(x)",
            "C['b'] += [1, x]",
            "seen.append(len(C['a']))",
            "seen += ['b' in C]",
            "C.clear()",
        ),
    ),
    "dict_subclass": Kind(
        ("Doubling(k=1.0)", "Attributed(k=1.0, n=2)", "Ordered(k=1.0)"),
        (*DICTS, "C.note = 3", "seen.append(getattr(C, 'note', 0))", "C.note = x", "seen.append(C.total())"),
    ),
    "list_subclass": Kind(
        ("History()", "History([1, 0.5])", "Bounded([1])"),
        (*LISTS, "C.keep(x)", "C.kept = C.kept + 1", "seen.append(C.kept)", "seen.append(C + [x])"),
    ),
}
CLASSES = """
class Totalled:
    def total(self):
        return sum(one for one in self.values() if not isinstance(one, torch.Tensor))

class Doubling(Totalled, dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)

class Attributed(Totalled, dict):
    def __setitem__(self, key, value):
        dict.__setitem__(self, key, value)
        if key == 'n':
            self.latest = value

    def __contains__(self, key):
        return dict.__contains__(self, key) or key == 'always'

class Ordered(Totalled, OrderedDict):
    def __setitem__(self, key, value):
        self.writes = getattr(self, 'writes', 0) + 1
        super().__setitem__(key, value)

class History(list):
    kept = 0

    def keep(self, value):
        self.append(value)
        self.kept += 1

class Bounded(History):
    def append(self, value):
        if len(self) > 2:
            del self[0]
        super().append(value)
"""
TEXT = """import torch
from collections import OrderedDict, defaultdict, deque
{classes}
class Held:
    pass

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = {first}
        self.same = self.first
        self.other = {other}
        self.held = Held()
        self.held.container = self.other
        self.nested = [self.first, {third}]

    def forward(self, x):
        seen, _ = [], (self.first, self.same, self.other, self.held.container, self.nested[0], self.nested[1])
        {text}
        return x, seen
"""
PLACES = ("self.first", "self.same", "self.other", "self.held.container", "self.nested[0]", "self.nested[1]")


def model(starts: tuple[str, str, str], lines: list[str]) -> Made:
    """A model of three containers, and of some statements."""
    first, other, third = starts
    text = TEXT.format(classes=CLASSES, first=first, other=other, third=third, text="\n        ".join(lines))
    return Made(f"made_containers_{hashlib.sha256(text.encode()).hexdigest()[:12]}", text)


def models(kind: str) -> SearchStrategy[Made]:
    """Models of a kind."""
    starts, operations = KINDS[kind]
    one = st.sampled_from(starts)
    statements = st.builds(
        lambda operation, place: re.sub(r"\bC\b", place, operation),
        st.sampled_from(operations),
        st.sampled_from(PLACES),
    )
    return st.builds(model, st.tuples(one, one, one), st.lists(statements, min_size=1, max_size=5))
