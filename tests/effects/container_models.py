"""Models that change lists and dicts, and results that hold them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class History(nn.Module):
    """A list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[torch.Tensor] = [torch.zeros(3)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.history[-1]
        self.history.append(x + before)
        return self.history[-1] * 2


class Window(nn.Module):
    """A list that both ends of change."""

    def __init__(self) -> None:
        super().__init__()
        self.window = [torch.full((3,), float(n)) for n in range(3)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        oldest = self.window.pop(0)
        self.window.append(x)
        self.window.insert(0, oldest * 0.5)
        self.window += [x * 2, x * 3]
        del self.window[-1]
        self.window[-1] = x * 4
        return oldest + self.window[0] + self.window.pop() + self.window[1]


class Cache(nn.Module):
    """A dict: numbers, tensors, and what is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Any] = {"calls": 0, "last": torch.zeros(3), "deep": {"list": [1, 2.5]}}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache["calls"] += 1
        y = x + self.cache["last"]
        self.cache["last"] = y
        self.cache["deep"]["list"][0] += 2
        self.cache["deep"]["list"][1] = self.cache["deep"]["list"][1] * 2
        self.cache["new"] = (y, self.cache["calls"])
        return y * self.cache["deep"]["list"][0]


class Aliases(nn.Module):
    """One list by two paths, one tensor twice, a new list twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first: list[Any] = [torch.zeros(3)]
        self.second = self.first
        self.holder = {"third": self.first}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first.append(x)
        self.second.append(x * 2)
        y = self.holder["third"][-1]
        shared = [x]
        self.left = shared
        self.right = shared
        self.left.append(y)
        return y + self.first[-2]


class Results(nn.Module):
    """Results in tuples, lists and dicts, arguments among them, and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor, n: int, scale: float = 2.0) -> dict[str, Any]:
        self.count = self.count + n
        return {"x": x, "list": [x * scale, (self.count, None, "text")], "n": n * 2, "half": self.count / 2}


class Looked(nn.Module):
    """A list and a dict that are read in every way that a list and a dict have, and stay."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.more = [3, 1, 3], [4]
        self.table = {"a": 1.5, "b": 2.5}
        self.calls = 0

    def forward(self, x: torch.Tensor) -> list[Any]:
        items, table = self.items, self.table
        self.calls += 1
        return [
            x * items[0] + table["b"] + table.get("c", 2),
            [len(items), items.count(3), items.index(1), items[1:], items.copy()],
            [1 in items, 2 in items, items == [3, 1, 3], items != [3]],
            [items + self.more, items * 2, 2 * items, list(reversed(items)), [one + 1 for one in items]],
            [len(table), bool(table), "b" in table, "c" in table, table == {"a": 1.5}],
            [list(table), list(reversed(table)), list(table.keys()), list(table.values()), table.copy()],
            [(key, value * 2) for key, value in table.items()],
        ]


class Refilled(nn.Module):
    """A list that each call empties and fills, and reads in every way while its length is known."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = [7]
        self.rows: list[Any] = [1]
        self.more = [5]

    def forward(self, x: torch.Tensor) -> list[Any]:
        parts = self.parts
        parts.clear()
        parts.append(2)
        parts.extend([1, 4])
        parts.insert(0, 1)
        parts.insert(-1, 3)
        del parts[1]
        read = [len(parts), parts.count(1), parts.index(3), parts[1:], parts.copy(), parts[0], parts[-1]]
        read += [1 in parts, parts == [1, 1, 3, 4], bool(parts), list(reversed(parts))]
        read += [parts + self.more, parts * 2, 2 * parts, [one + 1 for one in parts], repr(parts)]
        parts[-1] = x * parts.pop(0)
        rows = self.rows
        rows[:] = [len(parts), 2]
        rows.append(3)
        del rows[:]
        rows += [x]
        return read


class Keyed(nn.Module):
    """A dict whose keys come and go in every way that a dict has."""

    def __init__(self) -> None:
        super().__init__()
        self.table: dict[str, Any] = {"kept": 1, "goes": 2}
        self.fresh: dict[str, Any] = {"one": torch.zeros(3)}

    def forward(self, x: torch.Tensor) -> list[Any]:
        table = self.table
        read = [
            table.pop("goes"),
            table.pop("none", 5),
            table.setdefault("kept", 8),
            table.setdefault("new", 9),
        ]
        table.update({"goes": 3}, more=x)
        table |= {"other": x * 2}
        del table["new"]
        del table["more"]
        del table["other"]
        self.fresh.clear()
        self.fresh["one"] = x
        return [*read, table["kept"], self.fresh["one"] * 2]
