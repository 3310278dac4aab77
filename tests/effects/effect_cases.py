"""Cases of side effects: a small model after each of PyTorch dynamo's tests that change state.

Only the fact is taken over, what is changed and how often, under the name of the upstream test. A case says
how it ends: all calls of the loaded archive equal the eager ones, or it is refused with a text, at the line
that ends in ``# here``.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


Model: TypeAlias = Any
FOLDER, OTHER = "tests.effects.cases", "elsewhere"
OURS = "ours"
KINDS = {
    "global_names": "globals",
    "cells": "closure variables",
    "lists": "lists",
    "histories": "histories",
    "tensors": "tensors in place",
    "objects": "objects",
    "attributes": "attributes of modules",
    "dicts": "dicts",
    "sets": "sets and deques",
    "tensor_hooks": "hooks on tensors",
    "module_hooks": "hooks on modules",
    "autograd": "`autograd.Function`",
    "modes": "gradient modes, autocast, checkpoints",
    "logs": "prints, logs and warnings",
    "records": "dataclasses and named tuples",
    "subclasses": "subclasses of `dict` and `list`",
    "numeric": "numbers",
    "first_calls": "initialisation in the first call",
    "branches": "branches on state",
}
"""Kinds of state, by the module in ``tests/effects/cases`` that has their cases."""


class Case(NamedTuple):
    """One case.

    Attributes:
        upstream: file and name of PyTorch's test; empty for a case of ours.
        given: the class or ``forward`` that is the case.
        make: makes the model.
        arguments: arguments of a call, by its number.
        calls: number of calls.
        says: what refuses the case; empty if it ends equal.
        at: the text of the line that refuses it, if it is none of the case's own.
    """

    upstream: str
    given: Any
    make: Callable[[], torch.nn.Module]
    arguments: Callable[[int], tuple[Any, ...]]
    calls: int
    says: str
    at: str

    @property
    def line(self) -> int:
        """The line that refuses it: it ends in ``# here``, or it is ``at``; 0 if there is none."""
        if not self.says:
            return 0
        lines, first = inspect.getsourcelines(self.given)
        found = [first + place for place, line in enumerate(lines) if line.rstrip().endswith("# here")]
        whole = inspect.getsource(sys.modules[self.given.__module__]).splitlines()
        found += [place for place, line in enumerate(whole, 1) if self.at and line.strip() == self.at]
        return found[0] if found else 0


def tensor(seed: float = 0, *sizes: int, grad: bool = False) -> torch.Tensor:
    """A tensor of positive and negative numbers, different for each seed; by default 2 x 3."""
    sizes = sizes or (2, 3)
    made = torch.sin(torch.arange(math.prod(sizes)) * 0.7 + 1.3 * seed + 0.2).reshape(sizes)
    return made.requires_grad_() if grad else made


def with_gradient(number: int) -> tuple[Any, ...]:
    """Arguments of a call: a tensor that requires a gradient."""
    return (tensor(number, grad=True),)


class Cases(dict[str, Case]):
    """The cases of one kind, by name.

    Args:
        upstream: PyTorch's file that most of the tests are in, without ``test_`` and ``.py``.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._upstream = upstream

    def add(
        self,
        upstream: str | None = None,
        *,
        arguments: Callable[[int], tuple[Any, ...]] | None = None,
        calls: int = 3,
        says: str = "",
        at: str = "",
        test: str = "",
        **attributes: Any,  # noqa: ANN401
    ) -> Callable[[Any], Any]:
        """Add a module's class, or a ``forward`` and the attributes of its module.

        Args:
            upstream: PyTorch's file, if it is another one; ``OURS`` for a case that PyTorch does not have.
            arguments: of a call, by its number; a tensor by default.
            calls: number of calls.
            says: what refuses the case.
            at: the line that refuses it, if it is none of the case's own.
            test: name of the upstream test, if it is not the case's.
            attributes: of the module.
        """

        def note(given: Any) -> Any:  # noqa: ANN401
            name = given.__name__
            make = given if isinstance(given, type) else lambda: _module(given, attributes)
            where = "" if upstream == OURS else f"test_{upstream or self._upstream}.py::test_{test or name}"
            given_arguments = arguments or (lambda number: (tensor(number),))
            self[name] = Case(where, given, make, given_arguments, calls, says, at)
            return given

        return note


def _module(forward: Any, attributes: dict[str, Any]) -> torch.nn.Module:  # noqa: ANN401
    names = {"forward": forward, "__module__": forward.__module__}
    made: torch.nn.Module = type(forward.__name__.title().replace("_", ""), (torch.nn.Module,), names)()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def fresh(kind: str) -> list[ModuleType]:
    """A kind's module, and the one whose globals it changes: imported anew, all is as at first."""
    package = importlib.import_module(FOLDER)
    for name in (kind, OTHER):
        sys.modules.pop(f"{FOLDER}.{name}", None)
        vars(package).pop(name, None)
    torch.manual_seed(0)
    return [importlib.import_module(f"{FOLDER}.{name}") for name in (kind, OTHER)]


def cases_of(kind: str) -> Cases:
    """The cases of a kind."""
    found: Cases = importlib.import_module(f"{FOLDER}.{kind}").CASES
    return found
