"""Both sides of a trial: the eager module with everything that it reaches, and the captured form."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.guards import copied
from archive.effects.capture.graph.sites import is_model_module
from archive.effects.capture.graph.variables import is_literal
from archive.effects.code import codes_in
from archive.effects.placeholders import LEFT_OUT
from archive.effects.replay.choosing import Entry, run_entry
from archive.effects.replay.replay import prepared
from archive.effects.replay.state import State
from archive.effects.trial.parts import CODE, Names, class_data
from archive.formats.effects.model import Attribute, EffectTable, Local, Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import CellType, FunctionType

    from archive.effects.capture.attempt import Attempt
    from archive.effects.capture.table.pending import InitialState
    from archive.formats.effects.model import Source


# --- the eager module


class Eager:
    """The eager module, and everything that it reaches through the captured functions."""

    def __init__(self, module: Any, method: str, attempts: Sequence[Attempt]) -> None:
        is_module = isinstance(module, torch.nn.Module) and method == "forward"
        self.module = module
        self.called = module if is_module else getattr(module, method)
        self._globals: dict[str, dict[str, Any]] = {}
        self._read: dict[str, set[str]] = {}
        self._cells: dict[tuple[str, str], CellType] = {}
        self._classes: dict[str, type] = {}
        for attempt in attempts:
            functions = attempt.call.functions
            for name, real in functions.globals_read():
                self._globals[name] = real
            for function in functions.copied():
                self._note(function)
            for cell, source in functions.cells_read():
                self._cells.setdefault((source.function, source.name), cell)
        parts = module.modules() if isinstance(module, torch.nn.Module) else (module,)
        for cls in {base for part in parts for base in type(part).__mro__}:
            if is_model_module(cls.__module__):
                self._classes[f"{cls.__module__}:{cls.__qualname__}"] = cls

    def _note(self, function: FunctionType) -> None:
        names = self._read.setdefault(str(function.__globals__.get("__name__")), set())
        for code in codes_in(function.__code__):
            names.update(code.co_names)

    def look_at(self, globals_: Mapping[str, Iterable[str]]) -> None:
        """Make further globals part of the state: names, by Python module."""
        for module, names in globals_.items():
            self._read.setdefault(module, set()).update(names)
            if module not in self._globals and module in sys.modules:
                self._globals[module] = vars(sys.modules[module])

    def state(self) -> Names:
        """Everything that can be reached now, by name."""
        held = Names()
        for module, names in self._globals.items():
            read = self._read.get(module, set())
            found = Names()
            for name, value in names.items():
                if isinstance(value, type) and value.__module__ == module:
                    found[name] = class_data(value)
                elif name in read and name[:2] != "__" and not isinstance(value, CODE):
                    found[name] = value
            held[module] = found
        cells = Names({f"{name} of {function}": cell for (function, name), cell in self._cells.items()})
        local = {name: class_data(cls) for name, cls in self._classes.items() if "<locals>" in name}
        return Names(self=self.module, globals=held, cells=cells, classes=Names(local))

    def identities(self) -> dict[tuple[str, str], int]:
        """Which object each global is, read or not: any function may set any."""
        return {
            (module, name): id(value)
            for module, names in self._globals.items()
            for name, value in names.items()
            if name[:2] != "__"
        }


# --- the captured form


class Everything(dict[str, object]):
    """Permission for all classes and functions that this process has; a trial runs the model itself."""

    def __init__(self, known: Mapping[str, type]) -> None:
        super().__init__(known)

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (isinstance(name, str) and _found(name) is not None)

    def __missing__(self, name: str) -> object:
        return _found(name)


def _found(name: str) -> Any:
    """A class or function of this process by its name, ``module:qualname``; None if there is none."""
    module, _, qualname = name.partition(":")
    value: Any = sys.modules.get(module)
    for part in qualname.split("."):
        value = getattr(value, part, None)
    return value


class Twin:
    """Runs what was captured: the graphs in Python, the effects on a state made from the table.

    Its tensors are its own, except those of the arguments.

    Args:
        known: classes that effects may name, by name.
        at_capture: whether the state is that of the capture, which the first entry fits; otherwise any entry
            may fit.
    """

    def __init__(
        self,
        module: Any,
        method: str,
        attempts: Sequence[Attempt],
        initial: InitialState,
        known: Mapping[str, type],
        *,
        at_capture: bool,
    ) -> None:
        methods = tuple(attempt.flat.effects for attempt in attempts)
        self._own: dict[int, Any] = {}
        tensors = [copied(tensor) for tensor in initial.tensors]
        for source, value in initial.entries:
            if isinstance(value, Stored):
                parameter = value_at(module, source)
                if isinstance(parameter, torch.nn.Parameter):
                    tensors[value.number] = self._of_graph(parameter)
        none = () if at_capture else (replace(methods[0], inputs=(), effects=(), guards=()),)
        self.state = State.fresh(EffectTable((*none, *methods), tuple(initial.entries)), tensors)
        allow = Everything(known)
        self.graphs = [self._runnable(attempt.graph) for attempt in attempts]
        self.entries = [  # a graph that is called as a module prints how it fails
            Entry(graph.forward, prepared(effects, allow))
            for graph, effects in zip(self.graphs, methods, strict=True)
        ]
        self._signature = _with_defaults(inspect.signature(getattr(module, method)))

    def _of_graph(self, tensor: Any) -> Any:
        """The tensor in place of one that graphs hold."""
        if id(tensor) not in self._own:
            self._own[id(tensor)] = copied(tensor)
        return self._own[id(tensor)]

    def _runnable(self, graph: Any) -> Any:
        """A graph whose tensors are the twin's own."""
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                *path, name = node.target.split(".")
                holder = graph.get_submodule(".".join(path))
                held = self._of_graph(getattr(holder, name))
                delattr(holder, name)
                setattr(holder, name, held)
        return graph

    def names(self) -> Names:
        """All of its state, by name, as ``Eager.state`` returns that of the module."""
        held = Names({module: Names(names) for module, names in dict(self.state.globals).items()})
        cells = dict(self.state.cells)
        named = Names({f"{name} of {function}": cell for (function, name), cell in cells.items() if cell})
        return Names(self=self.state.module, globals=held, cells=named, classes=Names())

    def __call__(self, arguments: Sequence[object]) -> Any:
        """Run the entry that fits."""
        bound = self._signature.bind(*arguments)
        if self._signature.parameters.keys() - bound.arguments.keys():
            bound.apply_defaults()
        return run_entry(self.entries, range(len(self.entries)), self.state, bound.arguments)[1]


def _with_defaults(signature: inspect.Signature) -> inspect.Signature:
    """A signature with the defaults that an archive has: constants, or a mark for arguments left out."""
    parameters = [
        parameter
        if parameter.default is parameter.empty or is_literal(parameter.default)
        else parameter.replace(default=LEFT_OUT)
        for parameter in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters)


def value_at(module: object, source: Source) -> object:
    """The value of an attribute of a module or of its parts; None for other sources."""
    if isinstance(source, Attribute):
        return getattr(value_at(module, source.base), source.name, None)
    return module if source == Local("self") else None


def known_classes(attempts: Sequence[Attempt]) -> Iterator[tuple[str, type]]:
    """The classes of objects that captured calls make or change, by name."""
    for attempt in attempts:
        for cls in attempt.call.objects.followed_classes():
            yield f"{cls.__module__}:{cls.__qualname__}", cls
