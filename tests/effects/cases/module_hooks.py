"""Hooks on modules: forward, pre and backward hooks that were there before the first call; weight norm."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from tests.support.effect_cases import OURS, Cases, with_gradient

CASES = Cases("modules")
SEEN: list[Any] = []


class Doubling(nn.Module):
    """Two times its argument, and one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x + 1


def twice_and_one(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
    return 2 * output + 1


def noted(_: nn.Module, inputs: Any, __: Any) -> None:
    SEEN.append(inputs[0])


def noted_by_name(name: str, module: nn.Module, _: Any, output: torch.Tensor) -> None:
    module.last = output
    module.name = name


def first_plus_one(_: nn.Module, args: Any) -> Any:
    return (args[0] + 1,)


def with_keywords(_: nn.Module, args: Any, kwargs: Any) -> Any:
    return (args[0] + 1,), kwargs


def counted(module: nn.Module, _: Any, __: Any) -> None:
    module.calls += 1


def halved(_: nn.Module, inputs: Any, __: Any) -> Any:
    return (inputs[0] / 2,)


class Around(nn.Module):
    """A module around one with hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Doubling()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x * 2 + 1)


@CASES.add(says="a hooks_outer with hooks of its own")
class hooks_outer(Around):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_hook(twice_and_one)


@CASES.add(says="a Doubling with hooks of its own", at="return self.inner(x * 2 + 1)")
class hooks_inner(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook(twice_and_one)


@CASES.add(says="a Sequential with hooks of its own")
class hooks_allowed_modules(Around):
    def __init__(self) -> None:
        super().__init__()
        for name, one in self.net.named_modules():
            one.register_forward_hook(functools.partial(noted_by_name, name))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)  # here


@CASES.add(says="a Linear with hooks of its own")
class hooks_allowed_modules_compiles(Around):
    def __init__(self) -> None:
        super().__init__()
        for one in self.net:
            one.register_forward_hook(noted)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


@CASES.add(says="a Linear with hooks of its own", arguments=with_gradient)
class hooks_allowed_modules_compiles_self_contained(Around):
    def __init__(self) -> None:
        super().__init__()
        for one in self.net:
            one.register_forward_hook(twice_and_one)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) * self.net(x)


@CASES.add(says="what is done to a OrderedDict cannot be followed")
class dunder_call_explicitly(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook(twice_and_one)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner.__call__(x)  # here


@CASES.add(
    says="a Doubling with hooks of its own", at="return self.inner(x * 2 + 1)", arguments=with_gradient
)
class backward_hooks(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_full_backward_hook(halved)


@CASES.add(says="a Doubling with hooks of its own", at="return self.inner(x * 2 + 1)")
class udo_instance_method_as_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_pre_hook(self.plus_one)

    def plus_one(self, _: nn.Module, args: Any) -> Any:
        return (args[0] + 1,)


@CASES.add(OURS, says="a Doubling with hooks of its own", at="return self.inner(x * 2 + 1)")
class pre_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_pre_hook(first_plus_one)


@CASES.add(OURS, says="a Doubling with hooks of its own", at="return self.inner(x * 2 + 1)")
class pre_hook_with_keywords(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_pre_hook(with_keywords, with_kwargs=True)


@CASES.add(OURS, says="a Doubling with hooks of its own", at="return self.inner(x * 2 + 1)")
class counting_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.calls = 0
        self.inner.register_forward_hook(counted)


@CASES.add(OURS)
class hook_taken_off(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook(twice_and_one).remove()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.inner(x) * self.calls


@CASES.add(OURS, arguments=with_gradient)
class weight_norm_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x)


@CASES.add()
class overridden_call(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Calling()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Calling(nn.Module):
    """A module with a ``__call__`` of its own, past all hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return 5 * self.forward(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3
