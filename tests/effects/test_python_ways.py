"""What models ask of Python: builtins by identity, dicts of names, classes, copies, operators, keys."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections import Counter
from dataclasses import dataclass, field
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, lower, lowered_archive
from archive.effects import CaptureError, capture
from archive.effects.capture.graph.scalars import Scalar
from tests.support.live_state import live_state

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

Value: TypeAlias = Any
COUNT = 0


@dataclass
class Config:
    """Fields of several types."""

    width: int = 3
    rate: float = 0.5
    layers: list[int] = field(default_factory=lambda: [1])


Sizes: Value = dataclasses.make_dataclass(
    "Sizes", [("width", int, 3), ("rate", float, 0.5)], namespace={"__module__": __name__}
)


class Part:
    """An object with attributes."""

    def __init__(self, number: float, others: list[Part] | None = None) -> None:
        self.number, self.others = number, [] if others is None else others


class Model(nn.Module):
    """A module around a function of itself and a tensor."""

    calls = 0
    removed = 3

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.count, self.reduce, self.functions = 0, max, {"sum": sum, "len": len}
        self.config, self.sizes, self.part, self.kept = Config(), Sizes(), Part(1.0), None
        self.pair, self.pairs = (doubled, 3), [(doubled, 3), (torch.relu, 1)]
        self.cache: dict[Any, Any] = {}
        shared = Part(2.0)
        self.family = Part(1.0, [shared, shared])
        self._function = function

    def forward(self, x: torch.Tensor) -> Value:
        return self._function(self, x)


def doubled(x: Value) -> Value:
    return x * 2


# --- builtins by identity


def a_builtin_is_itself(self: Value, x: Value) -> Value:
    return x * 2 if self.reduce is max else x * 3


def builtins_in_a_dict(self: Value, x: Value) -> Value:
    return x + [name for name, one in self.functions.items() if one is len].count("len")


def a_builtin_by_default(_: Value, x: Value, reduce: Value = sum) -> Value:
    return x + (1 if reduce is sum else 2)


def types_of_fields(self: Value, x: Value) -> Value:
    for one in dataclasses.fields(self.sizes):
        if one.type is int:
            x = x * getattr(self.sizes, one.name)
    return x


def annotated(number: int, factor: float) -> float:
    return number * factor


def types_in_annotations(_: Value, x: Value) -> Value:
    kinds = inspect.signature(annotated).parameters["number"].annotation, annotated.__annotations__["factor"]
    return x * kinds.count("int") + kinds.count("float") * 2 + (kinds[0] is int)


def classes_of_builtins(self: Value, x: Value) -> Value:
    return x * callable(self.reduce) + isinstance(self.reduce, BuiltinFunctionType) * 2


def names_of_builtins(self: Value, x: Value) -> Value:
    return x + len("".join(one.__name__ for one in (self.reduce, *self.functions.values())))


# --- dicts of names


def globals_by_their_dict(_: Value, x: Value) -> Value:
    global COUNT  # noqa: PLW0603 (the model does)
    COUNT += 1
    return x * globals()["COUNT"] + globals().get("COUNT") + ("COUNT" in globals())


def globals_of_a_function(_: Value, x: Value) -> Value:
    global COUNT  # noqa: PLW0603 (the model does)
    COUNT += 1
    return x * globals_of_a_function.__globals__["COUNT"]


def names_of_a_class(self: Value, x: Value) -> Value:
    type(self).calls += 1
    return x * vars(type(self))["calls"] + type(self).__dict__["calls"]


def all_names_of_a_dataclass(self: Value, x: Value) -> Value:
    self.config.width += 1
    return x * dataclasses.asdict(self.config)["width"] + dataclasses.astuple(self.config)[0]


# --- classes


def a_new_attribute_of_a_class(self: Value, x: Value) -> Value:
    cls = type(self)
    cls.fresh = getattr(cls, "fresh", 0) + 1
    return x * cls.fresh


def a_flag_of_a_class(self: Value, x: Value) -> Value:
    if hasattr(Model, "warned"):
        return x
    self.__class__.warned = True
    return x * 10


def a_deleted_attribute_of_a_class(self: Value, x: Value) -> Value:
    if hasattr(type(self), "removed"):
        del type(self).removed
        return x * 3
    return x


# --- tuples, copies, operators


def functions_in_tuples(self: Value, x: Value) -> Value:
    self.count += 1
    function, factor = self.pair
    self.kept = self.pairs[0]
    return function(x) * factor * self.count + self.kept[1]


def copies_of_objects(self: Value, x: Value) -> Value:
    self.kept = copy.copy(self.config)
    self.kept.width += 1
    deep = copy.deepcopy(self.family)
    deep.others[0].number += 1
    self.config.layers.append(1)
    return x * self.kept.width + deep.others[1].number + self.family.others[0].number


def unary_operators(self: Value, x: Value) -> Value:
    self.count += 1
    return x * +self.count + ~self.count + ~(self.count > 1)


def powers_with_a_modulus(self: Value, x: Value) -> Value:
    self.count = pow(self.count + 2, 3, 7)
    return x * self.count


# --- keys


def a_cache_by_shape_and_dtype(self: Value, x: Value) -> Value:
    key = tuple(x.shape), x.dtype
    if key not in self.cache:
        self.cache[key] = torch.ones(x.shape, dtype=x.dtype)
    return x + self.cache[key]


def a_cache_by_device_and_dtype(self: Value, x: Value) -> Value:
    of_device = self.cache.setdefault(x.device, {})
    if x.dtype not in of_device:
        of_device[x.dtype] = torch.arange(x.shape[-1], dtype=x.dtype)
    return x + of_device[x.dtype] * len(of_device)


WAYS = (
    a_builtin_is_itself,
    builtins_in_a_dict,
    a_builtin_by_default,
    types_of_fields,
    types_in_annotations,
    names_of_builtins,
    classes_of_builtins,
    globals_by_their_dict,
    globals_of_a_function,
    names_of_a_class,
    all_names_of_a_dataclass,
    a_new_attribute_of_a_class,
    a_flag_of_a_class,
    a_deleted_attribute_of_a_class,
    functions_in_tuples,
    copies_of_objects,
    unary_operators,
    powers_with_a_modulus,
    a_cache_by_shape_and_dtype,
    a_cache_by_device_and_dtype,
)


@pytest.fixture(autouse=True)
def _as_at_first() -> Value:
    """Globals and the class as they were."""
    global COUNT  # noqa: PLW0603
    before = dict(vars(Model))
    yield
    COUNT = 0
    for name in vars(Model).keys() - before.keys():
        delattr(Model, name)
    for name in ("calls", "removed"):
        setattr(Model, name, before[name])


@pytest.mark.parametrize("function", WAYS, ids=lambda one: one.__name__)
def test_calls_are_the_eager_ones(function: Value) -> None:
    torch.manual_seed(0)
    data = lowered_archive(lower(Model(function), "aten", effects=True, example_inputs=(torch.ones(3),)))
    names = [f"{__name__}:{cls.__name__}" for cls in (Config, Part)]
    loaded, model = Effectful.load(data, allow=names), Model(function)
    for number in range(4):
        x = torch.full((3,), number + 1.0)
        assert loaded(x).tolist() == model(x).tolist()


def test_a_live_state_has_keys_of_pytorch_too() -> None:
    made = lower(Model(a_cache_by_shape_and_dtype), "aten", effects=True, example_inputs=(torch.ones(3),))
    model = Model(a_cache_by_shape_and_dtype)
    loaded = Effectful.of(made, live_state(model))
    for _ in range(2):
        assert loaded(torch.ones(3)).tolist() == [2, 2, 2]
    assert list(model.cache) == [((3,), torch.float32)]


def test_methods_of_numbers_are_computed_or_need_the_number() -> None:
    """PyTorch's symbolic sizes have some that ask for what only they have."""
    own = {name for name in vars(torch.SymInt) if hasattr(int, name) or hasattr(float, name)}
    plain = set(vars(object)) | {"__module__", "__dict__", "__weakref__"}
    assert not {name for name in own - plain if name not in vars(Scalar)}


