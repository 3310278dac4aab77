"""Makes sources large, so that PyTorch compiles them in a time and memory that follow from their size.

For each variable that one branch of an ``if`` alone defines, PyTorch's compiler copies the whole source, in
case that an error must show the place: 3.4 GB for a lowered model of eight attention layers. It does without
if the source has 512 KiB or more (``reportSourceLocation`` in ``torch/csrc/jit/frontend/ir_emitter.cpp``). So
a comment is put behind the code of such models; compressed, it takes half a KiB.
"""

from __future__ import annotations

import re

LARGE = 1 << 19
"""Size from which PyTorch does not copy a source, in bytes."""
MOST_COPIED = 1 << 24
"""Bytes of copies that PyTorch may make: some 10 ms."""
ASSIGNMENT = re.compile(rb"^( *)[\w, ]+(?: : [^=\n]+)? = ", re.MULTILINE)
APART = b"\n" * 5
"""Empty lines before the comment: errors show three lines behind the one that failed."""


def padding(source: bytes, body: int) -> bytes:
    """What to put behind a source; nothing if PyTorch compiles it quickly.

    Args:
        source: the source.
        body: how many blanks stand before a statement of a method, in no branch.
    """
    inner = sum(len(one) > body for one in ASSIGNMENT.findall(source))
    if len(source) >= LARGE or inner * len(source) <= MOST_COPIED:
        return b""
    return APART + b"#" * (LARGE - len(source) - len(APART))
