"""Programs in the blobs of lowered modules: the text that :mod:`archive.backend.aten.blob` writes and runs.

The text is JSON without blanks::

    {"version": 1,
     "operators": ["aten::linear", "jump", ...],
     "methods": [{"method": "forward", "parameters": 1, "registers": 5, "result": 4,
                  "constants": [[1, {"tensor": 0}], [2, null], ...],
                  "instructions": [[0, [4], [0, 1, 2], 17, null], ...]}]}

An instruction is ``[op, outs, ins, handle, target]``; see :mod:`archive.backend.aten.program`. Its ``op`` is
an index into ``operators``, which has each name once; its ``handle`` is a debug handle, or -1. A constant is

- ``null``, a bool, a text, an integer of 64 bits, or a finite float,
- a list of constants,
- ``{"float": "inf" | "-inf" | "nan"}``, ``{"complex": [real, imaginary]}``,
- ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``,
- ``{"device": "cuda:0"}``, ``{"dtype": "float32"}``,
- ``{"tensor": n}``, the n-th of the tensors beside the text, which all methods share,
- ``{"held": n}``, the n-th of the attributes beside these, an object of a C++ class,
- or ``{"all held": null}``, the list of these attributes, whose items are state that instructions replace.
  Programs with one of the last two have version 2.

The names and numbers of the format are constants here, for the writer, the machine, and all commands that
read debug handles. A text of an unknown version is recognised as a program, but its handles cannot be read.
"""

from __future__ import annotations

import re
from typing import Any

from archive.base import memory

VERSION, VERSION_HOLDING = 1, 2
"""The version of programs, and that of programs that use attributes of the lowered module."""
VERSIONS = (VERSION, VERSION_HOLDING)
PROGRAM_FIELDS = ("version", "operators", "methods")
METHOD_FIELDS = ("method", "parameters", "registers", "result", "constants", "instructions")
INSTRUCTION = ("op", "outs", "ins", "handle", "target")
HANDLE_AT = INSTRUCTION.index("handle")
SEPARATORS = (",", ":")
"""JSON without blanks."""
LONGEST_PROGRAM = 1 << 23
"""Most characters of a program; a method of 10,000 operations has some 400,000."""
MEMORY_PER_CHARACTER = 32
"""Bytes of memory that reading a program takes, at most, for each character: ``[],`` is an empty list."""
BEGINNING = re.compile(rf'{{"{PROGRAM_FIELDS[0]}":(\d{{1,9}}),"{PROGRAM_FIELDS[1]}":')


class UnreadProgramError(ValueError):
    """A program whose debug handles cannot be read; the message says why."""


def is_program(text: str) -> bool:
    """Whether a text is a program, of whatever version."""
    return BEGINNING.match(text) is not None


def handles_of(text: str) -> list[int]:
    """The debug handles of a program, each once, in order.

    Raises:
        UnreadProgramError: it is broken, or of an unknown version.
    """
    with memory.lent(MEMORY_PER_CHARACTER * len(text), "values in programs"):
        handles = [row[HANDLE_AT] for row in _instructions(_read(text))]
    return list(dict.fromkeys(handle for handle in handles if handle >= 0))


def without_handles(text: str) -> str:
    """A program with 0 in place of each debug handle; the text itself where it cannot be read."""
    import json  # noqa: PLC0415 (few archives have such a program)

    with memory.lent(2 * MEMORY_PER_CHARACTER * len(text), "values in programs"):
        try:
            program = _read(text)
        except UnreadProgramError:
            return text
        for row in _instructions(program):
            row[HANDLE_AT] = min(row[HANDLE_AT], 0)
        return json.dumps(program, separators=SEPARATORS)


def _instructions(program: dict[str, Any]) -> list[list[Any]]:
    _, _, methods = PROGRAM_FIELDS
    return [row for method in program[methods] for row in method[METHOD_FIELDS[-1]]]


def _read(text: str) -> dict[str, Any]:
    """A program in which everything that leads to its handles is valid."""
    import json  # noqa: PLC0415 (few archives have such a program)

    beginning = BEGINNING.match(text)
    version = int(beginning[1]) if beginning else 0
    if version not in VERSIONS:
        raise UnreadProgramError(f"a program of version {version}, not {' or '.join(map(str, VERSIONS))}")
    if len(text) > LONGEST_PROGRAM:
        raise UnreadProgramError(f"a program of more than {LONGEST_PROGRAM:,} characters")
    try:
        program: dict[str, Any] = json.loads(text)
        well = all(len(row) == len(INSTRUCTION) and _is_handle(row) for row in _instructions(program))
    except (ValueError, RecursionError, LookupError, TypeError):
        well = False
    if not well:
        raise UnreadProgramError("a broken program")
    return program


def _is_handle(row: list[Any]) -> bool:
    """Whether an instruction has a debug handle, or -1."""
    return type(row) is list and type(row[HANDLE_AT]) is int and -1 <= row[HANDLE_AT] < 1 << 63
