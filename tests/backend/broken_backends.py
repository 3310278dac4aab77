"""Backends that break a rule each: what is wrong is in the runtime or in the preprocessing of another one.

Each runtime says for itself whether it is available: ahead of time, only a class's own source is read.
"""

# ruff: noqa: ANN401 (runtimes and their states are of any type)

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from archive.backend import Ahead, Original
from archive.backend.graph.graphs import Block, Graph, Operation
from tests.backend.other_backend import Tape, preprocess_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator


# --- broken states

KEPT: dict[str, str] = {}


_numbers = count()


def in_this_process(*arguments: Any) -> Ahead:
    """The text is kept by this process; the archive has its key."""
    made = preprocess_ahead(*arguments)
    KEPT["key"] = made.blob
    return Ahead(made.graphs, made.handles, "key", made.tensors)


class InThisProcess(Tape):
    """It looks up what this process keeps."""

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:
        assert isinstance(processed, tuple), "expected a text and tensors"
        assert processed[0] in KEPT, "expected a key"
        return super().compile((KEPT[processed[0]], processed[1]), method_compile_spec)


class Changing(Tape):
    """It changes the tensors of its state."""

    def is_available(self) -> bool:
        return True

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        result = super().execute(handle, inputs)
        handle[1][0].mul_(1.5)
        return result


class Credulous(Tape):
    """It takes anything for a state."""

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:
        try:
            return super().compile(processed, method_compile_spec)
        except AssertionError:
            return dict.fromkeys(method_compile_spec)


class Careless(Tape):
    """It takes any text for a tape."""

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:
        assert isinstance(processed, tuple), "expected a text and tensors"
        try:
            return super().compile(processed, method_compile_spec)
        except AssertionError:
            return dict.fromkeys(method_compile_spec)


class Crashing(Tape):
    """It takes apart what is no state."""

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:
        return super().compile((processed[0], processed[1]), method_compile_spec)


def numbered(*arguments: Any) -> Ahead:
    """Another state each time."""
    made = preprocess_ahead(*arguments)
    return Ahead(made.graphs, made.handles, f"{made.blob}\nmade {next(_numbers)}", made.tensors)


def placeless(*arguments: Any) -> Ahead:
    """It has no words for what it cannot compile."""
    try:
        return preprocess_ahead(*arguments)
    except RuntimeError as error:
        raise KeyError from error


def failing(*_: Any) -> Ahead:
    """It compiles nothing."""
    raise ZeroDivisionError("no zero")


class Wrong(Tape):
    """It adds one to what it computes."""

    def is_available(self) -> bool:
        return True

    def operate(self, kind: str, operands: list[torch.Tensor]) -> torch.Tensor:
        return super().operate(kind, operands) + 1


def unrecorded(*arguments: Any) -> Ahead:
    """One handle that nobody gave out."""
    made = preprocess_ahead(*arguments)
    number = next(handle for one, handle in made.handles.items() if one.kind == "aten::add")
    return Ahead(made.graphs, made.handles, made.blob.replace(f">{number} ", ">99 "), made.tensors)


def made_up(original: Original, spec: dict[str, Any], generate: Any) -> Ahead:
    """A handle for an operation that the model does not have."""
    generate(Graph("forward", Block(operations=[Operation("mine::fused", [], [])]), {}))
    return preprocess_ahead(original, spec, generate)


class Forgetting(Tape):
    """It does not know what has failed."""

    def is_available(self) -> bool:
        return True

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        try:
            return super().execute(handle, inputs)
        finally:
            self.last_handle = -1


class Late(Tape):
    """What has failed is the operation before."""

    def is_available(self) -> bool:
        return True

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        self.before = int(handle[0][0].partition("<debug_handle>")[2].split()[0])
        return super().execute(handle, inputs)

    def operate(self, kind: str, operands: list[torch.Tensor]) -> torch.Tensor:
        now, self.last_handle = self.last_handle, self.before
        result = super().operate(kind, operands)
        self.before = self.last_handle = now
        return result


