"""Takes a stale method out of code lowered by PyTorch 1.6 to 1.8, so that later releases load it.

The generated class has a method ``__preprocess``, which calls ``preprocess`` of the backend: a method that
backends no longer have. PyTorch compiles a class as a whole when it loads it, so it fails there. Nothing
calls ``__preprocess`` after lowering.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from archive.formats.mangling import MANGLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints

Cut = tuple[int, int]
"""Bytes that are taken out: the first one, and the one after the last."""

LOWERED_CODE = re.compile(rf"code/torch/jit(/{MANGLED})?\.py")
"""Records that may hold classes of lowered modules, up to PyTorch 1.9."""
CLASS = re.compile(rb"^class \w*LoweredModule\(Module\):$", re.MULTILINE)
STALE = re.compile(
    rb"^  def __preprocess\(self: torch\.jit\.[\w.]*LoweredModule,\n"
    rb"(?:    .*\n|\n)*?    return None\n(?=  def |class |\Z)",
    re.MULTILINE,
)
"""The method: from its first line to the one before the next method or class."""


def may_be_stale(name: str) -> bool:
    """Whether the record of this name may hold the class of a lowered module."""
    return LOWERED_CODE.fullmatch(name) is not None


def stale_methods(code: bytes) -> list[Cut]:
    """The places of the stale methods of all classes in some code, in order."""
    return [found.span() for found in STALE.finditer(code)] if CLASS.search(code) else []


def without(code: bytes | memoryview, cuts: Sequence[Cut]) -> bytes:
    """Code without some of its bytes."""
    ends = [0, *(end for _, end in cuts)]
    begins = [*(begin for begin, _ in cuts), len(code)]
    return b"".join(bytes(code[end:begin]) for end, begin in zip(ends, begins, strict=True))


def before_cuts(positions: Ints, cuts: Sequence[Cut]) -> Ints:
    """The positions in the original code for positions in the remaining code (n)."""
    for begin, end in cuts:
        positions = np.where(positions >= begin, positions + end - begin, positions)
    return positions


def after_cuts(positions: Ints, cuts: Sequence[Cut]) -> Ints:
    """The positions in the remaining code for original positions (n); a byte cut out gets the next one's."""
    for begin, end in reversed(cuts):
        positions = np.where(positions >= end, positions - end + begin, np.minimum(positions, begin))
    return positions
