"""The texts of code: words outside of texts are names, texts and comments are values.

Nothing is passed over but numbers, signs and blanks.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN = r"(?=\n)|\\?\Z"
"""Ends an unclosed text, so that no other text is looked for in it."""
QUOTED = rf'"(?:[^"\\\n]|\\.)*+(?:"|{OPEN})' + rf"|'(?:[^'\\\n]|\\.)*+(?:'|{OPEN})"
TRIPLE = r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?' + r"|'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?"
LISTED = r"__(?:parameters|buffers)__ = \[[^\]\n]*+\]|__annotations__\[\"[^\"\n]*+\"\]"
"""Names that TorchScript's code has as texts."""
NAME = r"[^\W\d]\w*+"
PYTHON = re.compile(
    rf"(?P<listed>{LISTED})|(?P<comment>\#[^\n]*+)|(?P<text>(?:[rRbBuUfF]{{1,2}})?(?:{TRIPLE}|{QUOTED}))"
    rf"|(?P<name>{NAME})",
    re.DOTALL,
)
CPP = re.compile(
    rf"(?P<comment>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)|(?P<text>{QUOTED})|(?P<name>{NAME})", re.DOTALL
)
WORD = re.compile(NAME)


def texts_of_code(code: str, *, cpp: bool = False) -> Iterator[tuple[str, str, int]]:
    """Each role, text and position in code of Python, TorchScript or C++."""
    for token in (CPP if cpp else PYTHON).finditer(code):
        what, text, at = str(token.lastgroup), token[0], token.start()
        if what == "text":
            yield "value", _meant(text), at
        elif what == "comment":
            yield "value", text, at
        else:
            for word in WORD.finditer(text):
                yield "name", word[0], at + word.start()


def _meant(literal: str) -> str:
    """The text that a literal of a program stands for; TorchScript writes bytes of UTF-8 as escapes."""
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        value = ast.literal_eval(literal)
        if isinstance(value, bytes):
            return value.decode("utf-8", "backslashreplace")
        if isinstance(value, str):
            with suppress(UnicodeError):
                return value.encode("latin-1").decode() if "\\" in literal else value
            return value
    return literal
