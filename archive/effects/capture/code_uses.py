"""What some code reads and sets by itself: globals, variables of functions around it, attributes of objects.

Only uses that the instructions tell for sure count. An object that the code hands on, stores or compares
escapes: nobody knows what else happens to it.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

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
