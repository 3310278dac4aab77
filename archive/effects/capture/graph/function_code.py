"""Facts about functions and their code: whose they are, their names, the places where they read and store.

Of what some code reads and sets by itself (globals, variables of functions around it, attributes of objects),
only uses that the instructions tell for sure count. An object that the code hands on, stores or compares
escapes: nobody knows what else happens to it.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.capture.graph.sites import position_of
from archive.effects.capture.graph.variables import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CellType

    from archive.effects.capture.graph.sites import Position


# --- code uses

READS, SETS = ("LOAD_ATTR", "LOAD_METHOD"), "STORE_ATTR"
NOT_OF_VARIABLES = (*READS, "LOAD_GLOBAL", "LOAD_NAME", "LOAD_CONST")
GLOBAL_SETS = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME")


class Use(NamedTuple):
    """The use of an object by its attributes: ``x.held.count`` or ``x.held.count = …``.

    Attributes:
        names: of the attributes, outermost first.
        is_set: whether the last one is set.
    """

    names: tuple[str, ...]
    is_set: bool = False


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def globals_read(code: CodeType) -> list[str]:
    """Names that code looks up in its globals, in order."""
    found = [one for each in codes_in(code) for one in dis.get_instructions(each)]
    return list(dict.fromkeys(str(one.argval) for one in found if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")))


def sets_globals(code: CodeType) -> bool:
    """Whether code sets or deletes globals."""
    return any(one.opname in GLOBAL_SETS for each in codes_in(code) for one in dis.get_instructions(each))


def uses_of(code: CodeType, variable: str) -> list[Use] | None:
    """The uses of the object that a variable holds; None if it escapes.

    Args:
        code: of a function, with the functions inside it.
        variable: an argument of the function, or a variable of a function around it.
    """
    uses: list[Use] = []
    for each in codes_in(code):
        steps = [one for one in dis.get_instructions(each) if one.opname != "EXTENDED_ARG"]
        for place, step in enumerate(steps):
            if _loads(step, variable):
                found = _uses_at(steps, place + 1)
                if found is None:
                    return None
                uses += found
    return uses


def _loads(step: dis.Instruction, variable: str) -> bool:
    """Whether an instruction reads a variable; ``LOAD_CLOSURE`` only hands it to a function inside."""
    if not step.opname.startswith("LOAD_") or step.opname in (*NOT_OF_VARIABLES, "LOAD_CLOSURE"):
        return False
    return variable in step.argval if isinstance(step.argval, tuple) else step.argval == variable


def _uses_at(steps: list[dis.Instruction], place: int) -> list[Use] | None:
    """The uses of an object that has just been read: a chain of attributes, the last of which may be set."""
    if isinstance(steps[place - 1].argval, tuple):
        return None
    names: list[str] = []
    while True:
        step = steps[place]
        if step.opname in READS:
            names.append(str(step.argval))
            place += 1
        elif step.opname == SETS:
            return [Use((*names, str(step.argval)), is_set=True)]
        elif step.opname == "COPY" and step.arg == 1 and steps[place + 1].opname in READS:
            # `x.count += 1` reads the attribute, and sets it afterwards.
            used = Use((*names, str(steps[place + 1].argval)))
            return [used, Use(used.names, is_set=True)]
        else:
            return [Use(tuple(names))] if names else None


# --- function code

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
