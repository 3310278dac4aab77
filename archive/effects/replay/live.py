"""Globals and closure cells of a live module: only those of its own packages and functions.

An effect may read and change the Python modules of the packages that define the model's classes, as far as
these are written in Python: an array brings no package along. PyTorch, this library and the standard library
are nobody's own; functions, classes and modules are handed out only by permission, since
any of them leads to any code there is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects import places
from archive.effects.errors import StateError
from archive.effects.places import HEAP_TYPE, is_code, names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, MutableMapping

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
            written = (one for one in classes if one.__flags__ & HEAP_TYPE)
            self._packages = {_package(one.__module__) for one in written} - FOREIGN_PACKAGES
        if name not in self._modules and _package(name) not in self._packages:
            raise StateError(
                f"Python module {name!r} is not the model's own; State.of(…, modules=[{name!r}])"
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

    def _found(self) -> dict[tuple[str, str], CellType | None]:
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
        return self._found()[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


def _package(name: str) -> str:
    return name.partition(".")[0]


def _parts(module: object) -> list[object]:
    """A module and all objects that it holds as attributes or submodules, each once."""
    found: dict[int, object] = {}
    waiting = [module]
    while waiting:
        part = waiting.pop()
        if id(part) in found:
            continue
        found[id(part)] = part
        held = names(part)
        if is_code(part) or held is None:
            continue
        waiting += held.values()
        submodules = held.get("_modules")
        waiting += submodules.values() if isinstance(submodules, dict) else ()
    return list(found.values())


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
        one = _unwrapped(waiting.pop())
        if not isinstance(one, FunctionType) or id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        waiting += [cell.cell_contents for cell in one.__closure__ or () if is_filled(cell)]
        if _package(one.__module__ or "") not in FOREIGN_PACKAGES:
            waiting += [one.__globals__.get(name) for name in _global_names(one.__code__)]


def _hooks(part: object) -> Iterator[object]:
    """The hooks of a module; none of other objects."""
    for name, hooks in vars(part).items() if isinstance(part, torch.nn.Module) else ():
        if name.endswith("_hooks") and isinstance(hooks, dict):
            yield from hooks.values()


def _global_names(code: CodeType) -> Iterator[str]:
    """Names that a code object, or one inside it, may look up in its globals."""
    waiting = [code]
    while waiting:
        one = waiting.pop()
        yield from one.co_names
        waiting += [constant for constant in one.co_consts if isinstance(constant, CodeType)]


def _unwrapped(one: Any) -> Callable[..., object]:  # noqa: ANN401
    """The function behind a method, static method, class method, property or partial function."""
    if isinstance(one, property):
        one = one.fget
    while isinstance(one, staticmethod | classmethod | MethodType | partial):
        one = one.func if isinstance(one, partial) else one.__func__
    return one  # type: ignore[no-any-return]


def is_filled(cell: CellType) -> bool:
    """Whether a cell holds a value; reading an empty one raises."""
    try:
        cell.cell_contents  # noqa: B018 (read for its error)
    except ValueError:
        return False
    return True
