"""Generated code, as far as it can be checked without PyTorch's compiler: its syntax and its operators.

TorchScript as PyTorch prints it is Python's syntax, so what Python cannot parse, PyTorch cannot either.
Strings and comments are taken out first: what is wrong in them, :mod:`archive.reader.loading` knows. Each
function or class of a record is parsed on its own, so that the memory is that of the longest.

PyTorch's own operators that 2.13 lacks (:mod:`archive.check.registered`) are refused: by the compiler, and in
bytecode by the lite interpreter. In an archive of an earlier release this is a note, since operators
have gone. ``torch.add(…)`` is ``aten::add``, ``ops.prim.data(…)`` ``prim::data``.

Types and arguments are not checked. The lite interpreter reads no code, so broken code beside bytecode is a
warning.
"""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.diagnostics import Diagnostics
from archive.base.errors import LimitError, one_line
from archive.base.strings import decoded
from archive.check.registered import is_unknown
from archive.formats.bytecode import parse_operators
from archive.formats.record_kinds import BYTECODE, is_code
from archive.formats.releases import LATEST
from archive.reader.loading import Loader
from archive.reader.loading.checks import LEXED
from archive.reader.provenance import provenance

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.base.diagnostics import Severity
    from archive.reader.archive import Archive

CALLED = re.compile(r"(?<![\w.)\]])(?:torch|ops\.(\w+))\.(\w+)\(")
"""A call of an operator."""
PART = re.compile(r"^(?=(?:class|def) )", re.MULTILINE)
"""The beginning of a class or a function."""
OPEN = re.compile("[\"']")
"""What is left of a string that does not end."""
TREE = 250
"""Bytes of memory that each byte of code takes while it is parsed."""
TOO_MANY = "too many"
"""In what Python says of code that is nested deeper than it takes."""
UNCHECKED = "types and arguments in its code"
DEEP = "the syntax of code that is very long or nested"


def check_code(archive: Archive, readable: Collection[str], report: Diagnostics) -> None:
    """Check the generated code, and the operators of bytecode."""
    records = list(filter(readable.__contains__, filter(is_code, archive.records)))
    for record in records:
        report.attempt(record, partial(_check_record, archive, record, report))
    report.looked(len(records), "code record", "checked for syntax and for names of PyTorch's operators")
    if records:
        report.unchecked.append(UNCHECKED)
    unreported = Diagnostics()  # dropped: another check reports bytecode that cannot be read
    if BYTECODE in readable and unreported.attempt(BYTECODE, lambda: archive.bytecode is not None):
        _check_bytecode(archive, report)


def plain_code(code: bytes) -> str:
    """Code with empty strings, and without comments; what is not ASCII elsewhere is an underline each."""

    def plain(token: re.Match[bytes]) -> bytes:
        return b'""' if token["string"] else b"_" if token["other"] else token["open"] or b""

    return LEXED.sub(plain, code).decode("ascii")


def _check_record(archive: Archive, record: str, report: Diagnostics) -> None:
    data = archive.records[record].view()
    with memory.part():
        memory.take(3 * len(data), "code", record=record)
        code = plain_code(bytes(data))
        is_lite = BYTECODE in archive.records
        if not is_lite and OPEN.search(code.replace('""', "")):  # the loader's check reports it
            return
        severity: Severity = "warning" if is_lite else "error"
        broken = _syntax(code, record, report)
        if broken is not None:
            line, problem = broken
            message = f"expected TorchScript, found {problem}; {Loader.TORCHSCRIPT} refuses it"
            report.add(severity, record, f"line {line}", message)
        if is_lite:  # its bytecode names them as well
            return
        unknown = {
            f"{space or 'aten'}::{name}": found.start()
            for found in CALLED.finditer(code)
            for space, name in [found.groups()]
            if is_unknown(space or "aten", name)
        }
        where = {name: f"line {code.count(chr(10), 0, at) + 1}" for name, at in unknown.items()}
        refusal = f'{Loader.TORCHSCRIPT} refuses it: "Unknown builtin op: {{}}"'
        _add_unknown(archive, record, where, refusal, report)


def _syntax(code: str, record: str, report: Diagnostics) -> tuple[int, str] | None:
    """The first line that is not Python's syntax, and what is wrong with it."""
    first = 1
    for part in PART.split(code):
        try:
            with memory.part():
                memory.take(TREE * len(part), "the syntax of code", record=record)
                ast.parse(part)
        except SyntaxError as error:
            if TOO_MANY not in error.msg:
                return first + (error.lineno or 1) - 1, one_line(error.msg)
            _note_deep(report)
        except ValueError as error:  # a zero byte
            return first, one_line(str(error))
        except (LimitError, RecursionError, MemoryError):
            _note_deep(report)
        first += part.count("\n")
    return None


def _note_deep(report: Diagnostics) -> None:
    if DEEP not in report.unchecked:
        report.unchecked.append(DEEP)


def _check_bytecode(archive: Archive, report: Diagnostics) -> None:
    """Look for the operators that instructions call, each at the first method that does."""
    methods = report.attempt(BYTECODE, lambda: parse_operators(archive.tree([BYTECODE]), 0)) or {}
    where: dict[str, str] = {}
    for method, called in methods.items():
        for name in filter(None, dict.fromkeys(called)):
            where.setdefault(decoded(name), f"method {one_line(method)}")
    report.looked(len(where), "operator", "of bytecode looked for among PyTorch's")
    unknown = {name: place for name, place in where.items() if is_unknown(*name.partition("::")[::2])}
    refusal = f'{Loader.LITE} refuses it: "Following ops cannot be found: {{}}"'
    _add_unknown(archive, BYTECODE, unknown, refusal, report)


def _add_unknown(
    archive: Archive, record: str, where: Mapping[str, str], refusal: str, report: Diagnostics
) -> None:
    """Report operators that PyTorch 2.13 lacks, at their places."""
    if not where:
        return
    is_earlier = provenance(archive).last < LATEST
    names, places = list(where), list(where.values())
    report.add_each(
        "note" if is_earlier else "error",
        record,
        "operators that PyTorch 2.13 lacks",
        list(range(len(names))),
        lambda at: (
            places[at],
            f"expected an operator of PyTorch 2.13, found {one_line(names[at])}; {refusal.format(names[at])}",
        ),
    )
