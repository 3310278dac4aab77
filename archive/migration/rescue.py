"""What has to be taken out of lowered code of PyTorch 1.6 to 1.8 before later releases load it.

Their generated class keeps the method ``__preprocess``, which calls ``preprocess`` of the backend: a method
that backends no longer have. PyTorch compiles all of a class when it loads it, and fails there. Nothing calls
the method after lowering.
"""

from __future__ import annotations

import re

CODE = re.compile(r"code/torch/jit(/___torch_mangle_\d+)?\.py")
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
    return CODE.fullmatch(name) is not None


def stale_method(code: bytes) -> tuple[int, int] | None:
    """Where the stale method is in some code: its first byte and the one behind it; None where none is."""
    found = STALE.search(code) if CLASS.search(code) else None
    return None if found is None else found.span()
