"""The state of a live module, with its own classes: tests run effects on it beside the copy of a file.

It has the module with its attributes, the globals of its own packages, and the closure cells of its
functions. Own packages are those that define the model's classes, as far as these are written in Python; an
array brings no package along. PyTorch, this library and the standard library are nobody's own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects import places
from archive.effects.code import codes_in
from archive.effects.errors import StateError
from archive.effects.places import HEAP_TYPE, is_code, names
from archive.effects.replay.state import State, is_filled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, MutableMapping

FOREIGN_PACKAGES = {"torch", "archive"} | places.FOREIGN_PACKAGES


class LiveGlobals(Mapping[str, "MutableMapping[str, Any]"]):
    """The globals of Python modules, by module name.

    Args:
        module: the live module; the packages of its classes and of its parts' classes are accessible.
        modules: further accessible Python modules.
    """

    def __init__(self, module: object, modules: Collection[str]) -> None:
        self._module = module
        self._modules = modules
        self._packages: set[str] | None = None

    def __getitem__(self, name: str) -> MutableMapping[str, Any]:
        if self._packages is None:
            classes = map(type, _parts(self._module))
            written = (cls for cls in classes if cls.__flags__ & HEAP_TYPE)
            self._packages = {_package(member.__module__) for member in written} - FOREIGN_PACKAGES
        if name not in self._modules and _package(name) not in self._packages:
            raise StateError(
                f"Python module {name!r} is not the model's own; live_state(…, modules=[{name!r}])"
            )
        if name not in sys.modules:
            raise KeyError(name)
        return vars(sys.modules[name])

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class LiveCells(Mapping[tuple[str, str], "CellType | None"]):
    """The closure cells of all functions that a live module holds, by ``module:qualname`` and variable name.

    None stands for two different cells of one name. The functions are searched for at the first access.
    """

    def __init__(self, module: object) -> None:
        self._module = module
        self._cells: dict[tuple[str, str], CellType | None] | None = None

    def _all(self) -> dict[tuple[str, str], CellType | None]:
        if self._cells is None:
            self._cells = {}
            for function in _functions(self._module):
                where = f"{function.__module__}:{function.__qualname__}"
                pairs = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
                for name, cell in pairs:
                    if self._cells.setdefault((where, name), cell) is not cell:
                        self._cells[where, name] = None
        return self._cells

    def __getitem__(self, key: tuple[str, str]) -> CellType | None:
        return self._all()[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _package(name: str) -> str:
    return name.partition(".")[0]


def _parts(module: object) -> list[object]:
    """A module and all objects that it holds as attributes or submodules, each once."""
    parts: dict[int, object] = {}
    waiting = [module]
    while waiting:
        part = waiting.pop()
        if id(part) in parts:
            continue
        parts[id(part)] = part
        held = names(part)
        if is_code(part) or held is None:
            continue
        waiting += held.values()
        submodules = held.get("_modules")
        waiting += submodules.values() if isinstance(submodules, dict) else ()
    return list(parts.values())


def _functions(module: object) -> Iterator[FunctionType]:
    """Functions of a module's parts and their classes, in their closures, and called by them."""
    seen: dict[int, object] = {}
    waiting: list[Any] = []
    for part in _parts(module):
        waiting += [part, *_hooks(part)]
        for base in type(part).__mro__:
            if _package(base.__module__) not in FOREIGN_PACKAGES:
                waiting += vars(base).values()
    while waiting:
        function = waiting.pop()
        if isinstance(function, property):
            function = function.fget
        while isinstance(function, staticmethod | classmethod | MethodType | partial):
            function = function.func if isinstance(function, partial) else function.__func__
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen[id(function)] = function
        yield function
        waiting += [cell.cell_contents for cell in function.__closure__ or () if is_filled(cell)]
        if _package(function.__module__ or "") not in FOREIGN_PACKAGES:
            read = (name for code in codes_in(function.__code__) for name in code.co_names)
            waiting += [function.__globals__.get(name) for name in read]


def _hooks(part: object) -> Iterator[object]:
    """The hooks of a module; none of other objects."""
    for name, hooks in vars(part).items() if isinstance(part, torch.nn.Module) else ():
        if name.endswith("_hooks") and isinstance(hooks, dict):
            yield from hooks.values()


def live_state(module: object, modules: Collection[str] = ()) -> State:
    """The state of a live module.

    Args:
        module: a module, or any object.
        modules: Python modules whose globals the effects may read and change, besides those of the packages
            that define the classes of the module and of its parts.
    """
    return State({"self": module}, LiveGlobals(module, modules), LiveCells(module))
