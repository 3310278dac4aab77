"""What effects are done to: a live module, or its state alone.

A live module gives its own attributes, the globals of its own packages, and the cells of its functions. In a
process without the model's classes, :meth:`State.fresh` makes the same from a table: plain objects with
attributes, lists, dicts and tensors as they were when the module was captured.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence

    from archive.formats.effects.model import EffectTable

    Names = MutableMapping[str, Any]

CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
"""What a table may not take from globals or put in their place: it would lead to any function there is."""
NOT_OWN = {"torch", *sys.stdlib_module_names} - {"__main__"}
ABSENT = object()


class StateError(LookupError):
    """The state has no such place, or doesn't give it away."""


class Plain:
    """An object of a class that isn't here: it has attributes, and items if it held any."""

    __slots__ = ("__dict__", "__items")

    def __init__(self) -> None:
        self.__items: dict[object, object] = {}

    def __getitem__(self, key: object) -> object:
        return self.__items[key]

    def __setitem__(self, key: object, value: object) -> None:
        self.__items[key] = value

    def __delitem__(self, key: object) -> None:
        del self.__items[key]


class State:
    """Where effects find what they change.

    Args:
        roots: what has a name in every method: ``self``.
        globals_: the names of a Python module, by its name.
        cells: variables of functions, by ``module:qualname`` and name; None where two have the same.
    """

    __slots__ = ("cells", "globals", "hooks", "roots")

    def __init__(
        self,
        roots: Mapping[str, object],
        globals_: Mapping[str, Names] | None = None,
        cells: Mapping[tuple[str, str], CellType | None] | None = None,
    ) -> None:
        self.roots = roots
        self.globals = {} if globals_ is None else globals_
        self.cells = {} if cells is None else cells
        self.hooks: dict[int, Any] = {}

    @property
    def module(self) -> Any:  # noqa: ANN401 (whatever was captured)
        """What the methods call ``self``."""
        return self.roots["self"]

    @classmethod
    def of(cls, module: object, modules: Collection[str] = ()) -> State:
        """A live module.

        Args:
            module: a module, or any object.
            modules: Python modules whose globals the effects may read and change, besides those of the
                packages that the classes of the module and of its parts are from.
        """
        return cls({"self": module}, _LiveGlobals(module, modules), _LiveCells(module))

    @classmethod
    def fresh(cls, table: EffectTable, tensors: Sequence[object] | Mapping[int, object] = ()) -> State:
        """The state at capture, without any class.

        Args:
            table: what it was.
            tensors: by the numbers that the table has for them; they become the state's own.

        Raises:
            StateError: a tensor is missing, or what lived somewhere can't be put there.
        """
        from archive.effects.replay.fresh import Building  # noqa: PLC0415 (it makes states)

        return Building(table, tensors).state()

    def argument(self, arguments: Mapping[str, object], name: str) -> object:
        """An argument of the method.

        Raises:
            StateError: there is none of that name.
        """
        value = self.roots.get(name, ABSENT)
        if value is ABSENT:
            value = arguments.get(name, ABSENT)
        if value is ABSENT:
            raise StateError(f"there is no argument {name!r}")
        return value

    def names(self, module: str) -> Names:
        """The globals of a Python module.

        Raises:
            StateError: it has no such module.
        """
        try:
            return self.globals[module]
        except StateError:
            raise
        except KeyError:
            raise StateError(f"there is no Python module {module!r}") from None

    def global_(self, module: str, name: str, allowed: Collection[str]) -> Any:  # noqa: ANN401
        """What a global name stands for.

        Raises:
            StateError: there is none, or it is a function, class or module that is not allowed.
        """
        value = self.names(module).get(name, ABSENT)
        if value is ABSENT:
            raise StateError(f"{module} has no global {name!r}")
        if isinstance(value, CODE):
            self.check_code(module, name, allowed)
        return value

    def target(self, module: str, name: str, allowed: Collection[str]) -> Names:
        """The globals in which a name is to be changed.

        Raises:
            StateError: it stands for a function, class or module that is not allowed.
        """
        names = self.names(module)
        if isinstance(names.get(name), CODE):
            self.check_code(module, name, allowed)
        return names

    @staticmethod
    def check_code(module: str, name: str, allowed: Collection[str]) -> None:
        """Refuse a function, class or module that is not allowed.

        Raises:
            StateError: it is not.
        """
        if f"{module}:{name}" not in allowed:
            raise StateError(f"{module}.{name} is code, and '{module}:{name}' is not allowed")

    def cell(self, function: str, name: str) -> CellType:
        """A variable that a function shares with the one around it.

        Raises:
            StateError: there is none, or two functions of this name have one each.
        """
        cell = self.cells.get((function, name), ABSENT)
        if isinstance(cell, CellType):
            return cell
        which = "more than one" if cell is None else "no"
        raise StateError(f"there is {which} function {function!r} with a variable {name!r} around it")

    def hook(self, number: int) -> Any:  # noqa: ANN401
        """The handle of a hook that an effect registered.

        Raises:
            StateError: there is none of this number.
        """
        if number not in self.hooks:
            raise StateError(f"there is no hook {number}")
        return self.hooks[number]


