"""Which operators print which error messages: evidence that a failure is not a given operator's.

Messages with the same wording form a row of ``families.txt``, with the operators that print it. The table was
measured with PyTorch 2.13 by ``tools/measure_messages.py``, which calls operators wrongly in many ways. An
operator that was not measured may print anything. So may custom operators, ``prim::`` ones, which raise the
exceptions of a model's own code, and operators that a backend executes.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from archive.failures.messages import wording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FAMILIES_FILE = "families.txt"
HEADING_LINES = 2
"""Lines of the file above the table."""
INTERPRETER_OPERATORS = {
    *("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct", "prim::Constant", "prim::Drop"),
    *("prim::GetAttr", "prim::SetAttr", "prim::If", "prim::Loop", "prim::Return"),
}
"""Done by the interpreter itself, without an operator's call: they print none of the table's messages."""

MAX_MESSAGE = 2_000
"""Characters of a message; longer ones are not looked up."""
MESSAGE_STARTS = re.compile(r": |\] |\| |- |\t|  |\b(?:ERROR|WARN(?:ING)?|INFO|FATAL|CRITICAL) ")
"""Ends of a logger's prefix or level, or of an exception's name, behind which a message may start."""
MAX_STARTS = 32


class Families(NamedTuple):
    """The table of ``families.txt``.

    Attributes:
        measured: the operators that were measured, without namespace and overload.
        printed_by: wording → the measured operators that print it.
    """

    measured: frozenset[str]
    printed_by: Mapping[str, frozenset[str]]


@cache
def families() -> Families:
    """The table, read once.

    A line with a tab before it names operators, and the lines below it are the wordings that they print. The
    first such line names all operators that were measured.
    """
    text = files("archive.failures").joinpath(FAMILIES_FILE).read_text("utf-8")
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
    """A line's text, and its ends that may be messages: behind a logger's prefix or an exception's name."""
    yield message
    for count, start in enumerate(MESSAGE_STARTS.finditer(message)):
        if count == MAX_STARTS:
            return
        yield message[start.end() :]


def known_message(line: str) -> str:
    """The message at the end of a line whose wording is in the table; "" if none is."""
    if len(line) > MAX_MESSAGE:
        return ""
    return next((part.strip() for part in parts(line) if wording(part) in families().printed_by), "")


def cannot_print(operator: str, message: str) -> bool:
    """Whether only other operators print a message, as far as measured.

    Args:
        operator: the operator's name, with or without overload: ``aten::add.Tensor``.
        message: as :func:`known_message` returns it.
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
