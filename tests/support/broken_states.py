"""Backends that break a rule of states: what preprocessing makes, and what compiling takes."""

# ruff: noqa: ANN401 (runtimes and their states are of any type)

from __future__ import annotations

from itertools import count
from typing import Any

from archive.backend import Ahead
from tests.support.other_backend import Tape, preprocess_ahead

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
