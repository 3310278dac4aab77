"""Sets and deques."""

from __future__ import annotations

import collections
from typing import Any

import torch

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("sets")


@CASES.add(seen={"a", "b"})
def add(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen.add("c")
    self.seen.add("a")
    return x + 1


@CASES.add(seen={"a", "b"})
def clear(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen.clear()
    return x + 1


@CASES.add(seen={"a", "b"})
def discard(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen.discard("a")
    return x + 1


@CASES.add(seen={"a", "b"})
def remove(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen.remove("a")
    self.seen.add("a")
    return x + len(self.seen)


@CASES.add(seen={"a", "b"})
def update(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen.update({"b", "c"}, ["d"])
    return x + 1


@CASES.add(seen={"apple", "banana"})
def intersection_update(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen.intersection_update({"google", "apple"})
    return x + 1


@CASES.add(seen={"apple", "banana"})
def difference_update(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen.difference_update({"apple"})
    return x + 1


@CASES.add(seen={"apple", "banana"})
def union(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.last = self.seen.union({"cherry"})
    return x + 1


@CASES.add(seen={"PyTorch", "Dynamo"})
def in_guard(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x.sin() if "PyTorch" in self.seen else x.cos()


@CASES.add("misc")
def iter_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = set()
    for one in ("a", "b", "a"):
        made.add(one)
    self.size = len(made)
    return x * self.size


@CASES.add("misc")
def remove_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = {4, 5}
    made.remove(4)
    self.size = len(made)
    return x * len(made)


@CASES.add("misc")
def add_to_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = {1}
    made.add(2)
    self.made = made
    return x * len(made)


@CASES.add(fixed=frozenset("abc"))
def to_frozenset(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.size = len(self.fixed)
    return x + self.size if "a" in self.fixed else x


@CASES.add(
    "misc",
    queue=collections.deque(["foo", tensor(1), tensor(2)]),
)
def deque_input(self: Model, x: torch.Tensor) -> torch.Tensor:
    one, other = self.queue.pop(), self.queue.pop()
    self.queue.extend([one, other])
    return one * other + x


@CASES.add("misc", queue=collections.deque(["foo", 10, 10]))
def deque_append_left(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.queue.appendleft(x)
    self.queue.appendleft(x * 2)
    return self.queue.popleft() * self.queue.popleft()


@CASES.add(OURS, window=collections.deque(maxlen=2))
def deque_with_bound(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.window.append(x)
    return self.window[-1] + 1


@CASES.add(
    OURS,
    window=collections.deque([tensor(1), tensor(2)], maxlen=2),
)
def deque_with_bound_full(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.window.append(x)
    return torch.stack(list(self.window)).mean(0)


@CASES.add(OURS, queue=collections.deque([1.0, 2.0, 3.0]))
def deque_rotate(self: Model, x: torch.Tensor) -> Any:
    self.queue.rotate(1)
    return x * self.queue[0]


@CASES.add(OURS, words=["b", "a", "b"], numbers=[3, 1, 2], order=[])
def made_in_the_call(self: Model, x: torch.Tensor) -> torch.Tensor:
    words, numbers = set(self.words), {number * 2 for number in self.numbers}
    for word in sorted(words | {"c"}):
        self.order.append(word)
        x = x + len(word)
    for number in numbers:
        x = x * number + (number in {2, 4})
    return x
