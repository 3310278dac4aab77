"""Methods, compared as lines: the instructions of ``bytecode.pkl``, and side effects.

An instruction is a line with its operator or constant.

Numbers that a method's tables give to operators, constants, types and attributes are replaced by what they
stand for, so a new constant changes no line that does not load it. Entries that no instruction names have
lines of their own: defaults of operators, say. The numbers of warnings are PyTorch's counter, and left out.

Side effects differ in what they do, in the places that they name, or in debug handles only.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, shown
from archive.compare.alignment import unified
from archive.compare.changes import added, changed, gone, text_changed
from archive.compare.equality import same_bytes
from archive.compare.pairing import instructions_in_terms_of
from archive.compare.sameness import Level
from archive.compare.values import summary
from archive.formats.bytecode import UNVERSIONED
from archive.formats.effects import EFFECTS
from archive.formats.record_kinds import BYTECODE
from archive.formats.tensors.tensor import Tensor
from archive.pickles.values import Inert
from archive.reader.archive import shared_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.compare.changes import Change
    from archive.compare.pairing import Pairing
    from archive.formats.effects.model import EffectTable
    from archive.reader.archive import Archive

TABLES = {
    "OP": "operators",
    "OPN": "operators",
    "LOADC": "constants",
    "INTERFACE_CALL": "constants",
    "CREATE_OBJECT": "types",
    "ISINSTANCE": "types",
    "TUPLE_CONSTRUCT": "",
    "LIST_CONSTRUCT": "types",
    "DICT_CONSTRUCT": "types",
    "NAMED_TUPLE_CONSTRUCT": "types",
}
"""The table that an instruction's first number is of; PyTorch's ``torch/csrc/jit/runtime/instruction.h``."""
SHARED_TABLES = ("operators", "constants", "types")
REGISTERS = ("LOAD", "MOVE", "STORE", "DROPR")
"""Instructions whose first number is a register. ``STOREN`` has the first of several."""
MOST_REGISTERS = 64
LONGEST = 4096
"""Characters of a constant that a line shows; a longer one has its digest, too."""


# --- instructions


def bytecode_changes(old: Archive, new: Archive, names: Pairing) -> Iterator[Change]:
    """What differs in the methods of the lite interpreter, of two archives that have them."""
    (old_version, was), (new_version, now) = methods(old), methods(new)
    if old_version != new_version:
        yield changed(Level.MODEL, "bytecode", "version", f"{old_version}", f"{new_version}")
    current = {names.old_name(name): (name, text) for name, text in now.items()}
    for name, text in was.items():
        if name not in current:
            yield gone(Level.MODEL, "bytecode", name, _length(text))
            continue
        _, new_text = current[name]
        lines = unified(text, instructions_in_terms_of(text, names.in_old_terms(new_text)))
        if lines.lines:
            yield text_changed(Level.MODEL, "bytecode", name, "instructions", lines)
    for name, (shown_as, text) in current.items():
        if name not in was:
            yield added(Level.MODEL, "bytecode", shown_as, _length(text))


def _length(text: str) -> str:
    return f"{text.count(chr(10)):,} lines of instructions"


def methods(archive: Archive) -> tuple[int, dict[str, str]]:
    """The version of the bytecode and, as lines, each method's instructions and other parts."""
    value = shared_value(archive, BYTECODE)
    if not isinstance(value, tuple):
        raise ArchiveError(file=archive.file, record=BYTECODE, expected="a tuple", found=shown(value))
    version = value[0] if value and isinstance(value[0], int) else UNVERSIONED
    lines = {}
    for method in value[1:] if value and isinstance(value[0], int) else value:
        match method:
            case (str() as name, tuple() as table, *rest):
                pairs = (entry for entry in table if isinstance(entry, tuple) and len(entry) == 2)  # noqa: PLR2004
                tables = {str(key): entries for key, entries in pairs}
                lines[name] = "\n".join(_lines(tables, rest))
            case _:
                raise ArchiveError(
                    file=archive.file, record=BYTECODE, expected="a method", found=shown(method)
                )
    return version, lines


def _lines(table: Mapping[str, object], rest: Sequence[object]) -> Iterator[str]:
    instructions = table.get("instructions")
    rows = instructions if isinstance(instructions, tuple | list) else ()
    memory.take(memory.TEXT * len(rows), "instructions", record=BYTECODE)
    named: set[tuple[str, int]] = set()
    for row in rows:
        match row:
            case (str() as code, int() as first, *others):
                named.add((TABLES.get(code, ""), first))
                yield _line(table, (code, first, *others))
            case _:
                yield shown(row)
    for kind in SHARED_TABLES:
        entries = table.get(kind)
        for at, entry in enumerate(entries if isinstance(entries, tuple | list) else ()):
            if (kind, at) not in named:
                yield f"{kind}, not named: {_entry(kind, entry)}"
    for key, value in table.items():
        if key not in ("instructions", *SHARED_TABLES):
            yield f"{key}: {_plain(value)}"
    yield from (f"schema: {_plain(part)}" for part in rest)


