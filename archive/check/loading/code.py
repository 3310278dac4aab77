"""Checks of generated code for what PyTorch's own lexer refuses.

PyTorch writes a name that is not ASCII unchanged, or as a string with broken escapes in
``getattr(self, "…")``. ``torch.jit.load`` reads neither, nor a string that does not end: see ``lexer.h`` and
``parse_string_literal.h`` in ``torch/csrc/jit/frontend/``. The lite interpreter reads no code, so its
archives are not checked.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from archive.check.loading.facts import Fault
from archive.formats.bytecode import BYTECODE
from archive.formats.record_kinds import is_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.check.loading.facts import ParsedRecords

LEXED = re.compile(
    rb"#[^\n]*"
    rb'|(?P<string>"""(?:\\.|[^\\])*?"""'
    rb"|'''(?:\\.|[^\\])*?'''"
    rb'|"(?!"")(?:\\.|[^"\\\n])*+"'
    rb"|'(?!'')(?:\\.|[^'\\\n])*+')"
    rb"|(?P<open>[\"'])"
    rb"|(?P<other>[^\x00-\x7f]+)",
    re.DOTALL,
)
"""Comments, strings, the quote of a string that does not end, and bytes that are not ASCII."""
REFUSED = (
    ("names that are not ASCII", "a name that is not ASCII", "other"),
    ("strings that do not end", "a string that does not end", "open"),
)
"""What PyTorch's lexer takes for no token: its plural, one of them, and its group in ``LEXED``."""
ESCAPE = re.compile(rb"\\(?:(?P<known>[\\'\"\nabfnvtxuU]|[0-3][0-7]{2})|.)", re.DOTALL)
"""Any escape. ``x``, ``u`` and ``U`` count as known: PyTorch refuses them with another message."""


def tokens(facts: ParsedRecords) -> Iterator[Fault]:
    """Names outside of ASCII, and strings that do not end."""
    for record, code in _codes(facts):
        lexed = [one for one in _lexed(code) if one["other"] or one["open"]]
        for what, problem, kind in REFUSED:
            found = [one.start() for one in lexed if one[kind]]
            yield Fault(record, what, found, partial(_at, problem))


def escapes(facts: ParsedRecords) -> Iterator[Fault]:
    """Escapes that are neither known letters nor three octal digits up to 377."""
    for record, code in _codes(facts):
        if b"\\" in code:
            strings = (one for one in _lexed(code) if one["string"])
            found = [
                string.start() + escape.start()
                for string in strings
                for escape in ESCAPE.finditer(string[0])
                if not escape["known"]
            ]
            what, problem = "broken escapes in strings", "a broken escape in a string"
            yield Fault(record, what, found, partial(_at, problem))


def _lexed(code: bytes) -> Iterator[re.Match[bytes]]:
    """What ``LEXED`` finds, up to the first string that does not end: there PyTorch's lexer stops, too."""
    for one in LEXED.finditer(code):
        yield one
        if one["open"]:
            return


def _at(problem: str, byte: int) -> tuple[str, str]:
    return f"byte {byte}", problem


def _codes(facts: ParsedRecords) -> Iterator[tuple[str, bytes]]:
    """Names and contents of code records; none in an archive for the lite interpreter."""
    if BYTECODE not in facts.archive.records:
        for name in filter(is_code, facts.readable):
            yield name, bytes(facts.archive.records[name].view())
