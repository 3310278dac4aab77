"""The bytecode that debug information is about, and call-stack maps with more or fewer elements.

- *3 to 4 elements*: ``bytecode.pkl`` names the operators. The functions are unknown, and get the name that
  PyTorch gives to unknown ones.
- *4 to 3 elements*: the names of operators and functions go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.debuginfo.model import Generation
from archive.normalform.column import NO_ROW
from archive.normalform.columns import CALLSTACK_LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.base.columns import Ints
    from archive.normalform.builder import FormBuilder

UNKNOWN_FUNCTION = b"FunctionName_UNKNOWN"
"""PyTorch's name for a function that it has no name of."""


@dataclass(frozen=True, slots=True)
class KnownCode:
    """An archive's bytecode, as far as migrations need it.

    Attributes:
        operators: for each method the operator that each instruction calls; b"" where it calls none.
        version: of the bytecode.
        top: class of the top module.
        classes: qualified names of the classes in the module tree.
    """

    operators: Mapping[str, list[bytes]]
    version: int
    top: str
    classes: Collection[str]

    def operators_of(self, method: bytes) -> list[bytes]:
        """The operator of each instruction of a method; [] for a method that the bytecode lacks."""
        return self.operators.get(method.decode("utf-8", "backslashreplace"), [])


def to_four_elements(form: FormBuilder, code: KnownCode | None) -> None:
    """Complete a call-stack map of three elements with operators, as far as the bytecode tells them."""
    rows, nothing = len(form.columns["handle.handle"]), form.pool.number(b"")
    ops = np.full(rows, nothing)
    if code is not None and "method.name" in form.columns:
        number = form.pool.numbers(instruction_operators(form, code))
        handle = form.columns["instruction.handle"]
        row = np.searchsorted(form.columns["handle.handle"], handle)
        row[row == rows] = 0
        known = (number != nothing) & (form.columns["handle.handle"][row] == handle)
        ops[row[known][::-1]] = number[known][::-1]  # of instructions that share a handle, the first names it
    unknown = form.pool.number(UNKNOWN_FUNCTION)
    _set_names(form, Generation.CALLSTACK_4, ops, unknown)


def to_three_elements(form: FormBuilder) -> None:
    """Take the names of operators and functions out of a call-stack map of four elements."""
    _set_names(form, Generation.CALLSTACK_3, np.full(len(form.columns["handle.handle"]), NO_ROW), NO_ROW)


def _set_names(form: FormBuilder, generation: Generation, ops: Ints, function: int) -> None:
    form.columns |= {
        "file.callstacks": np.array([CALLSTACK_LAYOUTS.index(generation)]),
        "handle.op": ops,
        "frame.function": np.full(len(form.columns["frame.function"]), function),
    }


def instruction_operators(form: FormBuilder, code: KnownCode) -> list[bytes]:
    """The operator of each instruction, method by method.

    b"" where it calls none, and for all of a method that has more or fewer instructions in the bytecode.
    """
    columns, strings = form.columns, form.pool.strings()
    operators: list[bytes] = []
    for name, count in zip(
        columns["method.name"].tolist(), columns["method.instructions"].tolist(), strict=True
    ):
        known = code.operators_of(strings[name])
        operators += known if len(known) == count else [b""] * count
    return operators
