"""Lists: histories that grow, items set anew, parts, orders; lists made in a call and kept."""

from __future__ import annotations

from typing import Any

import torch

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("list")


@CASES.add(items=["a", "b", "c"])
def append(self: Model, x: torch.Tensor) -> Any:
    return self.items.append("d"), x + 1


@CASES.add(items=["a"], more=["c", "d"])
def extend(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.extend(self.more)
    self.items.extend([x, x * 2])
    return self.items[-1] + 1


@CASES.add(
    says=(
        "which item that is depends on the length of a list, which differs from call to call; "
        "8 tables are not enough"
    ),
    items=["a", "b", "c"],
)
def insert(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.insert(1, "ef")  # here
    return x + 1


@CASES.add(OURS, items=[1, 2, 3])
def insert_at_front(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.insert(0, x)
    return self.items[0] * 2


@CASES.add(items=[tensor(seed) for seed in range(8)])
def pop(self: Model, x: torch.Tensor) -> torch.Tensor:
    last, first = self.items.pop(), self.items.pop(0)
    return last * x + first


@CASES.add(items=["a", "b", "a", "d", "a"])
def remove(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.remove("a")
    return x + 1


@CASES.add(items=["a", "b", "c", "d"])
def reverse(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.reverse()
    return x + 1


@CASES.add(items=[4, 2, 3, 1])
def sort(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.sort()
    return x + self.items[0]


@CASES.add(items=[1, 2, 3])
def clear(self: Model, x: torch.Tensor) -> Any:
    self.items.clear()
    self.items.append(x)
    return len(self.items), x * 2


@CASES.add(items=[1.0, 2.0])
def copy(self: Model, x: torch.Tensor) -> torch.Tensor:
    copied = self.items.copy()
    copied.append(3.0)
    self.last = copied
    return x * copied[-1]


@CASES.add(items=["a", "b", "c"])
def __setitem__(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items[2] = "a"
    self.items[0] = x
    return self.items[0] + 1


@CASES.add(items=["a", "b", "c", "d", "e", "f", "g", "h", "i"])
def __delitem__(self: Model, x: torch.Tensor) -> torch.Tensor:
    del self.items[1]
    return x + 1


@CASES.add(
    says=("len() or iteration of a list whose length differs from call to call; 8 tables are not enough"),
    items=["a", "b"],
)
def binop_imul(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items *= 2  # here
    return x + 1


@CASES.add(items=["a", "b"])
def binop_iadd(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items += [x]
    return self.items[-1] * 2


@CASES.add("repros", seen=[tensor(9)])
def seq_append_list(self: Model, x: torch.Tensor) -> Any:
    for scale in (1.0, 2.0, 3.0):
        x = x * scale + 1
        self.seen.append(x)
    return x, self.seen[-1]


@CASES.add("repros", items=[tensor(seed) for seed in range(10)])
def slice_into_list_mutable(self: Model, x: torch.Tensor) -> Any:
    part = self.items[3:5]
    for number in range(3):
        part[0] = x.abs() + number
    return part


@CASES.add("misc", held=[])
def inline_list_mutation(self: Model, x: torch.Tensor) -> Any:
    def added(items: list[torch.Tensor]) -> list[torch.Tensor]:
        items.append(torch.ones(8))
        return items

    made = [x]
    added(made)
    self.held.append(made)
    return made


@CASES.add("misc", outer=[], inner=[])
def recursive_inline_list_mutation(self: Model, x: torch.Tensor) -> Any:
    def innermost(one: list[Any], other: list[Any]) -> None:
        one.append(x + 1.1)
        other.append(x + 1.2)

    def middle(one: list[Any], other: list[Any]) -> None:
        one.append(x + 2.1)
        other.append(x + 2.2)
        innermost(one, other)

    self.outer.append(x + 3.1)
    middle(self.outer, self.inner)
    return self.outer[-1], self.inner[-2]


@CASES.add("misc")
def list_append_return_none(self: Model, x: torch.Tensor) -> Any:
    items: list[Any] = []
    nothing = items.append(x + 1)  # type: ignore[func-returns-value]
    self.items = items
    return items, nothing


@CASES.add("functions", items=[1, 2, 3, 4])
def list_slice_assignment(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items[1:] = [6] * (len(self.items) - 1)
    return x + 1


@CASES.add("functions", items=[])
def list_clear(self: Model, x: torch.Tensor) -> Any:
    self.items.append(x + 1)
    self.items.append(x + 2)
    self.items.clear()
    self.items.append(x + x)
    return list(self.items)


@CASES.add("functions", seen=[tensor(1)])
def list_truth(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x + 1 if self.seen else x - 1


@CASES.add("functions", seen=[tensor(1), tensor(2)])
def list_reversed(self: Model, x: torch.Tensor) -> torch.Tensor:
    for one in reversed(self.seen):
        x = x * one + 1
    return x


@CASES.add("misc", seen=[1, 2, 3])
def list_index(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.place = self.seen.index(3)
    return x + self.place


@CASES.add("functions", items=[0.5, 1.5])
def unpack_ex1(self: Model, x: torch.Tensor) -> Any:
    first, *rest = x, x + 1, self.items[0], self.items[1]
    self.items[0], self.items[1] = self.items[1], self.items[0]
    self.rest = rest
    return first


@CASES.add("repros", history=[])
def indexing_with_list(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    return torch.stack(self.history).mean(0)


@CASES.add(
    "misc",
    says="len() or iteration of a list whose length differs from call to call; 8 tables are not enough",
    history=[tensor(5)],
)
def tensor_build_list_unpack(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    return torch.cat([*self.history]).sum()  # here


@CASES.add("functions", history=[])
def len_constant_list(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    return x * len(self.history)


@CASES.add("functions", history=[tensor(1), tensor(2)])
def slice6(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    return sum(self.history[-2:], x)


@CASES.add(
    "functions",
    says="len() or iteration of a list whose length differs from call to call; 8 tables are not enough",
    history=[tensor(1), tensor(2)],
)
def map_sum(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    total = x
    for one in self.history:  # here
        total = total + one
    return total
