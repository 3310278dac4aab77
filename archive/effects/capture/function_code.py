"""Facts about functions and their code: whose they are, their names, the places where they read and store."""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any

from archive.effects.capture.sites import position_of
from archive.effects.capture.variables import ABSENT

if TYPE_CHECKING:
    from types import CellType

    from archive.effects.capture.sites import Position

LIBRARIES = frozenset({"torch", "numpy", *sys.stdlib_module_names}) - {"__main__"}
"""Top-level packages whose functions run as they are."""
GLOBAL_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL")
CELL_STORES = ("STORE_DEREF", "DELETE_DEREF")


def is_model_module(module: object) -> bool:
    """Whether a name of a Python module is one of a model's modules, not of a library's."""
    return isinstance(module, str) and module.partition(".")[0] not in LIBRARIES


def importable(value: Any) -> str | None:  # noqa: ANN401
    """The name by which a function or class can be imported, as ``module:qualname``; None if by none."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if found is value else None


def contents_of(cell: CellType) -> object:
    """The contents of a cell; ``ABSENT`` if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


@functools.cache
def comparison_by_identity(code: CodeType) -> tuple[CodeType, int] | None:
    """The first ``is`` of two values, neither of which is a constant, a builtin or PyTorch's own.

    Returns:
        The code that has it, which may be inside of the one given, and the instruction; None without one.
    """
    steps = [one for one in dis.get_instructions(code) if one.opname != "CACHE"]
    for place, one in enumerate(steps):
        before, first = steps[place - 1], steps[place - 2]
        fixed = before.opname == "LOAD_CONST" or (
            before.opname == "LOAD_GLOBAL" and hasattr(builtins, str(before.argval))
        )
        of_torch = before.opname == "LOAD_ATTR" and (first.opname, first.argval) == ("LOAD_GLOBAL", "torch")
        if one.opname == "IS_OP" and not (fixed or of_torch):
            return code, one.offset // 2
    inner = (comparison_by_identity(one) for one in code.co_consts if isinstance(one, CodeType))
    return next(filter(None, inner), None)


@functools.cache
def asks_super_alone(code: CodeType, name: str) -> bool:
    """Whether some code reads a method by this name of nothing but ``super()``."""
    kept = [one for one in dis.get_instructions(code) if one.opname not in ("PRECALL", "CACHE")]
    for place, one in enumerate(kept):
        if one.argval != name or one.opname.startswith("LOAD_SUPER"):
            continue
        before = [each.opname for each in kept[max(place - 2, 0) : place]]
        if before != ["LOAD_GLOBAL", "CALL"] or kept[place - 2].argval != "super":
            return False
    return True


@functools.cache
def first_read(code: CodeType, name: str) -> Position | None:
    """The place where some code first reads a variable; None if it does not."""
    for instruction in dis.get_instructions(code):
        if instruction.argval == name and instruction.opname.startswith("LOAD_"):
            return position_of(code, instruction.offset // 2)
    return None


@functools.cache
def stores_of(code: CodeType) -> dict[str, tuple[CodeType, int]]:
    """The instruction that last stores each global and each shared variable, as code and its number in it."""
    found: dict[str, tuple[CodeType, int]] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = stores_of(constant).items()
            found |= {name: at for name, at in inner if name not in code.co_cellvars}
    for instruction in dis.get_instructions(code):
        stores_cell = instruction.opname in CELL_STORES and instruction.argval in code.co_freevars
        if instruction.opname in GLOBAL_STORES or stores_cell:
            found[instruction.argval] = code, instruction.offset // 2
    return found