def _line(table: Mapping[str, object], row: tuple[str, int, *tuple[object, ...]]) -> str:
    """An instruction with what its first number stands for."""
    code, number, *others = row
    if code == "STOREN" and isinstance(others[0], int) and others[0] <= MOST_REGISTERS:
        return f"{code} {' '.join(f'%{number + at}' for at in range(others[0]))}"
    first = f"%{number}" if code in REGISTERS else _argument(table, code, number)
    return f"{code} {first} {' '.join(map(shown, others))}".rstrip()


def _argument(table: Mapping[str, object], code: str, number: int) -> str:
    """What the first number of an instruction stands for."""
    if code == "WARN":
        return ""
    kind = TABLES.get(code, "")
    entries = table.get(kind)
    if not isinstance(entries, tuple | list) or not 0 <= number < len(entries):
        return str(number)
    return _entry(kind, entries[number])


def _entry(kind: str, entry: object) -> str:
    """An entry of one of a method's tables."""
    match entry:
        case (name, overload, *arguments) if kind == "operators":
            return f"{name}.{overload}".removesuffix(".") + "".join(
                f" of {argument}" for argument in arguments
            )
    return _plain(entry)


def _plain(value: object) -> str:
    """A constant, a type or a schema on one line."""
    texts: list[str] = []
    stack: list[object] = [value]
    while stack:
        part = stack.pop()
        inner = _inner(part)
        if inner:
            text = ""
        elif isinstance(part, _Between):
            text = part
        else:
            text = summary(part) if isinstance(part, Tensor) else repr(part)
            if len(text) > LONGEST:
                digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
                text = f"{text[:LONGEST]}… sha256 {digest}"
        memory.take(memory.TEXT + len(text), "constants", record=BYTECODE)
        texts.append(text)
        stack += reversed(inner)
    return "".join(texts)


class _Between(str):
    """A text that stands between values."""

    __slots__ = ()


def _inner(value: object) -> list[object]:
    """What is written for a value that holds others; nothing for one that holds none."""
    match value:
        case tuple() | list():
            opening, closing = "()" if isinstance(value, tuple) else "[]"
            parts = [part for item in value for part in (item, _Between(", "))]
        case dict():
            opening, closing = "{", "}"
            parts = [
                part for key, item in value.items() for part in (key, _Between(": "), item, _Between(", "))
            ]
        case Inert():
            opening, closing = "object(", ")"
            parts = [value.what, _Between(", "), value.arguments, _Between(", "), value.state, _Between(", ")]
        case _:
            return []
    return [_Between(opening), *parts[:-1], _Between(closing)]


# --- effects


def effect_changes(old: Archive, new: Archive) -> Iterator[Change]:
    """What differs in the side effects of two archives that have some: one row, or none."""
    was, now = old.effects, new.effects
    if same_bytes(old.records[EFFECTS], new.records[EFFECTS]) or was is None or now is None:
        return
    from archive.formats.effects.parts import without_handles, without_places  # noqa: PLC0415 (few have)
    from archive.formats.effects.record import build_effects  # noqa: PLC0415 (the same)

    if build_effects(without_handles(was)) == build_effects(without_handles(now)):
        yield _effects_changed(Level.IDS, "other debug handles")
    elif build_effects(without_places(was)) == build_effects(without_places(now)):
        yield _effects_changed(Level.DEBUG, "other files or lines of calls")
    else:
        lines = unified(_effects_text(was), _effects_text(now))
        if lines.lines:
            yield text_changed(Level.MODEL, "effects", EFFECTS, "effects", lines)
        else:
            yield _effects_changed(Level.MODEL, "settings that are not in their text")


def _effects_changed(level: Level, what: str) -> Change:
    return changed(level, "effects", EFFECTS, "the same", what)


def _effects_text(table: EffectTable) -> str:
    """Effects as Python, line by line, without places."""
    from archive.formats.effects.source_text import (  # noqa: PLC0415 (few have)
        effect_text,
        graph_text,
        guard_text,
        notes_of,
        source_text,
        value_text,
    )

    lines: list[str] = []
    for method in table.methods:
        lines += [
            f"# {method.method}: out = {graph_text(method)}",
            *(f"# {note}" for note in notes_of(method)),
        ]
        lines += [f"assert {guard_text(guard)}" for guard in method.guards]
        lines += [f"{source_text(name)} = {value_text(value)}  # default" for name, value in method.defaults]
        lines += [*map(effect_text, method.effects), f"return {value_text(method.result)}"]
    lines += [f"{source_text(source)} = {value_text(value)}" for source, value in table.state]
    return "\n".join(lines)
