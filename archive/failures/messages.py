"""Error messages: their wording, and which operators print it.

If an operator does not print the message of a failure, that is evidence that another operator failed. All
kinds of failures whose lines don't name the operator ask it here (:func:`contradicted`): debug handles of
instructions, and frames without a statement. Where a log names the operator itself, it did print the message.

Messages with the same wording form a row of ``families.txt``, with the operators that print it. The table was
measured with PyTorch 2.13 by ``tools/measure_messages.py``, which calls operators wrongly in many ways; an
operator prints what those print that it calls. An operator that wasn't measured may print anything. So may
custom operators, and ``prim::`` ones, which raise the exceptions of the model's own code.

A backend has words of its own and may run several operations as one: no message contradicts a handle or node
that it runs.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.failures.log.forms import LEVEL_WORD
from archive.formats.exported.loaded import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# --- wording

# Not the digits in names (``conv2d``), but those in ``4x5`` and ``2D``.
NUMERAL = re.compile(
    r"(?<![\w.])-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)(?=\W|x\d|D\b|$)|(?<=\dx)\d+",
)
NUMERALS = re.compile(r"#(?:(?:, ?|x| x )#)+,?")
BRACKETED = re.compile(r"\[#?\]|\(#\)")
COMPLEX_TYPE = re.compile(r"(?:c10::)?[Cc]omplex<[\w:]+>")
SCALAR_TYPE = re.compile(
    r"\b(?:c10::|torch\.|std::)?(?:CPU|Meta|SparseCPU|QuantizedCPU)?"
    r"(?:ComplexHalf|ComplexFloat|ComplexDouble|complex\d+|BFloat16|bfloat16|Float8\w+|Float|Double|Half"
    r"|Long|Int|Short|Char|Byte|Bool|QInt8|QUInt8|QInt32|float\d*|double|half|long long|long int|long|int\d*"
    r"|short int|short|signed char|unsigned char|char|byte|uint8_t|int\d+_t|bool|quint8|qint8|qint32)"
    r"(?:Tensor|Type)?\b"
)
DEVICE_WORD = re.compile(r"\b(?:cpu|cuda|meta|vulkan|mps|xpu)(?::\d+)?\b")


@lru_cache(maxsize=1024)
def wording(message: str) -> str:
    """A message with ``#`` for numbers and lists of them, ``<T>`` for types and ``<D>`` for devices."""
    text = DEVICE_WORD.sub("<D>", SCALAR_TYPE.sub("<T>", COMPLEX_TYPE.sub("<T>", message)))
    return BRACKETED.sub("#", NUMERALS.sub("#", NUMERAL.sub("#", text))).strip()


# --- operators

FAMILIES_FILE = "families.txt"
HEADING_LINES = 2
"""Lines of the file above the table."""
INTERPRETER_OPERATORS = {
    *("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct", "prim::Constant", "prim::Drop"),
    *("prim::GetAttr", "prim::SetAttr", "prim::If", "prim::Loop", "prim::Return", "prim::Param"),
    *("prim::CreateObject", "operator.getitem", "_operator.getitem"),
}
"""Done by an interpreter itself, without calling an operator: they print none of the table's messages.

Programs fetch items of tuples and lists by Python's own operator.
"""
MAX_MESSAGE = 2_000
"""Characters of a message; longer ones are not looked up."""
MAX_SHOWN = 100
"""Characters of a message in a note."""
MESSAGE_STARTS = re.compile(rf": |\] |\| |- |\t|  |\b(?:{LEVEL_WORD.decode()}) ")
"""Ends of a logger's prefix or level, or of an exception's name, after which a message may start."""
MAX_STARTS = 32
REFUSED_METHOD = re.compile(r"\bDeclaration: (?P<method>__torch__\.[\w.]{1,400})\(")
"""Ends what PyTorch prints where it refuses the arguments of a method, as ``FunctionSchema`` checks them."""
EXCEPTION = re.compile(rb"[\w.]*(?:Error|Exception): (?P<message>.*\S)")

ELEMENT_END = re.compile(rb"</(?:failure|error|system-out|system-err)>.*")
"""Behind the message of a test's failure in JUnit's XML."""


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
    """A line's text, and its ends that may be messages: after a logger's prefix or an exception's name."""
    yield message
    for count, start in enumerate(MESSAGE_STARTS.finditer(message)):
        if count == MAX_STARTS:
            return
        yield message[start.end() :]


def message_of(line: bytes) -> str:
    """The message in an exception's line, as it stands below a traceback; "" in another line.

    >>> message_of(b"RuntimeError: no product"), message_of(b"started")
    ('no product', '')
    """
    exception = EXCEPTION.match(ELEMENT_END.sub(b"", line))
    return decoded(exception["message"][:MAX_MESSAGE]) if exception else ""


def lone_message(line: str) -> str:
    """A line that may be a message as a whole; "" where a logger's words may stand before one.

    >>> lone_message("Unwrapping null optional"), lone_message("E pytorch: Unwrapping null optional")
    ('Unwrapping null optional', '')
    """
    return "" if len(line) > MAX_MESSAGE or MESSAGE_STARTS.search(line.strip()) else line.strip()


@lru_cache(maxsize=1024)
def known_message(line: str) -> str:
    """The message at the end of a line whose wording is in the table; "" if none is."""
    if len(line) > MAX_MESSAGE:
        return ""
    return next((part.strip() for part in parts(line) if wording(part) in families().printed_by), "")


def refused_method(line: str) -> str:
    """The method whose arguments a message refuses, from the message's last line; "" in another line.

    PyTorch checks them before the first operation of the method: too many, of another type, or missing. Each
    of the three texts ends with the method's declaration.

    >>> refused_method("but received 5. Declaration: __torch__.Net.forward(__torch__.Net self) -> int")
    '__torch__.Net.forward'
    """
    match = REFUSED_METHOD.search(line)
    return match["method"] if match else ""


@lru_cache(maxsize=1024)
def cannot_print(operator: str, message: str) -> bool:
    """Whether only other operators print a message, as far as measured.

    Args:
        operator: its name, with or without overload, as TorchScript or as a program has it:
            ``aten::add.Tensor``, ``torch.ops.aten.add.Tensor``.
        message: as :func:`known_message` returns it.
    """
    table = families()
    printed_by = table.printed_by.get(wording(message))
    if printed_by is None:
        return False
    if operator in INTERPRETER_OPERATORS:
        return True
    name = _measured_name(operator)
    return bool(name) and name not in printed_by


@lru_cache(maxsize=1024)
def prints(operator: str, message: str) -> bool:
    """Whether an operator is known to print a message; the arguments are those of :func:`cannot_print`."""
    return _measured_name(operator) in families().printed_by.get(wording(message), ())


def contradicted(operator: str, message: str) -> str:
    """What rules out that an operator printed a message, in words; "" where it may have.

    The arguments are those of :func:`cannot_print`; "" is no message.

    >>> contradicted("torch.ops.aten.relu.default", "index out of range in self")
    "aten.relu.default does not print 'index out of range in self'"
    """
    if not message or not cannot_print(operator, message):
        return ""
    return f"{operator.removeprefix(OPERATORS)} does not print {message[:MAX_SHOWN]!r}"


def _measured_name(operator: str) -> str:
    """The name of a measured operator without namespace and overload; "" of another one."""
    namespace, _, name = operator.removeprefix(OPERATORS).replace("::", ".", 1).partition(".")
    name = name.partition(".")[0]
    return name if namespace == "aten" and name in families().measured else ""
