"""Hooks made from what a table says of them: code that the caller allows, bound to the state's own values.

A function reads the globals of the state, unless this is a live one: names in the state hide those of the
Python module.
"""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Mapping
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.code import found_code, holder_of
from archive.effects.errors import StateError
from archive.effects.placeholders import ABSENT
from archive.effects.places import RemovableHandle, is_code
from archive.effects.replay.changes import restore_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from archive.effects.replay.changes import Backup
    from archive.effects.replay.state import State


class FoundCode(NamedTuple):
    """The code of a hook, and the globals of its Python module."""

    code: CodeType
    globals: dict[str, Any]


def hook_code(name: str, digest: str, allow: Collection[str]) -> FoundCode:
    """The code of a function."""
    code = found_code(allowed_code(name, allow), name.partition(":")[2], digest)
    if code is None:
        raise StateError(
            f"{name!r} is not the code that was captured, or was captured with another release of Python: "
            f"capture the model again, or use a function by its name as hook"
        )
    return FoundCode(*code)


def allowed_code(name: str, allow: Collection[str]) -> Any:
    """A function, or the function, class or Python module that local code is in.

    Args:
        allow: names of classes and functions, or a mapping from such names to the objects to use. Permission
            for a class covers the functions and classes defined in it, and what is local in these.
    """
    module, _, qualname = name.partition(":")
    parts = [part for part in holder_of(qualname).split(".") if part]
    around = {f"{module}:{'.'.join(parts[:count])}": parts[count:] for count in range(len(parts), 0, -1)}
    allowed = next((permitted for permitted in (name, *around) if permitted in allow), None)
    if allowed is None:
        raise StateError(f"{name!r} is not allowed; pass allow=[{name!r}] if you trust it")
    left = around.get(allowed, [])
    if isinstance(allow, Mapping):
        value = allow[allowed]
    else:
        value = importlib.import_module(module)
        for part in parts[: len(parts) - len(left)]:
            value = getattr(value, part)
    for part in left:
        value = _defined(value, part, name)
    return value


def _defined(cls: Any, part: str, name: str) -> Any:
    """What a class defines under a name."""
    member = vars(cls).get(part, ABSENT) if isinstance(cls, type) else ABSENT
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    function = member.fget if isinstance(member, property) else member
    # A class may also hold a function or class that it took from somewhere else.
    if not isinstance(function, FunctionType | type) or (function.__module__, function.__qualname__) != (
        cls.__module__,
        f"{cls.__qualname__}.{part}",
    ):
        raise StateError(f"{name!r} is not allowed: {part!r} isn't a function or class that is defined there")
    return member


class StateGlobals(dict[str, Any]):
    """Globals of a function: those of the state, and those of its Python module if the state has none.

    Functions, classes and modules are always those of the Python module, and builtins are Python's.

    Args:
        held: the state's.
        real: the Python module's.
    """

    def __init__(self, held: Mapping[str, Any], real: dict[str, Any]) -> None:
        super().__init__({name: real[name] for name in ("__builtins__", "__name__") if name in real})
        self._held, self._real = held, real

    def __missing__(self, name: str) -> Any:
        hides_code = is_code(self._real.get(name)) or hasattr(builtins, name)
        return self._held[name] if name in self._held and not hides_code else self._real[name]


def made_function(
    state: State,
    code_with_names: FoundCode,
    defaults: tuple[Any, ...],
    named: dict[str, Any],
    cells: tuple[CellType, ...],
) -> FunctionType:
    """A function of some code, with defaults, defaults by name and closure cells."""
    code, names = code_with_names
    held = state.globals.get(str(names.get("__name__"))) if type(state.globals) is dict else None
    seen = names if held is None else StateGlobals(held, names)
    function = FunctionType(code, seen, code.co_name, defaults, cells)
    function.__kwdefaults__ = named
    return function


# --- handles -------------------------------------------------------------------------------------------


def checked_handle(value: Any) -> Any:
    """A value that is the handle of a hook.

    Raises:
        StateError: it is something else.
    """
    if type(value) is not RemovableHandle:
        raise StateError(f"expected the handle of a hook, found a {type(value).__name__}")
    return value


def fill(handle: Any, registered: Any) -> None:
    """Make a new handle that of a registered hook."""
    vars(handle).update(vars(registered))


def backup_filling(handle: Any) -> Backup:
    """Back up a new handle that is about to be filled."""
    return _empty, checked_handle(handle)


def _empty(handle: Any) -> None:
    if vars(handle):
        handle.remove()


def backup_taking_off(handle: Any) -> Backup:
    """Back up the hooks of which one is about to be removed by its handle."""
    held = vars(checked_handle(handle)).get("hooks_dict_ref", lambda: None)()
    return _put_back, held, None if held is None else list(held.items())


def _put_back(held: Any, items: Sequence[tuple[int, Any]]) -> None:
    if held is not None:
        held.clear()
        held.update(items)


def backup_registration(state: State, number: int) -> Backup:
    """Back up the hook of a number that is about to be registered."""
    return _unregister, state.hooks, number, state.hooks.get(number, ABSENT)


def _unregister(hooks: dict[int, Any], number: int, before: object) -> None:
    if hooks.get(number, ABSENT) is not before:
        hooks[number].remove()
        restore_entry(hooks, number, before)
