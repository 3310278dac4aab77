"""Gives calls of functions the source range that PyTorch 2.13 looks for after loading.

PyTorch writes generated code in pieces, each with a range. The name of a called function is a piece without
one; the range of the call begins behind the name, at the parenthesis::

    x1 = __torch__.models.scaled(x0, 2., )
         null                   the call

The parser of a loaded archive places a call at the function's name, so PyTorch loses the frame of each such
call: in TorchScript's tracebacks, and in archives that are saved for the lite interpreter. Here the name gets
the range of the call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.normalform.columns import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.normalform.builder import FormBuilder

FUNCTION = re.compile(rb"[^\W\d][\w.]*")


def show_called_functions(form: FormBuilder, codes: Sequence[bytes]) -> int:
    """Give the names of called functions the ranges of their calls.

    Args:
        form: the debug information; it is changed.
        codes: the generated code of each record of source ranges; b"" for one without.

    Returns:
        How many names had none.
    """
    columns = form.columns
    offset, rows = columns["row.offset"], columns["row.range"].copy()
    null = columns["source.text"][columns["range.source"][rows]] == NO_ROW
    first = firsts(columns["record.rows"])
    changed = 0
    for code, low, high in zip(codes, first[:-1].tolist(), first[1:].tolist(), strict=True):
        for row in (low + np.flatnonzero(null[low : high - 1] & ~null[low + 1 : high])).tolist():
            start, end = int(offset[row]), int(offset[row + 1])
            if code[end : end + 1] == b"(" and FUNCTION.fullmatch(code, start, end):
                rows[row] = rows[row + 1]
                changed += 1
    columns["row.range"] = rows
    return changed
