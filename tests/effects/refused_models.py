"""Models that cannot be captured: what is said of each, and its line, which ends in ``# here``."""

from __future__ import annotations

import copy
import heapq
import logging
import random
from contextvars import ContextVar
from functools import cached_property
from random import randint
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable


Model: TypeAlias = Any
REFUSALS: list[tuple[str, dict[str, Any], Callable[[Any, torch.Tensor], Any]]] = []
X = torch.tensor([1.0, 2.0, 3.0])
SEEN: list[torch.Tensor] = []
LOGGER = logging.getLogger(__name__)
STEPS = 0


class Heap(list[Any]):
    """A list of a class of its own."""


def refused(message: str, **attributes: Any) -> Callable[[Any], Any]:  # noqa: ANN401
    """A forward that is refused with this, in a module with these attributes."""

    def note(forward: Any) -> Any:  # noqa: ANN401
        REFUSALS.append((message, attributes, forward))
        return forward

    return note


def module(attributes: dict[str, Any], forward: Any) -> nn.Module:  # noqa: ANN401
    """A module with a forward."""
    made = type("Refused", (nn.Module,), {"forward": forward, "__module__": __name__})()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


class Named(dict[str, Any]):
    """A dict with a name of its own."""


class Guarded:
    """Attributes that are read and deleted in ways of its own."""

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401
        return object.__getattribute__(self, name)


class Kept:
    """Attributes that are deleted in a way of its own, and a descriptor."""

    part = cached_property(lambda _: 1)

    def __init__(self) -> None:
        self.one = 1

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)


class Single:
    """A class that makes its objects itself."""

    def __new__(cls) -> Any:  # noqa: ANN401
        return object.__new__(cls)


def hooked() -> nn.Module:
    linear = nn.Linear(3, 3)
    linear.register_backward_hook(lambda *_: None)
    return linear


def sets_global(_: torch.Tensor) -> None:
    global STEPS  # noqa: PLW0603 (that is the point)
    STEPS = 1


def calls_one_with_state(gradient: torch.Tensor) -> torch.Tensor:
    SEEN.append(gradient)
    return gradient


