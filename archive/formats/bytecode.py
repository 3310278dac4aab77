"""``bytecode.pkl``: the methods of the lite interpreter. Read for names, instructions and operators.

``(version, (method, (("instructions", ((op, x, n), ...)), ("operators", ((name, overload, ...), ...)), ...),
...), ...)``. The instructions ``OP`` and ``OPN`` call operator x. PyTorch 1.5 and 1.6 wrote no version;
readers assume 3.

Most readers want the names and counts, or one instruction out of many. So methods and their tables are read
one by one, and only the instructions of a table as columns.

- Written by ``ScriptModuleSerializer::writeByteCode`` (``torch/csrc/jit/serialization/export_module.cpp``).
- Read by ``BytecodeDeserializer::parseMethods`` (``torch/csrc/jit/mobile/import.cpp``), instructions by
  ``parseInstructions`` (``torch/csrc/jit/mobile/parse_bytecode.cpp``).
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.columns import distinct_values
from archive.base.limits import DEFAULT_LIMITS
from archive.base.quick_dataclass import dataclass
from archive.base.strings import charged
from archive.formats.record_kinds import BYTECODE
from archive.formats.schema.pickled import (
    Int,
    Keyed,
    Opening,
    PickleMismatch,
    Sequence,
    String,
    Value,
    at_byte,
    first_item,
)
from archive.pickles.ops import ValueKind
from archive.pickles.write import integer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.base.columns import Ints
    from archive.formats.schema.pickled import Ragged
    from archive.pickles.tree import Tree

UNVERSIONED = 3
WARN = b"WARN"
CALLING = (b"OP", b"OPN")
INTERFACE_CALL = b"INTERFACE_CALL"
MAX_NAME = DEFAULT_LIMITS.name_bytes
"""Bytes of an opcode or a method's name; longer ones are ignored."""

TEXT = String("a text")
INSTRUCTION = Opening(
    "an instruction",
    opcode=TEXT * "OP, LOAD, RET, ... (OpCode)",
    x=Value() * "an int, by opcode: for OP and OPN the number of an operator, for LOADC of a constant",
)
OPERATOR = Opening("an operator: name and overload", name=TEXT * "aten::add", overload=Value() * "Tensor")
TABLE = Keyed(
    "a method",
    instructions=Sequence(INSTRUCTION, expected="instructions") * "in the order of their numbers",
    operators=Sequence(OPERATOR, expected="operators") * "that the instructions call",
    constants=Sequence(Value()) * "that the instructions load or name",
)
METHOD = Opening("a method: name and table", name=TEXT * "its qualified name", table=TABLE)
VERSIONED_METHODS = Sequence(METHOD, head=Int(), expected="a tuple of methods")
UNVERSIONED_METHODS = Sequence(METHOD, expected="a tuple of methods")


@dataclass(frozen=True, slots=True)
class Bytecode:
    """The version of the bytecode, and the number of instructions of each method."""

    version: int
    instructions: Mapping[str, int]


def parse_bytecode(tree: Tree, pickle: int) -> Bytecode:
    """The methods of one record of a tree."""
    counts: dict[int, int] = {}  # by table: methods may share one
    instructions = {}
    with at_byte(tree):
        version, methods = _methods(tree, pickle)
        for name, table in _named(tree, methods):
            if table not in counts:
                counts[table] = len(TABLE.nodes(tree, table, "instructions"))
            instructions[name] = counts[table]
    return Bytecode(version, instructions)


def parse_operators(tree: Tree, pickle: int) -> dict[str, list[bytes]]:
    """For each method, the operator that each instruction calls; b"" where it calls none."""
    with at_byte(tree):
        tables = dict(_named(tree, _methods(tree, pickle)[1]))
        distinct = list(dict.fromkeys(tables.values()))
        called = dict(zip(distinct, _called(tree, distinct), strict=True))
    return {name: called[table] for name, table in tables.items()}


def renumber_warnings(tree: Tree, pickle: int) -> bytes:
    """The record with its warnings numbered from 0 in their order.

    PyTorch numbers them by a counter of its process, which nothing reads; so saving a model twice gives
    different numbers.
    """
    data = bytes(tree.tokens.pickles[pickle].data)
    with at_byte(tree):
        tables = [METHOD.nodes(tree, method)[1] for method in _methods(tree, pickle)[1]]
        rows = _rows(tree, tables, "instructions").items
        warnings = rows["x"][_are(tree, rows["opcode"], (WARN,))]
    pieces, end = [], 0
    for count, node in enumerate(dict.fromkeys(warnings.tolist())):
        start, after = (int(at - tree.tokens.base[pickle]) for at in tree.tokens.at[node : node + 2])
        pieces += [data[end:start], integer(count)]
        end = after
    return b"".join([*pieces, data[end:]])


def _methods(tree: Tree, pickle: int) -> tuple[int, memoryview]:
    """The version, and the methods."""
    root = int(tree.roots[pickle])
    first = first_item(tree, root)
    if first is not None and tree.kind(first) == ValueKind.INT:
        return int(tree.value[first]), VERSIONED_METHODS.nodes(tree, root)
    return UNVERSIONED, UNVERSIONED_METHODS.nodes(tree, root)


