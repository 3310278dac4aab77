"""Which operators print which error messages: what shows that a failure is not that of a given operator.

``families.txt`` was measured with PyTorch 2.13, see ``tools/measure_messages.py``. An operator that was not
measured may print anything; so may custom operators, ``prim::`` ones, which raise the exceptions of a
model's own code, and those that a backend executes.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from archive.verbs.logs.messages import wording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FAMILIES_FILE = "families.txt"
HEADING_LINES = 2  # lines of the table
INTERPRETER_OPERATORS = {
    *("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct", "prim::Constant", "prim::Drop"),
    *("prim::GetAttr", "prim::SetAttr", "prim::If", "prim::Loop", "prim::Return"),
}
"""What the interpreter does itself, without calling an operator: it prints none of their messages."""

MAX_MESSAGE = 2_000  # characters of a message that are looked at
MESSAGE_STARTS = re.compile(r": |\] |\| |- |\t|  ")
MAX_STARTS = 32


class Families(NamedTuple):
    """The table.

    Attributes:
        measured: names of the operators that were measured.
        printed_by: for each wording those of them that print it.
    """

    measured: frozenset[str]
    printed_by: Mapping[str, frozenset[str]]


@cache
def families() -> Families:
    """The table, read when first asked for."""
    text = files("archive.verbs.logs").joinpath(FAMILIES_FILE).read_text("utf-8")
    lines = text.splitlines()[HEADING_LINES:]
    measured = family = frozenset(lines[0].split())
    printed_by: dict[str, frozenset[str]] = {}
    for line in lines[1:]:
        if line.startswith("\t"):
            family = frozenset(line.split())
        else:
            printed_by[line] = family
    return Families(measured, printed_by)


def parts(message: str) -> Iterator[str]:
    """A message, and what may be one in it: behind a logger's prefix, or the name of an exception."""
    yield message
    for count, start in enumerate(MESSAGE_STARTS.finditer(message)):
        if count == MAX_STARTS:
            return
        yield message[start.end() :]


def known_message(line: str) -> str:
    """The message at the end of a line, where one is in the table; else ""."""
    if len(line) > MAX_MESSAGE:
        return ""
    return next((part.strip() for part in parts(line) if wording(part) in families().printed_by), "")


def cannot_print(operator: str, message: str) -> bool:
    """Whether a message is one of other operators only, as measured.

    Args:
        operator: ``aten::linear``.
        message: as :func:`known_message` gives it.
    """
    table = families()
    if operator in INTERPRETER_OPERATORS:
        return wording(message) in table.printed_by
    namespace, _, name = operator.partition("::")
    name = name.partition(".")[0]
    if namespace != "aten" or name not in table.measured:
        return False
    printed_by = table.printed_by.get(wording(message))
    return printed_by is not None and name not in printed_by
