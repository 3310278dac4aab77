"""Debug records read the slow way, as an oracle: pickletools, a plain stack machine, plain Python rows.

Nothing of the library is used in here. Texts are bytes; a tuple read twice from the memo is one object,
so that ``is`` tells shared values from equal ones.
"""

from __future__ import annotations

import io
import pickletools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Value: TypeAlias = Any  # whatever a pickle may hold

PROTOCOL = 2
MARKER = b"FORMAT_WITH_STRING_TABLE"
OPCODES = {op.code: op for op in pickletools.opcodes}
LENGTHS = {"BINUNICODE": 4, "BINUNICODE8": 8}
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
NOTHING = object()
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}


@dataclass(frozen=True)
class Name:
    """A global that nobody looks up."""

    module: str
    name: str


@dataclass(eq=False)
class Dict:
    """A dict as its keys and values in turn, in the order they came."""

    items: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Made:
    """What a call would make (REDUCE, NEWOBJ), and the state it was given (BUILD), or NOTHING."""

    how: str
    what: Value
    arguments: Value
    state: Value = NOTHING


@dataclass(eq=False)
class Persistent:
    """What a persistent id stands for."""

    identity: Value


class RefusedError(Exception):
    """A pickle that the stack machine does not take."""


def instructions(data: bytes) -> Iterator[tuple[str, Value, int]]:
    """As ``pickletools.genops``, but texts stay bytes, which need not be UTF-8, and globals are names."""
    file = io.BytesIO(data)
    while True:
        at = file.tell()
        op = OPCODES[file.read(1).decode("latin-1")]
        if op.name in LENGTHS:
            length = int.from_bytes(file.read(LENGTHS[op.name]), "little")
            yield op.name, file.read(length), at
        elif op.name == "GLOBAL":
            yield op.name, Name(*(_line(file) for _ in range(2))), at
        else:
            yield op.name, op.arg.reader(file) if op.arg else None, at
        if op.name == "STOP":
            return


def _line(file: io.BytesIO) -> str:
    return file.readline()[:-1].decode("utf-8", "backslashreplace")


def load(data: bytes) -> Value:
    """The value of a pickle, by a stack machine that knows PyTorch's opcodes and calls nothing."""
    machine = _Machine()
    for name, argument, _ in instructions(data):
        if name == "STOP":
            break
        machine.step(name, argument)
    if [len(level) for level in machine.levels] != [1]:
        raise RefusedError("more or less than one value at STOP")
    return machine.levels[0][0]


class _Machine:
    """The values above each MARK, and the memo."""

    def __init__(self) -> None:
        self.levels: list[list[Value]] = [[]]
        self.memo: dict[int, Value] = {}

    def to_mark(self) -> list[Value]:
        if len(self.levels) == 1:
            raise RefusedError("no MARK")
        return self.levels.pop()

    def take(self, count: int) -> list[Value]:
        level = self.levels[-1]
        if len(level) < count:
            raise RefusedError("too few values")
        values = level[len(level) - count :]
        del level[len(level) - count :]
        return values

    @property
    def top(self) -> Value:
        if not self.levels[-1]:
            raise RefusedError("no value on top")
        return self.levels[-1][-1]

    def step(self, name: str, argument: Value) -> None:
        if name == "PROTO":
            if argument != PROTOCOL or self.levels != [[]]:
                raise RefusedError("PROTO")
        elif name == "MARK":
            self.levels.append([])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.top
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "BUILD"):
            self.fill(name)
        else:
            value = self.value(name, argument)
            self.levels[-1].append(value)

    def fill(self, name: str) -> None:
        """Instructions that leave what they fill."""
        values = self.to_mark() if name.endswith("S") else self.take(2 if name == "SETITEM" else 1)
        target = self.top
        if isinstance(target, Made) and name == "BUILD":
            (target.state,) = values
        elif isinstance(target, Dict) and name.startswith("SET"):
            target.items += values
        elif isinstance(target, list) and name.startswith("APP"):
            target += values
        else:
            raise RefusedError(f"{name} of {target}")

    def value(self, name: str, argument: Value) -> Value:
        """Instructions that leave a value of their own."""
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in TUPLES:
            return tuple(self.take(TUPLES[name]))
        if name == "TUPLE":
            return tuple(self.to_mark())
        if name in ("EMPTY_LIST", "LIST"):
            return self.to_mark() if name == "LIST" else []
        if name in ("EMPTY_DICT", "DICT"):
            return Dict(self.to_mark() if name == "DICT" else [])
        if name in ("BINGET", "LONG_BINGET"):
            if argument not in self.memo:
                raise RefusedError(f"no memo entry {argument}")
            return self.memo[argument]
        if name in ("REDUCE", "NEWOBJ"):
            return Made(name, *self.take(2))
        if name == "BINPERSID":
            return Persistent(*self.take(1))
        if name not in ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "GLOBAL", *LENGTHS):
            raise RefusedError(name)
        return argument


