"""The state that effects change: a live module, or a copy of its state without its classes.

:meth:`State.of` takes a live module with its attributes, the globals of its own packages, and the closure
cells of its functions. :meth:`State.fresh` needs none of the model's classes: from a table it makes plain
objects, lists, dicts and tensors as they were when the module was captured.

Of a live module's globals and closure cells, only those of its own packages and functions count. An effect
may read and change the Python modules of the packages that define the model's classes, if these are written
in Python: an array brings no package along. PyTorch, this library and the standard library are never a
model's own. Functions, classes and modules are returned only by permission, since any of them leads to any
other code.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.base.errors import ArchiveError
from archive.effects import places
from archive.effects.code import codes_in
from archive.effects.errors import StateError
from archive.effects.placeholders import UNSET
from archive.effects.places import HEAP_TYPE, is_code, names
from archive.effects.replay.fresh import FreshState
from archive.formats.effects.rules import check_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, MutableMapping, Sequence

    from archive.formats.effects.model import EffectTable


# --- live

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

    None marks two different cells with one name. The functions are searched for at the first access.
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
    """A module and all objects that it holds as attributes or submodules, each only once."""
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
    """The hooks of a module; none for other objects."""
    for name, hooks in vars(part).items() if isinstance(part, torch.nn.Module) else ():
        if name.endswith("_hooks") and isinstance(hooks, dict):
            yield from hooks.values()


def is_filled(cell: CellType) -> bool:
    """Whether a cell holds a value; reading an empty one raises."""
    try:
        cell.cell_contents  # noqa: B018 (read for its error)
    except ValueError:
        return False
    return True


# --- state


class State:
    """Places that effects read and change, by name.

    Args:
        roots: objects that every method knows by name: ``self``.
        globals_: globals of Python modules, by module name.
        cells: closure cells, by ``module:qualname`` of the function and name of the variable; None for a name
            that two different cells share.

    Attributes:
        hooks: handles of the hooks that effects have registered, by number.
        warned: warnings that were shown, by the Python module that warns, as ``warnings`` keeps them.
    """

    __slots__ = ("cells", "globals", "hooks", "roots", "warned")

    def __init__(
        self,
        roots: Mapping[str, object],
        globals_: Mapping[str, MutableMapping[str, Any]] | None = None,
        cells: Mapping[tuple[str, str], CellType | None] | None = None,
    ) -> None:
        self.roots = roots
        self.globals = {} if globals_ is None else globals_
        self.cells = {} if cells is None else cells
        self.hooks: dict[int, Any] = {}
        self.warned: dict[str, dict[Any, Any]] = {}

    @property
    def module(self) -> Any:  # noqa: ANN401 (whatever was captured)
        """The object that the methods call ``self``."""
        return self.roots["self"]

    @classmethod
    def of(cls, module: object, modules: Collection[str] = ()) -> State:
        """The state of a live module.

        Args:
            module: a module, or any object.
            modules: Python modules whose globals the effects may read and change, besides those of the
                packages that define the classes of the module and of its parts.
        """
        return cls({"self": module}, LiveGlobals(module, modules), LiveCells(module))

    @classmethod
    def fresh(cls, table: EffectTable, tensors: Sequence[object] | Mapping[int, object] = ()) -> State:
        """The state at capture, made from its table without any class of the model.

        Args:
            table: effects of a module, with its state.
            tensors: the stored tensors, by number; the state keeps and changes these very objects.

        Raises:
            StateError: the table breaks a rule of :mod:`archive.formats.effects.rules`, a tensor is missing,
                or a value cannot be put where the table says.
        """
        try:
            check_table(table)
        except ArchiveError as error:
            raise StateError(str(error)) from error
        fresh = FreshState(table, tensors)
        fresh.fill()
        return cls({"self": fresh.module}, fresh.globals, fresh.cells)

    def argument(self, arguments: Mapping[str, object], name: str) -> object:
        """An argument of the method.

        Raises:
            StateError: neither the state nor the arguments have the name.
        """
        value = self.roots.get(name, UNSET)
        if value is UNSET:
            value = arguments.get(name, UNSET)
        if value is UNSET:
            raise StateError(f"there is no argument {name!r}")
        return value

    def names(self, module: str) -> MutableMapping[str, Any]:
        """The globals of a Python module.

        Raises:
            StateError: the state does not have the module.
        """
        try:
            return self.globals[module]
        except StateError:
            raise
        except KeyError:
            raise StateError(f"there is no Python module {module!r}") from None

    def global_(self, module: str, name: str, allowed: Collection[str]) -> Any:  # noqa: ANN401
        """The value of a global name.

        Raises:
            StateError: the name is not there, or is a function, class or module that is not allowed.
        """
        value = self.names(module).get(name, UNSET)
        if value is UNSET:
            raise StateError(f"{module} has no global {name!r}")
        if is_code(value):
            self.check_code(module, name, allowed)
        return value

    def target(self, module: str, name: str, allowed: Collection[str]) -> MutableMapping[str, Any]:
        """The globals in which an effect sets a name.

        Raises:
            StateError: the name is a function, class or module that is not allowed, or hides one of Python's.
        """
        names = self.names(module)
        if is_code(names.get(name, getattr(builtins, name, None))):
            self.check_code(module, name, allowed)
        return names

    @staticmethod
    def check_code(module: str, name: str, allowed: Collection[str]) -> None:
        """Refuse a function, class or module that is not allowed.

        Raises:
            StateError: ``module:name`` is not among those allowed.
        """
        if f"{module}:{name}" not in allowed:
            raise StateError(f"{module}.{name} is code, and '{module}:{name}' is not allowed")

    def cell(self, function: str, name: str) -> CellType:
        """The cell of a variable that a function shares with the function around it.

        Raises:
            StateError: there is no such cell, or more than one.
        """
        cell = self.cells.get((function, name), UNSET)
        if isinstance(cell, CellType):
            return cell
        which = "more than one" if cell is None else "no"
        raise StateError(f"there is {which} function {function!r} with a variable {name!r} around it")

    def cell_target(self, function: str, name: str, allowed: Collection[str]) -> CellType:
        """The cell in which an effect sets a variable.

        Raises:
            StateError: there is no such cell; or it holds a function, class or module that is not allowed.
        """
        cell = self.cell(function, name)
        if is_filled(cell) and is_code(cell.cell_contents) and function not in allowed:
            raise StateError(f"{name!r} of {function!r} is code, and {function!r} is not allowed")
        return cell

    def hook(self, number: int) -> Any:  # noqa: ANN401
        """The handle of a hook that an effect has registered.

        Raises:
            StateError: no hook has this number.
        """
        if number not in self.hooks:
            raise StateError(f"there is no hook {number}")
        return self.hooks[number]
