"""Classes derived from `dict` and `list`: kept, filled and changed; outputs as of Hugging Face."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import torch

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("dicts")


class SimpleDict(dict[Any, Any]):
    """A dict that may have attributes."""

    attr: int


class Dotted(dict[Any, Any]):
    """Items as attributes."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


class Adding(dict[Any, Any]):
    """Items that are set one greater."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value + 1)


class Backwards(dict[Any, Any]):
    """Keys in another order."""

    def __iter__(self) -> Any:
        return reversed(list(self.keys()))


class Ordered(collections.OrderedDict[Any, Any]):
    """As Hugging Face's tables of activations."""


class History(list[Any]):
    """A list with a method and an attribute."""

    limit = 3

    def add(self, value: Any) -> None:
        self.append(value)


class Remembering(list[Any]):
    """A list that is made with more than its items."""

    def __init__(self, items: Any, note: Any = None) -> None:
        super().__init__(items)
        self.note = note


@dataclasses.dataclass
class ModelOutput(collections.OrderedDict[str, Any]):
    """A dataclass that is a dict of its fields that are not None."""

    last_hidden_state: Any = None
    hidden_states: Any = None
    attentions: Any = None

    def __post_init__(self) -> None:
        for field in ("last_hidden_state", "hidden_states", "attentions"):
            value = getattr(self, field)
            if value is not None:
                self[field] = value

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[key] for key in self.keys())


@CASES.add()
def dict_subclass_instantiation(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = SimpleDict(x=5)
    self.last = made["x"]
    return made["x"] * x


@CASES.add()
def dict_subclass_local_mutation(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = SimpleDict(x=5)
    z = made["x"] * x
    made["x"] = 10
    self.last = made["x"]
    return z * made["x"]


@CASES.add()
def dict_subclass_instantiation_return(_: Model, x: torch.Tensor) -> Any:
    made = SimpleDict(x=5 * x)
    made["y"] = 10
    return made


@CASES.add()
def dict_subclass_setitem(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = Adding(x=5 * x)
    made["y"] = 10
    self.last = made["y"]
    return made["x"] * made["y"]


@CASES.add(table=SimpleDict({2: 5.0, 4: 10.0}))
def dict_subclass_methods_fallback_readonly(self: Model, x: torch.Tensor) -> torch.Tensor:
    for value in self.table.values():
        x = x * value
    return x * len(self.table)


@CASES.add(table=SimpleDict({2: 5.0, 4: 10.0}))
def dict_subclass_methods_fallback_mutation(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table[4] = self.table[4] + 1.0
    for value in self.table.values():
        x = x * value
    return x


@CASES.add(table=Backwards(foo=1.0, bar=2.0))
def custom_iter_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table["foo"] = 4.0
    for key in self.table:
        x = x * self.table[key] + 1
    return x


@CASES.add(table=Dotted(a=1.0, b=2.0))
def dict_subclass_get_method(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.table.get("a", 3) + self.table.b


@CASES.add(table=Ordered(key1=tensor(1)))
def dict_subclass_contains(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x + 2 if "key1" in self.table else x + 4


@CASES.add()
def udf_dict_reconstruction(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = SimpleDict()
    made["x"] = x * 2
    made.attr = 3
    self.made = made
    return made["x"] * made.attr


@CASES.add()
def dict_subclass_initialization_in_graph(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = Ordered()
    made["key"] = x
    self.found = "key" in made
    return made["key"] + 1


@CASES.add(OURS, history=History([tensor(1)]))
def list_subclass_append(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.add(x)
    return self.history[-1] * self.history.limit


@CASES.add("list")
def list_subclass_new_via_super(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = Remembering([1, 2, 3], note=7)
    self.note = made.note
    return x + made[0]


@CASES.add("list")
def list_subclass_new_stores_no_init_args(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.made = History([1, 2, 3])
    return x + self.made[0]


@CASES.add("model_output")
def mo_create(_: Model, x: torch.Tensor) -> Any:
    return ModelOutput(x + 1, attentions=x + 3)


@CASES.add("model_output")
def mo_assign(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = ModelOutput(last_hidden_state=x + 3)
    made.hidden_states = x + 7
    made["attentions"] = x + 6
    self.last = made.hidden_states
    return made["attentions"]


@CASES.add(
    "model_output",
    output=ModelOutput(tensor(1), attentions=tensor(2)),
)
def mo_getattr(self: Model, x: torch.Tensor) -> torch.Tensor:
    x = self.output.last_hidden_state * x
    if self.output.hidden_states is not None:
        x = x + self.output.hidden_states
    if self.output.attentions is not None:
        x = x + self.output.attentions
    return x


@CASES.add("model_output")
def mo_tuple(self: Model, x: torch.Tensor) -> torch.Tensor:
    one, other = ModelOutput(x, attentions=x + 1).to_tuple()
    self.last = one
    return one + other * 10


@CASES.add("repros")
def hf_model_output(self: Model, x: torch.Tensor) -> torch.Tensor:
    output = ModelOutput(x + 1)
    self.last = output["last_hidden_state"]
    return output.last_hidden_state


@CASES.add(OURS, held=None)
def dict_subclass_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held = SimpleDict(x=x)
    return x + 1
