"""Attributes of modules: numbers, tensors, registered ones, set by name, deleted, those of classes."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from tests.effects.effect_cases import OURS, Cases, Model, tensor, with_gradient

CASES = Cases("modules")


@CASES.add(OURS)
class class_attribute(nn.Module):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        class_attribute.calls += 1
        return x * class_attribute.calls


@CASES.add(layer=nn.Linear(3, 3), counter=0)
def self_mutating1(self: Model, x: torch.Tensor) -> torch.Tensor:
    result = self.layer(x) + self.counter
    self.counter += 1
    return torch.relu(result)


@CASES.add(layers=nn.Sequential(nn.Linear(3, 3)))
def module_setattr(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.layers[0].abc = True
    return self.layers(x)


@CASES.add()
def assign_does_not_exist(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.text_encoding = x + 1
    return self.text_encoding


@CASES.add(one=nn.Linear(3, 4), two=nn.Linear(4, 3), x=None)
def setattr_on_compiled_module(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.x = self.one(x)
    return self.two(self.x)


@CASES.add(layers=nn.Sequential(nn.Linear(3, 3)))
def unspecialized_seq(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.layers[0].training = False
    return self.layers(x)


@CASES.add(step=1)
def nn_module_unspec_int_attr(self: Model, x: torch.Tensor) -> torch.Tensor:
    x = x + self.step
    self.step += 1
    return x * self.step


@CASES.add(a=2, b=2, scale=1.5, linear=nn.Linear(3, 3))
def attr_precedence(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.scale = self.scale * self.a
    return self.linear(x) * self.a * self.b * self.scale


@CASES.add("repros")
class abc_setattr(nn.Module):
    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = 0
        return x + 1


@CASES.add(layer1=nn.Linear(3, 3), layer2=nn.Linear(3, 3), rounds=0, arguments=with_gradient)
def param_requires_grad(self: Model, x: torch.Tensor) -> torch.Tensor:
    x = self.layer2(x + self.layer1.bias)
    self.rounds += 1
    return x


@CASES.add(layer1=nn.Linear(3, 3), layer2=nn.Linear(3, 3))
def param_order(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.sums = [one.sum() * (number + 1) for number, one in enumerate(self.parameters())]
    return x + self.sums[0]


@CASES.add(activations=nn.ModuleDict({"lrelu": nn.LeakyReLU(), "prelu": nn.PReLU()}))
def module_dict_iter_name(self: Model, x: torch.Tensor) -> torch.Tensor:
    for name in self.activations:
        x = self.activations[name](x)
        self.last = name
    return x


@CASES.add(activations=nn.ModuleDict({"lrelu": nn.LeakyReLU(), "prelu": nn.PReLU()}), used=[])
def module_dict_iter_keys(self: Model, x: torch.Tensor) -> torch.Tensor:
    for name in self.activations.keys():  # noqa: SIM118
        x = self.activations[name](x)
        self.used.append(name)
    return x


@CASES.add(activations=nn.ModuleDict({"lrelu": nn.LeakyReLU()}))
def module_dict_iter_values(self: Model, x: torch.Tensor) -> torch.Tensor:
    for one in self.activations.values():
        x = one(x)
        one.seen = x
    return x


@CASES.add("repros", weight=nn.Parameter(torch.ones(3)))
def get_parameter_dtype(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.kind = next(self.parameters()).dtype
    return x.to(self.kind)


@CASES.add(OURS)
def register_buffer_in_forward(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.register_buffer("seen", x.detach().clone())
    return x + self.seen


@CASES.add(OURS)
def register_buffer_not_persistent(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.register_buffer("seen", x * 2, persistent=False)
    return x + self.seen


@CASES.add(OURS, says="an attribute of a tensor that cannot be followed: grad_fn")
def register_parameter_in_forward(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.register_parameter("seen", nn.Parameter(x.detach() * 2))  # here
    return x + self.seen.detach()


@CASES.add(OURS, layer=nn.Linear(3, 3))
def add_module_in_forward(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.add_module("other", self.layer)
    return self.other(x)


@CASES.add(OURS, totals=["first", "second"], first=0.0, second=0.0)
def set_by_name(self: Model, x: torch.Tensor) -> torch.Tensor:
    for number, name in enumerate(self.totals):
        setattr(self, name, getattr(self, name) + number + 1)
    return x + self.first + self.second


@CASES.add(OURS, count=0)
def set_in_dunder_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.__dict__["count"] = self.count + 1
    return x * self.count


@CASES.add("dicts")
def update_module_dunder_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.__dict__["a"] = 10
    return x * self.a + self.__dict__["a"]


@CASES.add("dicts", foo=1, bar=2, baz=3)
def contains_module_dunder_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.bar if "foo" in self.__dict__ else x * self.baz


@CASES.add(OURS, cache=tensor(1))
def deleted_attribute(self: Model, x: torch.Tensor) -> torch.Tensor:
    before = self.cache
    del self.cache
    self.cache = x * 2
    return before + x


@CASES.add(OURS, shape=None)
def size_kept(self: Model, x: torch.Tensor) -> Any:
    self.shape = x.shape
    return x.reshape(self.shape[1], self.shape[0])


@CASES.add(OURS, kinds=[])
def dtype_and_device_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.kind, self.place = x.dtype, x.device
    return torch.ones(2, 3, dtype=self.kind, device=self.place) + x


@CASES.add(OURS, attention=None)
def attention_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    weights = torch.softmax(x @ x.T, -1)
    self.attention = weights.detach()
    return weights @ x


@CASES.add(OURS, mode="train")
def text_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.mode = "eval"
    self.label = f"{self.mode}-{x.dim()}"
    return x + 1


@CASES.add("modules", layer=nn.Linear(3, 3))
def call_fn_with_non_const_inputs_safe(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.last = torch.nn.functional.linear(x, self.layer.weight, self.layer.bias)
    return self.last * 2


class Renaming:
    """Attributes by another name, through a ``__getattribute__`` of its own."""

    NAMES: ClassVar = {"size": "width"}

    def __init__(self) -> None:
        self.width = 3
        self.count = 0

    def __getattribute__(self, name: str) -> Any:
        names = super().__getattribute__("NAMES")
        return super().__getattribute__(names.get(name, name))


class WithRenaming(nn.Module):
    SCALE = 2
    NAMES = ("one", "two")

    def __init__(self) -> None:
        super().__init__()
        self.config = Renaming()


@CASES.add(OURS)
class own_getattribute(WithRenaming):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.config.count += 1
        return x * self.config.size + self.config.count + getattr(self.config, "other", 5)


@CASES.add(OURS)
class attributes_of_classes(WithRenaming):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.config.count += self.SCALE + len(self.NAMES)
        return x * self.config.count
