"""``bytecode.pkl``, compared method by method, as lines: instructions with operators and constants.

Numbers that a method's tables give to operators, constants, types and attributes are replaced by what they
stand for, so a new constant changes no line that does not load it. The numbers of warnings are PyTorch's
counter, and left out.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, shown
from archive.compare.changes import Change, Status, TextChange, changed
from archive.compare.sameness import Level
from archive.compare.unified import unified
from archive.compare.values import summary
from archive.compare.variables import instructions_in_terms_of
from archive.debuginfo.model import Inert, TensorInfo
from archive.formats.bytecode import UNVERSIONED
from archive.formats.record_kinds import BYTECODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.compare.pairing import Pairing
    from archive.reader.archive import Archive

TABLES = {
    "OP": "operators",
    "OPN": "operators",
    "LOADC": "constants",
    "CREATE_OBJECT": "types",
    "ISINSTANCE": "types",
    "TUPLE_CONSTRUCT": "",
    "LIST_CONSTRUCT": "types",
    "DICT_CONSTRUCT": "types",
    "NAMED_TUPLE_CONSTRUCT": "types",
}
"""The table that an instruction's first number is of; PyTorch's ``torch/csrc/jit/runtime/instruction.h``."""
SHARED_TABLES = ("operators", "constants", "types")
VALUE_BYTES = 100
"""Bytes of memory that a value costs as text, besides its characters."""
LINE_BYTES = 200
"""Bytes of memory that an instruction's line costs."""
REGISTERS = ("LOAD", "MOVE", "STORE", "DROPR")
"""Instructions whose first number is a register. ``STOREN`` has the first of several."""
MOST_REGISTERS = 64
LONGEST = 4096
"""Characters of a constant that a line tells; of a longer one, its digest besides."""


def bytecode_changes(old: Archive, new: Archive, names: Pairing) -> Iterator[Change]:
    """What differs in the methods of the lite interpreter, of two archives that have them."""
    (old_version, was), (new_version, now) = methods(old), methods(new)
    if old_version != new_version:
        yield changed(Level.MODEL, "bytecode", "version", f"{old_version}", f"{new_version}")
    current = {names.old_name(name): (name, text) for name, text in now.items()}
    for name, text in was.items():
        if name not in current:
            yield _lone(name, text, Status.GONE)
            continue
        shown_as, new_text = current[name]
        lines = unified(text, instructions_in_terms_of(text, names.in_old_terms(new_text), old.allowance))
        if lines.lines:
            yield TextChange(
                level=Level.MODEL,
                what="bytecode",
                name=shown_as,
                status=Status.CHANGED,
                of="instructions",
                lines=lines.lines,
                added=lines.added,
                gone=lines.gone,
            )
    for name, (shown_as, text) in current.items():
        if name not in was:
            yield _lone(shown_as, text, Status.ADDED)


def _lone(name: str, text: str, status: Status) -> Change:
    lines = f"{text.count(chr(10)):,} lines of instructions"
    old, new = (lines, "") if status is Status.GONE else ("", lines)
    return Change(level=Level.MODEL, what="bytecode", name=name, status=status, old=old, new=new)


def methods(archive: Archive) -> tuple[int, dict[str, str]]:
    """The version of the bytecode, and as lines, each method's instructions and all else that is said of it.

    Raises:
        ArchiveError: the record is no bytecode.
        LimitError: instructions cost more than the file may.
    """
    value = archive.value(BYTECODE)
    if not isinstance(value, tuple):
        raise ArchiveError(file=archive.file, record=BYTECODE, expected="a tuple", found=shown(value))
    version = value[0] if value and isinstance(value[0], int) else UNVERSIONED
    found = {}
    for method in value[1:] if value and isinstance(value[0], int) else value:
        match method:
            case (str() as name, tuple() as table, *rest):
                found[name] = "\n".join(_lines(archive, _entries(table), rest))
            case _:
                raise ArchiveError(
                    file=archive.file, record=BYTECODE, expected="a method", found=shown(method)
                )
    return version, found


def _entries(table: Sequence[object]) -> dict[str, object]:
    return {str(entry[0]): entry[1] for entry in table if isinstance(entry, tuple) and len(entry) == 2}  # noqa: PLR2004 (key and value)


def _lines(archive: Archive, table: Mapping[str, object], rest: Sequence[object]) -> Iterator[str]:
    instructions = table.get("instructions")
    rows = instructions if isinstance(instructions, tuple | list) else ()
    archive.allowance.take(LINE_BYTES * len(rows), "instructions", record=BYTECODE)
    for row in rows:
        match row:
            case (str() as code, int() as first, *others):
                yield _line(archive, table, (code, first, *others))
            case _:
                yield shown(row)
    for key, value in table.items():
        if key not in ("instructions", *SHARED_TABLES):
            yield f"{key}: {_plain(archive, value)}"
    yield from (f"schema: {_plain(archive, one)}" for one in rest)


def _line(archive: Archive, table: Mapping[str, object], row: tuple[str, int, *tuple[object, ...]]) -> str:
    """An instruction with what its first number stands for."""
    code, number, *others = row
    if code == "STOREN" and isinstance(others[0], int) and others[0] <= MOST_REGISTERS:
        return f"{code} {' '.join(f'%{number + at}' for at in range(others[0]))}"
    first = f"%{number}" if code in REGISTERS else _argument(archive, table, code, number)
    return f"{code} {first} {' '.join(map(shown, others))}".rstrip()


def _argument(archive: Archive, table: Mapping[str, object], code: str, number: int) -> str:
    """What the first number of an instruction stands for."""
    if code == "WARN":
        return ""
    entries = table.get(TABLES.get(code, ""))
    if not isinstance(entries, tuple | list) or not 0 <= number < len(entries):
        return str(number)
    entry = entries[number]
    if code in ("OP", "OPN") and isinstance(entry, tuple):
        name, overload, *arguments = entry
        return f"{name}.{overload}".removesuffix(".") + "".join(f" of {one}" for one in arguments)
    return _plain(archive, entry)


def _plain(archive: Archive, value: object) -> str:
    """A constant, a type or a schema on one line.

    Raises:
        LimitError: it is longer than the file may cost: a tuple may hold another one many times.
    """
    found: list[str] = []
    stack: list[object] = [value]
    while stack:
        part = stack.pop()
        inner = _inner(part)
        text = "" if inner else part if isinstance(part, _Mark) else _one(part)
        archive.allowance.take(VALUE_BYTES + len(text), "constants", record=BYTECODE)
        found.append(text)
        stack += reversed(inner)
    return "".join(found)


class _Mark(str):
    """A text that stands between values."""

    __slots__ = ()


def _inner(value: object) -> list[object]:
    """What is written for a value that holds others; nothing for one that holds none."""
    match value:
        case tuple() | list():
            opening, closing = "()" if isinstance(value, tuple) else "[]"
            parts = [part for one in value for part in (one, _Mark(", "))]
        case dict():
            opening, closing = "{", "}"
            parts = [part for key, one in value.items() for part in (key, _Mark(": "), one, _Mark(", "))]
        case Inert():
            opening, closing = "object(", ")"
            parts = [value.what, _Mark(", "), value.arguments, _Mark(", "), value.state, _Mark(", ")]
        case _:
            return []
    return [_Mark(opening), *parts[:-1], _Mark(closing)]


def _one(value: object) -> str:
    """A value that holds no others."""
    text = summary(value) if isinstance(value, TensorInfo) else repr(value)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… sha256 {sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return text
