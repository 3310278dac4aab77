"""Flattens values: objects become sources, tensors outputs of the graph, containers what they hold."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

import torch

from archive.effects.capture.function_code import importable
from archive.effects.capture.made_list import MadeList
from archive.effects.capture.operations import MADE_IN_INFERENCE, VIEW_IN_INFERENCE
from archive.effects.capture.reach import Reach
from archive.effects.capture.shape import Shape
from archive.effects.capture.sources import (
    LITERALS,
    NAMED,
    SOURCES,
    class_name,
    is_literal,
    is_named_tuple,
    named,
)
from archive.effects.capture.texts import Text
from archive.effects.capture.variables import Recipe, Variable, VariableKind
from archive.effects.errors import ValueRefusedError
from archive.effects.python_containers import BASES
from archive.formats.effects.model import (
    At,
    Computed,
    Constant,
    Made,
    New,
    Output,
    Stored,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from archive.effects.capture.pending import PendingEffects
    from archive.formats.effects.model import Value

VALUES = (Output, Constant, At, Made, New, Stored, Computed)


class FlatValues:
    """Flattens the values of one table.

    Args:
        effects: the table.
    """

    def __init__(self, effects: PendingEffects) -> None:
        self._table = effects
        self._outputs: dict[Hashable, int] = {}
        self._temporaries: dict[Variable | int, int] = {}
        self._reach = Reach(effects)
        self._shared: dict[int, Any] = {}

    def value(self, value: object) -> Value:
        """A Python value as a value of the table.

        Raises:
            ValueRefusedError: a table cannot hold the value.
        """
        if isinstance(value, VALUES):
            return value
        if isinstance(value, Recipe):
            return Made(value.kind, tuple(map(self.value, value.items)))
        variable = self._table.variable_of(value)
        if variable is not None:
            return self._of_variable(variable, value)
        if id(value) in self._shared:
            return New(self._temporaries[id(value)])
        known = self._table.graph_value(value)
        if known is not None:
            return self._of_graph(known)
        if type(value) is Text:
            return Made("format", (Constant(value.template), *self._items(value.values)))
        if type(value) in LITERALS:
            return Constant(value)  # type: ignore[arg-type]
        return named(value) if isinstance(value, NAMED) else self._made(value)

    def _of_variable(self, variable: Variable, value: object) -> Value:
        if variable.source is not None:
            return At(variable.source)
        if variable.kind is VariableKind.OBJECT:
            return New(self._temporaries[variable])
        raise ValueRefusedError(f"{_named(value)} cannot be kept in a table")

    def _of_graph(self, known: Hashable) -> Value:
        if isinstance(known, SOURCES):
            return At(known)
        meta = getattr(known, "meta", {})
        if meta.get(VIEW_IN_INFERENCE):
            raise ValueRefusedError("a view, made in inference mode, of a tensor from outside")
        output = Output(self._outputs.setdefault(known, len(self._outputs)))
        return Made("inference", (output,)) if meta.get(MADE_IN_INFERENCE) else output

    def _made(self, value: object) -> Value:
        if type(value) is list or isinstance(value, MadeList) or _plain_tuple(value):
            return Made(_kind(value), self._items(value))
        if type(value) in BASES:
            return self._container(value)
        if is_named_tuple(value):
            kind: Any = type(value)
            return Made(
                "namedtuple", (Constant(class_name(kind)), Constant(kind._fields), *self._items(value))
            )
        raise ValueRefusedError(f"{_named(value)} cannot be kept in a table")

    def _container(self, value: Any) -> Made:  # noqa: ANN401
        """A dict, set, deque or the like."""
        empty = empty_of(value)
        if isinstance(value, dict):
            pairs = (part for key, one in value.items() for part in (self.value(key), self.value(one)))
            return Made(empty.kind, (*empty.items, *pairs))
        if isinstance(value, set | frozenset):
            return Made(empty.kind, tuple(self._element(one) for one in sorted(value, key=repr)))
        return Made(empty.kind, (*empty.items, *self._items(value)))

    def _element(self, value: object) -> Value:
        if not (is_literal(value) or isinstance(value, NAMED)):
            raise ValueRefusedError("a set whose elements are no constants cannot be kept in a table")
        return self.value(value)

    def _items(self, value: object) -> tuple[Value, ...]:
        return tuple(self.value(one) for one in cast("Iterable[object]", value))


def empty_of(value: Any) -> Made:  # noqa: ANN401
    """An empty container of the kind of one of Python's.

    Raises:
        ValueRefusedError: it is a ``defaultdict`` with a factory that has no name.
    """
    kind = "list" if isinstance(value, MadeList) else BASES[type(value)]
    if isinstance(value, deque):
        return Made(kind, (Constant(value.maxlen),))
    return (
        Made(kind, (Constant(factory_name(value.default_factory)),))
        if kind == "defaultdict"
        else Made(kind, ())
    )


def factory_name(factory: Any) -> str | None:  # noqa: ANN401
    """The name of a ``defaultdict``'s factory; None if it has none.

    Raises:
        ValueRefusedError: it cannot be imported.
    """
    if factory is None:
        return None
    real = getattr(factory, "_kind", factory)
    name = importable(real)
    if name is None:
        raise ValueRefusedError("a defaultdict whose factory is no function of a Python module")
    return name


def _plain_tuple(value: object) -> bool:
    """Whether a value is a tuple, or one of PyTorch's tuples of results and sizes."""
    return type(value) in (tuple, Shape) or (
        isinstance(value, tuple) and type(value).__module__ in ("torch", "torch.return_types")
    )


def _kind(value: object) -> str:
    if type(value) in (Shape, torch.Size):
        return "size"
    return "list" if isinstance(value, list) else "tuple"


def _named(value: object) -> str:
    kind = type(value)
    name = getattr(value, "__qualname__", None)
    return f"{name!r}, a {kind.__name__}," if isinstance(name, str) else f"a {kind.__qualname__}"
