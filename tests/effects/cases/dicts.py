"""Dicts: items set, deleted and taken out, caches, dicts in dicts, `OrderedDict` and `defaultdict`."""

from __future__ import annotations

import collections
from typing import Any

import torch

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("dicts")


def a_and_b() -> dict[str, torch.Tensor]:
    return {"a": tensor(1), "b": tensor(2)}


@CASES.add(table=a_and_b())
def dict_mutation_side_effect(self: Model, x: torch.Tensor) -> Any:
    self.table["c"] = self.table["a"] + self.table.pop("b")
    self.table["b"] = x
    return self.table["c"]


@CASES.add("misc", held=[])
def inline_dict_mutation(self: Model, x: torch.Tensor) -> Any:
    def changed(table: dict[str, Any]) -> None:
        table["c"] = table["a"] + table.pop("b")

    made = {"a": x, "b": x * 2}
    changed(made)
    self.held.append(made)
    return made


@CASES.add("functions", table={})
def dict_ops(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = {"a": x + 1, "b": x + 2}
    total = made.pop("b") + made.get("a") + made.get("missing", 3) + made.pop("missing", 4)
    made.update({"d": 3})
    made["c"] = total + made["d"]
    self.made = made
    return made["c"] - made["a"] + len(made)


@CASES.add("functions", table={"a": 1.0})
def dict_copy(self: Model, x: torch.Tensor) -> torch.Tensor:
    copied = dict(self.table)
    copied["b"] = x
    self.last = copied
    return copied["b"] + copied["a"]


@CASES.add(table={"a": 0.0})
def dict_copy_alias(self: Model, x: torch.Tensor) -> Any:
    copied = self.table.copy()
    copied["b"] = 1.0
    return x + 1, copied


@CASES.add("misc", table={"a": tensor(1), "b": tensor(2)})
def delsubscr(self: Model, x: torch.Tensor) -> torch.Tensor:
    del self.table["a"]
    self.table["a"] = x
    return self.table["b"] + 1


@CASES.add(table={2: 5.0, 4: 10.0})
def dict_contains(self: Model, x: torch.Tensor) -> torch.Tensor:
    x = x * 2 if 1 in self.table else x * 3
    self.table[2] = self.table[2] + 1
    return x


@CASES.add(table={2: 4.0, 3: 5.0})
def dict_guard_on_keys_order(self: Model, x: torch.Tensor) -> torch.Tensor:
    for key, value in self.table.items():
        x = x * key + value
    return x


@CASES.add(table={2: 4.0, 3: 5.0})
def dict_guard_on_keys_order2(self: Model, x: torch.Tensor) -> torch.Tensor:
    for key in self.table:
        x = x * key + self.table[key]
        self.table[key] = self.table[key] + 1.0
    return x


@CASES.add(table={"a": tensor(1), "b": tensor(2)})
def dict_order_keys(self: Model, x: torch.Tensor) -> torch.Tensor:
    for one in self.table.values():
        x = x + one
    self.table["a"] = x
    return x


@CASES.add()
def dict_iter(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = {"my": 1, "const": 2, "dict": 3, "variable": 4}
    self.total = sum(made[key] for key in made)
    return x + self.total


@CASES.add(table={"a": 2, "b": 3, "c": 5})
def lazy_key_guarding(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table["c"] += 1
    return x * self.table["a"]


@CASES.add("repros", table={"layer0": {"keys": tensor(1)}, "layer1": None})
def recursive_map(self: Model, x: torch.Tensor) -> torch.Tensor:
    def mapped(table: dict[str, Any]) -> None:
        for key, value in table.items():
            if isinstance(value, dict):
                mapped(value)
            elif value is not None:
                table[key] = value * 2

    mapped(self.table)
    return self.table["layer0"]["keys"] + x


@CASES.add(table={"a": 1})
def dict_update_no_args(self: Model, x: torch.Tensor) -> Any:
    nothing = self.table.update()
    return x + 1, nothing, len(self.table)


@CASES.add(table={"a": tensor(1), "b": tensor(2)})
def dict_update_from_mapping_proxy(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table.update({"a": x, "b": x + 1})
    return self.table["a"] + self.table["b"]


@CASES.add(OURS, table={"a": 1.0}, other={"b": 2.0})
def dict_union(self: Model, x: torch.Tensor) -> torch.Tensor:
    both = self.table | self.other
    self.last = both
    return x + both["a"] + both["b"]


@CASES.add(table={})
def empty_dict_recompilation(self: Model, x: torch.Tensor) -> torch.Tensor:
    return torch.cos(x) if self.table else torch.sin(x)


@CASES.add(OURS, table={"a": tensor(1)})
def dict_setdefault(self: Model, x: torch.Tensor) -> torch.Tensor:
    return self.table.setdefault("a", x) + x


@CASES.add("functions", table=collections.defaultdict(dict))
def default_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table["a"] = x + 1
    self.table["c"] = x * 2
    return self.table["a"] + len(self.table["b"])


@CASES.add(OURS, table=collections.defaultdict(list))
def defaultdict_of_lists(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table["seen"].append(x)
    return x + 1


@CASES.add(table=collections.OrderedDict(a=1.0, b=2.0))
def ordered_dict_reordered_keys(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table.move_to_end("a")
    for one in self.table.values():
        x = x * one
    return x


@CASES.add("misc", table=collections.OrderedDict(a=1.0))
def ordered_dict_alias_reconstruct(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table["b"] = x
    return x + self.table["a"]


@CASES.add("misc", table={"a": tensor(1), "b": tensor(2)})
def side_effects_codegen_update_mutated(self: Model, x: torch.Tensor) -> torch.Tensor:
    taken = self.table.pop("b")
    total = self.table["a"] + taken
    self.table["b"] = total + x
    return total


@CASES.add(OURS, counts={"calls": 0, "ratio": 0.5})
def numbers_in_a_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.counts["calls"] += 1
    self.counts["ratio"] = self.counts["ratio"] * 0.5
    return x * self.counts["calls"] + self.counts["ratio"]


@CASES.add(OURS, cache={})
def cleared_and_filled(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.cache.clear()
    self.cache["x"] = x
    return self.cache["x"] + len(self.cache)


@CASES.add(OURS, groups={"a": [], "b": []})
def lists_in_a_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.groups["a"].append(x)
    self.groups["b"].append(x * 2)
    return self.groups["a"][-1] + 1
