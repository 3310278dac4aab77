"""Programs as text, the blob that a saved archive keeps.

The format is that of :mod:`archive.formats.blob_programs`.

Reading a text checks, before anything runs, that all numbers are in range, that every operation can be run
and has as many inputs and outputs as it should, that no instruction writes a constant, and that each register
is written above its first reader. No check finds out whether a program ends: loops may run for ever, as in
TorchScript.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from archive.backend.aten.constants import (
    INT64,
    HeldAt,
    HeldList,
    JsonObject,
    from_json,
    is_constant,
    packed,
)
from archive.backend.aten.operators import arity, supported
from archive.backend.aten.program import CONTROL, MOVE, MachineInstruction, MachineProgram
from archive.backend.errors import NO_HANDLE
from archive.base.errors import ArchiveError, LoweringError, shown
from archive.formats.blob_programs import (
    INSTRUCTION,
    LONGEST_PROGRAM,
    METHOD_FIELDS,
    PROGRAM_FIELDS,
    SEPARATORS,
    VERSION,
    VERSION_HOLDING,
    VERSIONS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_METHODS = 1024
MAX_PARAMETERS = 4096
"""Most parameters of a method."""
MAX_LOOPS = 1024
"""Most backward jumps of a program: making a machine takes a pass over all registers for each."""


def encoded(programs: Mapping[str, MachineProgram]) -> str:
    """Programs by method as text."""
    operators: dict[str, int] = {}
    methods = [_method(program, operators) for program in programs.values()]
    constants = [value for program in programs.values() for value in program.constants.values()]
    holding = any(isinstance(value, HeldAt | HeldList) for value in constants)
    version = VERSION_HOLDING if holding else VERSION
    program = dict(zip(PROGRAM_FIELDS, (version, list(operators), methods), strict=True))
    text = json.dumps(program, separators=SEPARATORS, allow_nan=False)
    if len(text) > LONGEST_PROGRAM or any(
        _loops(program.instructions) > MAX_LOOPS for program in programs.values()
    ):
        raise LoweringError("the module's methods are larger than a backend takes")
    return text


def _method(program: MachineProgram, operators: dict[str, int]) -> dict[str, object]:
    """A method's program as JSON. Its operators are added to the numbered ones."""
    constants = [[register, packed(value)] for register, value in program.constants.items()]
    instructions = [
        [operators.setdefault(step.op, len(operators)), step.outs, step.ins, step.handle, step.target]
        for step in program.instructions
    ]
    values = (
        program.method,
        program.parameters,
        program.registers,
        program.result,
        constants,
        instructions,
    )
    return dict(zip(METHOD_FIELDS, values, strict=True))


def decoded(text: str, tensors: int, held: int = 0) -> dict[str, MachineProgram]:
    """The programs of a text, by method. Anybody may have written the text: it is checked completely.

    Args:
        tensors: how many tensors the archive keeps beside it.
        held: how many attributes it keeps beside them.
    """
    if len(text) > LONGEST_PROGRAM:
        raise ArchiveError(
            place="program", expected=f"at most {LONGEST_PROGRAM:,} characters", found=f"{len(text):,}"
        )
    try:
        read = from_json(text)
        version, operators, methods = _fields(read, *PROGRAM_FIELDS)
        known = " or ".join(map(str, VERSIONS))
        _check(type(version) is int and version in VERSIONS, f"version {known}", version)
        _check(type(operators) is list, "a list of operators", operators)
        for name in operators:
            _check(type(name) is str and (name in (*CONTROL, MOVE) or supported(name)), "an operator", name)
        _check(len(set(operators)) == len(operators), "each operator once", operators)
        _check(
            type(methods) is list and len(methods) <= MAX_METHODS, f"at most {MAX_METHODS:,} methods", methods
        )
        programs = [_program(method, operators, (tensors, held)) for method in methods]
        by_method = {program.method: program for program in programs}
        _check(
            len(by_method) == len(programs),
            "methods of different names",
            [program.method for program in programs],
        )
    except (ValueError, RecursionError) as error:
        raise ArchiveError(place="program", expected="a program as JSON", found=shown(str(error))) from error
    except ArchiveError as error:
        raise error.within(place="program") from None
    return by_method


