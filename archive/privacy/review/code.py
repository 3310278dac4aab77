"""The texts of code: words outside of texts are names, texts and comments are values.

Nothing is passed over but signs, blanks, and numbers that are nobody's: see ``spelled``.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from archive.privacy.review.spelled import may_identify, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN = r"(?=\n)|\\?\Z"
"""Ends an unclosed text, so that no other text is looked for in it."""
QUOTED = rf'"(?:[^"\\\n]|\\.)*+(?:"|{OPEN})' + rf"|'(?:[^'\\\n]|\\.)*+(?:'|{OPEN})"
TRIPLE = r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?' + r"|'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?"
LISTED = r"__(?:parameters|buffers)__ = \[[^\]\n]*+\]|__annotations__\[\"[^\"\n]*+\"\]"
"""Names that TorchScript's code has as texts."""
NAME = r"[^\W\d]\w*+"
NUMBER = r"0[xX][\da-fA-F]++|\d[\d_]*+(?:\.\d*+)?(?:[eE][+-]?\d++)?"
PYTHON = re.compile(
    rf"(?P<listed>{LISTED})|(?P<comment>\#[^\n]*+)|(?P<text>(?:[rRbBuUfF]{{1,2}})?(?:{TRIPLE}|{QUOTED}))"
    rf"|(?P<name>{NAME})|(?P<number>{NUMBER})",
    re.DOTALL,
)
CPP = re.compile(
    rf"(?P<comment>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)|(?P<text>{QUOTED})"
    rf"|(?P<name>{NAME})|(?P<number>{NUMBER})",
    re.DOTALL,
)
WORD = re.compile(NAME)
BETWEEN_ITEMS = re.compile(r"[\s,:]*+")
WHOLE = re.compile(r"0[xX][\da-fA-F]{1,99}|(\d[\d_]{0,99}+)(?:\.0*+)?")
"""A whole number, perhaps as a float."""


def texts_of_code(code: str, *, cpp: bool = False) -> Iterator[tuple[str, str, int]]:
    """Each role, text and position in code of Python, TorchScript or C++."""
    run: list[Any] = []
    run_at = end = 0
    for token in (CPP if cpp else PYTHON).finditer(code):
        what, text, at = str(token.lastgroup), token[0], token.start()
        if run and (what not in {"text", "number"} or BETWEEN_ITEMS.fullmatch(code, end, at) is None):
            yield from (("value", one, run_at) for one in spelled(run))
            run = []
        run_at, end = at if not run else run_at, token.end()
        if what == "text":
            run.append(_meant(text))
            yield "value", run[-1], at
        elif what == "number":
            number = WHOLE.fullmatch(text)
            run.append(int(number[1] or text, 10 if number[1] else 16) if number else None)
            if number and may_identify(run[-1]):
                yield "value", text.replace("_", ""), at
        elif what == "comment":
            yield "value", text, at
        else:
            for word in WORD.finditer(text):
                yield "name", word[0], at + word.start()
    yield from (("value", one, run_at) for one in spelled(run))


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