@refused("control flow: the number", n=0)
def branch(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    if self.n > 2:  # here
        return x
    return x * 2


@refused("an index: the number", n=0)
def index(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x * [1, 2][self.n]  # here


@refused("how often something is repeated: the number", n=0)
def repeat(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x * len([1, 2] * self.n)  # here


@refused("an int that a function needs: the number", n=0)
def loop(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    for _ in range(self.n):  # here
        x = x + 1
    return x


@refused("a text: the number", n=0)
def text(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.text = f"{self.n}"  # here
    return x


@refused("a key that differs from call to call", n=0, seen={})
def key(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.seen[self.n] = x  # here
    return x


@refused("control flow that depends on a tensor")
def tensor_branch(_: Model, x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:  # here
        return x
    return -x


@refused("control flow that depends on a tensor")
def swallowed(_: Model, x: torch.Tensor) -> torch.Tensor:
    try:
        return x if x.sum() > 0 else -x  # here
    except RuntimeError:
        return x * 2


@refused("len() or iteration of a list", history=[])
def length(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    for one in self.history:  # here
        x = x + one
    return x


@refused("len() or iteration of a list", history=[X])
def stacked(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    return torch.stack(self.history)  # here


@refused("which item that is depends on the length", history=[X])
def far(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    return self.history[1]  # here


@refused("len() or iteration of a dict", seen={})
def dict_length(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen["a"] = x
    return x * len(self.seen)  # here


@refused("changed by what is not written in Python", heap=[3, 1, 2])
def sorted_by_c(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.heap.append(0)
    heapq.heapify(self.heap)  # here
    return x * self.heap[0]


@refused("len() or iteration of a list", heap=[3, 1, 2])
def copy_sorted_by_c(self: Model, x: torch.Tensor) -> torch.Tensor:
    heap = self.heap[:]
    self.heap.append(0)
    heapq.heapify(heap)  # here
    return x * heap[0]


@refused("changed by what is not written in Python", heap=Heap([3, 1, 2]))
def object_sorted_by_c(self: Model, x: torch.Tensor) -> torch.Tensor:
    heapq.heapify(self.heap)  # here
    return x * self.heap[0]


@refused("changed by what is not written in Python", heap=[3, 1, 2])
def c_function(self: Model, x: torch.Tensor) -> torch.Tensor:
    heapq.heappush(self.heap, 0)  # here
    return x


@refused("control flow: the number", items=[3, 1, 2])
def ordered(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.sort()  # here
    return x


@refused("len() or iteration of a list", items=[3, 1, 2])
def repeated(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items *= 2  # here
    return x


@refused("len() or iteration of a list", items=[3, 1, 2])
def removed(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.remove(3)  # here
    return x


@refused("len() or iteration of a dict whose keys differ", table={"a": 1})
def last_item(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table.popitem()  # here
    return x


@refused("an item that is taken out of the middle", items=[3, 1, 2])
def out_of_the_middle(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.append(0)
    del self.items[1]  # here
    return x


@refused("a list whose length differs from call to call", items=[3, 1, 2])
def part_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.append(0)
    self.items[1:] = [x]  # here
    return x


@refused("a list whose length differs from call to call", items=[3, 1, 2])
def part_deleted(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.items.append(0)
    del self.items[:1]  # here
    return x


@refused("the order of a set's elements", seen={"a", "b"})
def order_of_a_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    for one in self.seen:  # here
        x = x + len(one)
    return x


@refused("the order of a set's elements")
def order_of_a_made_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    names = {f"name {number}" for number in range(3)}
    order = []
    for one in names:  # here
        order.append(one)  # noqa: PERF402 (a loop that does nothing else)
    self.order = order
    return x


@refused("the order of a set's elements", seen={"a"})
def order_of_a_computed_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    first, _ = self.seen | {"b"}  # here
    return x + len(first)


@refused("the order of a set's elements")
def element_of_a_made_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.last = {"a", "b"}.pop()  # here
    return x


@refused("the order of a set's elements")
def text_of_a_made_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.text = ", ".join({"a", str(x.dtype)})  # here
    return x


SCALE: ContextVar[int] = ContextVar("scale")


@refused("a ContextVar that the call leaves set: scale")
def context_variable_left_set(_: Model, x: torch.Tensor) -> torch.Tensor:
    SCALE.set(2)  # here
    return x


ABOUT_MORE = "logger.isEnabledFor, which decides about more than messages of this logger"


@refused(ABOUT_MORE, steps=0)
def counted_if_the_level_is_enabled(self: Model, x: torch.Tensor) -> torch.Tensor:
    if LOGGER.isEnabledFor(logging.INFO):  # here
        self.steps += 1
    return x


@refused(ABOUT_MORE)
def higher_than_the_level_asked_for(_: Model, x: torch.Tensor) -> torch.Tensor:
    if LOGGER.isEnabledFor(logging.DEBUG):  # here
        LOGGER.info("a message of a higher level, which may be let through alone")
    return x


@refused(ABOUT_MORE)
def counted_in_a_message(self: Model, x: torch.Tensor) -> torch.Tensor:
    if LOGGER.isEnabledFor(logging.DEBUG):  # here
        LOGGER.debug("%s", self.pop("steps"))
    return x


@refused(ABOUT_MORE)
def otherwise_counted(self: Model, x: torch.Tensor) -> torch.Tensor:
    if LOGGER.isEnabledFor(logging.DEBUG):  # here
        LOGGER.debug("moo")
    else:
        self.steps = 1
    return x


@refused("an element of a set that isn't a constant", seen=set())
def tensor_in_a_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen.add(x)  # here
    return x


@refused("a copy of a Named", named=Named(a=1))
def copied_subclass(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x + copy.copy(self.named)["a"]  # here


@refused("what a class does is set: Guarded.one", guarded=Kept())
def method_of_a_class(self: Model, x: torch.Tensor) -> torch.Tensor:
    setattr(Guarded, "one", lambda _: 1)  # noqa: B010  # here
    return x + self.guarded.one


@refused("a second call, from where the first one ends", last=None)
def first_time(self: Model, x: torch.Tensor) -> torch.Tensor:
    if self.last is None:
        self.last = x
    else:
        self.last = self.last + x  # here
    return self.last


@refused("a hook that isn't a function of a Python module")
def hook_without_code(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.requires_grad_() * 2
    y.register_hook([].append)  # here
    return y


@refused("a hook that sets a variable of the function around it: count")
def hook_that_counts(_: Model, x: torch.Tensor) -> torch.Tensor:
    count = 0

    def counted(_: torch.Tensor) -> None:
        nonlocal count
        count += 1

    y = x.requires_grad_() * 2
    y.register_hook(counted)  # here
    return y


@refused("a hook that does more with 'self' than to read and set its attributes")
def hook_that_hands_self_on(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.requires_grad_() * 2
    y.register_hook(lambda gradient: gradient + len(vars(self)))  # here
    return y


@refused("a hook that uses Refused.forward, which the class defines")
def hook_that_calls_a_method(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.requires_grad_() * 2
    y.register_hook(lambda gradient: self.forward(gradient) + 1)  # here
    return y


@refused("a hook that does more with 'linear' than to read and set its attributes", linear=nn.Linear(3, 3))
def hook_that_calls_a_part(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.requires_grad_() * 2
    y.register_hook(lambda gradient: self.linear(gradient) + 1)  # here
    return y


@refused("a hook that reads a parameter of the model", weight=nn.Parameter(torch.ones(3)))
def hook_with_a_parameter(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.requires_grad_() * 2
    y.register_hook(lambda gradient: gradient * self.weight)  # here
    return y


@refused("a hook that sets a global: sets_global")
def hook_that_sets_a_global(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.requires_grad_() * 2
    y.register_hook(sets_global)  # here
    return y


@refused("a hook that uses calls_one_with_state, which cannot be followed in the backward pass")
def hook_that_calls_what_has_state(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.requires_grad_() * 2
    y.register_hook(lambda gradient: calls_one_with_state(gradient) + 1)  # here
    return y


@refused("a hook on a tensor that is changed in place later")
def hook_before_a_change(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.requires_grad_() * 2
    y.register_hook(lambda gradient: gradient + 1)  # here
    y.mul_(3)
    return y


@refused("a hook on a tensor that was changed in place before", last=torch.ones(3))
def hook_after_a_change(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.last.mul_(x.requires_grad_())
    self.last.register_hook(lambda gradient: gradient + 1)  # here
    return self.last * 2


@refused("'step', a function, cannot be kept")
def kept_function(self: Model, x: torch.Tensor) -> torch.Tensor:
    def step() -> None: ...

    step.__qualname__ = "step"
    self.step = step  # here
    return x


@refused("a layout cannot be kept")
def kept_layout(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.layout = x.layout  # here
    return x


@refused("Guarded has a __getattribute__ of its own", guarded=Guarded())
def custom_getattribute(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.guarded.one  # here


@refused("part: a cached_property, which cannot be followed", kept=Kept())
def descriptor(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.kept.part  # here


@refused("__class__, which cannot be followed, is set", kept=Kept())
def class_set(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.kept.__class__ = Single  # here
    return x


@refused("a new Single, whose __new__ is its own")
def own_new(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.one = Single()  # here
    return x


@refused("shares its memory with another one", whole=X.clone())
def overlapping(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.part.add_(x[0])  # here
    return self.whole * 2


@refused("a tensor that leaves PyTorch")
def numpy(_: Model, x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy())  # here


@refused("open: what it does outside the model")
def opened(_: Model, x: torch.Tensor) -> torch.Tensor:
    open("file").close()  # noqa: PTH123 # here
    return x


@refused("ValueError: the model's own")
def failing(_: Model, x: torch.Tensor) -> torch.Tensor:
    raise ValueError(f"the model's own: {x.shape}")  # here


@refused("a part of a tensor that is changed in place is kept or returned", items=[], sums=torch.zeros(3))
def kept_view(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.sums.add_(x)
    self.items.append(self.sums[:2])  # here
    return x


@refused("a part of a tensor that is changed in place is kept or returned", items=[], sums=torch.zeros(3))
def view_kept_before(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.last = self.sums.view(1, 3)  # here
    self.sums.add_(x)
    return x


@refused("a part of a tensor that is changed in place is kept or returned", sums=torch.zeros(3))  # here
def returned_view(self: Model, x: torch.Tensor) -> torch.Tensor:
    return self.sums.add_(x)[1:]


@refused("a change inside torch.utils.checkpoint", n=0)
def recomputed(self: Model, x: torch.Tensor) -> Any:  # noqa: ANN401
    def body(x: torch.Tensor) -> torch.Tensor:
        self.n += 1  # here
        return x * 2

    return checkpoint(body, x, use_reentrant=False)


@refused("a change inside torch.utils.checkpoint", n=0)
def recomputed_within(self: Model, x: torch.Tensor) -> Any:  # noqa: ANN401
    def body(x: torch.Tensor) -> torch.Tensor:
        self.n += 1  # here
        return x * 2

    return checkpoint(body, x.requires_grad_(), use_reentrant=True)


@refused("a generator of random numbers cannot be followed")
def chance(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x if random.random() < 0.5 else x * 2  # noqa: S311 # here


@refused("a generator of random numbers cannot be followed")
def choice(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x * randint(1, 3)  # noqa: S311 # here


@refused("a size in a function of PyTorch that has ways of its own with it")
def broadcast(_: Model, x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(torch.broadcast_shapes(x.shape, (1, 3)))  # here


@refused("an int that does not fit into 64 bits", n=0)
def long_int(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n = self.n + 2**70  # here
    return x


@refused("an int that does not fit into 64 bits", n=1, bits=1)
def shifted(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.bits += 1
    self.n = self.n << (self.bits * 40)  # here
    return x


@refused("a backward hook that is not a full one", linear=hooked())
def backward_hook(self: Model, x: torch.Tensor) -> Any:  # noqa: ANN401
    return self.linear(x)  # here