def _check(holds: bool, expected: str, found: object, place: str | None = None) -> None:  # noqa: FBT001
    if not holds:
        raise ArchiveError(place=place, expected=expected, found=shown(found))


def _fields(read: Any, *names: str) -> list[Any]:  # noqa: ANN401
    """The values of an object that has these fields and no others."""
    _check(type(read) is JsonObject, "an object", read)
    _check(set(read) == set(names), f"the fields {', '.join(names)}", list(read))
    return [read[name] for name in names]


def _program(read: Any, operators: list[str], counts: tuple[int, int]) -> MachineProgram:  # noqa: ANN401
    """The program of a method, checked. ``counts``: how many tensors and attributes beside the text."""
    name, parameters, count, result, constants, rows = _fields(read, *METHOD_FIELDS)
    _check(type(name) is str and name.isidentifier(), "a method's name", name)
    place = f"method {name}"
    _check(type(constants) is list and type(rows) is list, "constants and instructions", read, place)
    _check(
        _is_number(parameters, range(MAX_PARAMETERS + 1)),
        f"at most {MAX_PARAMETERS:,} parameters",
        parameters,
        place,
    )
    _check(_is_number(count, range(LONGEST_PROGRAM)), "a number of registers", count, place)
    written = set(range(parameters))
    known: dict[int, Any] = {}
    for row in constants:
        register, value = _constant(row, range(count), written, counts, place)
        known[register] = value
        written.add(register)
    steps = []
    for number, row in enumerate(rows):
        where = f"{place}, instruction {number}"
        step = _instruction(row, operators, range(len(rows) + 1), range(count), where)
        missing = [register for register in step.ins if register not in written]
        _check(not missing, "registers that are written further above", missing, where)
        _check(not known.keys() & step.outs, "constants to stay as they are", row, where)
        written.update(step.outs)
        steps.append(step)
    _check(len(written) == count, f"{len(written)} registers, which are written", count, place)
    _check(_is_number(result, range(count)), "a register as the result", result, place)
    _check(_loops(steps) <= MAX_LOOPS, f"at most {MAX_LOOPS:,} loops", _loops(steps), place)
    return MachineProgram(name, parameters, count, tuple(steps), known, result)


def _constant(
    row: Any,  # noqa: ANN401
    registers: range,
    written: set[int],
    counts: tuple[int, int],
    place: str,
) -> tuple[int, Any]:
    """An unwritten register and the constant in it, checked."""
    _check(type(row) is list and len(row) == 2, "a register and a constant", row, place)  # noqa: PLR2004
    register, value = row
    _check(_is_number(register, registers), f"a register below {registers.stop}", register, place)
    _check(register not in written, "constants in registers of their own", register, place)
    _check(is_constant(value, *counts), "a constant", value, f"{place}, register {register}")
    return register, value


def _instruction(
    row: Any,  # noqa: ANN401
    operators: list[str],
    targets: range,
    registers: range,
    place: str,
) -> MachineInstruction:
    """An instruction, checked."""
    form = f"[{', '.join(INSTRUCTION)}]"
    _check(type(row) is list and len(row) == len(INSTRUCTION), form, row, place)
    op, outs, ins, handle, target = row
    _check(_is_number(op, range(len(operators))), f"one of {len(operators)} operators", op, place)
    for some in (outs, ins):
        _check(
            type(some) is list and all(_is_number(register, registers) for register in some),
            "registers",
            some,
            place,
        )
    _check(_is_number(handle, range(NO_HANDLE, INT64.stop)), "a debug handle", handle, place)
    name = operators[op]
    jumps = name in CONTROL
    _check(_is_number(target, targets) if jumps else target is None, "a target of a jump", target, place)
    if jumps:
        fits = (len(outs), len(ins)) == CONTROL[name]
    elif name == MOVE:
        fits = len(outs) == len(ins)
    else:
        takes = arity(name)
        fits = takes is not None and takes.fits(len(outs), len(ins))
    _check(fits, f"as many values as {name} takes and makes", f"{len(ins)} and {len(outs)}", place)
    return MachineInstruction(name, tuple(outs), tuple(ins), handle, target)


def _is_number(value: object, numbers: range) -> bool:
    return type(value) is int and value in numbers


def _loops(steps: Sequence[MachineInstruction]) -> int:
    """The number of backward jumps."""
    return sum(step.target is not None and step.target <= number for number, step in enumerate(steps))
