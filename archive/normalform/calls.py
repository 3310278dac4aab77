"""Gives calls the source ranges that PyTorch 2.13 looks for after loading.

PyTorch writes generated code in pieces, each with a range. What is called may be a piece without one: the
name of a function, or, up to PyTorch 1.9, the attribute that holds a module::

    x1 = __torch__.models.scaled(x0, 2., )        h = (self.first).forward(x, )
         null                   the call               null      the call

PyTorch 2.13 looks for a call's range where the code of the call begins: at these pieces. So it loses the
frames of such calls, in tracebacks of TorchScript and in archives that are saved for lite interpreters. Here
these pieces get the range of the call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.normalform.column import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.normalform.builder import FormBuilder

CALLED = re.compile(rb'[^\W\d][\w.]*|getattr\([\w." ,()]+\)')
"""A function's name, or a module as an attribute: ``self.first``, ``getattr(self.blocks, "0")``."""
CALL = re.compile(rb"\(|\)\.\w+\(")
"""What follows it: the arguments of the function, or a method of the module."""


def show_calls(form: FormBuilder, codes: Sequence[bytes]) -> int:
    """Give what is called the ranges of the calls.

    Args:
        form: the debug information; it is changed.
        codes: the generated code of each record of source ranges; b"" for one without.

    Returns:
        How many had none.
    """
    columns = form.columns
    offset, rows = columns["row.offset"], columns["row.range"].copy()
    null = columns["source.text"][columns["range.source"][rows]] == NO_ROW
    first = firsts(columns["record.rows"])
    changed = 0
    for code, low, high in zip(codes, first[:-1].tolist(), first[1:].tolist(), strict=True):
        for row in (low + np.flatnonzero(null[low : high - 1] & ~null[low + 1 : high])).tolist():
            start, end = int(offset[row]), int(offset[row + 1])
            if CALL.match(code, end) and CALLED.fullmatch(code, start, end):
                rows[row] = rows[row + 1]
                changed += 1
    columns["row.range"] = rows
    return changed