def test_a_refusal_of_a_second_call_says_what_differs() -> None:
    class Last(nn.Module):
        last = None

        def forward(self, x: Value) -> Value:
            if self.last is None:
                self.last = x
                return x
            return x + self.last

    with pytest.raises(CaptureError, match=r"does something else: it finds .*self\.last"):
        capture(Last(), torch.ones(3))


def test_a_failure_inside_pytorch_s_modules_is_at_the_model_s_line() -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Value) -> Value:
            y = x * 2
            return self.linear(y)

    with pytest.raises(CaptureError, match="RuntimeError: mat1 and mat2") as caught:
        capture(Wrong(), torch.ones(2, 5))
    assert (caught.value.filename, caught.value.line) == (__file__, Wrong.forward.__code__.co_firstlineno + 2)


class Patched(nn.Module):
    """The forward of a part is a function around the one before, as libraries make it."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.calls = nn.Linear(3, 3), 0
        before = self.part.forward

        def forward(x: Value) -> Value:
            self.calls += 1
            return before(x)

        self.part.forward = forward

    def forward(self, x: Value) -> Value:
        return self.part(x) * self.calls


def test_a_forward_that_was_replaced_is_followed_in_later_calls() -> None:
    torch.manual_seed(0)
    model = Patched()
    loaded = Effectful.of(lower(model, "aten", effects=True, example_inputs=(torch.ones(3),)))
    for _ in range(3):
        assert loaded(torch.ones(3)).tolist() == model(torch.ones(3)).tolist()


def test_an_attribute_that_is_set_on_a_function_is_refused_at_its_line() -> None:
    class Noting(nn.Module):
        def forward(self, x: Value) -> Value:
            y = doubled(x)
            doubled.calls = 1  # type: ignore[attr-defined]
            return y

    with pytest.raises(CaptureError, match="an attribute of a function, doubled, is set: calls") as caught:
        capture(Noting(), torch.ones(3))
    line = Noting.forward.__code__.co_firstlineno + 2
    assert (caught.value.filename, caught.value.line) == (__file__, line)
    assert not hasattr(doubled, "calls")


class Hooked(nn.Module):
    """A hook of its part counts in a way that Python's library does in C."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.seen = nn.Identity(), Counter[str]()
        self.part.register_forward_pre_hook(self.count)

    def count(self, _: Value, given: Value) -> None:
        self.seen.update(calls=len(given))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)


def test_a_change_past_the_methods_of_a_class_is_refused_at_the_line_that_first_meets_the_object() -> None:
    with pytest.raises(CaptureError, match="an object was changed past its class's methods") as caught:
        lower(Hooked(), "aten", effects=True, example_inputs=(torch.ones(3),))
    assert caught.value.line == Hooked.count.__code__.co_firstlineno + 1
