"""Checks of generated code that PyTorch writes, and that its own lexer refuses.

PyTorch writes a name that is not ASCII unchanged, or as a string with broken escapes in
``getattr(self, "…")``. ``torch.jit.load`` reads neither: see ``lexer.h`` and ``parse_string_literal.h`` in
``torch/csrc/jit/frontend/``. The lite interpreter reads no code, so its archives are not checked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.formats.bytecode import BYTECODE
from archive.formats.record_kinds import is_code
from archive.verbs.loading.facts import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.verbs.loading.facts import ParsedRecords

LEXED = re.compile(
    rb"#[^\n]*"
    rb'|(?P<string>"""(?:\\.|[^\\])*?"""'
    rb"|'''(?:\\.|[^\\])*?'''"
    rb'|"(?:\\.|[^"\\\n])*"'
    rb"|'(?:\\.|[^'\\\n])*')"
    rb"|(?P<other>[^\x00-\x7f]+)",
    re.DOTALL,
)
ESCAPE = re.compile(rb"\\(?:(?P<known>[\\'\"\nabfnvtxuU]|[0-3][0-7]{2})|.)", re.DOTALL)
"""Any escape. ``x``, ``u`` and ``U`` count as known: PyTorch refuses them with another message."""


def names(facts: ParsedRecords) -> Iterator[Fault]:
    """Names outside of ASCII."""
    for record, code in _codes(facts):
        if not code.isascii():
            found = [one.start() for one in LEXED.finditer(code) if one["other"]]
            yield Fault(
                record,
                "names that are not ASCII",
                found,
                lambda byte: (f"byte {byte}", "a name that is not ASCII"),
            )


def escapes(facts: ParsedRecords) -> Iterator[Fault]:
    """Escapes that are neither known letters nor three octal digits up to 377."""
    for record, code in _codes(facts):
        if b"\\" in code:
            strings = (one for one in LEXED.finditer(code) if one["string"])
            found = [
                string.start() + escape.start()
                for string in strings
                for escape in ESCAPE.finditer(string[0])
                if not escape["known"]
            ]
            yield Fault(
                record,
                "broken escapes in strings",
                found,
                lambda byte: (f"byte {byte}", "a broken escape in a string"),
            )


def _codes(facts: ParsedRecords) -> Iterator[tuple[str, bytes]]:
    """Names and contents of code records; none in an archive for the lite interpreter."""
    if BYTECODE not in facts.archive.records:
        for name in filter(is_code, facts.readable):
            yield name, bytes(facts.archive.records[name].view())