def _package(name: str) -> str:
    return name.partition(".")[0]


class _LiveGlobals(Mapping[str, "Names"]):
    """The globals of the packages that a module's classes are from."""

    def __init__(self, module: object, modules: Collection[str]) -> None:
        self._module = module
        self._modules = modules
        self._packages: set[str] | None = None

    def __getitem__(self, name: str) -> Names:
        if self._packages is None:
            self._packages = {_package(type(part).__module__) for part in _parts(self._module)}
            self._packages -= NOT_OWN
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


class _LiveCells(Mapping[tuple[str, str], "CellType | None"]):
    """The cells of all functions that a module and its parts hold, found when first asked for."""

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


def _parts(module: object) -> list[object]:
    """A module and what it holds as attributes and submodules, each once."""
    found: dict[int, object] = {}
    waiting = [module]
    while waiting:
        part = waiting.pop()
        if id(part) in found:
            continue
        found[id(part)] = part
        held = getattr(part, "__dict__", None)
        if isinstance(part, CODE) or not isinstance(held, dict):
            continue
        waiting += held.values()
        submodules = held.get("_modules")
        waiting += submodules.values() if isinstance(submodules, dict) else ()
    return list(found.values())


def _functions(module: object) -> Iterator[FunctionType]:
    """The functions of a module, of its parts and of their classes, in their closures, and that they call."""
    seen: dict[int, object] = {}
    waiting: list[Any] = []
    for part in _parts(module):
        waiting.append(part)
        for base in type(part).__mro__:
            if _package(base.__module__) not in NOT_OWN:
                waiting += vars(base).values()
    while waiting:
        one = _unwrapped(waiting.pop())
        if not isinstance(one, FunctionType) or id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        waiting += [cell.cell_contents for cell in one.__closure__ or () if _is_filled(cell)]
        if _package(one.__module__ or "") not in NOT_OWN:
            waiting += [one.__globals__.get(name) for name in _names(one.__code__)]


def _names(code: CodeType) -> Iterator[str]:
    """The global names that some code may read."""
    waiting = [code]
    while waiting:
        one = waiting.pop()
        yield from one.co_names
        waiting += [constant for constant in one.co_consts if isinstance(constant, CodeType)]


def _unwrapped(one: Any) -> Callable[..., object]:  # noqa: ANN401
    """The function behind a method or descriptor."""
    if isinstance(one, property):
        one = one.fget
    while isinstance(one, staticmethod | classmethod | MethodType):
        one = one.__func__
    return one  # type: ignore[no-any-return]


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (an empty one raises)
    except ValueError:
        return False
    return True
