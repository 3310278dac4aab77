"""Hooks on modules that were there before the first call; weight norm, old and new."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn.utils import prune

from tests.effects.effect_cases import OURS, Cases, with_gradient

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


def with_result(_: nn.Module, args: Any, kwargs: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2 + len(args) + len(kwargs)


def seen_in(seen: list[torch.Tensor], _: nn.Module, __: Any, output: torch.Tensor) -> None:
    seen.append(output)


def added_up(module: nn.Module, inputs: Any, outputs: Any) -> None:
    SEEN.append(outputs[0].sum())
    SEEN.append(inputs[0])
    module.last = outputs[0]


def doubled(_: nn.Module, outputs: Any) -> Any:
    return (outputs[0] * 2,)


def halved(_: nn.Module, inputs: Any, __: Any) -> Any:
    return None if inputs[0] is None else (inputs[0] / 2,)


class Around(nn.Module):
    """A module around one with hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Doubling()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x * 2 + 1)


@CASES.add()
class hooks_outer(Around):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_hook(twice_and_one)


@CASES.add()
class hooks_inner(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook(twice_and_one)


@CASES.add()
class hooks_allowed_modules(Around):
    def __init__(self) -> None:
        super().__init__()
        for name, one in self.net.named_modules():
            one.register_forward_hook(functools.partial(noted_by_name, name))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


@CASES.add()
class hooks_allowed_modules_compiles(Around):
    def __init__(self) -> None:
        super().__init__()
        for one in self.net:
            one.register_forward_hook(noted)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


@CASES.add(arguments=with_gradient)
class hooks_allowed_modules_compiles_self_contained(Around):
    def __init__(self) -> None:
        super().__init__()
        for one in self.net:
            one.register_forward_hook(twice_and_one)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) * self.net(x)


@CASES.add()
class dunder_call_explicitly(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook(twice_and_one)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner.__call__(x)


@CASES.add(arguments=with_gradient)
class backward_hooks(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_full_backward_hook(halved)


@CASES.add(OURS, arguments=with_gradient)
class backward_hooks_of_layers(Around):
    """Hooks before and after, with and without a gradient of the argument; two of one module."""

    def __init__(self) -> None:
        super().__init__()
        self.net[0].register_full_backward_hook(added_up)
        self.net[0].register_full_backward_hook(halved)
        self.net[1].register_full_backward_hook(added_up)
        self.net[1].register_full_backward_pre_hook(doubled)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).sum() + self.net(x.detach()).sum()


@CASES.add(OURS, arguments=with_gradient)
class backward_hook_of_the_whole_model(Around):
    def __init__(self) -> None:
        super().__init__()
        self.gradient = torch.zeros(2, 3)
        self.register_full_backward_hook(self.kept)

    def kept(self, _: nn.Module, inputs: Any, __: Any) -> None:
        self.gradient = inputs[0]


@CASES.add(
    OURS,
    says="backward hooks of a module that takes or returns several tensors",
    arguments=with_gradient,
)
class backward_hooks_of_several_tensors(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Bilinear(3, 3, 2)
        self.inner.register_full_backward_hook(added_up)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x)  # here


@CASES.add(OURS, says="a tensor that is changed in place later", arguments=with_gradient)
class backward_hook_before_a_change(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_full_backward_hook(added_up)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).mul_(2)  # here


@CASES.add()
class udo_instance_method_as_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_pre_hook(self.plus_one)

    def plus_one(self, _: nn.Module, args: Any) -> Any:
        return (args[0] + 1,)


@CASES.add(OURS)
class pre_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_pre_hook(first_plus_one)


@CASES.add(OURS)
class pre_hook_with_keywords(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_pre_hook(with_keywords, with_kwargs=True)


@CASES.add(OURS)
class counting_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.calls = 0
        self.inner.register_forward_hook(counted)


@CASES.add(OURS)
class hooks_with_keywords_in_their_order(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook(twice_and_one)
        self.inner.register_forward_hook(with_result, with_kwargs=True, prepend=True)


@CASES.add(OURS)
class hook_with_a_closure(Around):
    def __init__(self) -> None:
        super().__init__()
        features: dict[str, torch.Tensor] = {}

        def kept(_: nn.Module, __: Any, output: torch.Tensor) -> None:
            features["last"] = output

        self.inner.register_forward_hook(kept)


class Recorder:
    """Hooks that count, and keep what they get."""

    def __init__(self) -> None:
        self.outputs: list[torch.Tensor] = []

    def kept(self, _: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
        self.outputs.append(output)
        return output * self.outputs[0].sum()

    def __call__(self, _: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
        self.outputs.append(output)
        return output


@CASES.add(OURS)
class hook_of_an_object(Around):
    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder()
        self.inner.register_forward_hook(self.recorder.kept)


@CASES.add(OURS)
class object_as_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder()
        self.inner.register_forward_hook(self.recorder)


@CASES.add(
    OURS,
    says="a hook of a Recorder, which no attribute of a module holds",
    at="return self.inner(x * 2 + 1)",
)
class hook_of_an_object_nobody_holds(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook(Recorder().kept)


@CASES.add(
    OURS,
    says="a hook of a Recorder, which no attribute of a module holds",
    at="return self.inner(x * 2 + 1)",
)
class hook_of_an_object_that_is_replaced(Around):
    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder()
        self.inner.register_forward_hook(self.recorder.kept)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.recorder = Recorder()
        return super().forward(x)


@CASES.add(OURS)
class hook_with_a_list_of_the_model(Around):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []
        self.inner.register_forward_hook(functools.partial(seen_in, self.seen))


@CASES.add(OURS)
class hook_that_is_always_called(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Failing()
        self.inner.register_forward_hook(counted, always_call=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return self.inner(x)
        except ValueError:
            return x * 2


class Failing(nn.Module):
    """A module that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError(x)


@CASES.add(
    OURS,
    says="a hook that isn't Python code: a method-wrapper",
    at="return self.inner(x * 2 + 1)",
)
class builtin_method_as_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook([].__contains__)


@CASES.add(OURS)
class hooks_put_on_and_taken_off_by_each_call(Around):
    def __init__(self) -> None:
        super().__init__()
        self.inner.register_forward_hook(twice_and_one)
        self.features: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        handle = self.inner.register_forward_hook(
            lambda _, args, output: self.features.append(output - args[0]), prepend=True
        )
        with self.inner.register_forward_pre_hook(with_keywords, with_kwargs=True):
            y = self.inner(x)
        handle.remove()
        handle.remove()
        return y + self.inner(x)


@CASES.add(OURS, says="a hook that the call puts on a module, and leaves there")
class hook_put_on_by_each_call(Around):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner.register_forward_hook(twice_and_one)  # here
        return self.inner(x)


@CASES.add(OURS, says="a backward hook that the call puts on a module")
class backward_hook_put_on_by_each_call(Around):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner.register_full_backward_hook(halved)  # here
        return self.inner(x)


@CASES.add(
    OURS, says="a tensor that had hooks before the call, which no archive has", arguments=with_gradient
)
class parameter_with_a_hook(Around):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.weight.register_hook(lambda gradient: gradient * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight  # here


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


@CASES.add(OURS, arguments=with_gradient)
class old_weight_norm(Around):
    def __init__(self) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            self.net[0] = nn.utils.weight_norm(self.net[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


@CASES.add(OURS, arguments=with_gradient)
class pruned(Around):
    def __init__(self) -> None:
        super().__init__()
        prune.l1_unstructured(self.net[0], "weight", 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


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
