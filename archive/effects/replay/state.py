"""The state that effects change: a copy of a module's state, without its classes.

:meth:`State.fresh` needs none of the model's classes: from a table it makes plain objects, lists, dicts and
tensors as they were when the module was captured.
"""

from __future__ import annotations

import builtins
from types import CellType
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError
from archive.effects.errors import StateError
from archive.effects.placeholders import ABSENT
from archive.effects.places import is_code
from archive.effects.replay.fresh import FreshState
from archive.formats.effects.rules import check_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, MutableMapping, Sequence

    from archive.formats.effects.model import EffectTable


def is_filled(cell: CellType) -> bool:
    """Whether a cell holds a value; reading an empty one raises."""
    try:
        cell.cell_contents  # noqa: B018 (read for its error)
    except ValueError:
        return False
    return True


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
    def module(self) -> Any:
        """The object that the methods call ``self``."""
        return self.roots["self"]

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
        value = self.roots.get(name, ABSENT)
        if value is ABSENT:
            value = arguments.get(name, ABSENT)
        if value is ABSENT:
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

    def global_(self, module: str, name: str, allowed: Collection[str]) -> Any:
        """The value of a global name.

        Raises:
            StateError: the name is not there, or is a function, class or module that is not allowed.
        """
        value = self.names(module).get(name, ABSENT)
        if value is ABSENT:
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
            StateError: not exactly one cell has this name.
        """
        cell = self.cells.get((function, name), ABSENT)
        if isinstance(cell, CellType):
            return cell
        which = "more than one" if cell is None else "no"
        raise StateError(f"there is {which} function {function!r} with a variable {name!r} around it")

    def cell_target(self, function: str, name: str, allowed: Collection[str]) -> CellType:
        """The cell in which an effect sets a variable.

        Raises:
            StateError: the cell is missing, or holds a function, class or module that is not allowed.
        """
        cell = self.cell(function, name)
        if is_filled(cell) and is_code(cell.cell_contents) and function not in allowed:
            raise StateError(f"{name!r} of {function!r} is code, and {function!r} is not allowed")
        return cell