class RangeRow(NamedTuple):
    """A row of source ranges. ``source`` is one number for one source object."""

    offset: int
    text: bytes
    filename: bytes | None
    line: int
    start: int
    end: int
    tag: int
    source: int
    is_null: bool


def source_ranges(data: bytes) -> list[RangeRow]:
    """The rows of a ``.debug_pkl``, whatever its layout."""
    top = load(data)
    table: tuple[bytes, ...] | None = None
    if len(top) == 3 and top[0] == MARKER:
        _, table, top = top
    numbers: dict[int, int] = {}
    rows = []
    for row in top:
        span = row[2] if isinstance(row[1], int) else row[1]
        (source, start, end), offset = span, row[0]
        (tag,) = (field for field in row[1:] if field is not span) if len(row) == 3 else (-1,)
        number = numbers.setdefault(id(source), len(numbers))
        rows.append(RangeRow(offset, *_source(source, table), start, end, tag, number, _is_null(source)))
    return rows


def _source(source: Value, table: tuple[bytes, ...] | None) -> tuple[bytes, bytes | None, int]:
    text, filename, line = source
    if table is None:
        return text, filename, line
    return b"".join(table[index] for index in _intlist(text)), table[filename], line


def _is_null(source: Value) -> bool:
    text, filename, line = source
    return (text == b"" and filename == b"" and line == 0) or (
        isinstance(text, Made) and (_intlist(text), filename, line) == ([], 0, 0)
    )


def _intlist(value: Made) -> list[int]:
    assert value.what == Name("torch.jit._pickle", "build_intlist")
    (items,) = value.arguments
    return list(items)


class Call(NamedTuple):
    """A frame of a call stack."""

    module: tuple[bytes, bytes] | None
    tag: int
    function: bytes | None


class HandleRow(NamedTuple):
    """A row of a call-stack map. ``nodes`` is one number for each stack object on the way."""

    handle: int
    tag: int
    op: bytes | None
    stack: tuple[Call, ...]
    nodes: tuple[int, ...]


def callstack_map(data: bytes) -> list[HandleRow]:
    """The rows of a ``callstack_debug_map.pkl``, of either generation."""
    numbers: dict[int, int] = {}
    rows = []
    for row in load(data):
        handle, tag, op, stack = row if len(row) == 4 else (row[0], row[1], None, row[2])
        calls: list[Call] = []
        nodes: list[int] = []
        while stack is not None:
            nodes.append(numbers.setdefault(id(stack), len(numbers)))
            module, call_tag, inner, function = stack if len(stack) == 4 else (*stack, None)
            calls.append(Call(module, call_tag, function))
            stack = inner
        rows.append(HandleRow(handle, tag, op, tuple(calls), tuple(nodes)))
    return rows


def methods(data: bytes) -> tuple[int, list[tuple[bytes, list[Value]]]]:
    """Version, and each method's list, of ``mobile_debug.pkl`` and ``mobile_debug_handles.pkl``."""
    version, *rows = load(data)
    found = []
    for name, ((key, value),) in rows:
        if key == b"function_debug_handles":
            found.append((name, _intlist(value[0])))
        else:
            assert key == b"module_debug_info"
            found.append((name, list(value)))
    return version, found


def bytecode(data: bytes) -> tuple[int, dict[str, list[bytes]]]:
    """Version of a ``bytecode.pkl``, and for each method the operator that each instruction calls, or b""."""
    top = load(data)
    version, rows = (top[0], top[1:]) if top and type(top[0]) is int else (3, top)
    called = {}
    for name, table, *_ in rows:
        operators = _entry(table, b"operators")
        called[name.decode("utf-8", "backslashreplace")] = [
            operators[number][0] if code in (b"OP", b"OPN") else b""
            for code, number, *_ in _entry(table, b"instructions")
        ]
    return version, called


def _entry(table: Value, wanted: bytes) -> Value:
    return next(value for key, value, *_ in table if key == wanted)
