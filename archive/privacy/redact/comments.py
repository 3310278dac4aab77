"""Lines of Python without their comments: those of a module, of a function, or a single one."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKEN = re.compile(
    rb'"""(?:[^\\]|\\.)*?(?:"""|\Z)'
    rb"|'''(?:[^\\]|\\.)*?(?:'''|\Z)"
    rb'|"(?:[^"\\\n]|\\.)*"?'
    rb"|'(?:[^'\\\n]|\\.)*'?"
    rb"|(?P<comment>#)[^\n]*",
    re.DOTALL,
)
"""A text in quotes, in which a # begins no comment, or a comment."""


def without_comments(lines: Sequence[bytes]) -> list[bytes]:
    """Lines with blanks in the place of comments; each keeps its length."""
    text = b"\n".join(lines)
    starts = [found.start() for found in TOKEN.finditer(text) if found["comment"]]
    if not starts:
        return list(lines)
    first, made = [0, *accumulate(len(line) + 1 for line in lines)], list(lines)
    at = 0
    for start in starts:
        while first[at + 1] <= start:
            at += 1
        column = start - first[at]
        made[at] = lines[at][:column] + b" " * (len(lines[at]) - column)
    return made


def comment_of(line: bytes, bare: bytes) -> bytes:
    """What a line has in the place of its last blanks."""
    return line[len(bare.rstrip()) :].strip() if line != bare else b""