class Swallowing(Tape):
    """It gives zeros for what fails."""

    def is_available(self) -> bool:
        return True

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        try:
            return super().execute(handle, inputs)
        except RuntimeError:
            self.last_handle = -1
            return [torch.zeros(2, 3)]


class Misnaming(Tape):
    """Its events are those of other operators."""

    def is_available(self) -> bool:
        return True

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        result = super().execute(handle, inputs)
        self.operations[:] = [(start, end, at, "aten::mul") for start, end, at, _ in self.operations]
        return result


class Backwards(Tape):
    """Its events end before they start."""

    def is_available(self) -> bool:
        return True

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        result = super().execute(handle, inputs)
        self.operations[:] = [(end, start, at, name) for start, end, at, name in self.operations]
        return result


class Silent(Tape):
    """It records sums alone."""

    def is_available(self) -> bool:
        return True

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        result = super().execute(handle, inputs)
        self.operations[:] = [one for one in self.operations if one[3] == "aten::add"]
        return result


class Inheriting(Tape):
    """It inherits all that it is asked for."""


class Vague(Tape):
    """It says that it is available by a number."""

    def is_available(self) -> int:  # type: ignore[override]
        return 1


class Never(Tape):
    """It is never available."""

    def is_available(self) -> bool:
        return False


class Detaching(Tape):
    """What it computes has no gradients."""

    def is_available(self) -> bool:
        return True

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        return [one.detach() for one in super().execute(handle, inputs)]


def detached(*arguments: Any) -> Ahead:
    """Its tensors are no longer the model's parameters."""
    made = preprocess_ahead(*arguments)
    return Ahead(made.graphs, made.handles, made.blob, [one.detach() for one in made.tensors])


there = [True]
_library = torch.library.Library("broken_backends", "DEF")
_library.define("there() -> bool", "CONSERVATIVE")
_library.define("there_once() -> bool")
for _name in ("there", "there_once"):
    _library.impl(_name, lambda: there[0], "CompositeExplicitAutograd")


@contextmanager
def away() -> Iterator[None]:
    """The device is away for as long as this lasts."""
    there[0] = False
    try:
        yield
    finally:
        there[0] = True


class Device(Tape):
    """It keeps all rules: it asks whether its device is there."""

    def is_available(self) -> bool:
        return bool(torch.ops.broken_backends.there())


class DeviceOnce(Tape):
    """It asks by an operator that has one result forever, as far as TorchScript knows."""

    def is_available(self) -> bool:
        return bool(torch.ops.broken_backends.there_once())


class Foreign:
    """It keeps all rules. PyTorch runs nothing of it, and it records nothing."""

    def __init__(self) -> None:
        self.last_handle = -1
        self.tape = Tape()

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:
        return self.tape.compile(processed, method_compile_spec)

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        steps, tensors = handle
        values = [one.numpy() for one in inputs]
        for step in steps:
            head, *words = step.split(" ")
            self.last_handle = int(head.partition("<debug_handle>")[2])
            values.append(
                self.computed(head.partition("<")[0], [self.operand(one, values, tensors) for one in words])
            )
        self.last_handle = -1
        return [torch.from_numpy(values[-1])]

    def operand(self, word: str, values: list[Any], tensors: list[torch.Tensor]) -> Any:
        if word[0] == "n":
            return np.float32(word[1:])
        return values[int(word[1:])] if word[0] == "v" else tensors[int(word[1:])].detach().numpy()

    def computed(self, name: str, operands: list[Any]) -> Any:
        ways = {"aten::matmul": np.matmul, "aten::add": np.add, "aten::mul": np.multiply}
        return ways[name](*operands) if name in ways else np.maximum(operands[0], 0)


class Empty:
    """It has nothing of a runtime."""

    def is_available(self) -> bool:
        return True