def _named(tree: Tree, methods: memoryview) -> Iterator[tuple[str, int]]:
    """The name and the table of each method."""
    names: dict[int, str] = {}  # by their strings: methods may share one
    for method in methods:
        name, table = METHOD.nodes(tree, method)
        string = TEXT.index(tree, name)
        if string not in names:
            memory.take(memory.ROW, "methods", record=BYTECODE)
            names[string] = charged(tree.strings.data(string))
        yield names[string], table


def _called(tree: Tree, tables: list[int]) -> list[list[bytes]]:
    """The operator of each instruction of each table."""
    operators = _rows(tree, tables, "operators")
    names = {-1: b""}
    for string in operators.items["name"].tolist():
        if string not in names:
            written = tree.strings.data(string)
            memory.take(memory.TEXT + len(written), "operators", record=BYTECODE)
            names[string] = bytes(written)
    instructions = _rows(tree, tables, "instructions")
    codes, x = instructions.items["opcode"], instructions.items["x"]
    memory.take(memory.TEXT * len(codes), "instructions", record=BYTECODE)
    sizes = np.diff(instructions.first)
    low, most = (np.repeat(each, sizes) for each in (operators.first[:-1], np.diff(operators.first)))
    calling = _are(tree, codes, CALLING)
    wrong = calling & (~tree.are(x, ValueKind.INT) | (tree.value[x] < 0) | (tree.value[x] >= most))
    if wrong.any():
        raise PickleMismatch(0, f"one of {int(most[wrong][0])} operators", int(x[wrong][0]))
    strings = np.full(len(codes), -1, np.int64)
    strings[calling] = operators.items["name"][low[calling] + tree.value[x[calling]]]
    called = [names[string] for string in strings.tolist()]
    return [called[begin:end] for begin, end in pairwise(instructions.first.tolist())]


def _rows(tree: Tree, tables: list[int], key: str) -> Ragged:
    """The columns of what each table has under a key."""
    nodes = np.array([TABLE.node(tree, table, key) for table in tables], np.int64)
    return TABLE.fields[key].take(tree, nodes)


def _are(tree: Tree, codes: Ints, opcodes: tuple[bytes, ...]) -> np.ndarray:
    """Which of some strings are among these opcodes."""
    strings = distinct_values(codes)
    return np.array([bytes(tree.strings.data(code)) in opcodes for code in strings.tolist()], bool)[
        np.searchsorted(strings, codes)
    ]


class LiteInstruction(NamedTuple):
    """An instruction: its opcode, and the name of the method that it calls through an interface, or b""."""

    opcode: bytes
    calls: bytes


class InstructionTable:
    """The instructions of each method, each looked up in the pickle's columns when it is asked for.

    Explaining a log needs few of them, and of these only the opcode and the called method. No constant is
    followed, however deep it is. Whatever is not as declared counts as missing rather than as an error.

    Args:
        pickle: the number of the bytecode among them.
    """

    def __init__(self, tree: Tree, pickle: int) -> None:
        self._tree = tree
        self._tables: dict[bytes, int] = {}  # by name; the last one of equal names
        self._parts: dict[tuple[int, str], memoryview] = {}
        with suppress(PickleMismatch):
            methods = _methods(tree, pickle)[1]
            memory.take(memory.TEXT * len(methods), "entries of bytecode", record=BYTECODE)
            for method in dict.fromkeys(methods):
                with suppress(PickleMismatch):
                    name, table = METHOD.nodes(tree, method)
                    self._tables[self._text(name)] = table

    def at(self, method: bytes, number: int) -> LiteInstruction | None:
        """An instruction, by its method's qualified name and its number; None where there is none."""
        if method not in self._tables:
            return None
        instructions = self._part(self._tables[method], "instructions")
        if not 0 <= number < len(instructions):
            return None
        try:
            code, x = INSTRUCTION.nodes(self._tree, instructions[number])
        except PickleMismatch:
            return None
        opcode = self._text(code)
        return LiteInstruction(opcode, self._constant(method, x) if opcode == INTERFACE_CALL else b"")

    def _constant(self, method: bytes, x: int) -> bytes:
        """A constant that is a text, by the integer that an instruction names it with; b"" for others."""
        constants = self._part(self._tables[method], "constants")
        number = int(self._tree.value[x]) if self._tree.kind(x) == ValueKind.INT else -1
        return self._text(constants[number]) if 0 <= number < len(constants) else b""

    def _part(self, table: int, key: str) -> memoryview:
        """The values under a key of a method's table; empty where it is not as declared."""
        if (table, key) not in self._parts:
            try:
                self._parts[table, key] = TABLE.nodes(self._tree, table, key)
            except PickleMismatch:
                self._parts[table, key] = memoryview(b"")
        return self._parts[table, key]

    def _text(self, node: int) -> bytes:
        """A node's text; b"" for other kinds, and for texts that are too long."""
        if self._tree.kind(node) != ValueKind.TEXT:
            return b""
        data = self._tree.strings.data(int(self._tree.value[node]))
        return bytes(data) if len(data) <= MAX_NAME else b""
